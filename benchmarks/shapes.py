"""Questions of a shape environment, each asked once: `python -m benchmarks.shapes [--count N] [--z3] [--json]`.

40 symbolic sizes with 42 guards, as a shape compiler collects them over a graph: declared bounds and multiples, equal
and derived sizes, divisibility by numbers and by sizes, orders, products under a limit. The questions are drawn by
kind: remainders of products, views, contiguity, padding, pooling, and what the guards imply. Each is asked in a new
context that has read its guards. Before the first one, 200 questions about other sizes load all modules.

Shown: who answered, seconds of processor time in all and at most, and the questions that z3 answered or nobody. `--z3`
asks z3 alone what was left unknown. Targets: nothing unknown that z3 decides, at most 2 % answered by z3.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

import intset
from intset import Context, ShapeVar, ceildiv, maximum, minimum
from intset.expr.node import Cond, Expr
from intset.prover.proof import PROOFS

COUNT = 2_000
EARLIER = 200  # questions about other sizes, for which all modules are loaded
LIMIT = 2**31 - 1
Z3_SHARE = 0.02


class Environment:
    """Sizes and guards."""

    def __init__(self) -> None:
        lower = [2] * 24 + [1] * 10 + [0] * 6
        self.sizes = [ShapeVar(f"s{number}", lower=low) for number, low in enumerate(lower)]
        self.guards: list[Cond] = list(self._guards())

    def _guards(self) -> Iterator[Cond]:
        s = self.sizes
        yield (s[0] % 8).eq(0)
        yield (s[1] % 16).eq(0)
        yield (s[2] % 3).eq(1)
        yield (s[24] % 4).eq(0)
        yield ((s[3] + s[4]) % 4).eq(0)
        yield (s[5] % s[6]).eq(0)
        yield (s[7] % s[6]).eq(0)
        yield (s[25] % s[26]).eq(0)
        yield (s[27] % s[25]).eq(0)
        yield (s[8] * s[9] % 64).eq(0)
        yield s[10].eq(s[11] * 4)
        yield s[12].eq(s[13])
        yield s[14].eq(s[15] + s[16])
        yield s[17].eq((s[18] - 1) // 2 + 1)
        yield s[28].eq(s[29] * s[30])
        yield (s[19] * s[20]).eq(s[21] * s[22])
        yield s[23].eq(s[11] + 2)
        yield s[31].ne(1)
        yield s[34].ne(0)
        yield s[35].ne(1)
        yield s[3].ne(s[4])
        yield s[3] < s[5]
        yield s[5] < s[8]
        yield s[8] <= s[9]
        yield s[15] <= s[16]
        yield s[24] * 2 <= s[26]
        yield s[32] + s[33] < s[1]
        yield s[2] >= 5
        yield s[18] >= 7
        yield s[6] <= 128
        yield s[0] <= 4096
        yield s[1] <= 8192
        yield s[9] <= 65536
        yield s[30] <= 1024
        yield s[36] <= 512
        yield s[37] >= 3
        yield s[19] * s[20] <= LIMIT
        yield s[0] * s[1] <= LIMIT
        yield s[10] * s[12] * 64 < LIMIT
        yield s[38] * s[39] >= 1
        yield (s[37] - 3) // 2 + 1 <= 256
        yield ceildiv(s[36], 8) >= 2

    def context(self) -> Context:
        return Context(assume=self.guards)


class Drawn:
    """Draws questions about the sizes of an environment."""

    def __init__(self, environment: Environment, seed: int) -> None:
        self.r = random.Random(seed)
        self.s = environment.sizes
        self.kinds: list[Callable[[], Cond]] = [
            self.remainder, self.view, self.contiguity, self.padding, self.pooling, self.implied,
        ]  # fmt: skip

    def size(self) -> Expr:
        return self.r.choice(self.s)

    def positive(self) -> Expr:
        return self.r.choice(self.s[:34])

    def number(self) -> int:
        return self.r.choice((2, 3, 4, 8, 16, 32, 64))

    def question(self) -> tuple[str, Cond]:
        kind = self.r.choice(self.kinds)
        return kind.__name__, kind()

    def remainder(self) -> Cond:
        a, b, k = self.size(), self.positive(), self.number()
        c, d = self.r.choice((1, 2, 4)), self.positive()
        e = self.r.choice(
            [
                a * k % k, a * b * k % (k * c), a * b % b, (a * b + b * c) % b, (a * k + b * k * c) % k,
                (a * b * d) % (b * d), (a * b * k) % (b * k), (a + b) * d % d, (a * k * 4 + k * 2) % (k * 2),
                (self.s[5] * a + self.s[7]) % self.s[6], self.s[27] * a % self.s[26], self.s[0] * a % 8,
                (self.s[1] * 3 + self.s[0]) % 4, (self.s[3] * a + self.s[4] * a) % 4, self.s[8] * self.s[9] * a % 32,
                (self.s[0] * a + self.s[1] * b) % 8, self.s[10] * a % 4, self.s[28] * a % self.s[30],
                self.s[24] * a % 2, self.s[25] * self.s[27] * a % (self.s[26] * self.s[25]), a * k // 2 * 2 - a * k,
            ]
        )  # fmt: skip
        return e.eq(0) if self.r.random() < 0.85 else e < self.r.choice((1, k))

    def view(self) -> Cond:
        a, b, c, k = self.size(), self.positive(), self.positive(), self.number()
        s = self.s
        return self.r.choice(
            [
                lambda: (a * b // b).eq(a),
                lambda: (a * b * c // (b * c)).eq(a),
                lambda: (a * k * b // k).eq(a * b),
                lambda: (a * b * k // (b * k)).eq(a),
                lambda: (a * b * c // b // c).eq(a),
                lambda: (a * k * b).eq(b * (a * k)),
                lambda: (a * b * k // (b * 2)).eq(a * (k // 2)) if k % 2 == 0 else (a * b * k // b).eq(a * k),
                lambda: (s[0] // 8 * 8 * a).eq(s[0] * a),
                lambda: (s[0] * a // 8 * 8).eq(s[0] * a),
                lambda: (s[1] // 4).eq(s[1] // 16 * 4),
                lambda: (s[5] // s[6] * s[6] * a).eq(s[5] * a),
                lambda: ((s[5] + s[7]) // s[6]).eq(s[5] // s[6] + s[7] // s[6]),
                lambda: (s[27] // s[26]).eq(s[27] // s[25] * (s[25] // s[26])),
                lambda: (s[10] * a // (s[11] * 4)).eq(a),
                lambda: (s[10] * a // s[11]).eq(a * 4),
                lambda: (s[28] * a // s[29]).eq(s[30] * a),
                lambda: (s[19] * s[20] * a).eq(s[21] * s[22] * a),
                lambda: (s[12] * a).eq(a * s[13]),
                lambda: (s[14] * a).eq(s[15] * a + s[16] * a),
                lambda: (a * b + b) // b >= a + 1,
                lambda: ((a + b) * c // c).eq(a + b),
            ]
        )()

    def contiguity(self) -> Cond:
        a, b, c, d, k = self.size(), self.positive(), self.positive(), self.positive(), self.number()
        return self.r.choice(
            [
                lambda: b * c >= b,
                lambda: b * c * d >= c * d,
                lambda: b * c * d * k >= d,
                lambda: a * b * c >= a * c,
                lambda: (b * c * k).eq(c * k * b),
                lambda: b * c >= 1,
                lambda: (b * c).ne(0),
                lambda: b * c * k > c,
                lambda: maximum(b, 1).eq(b),
                lambda: (maximum(b, 1) * maximum(c, 1)).eq(b * c),
                lambda: (b - 1) * c * d + (c - 1) * d + d - 1 < b * c * d,
                lambda: (b - 1) * c + (c - 1) + 1 <= b * c,
                lambda: (b - 1) * c * k + (k - 1) < b * c * k,
                lambda: b * c - c >= 0,
                lambda: b * c + d > c,
                lambda: a * k >= a,
                lambda: self.positive().ne(1),
                lambda: self.positive().eq(1),
                lambda: b * c > 1,
                lambda: (b * c).eq(b * d),
            ]
        )()

    def padding(self) -> Cond:
        a, b, k, s = self.size(), self.positive(), self.number(), self.s
        return self.r.choice(
            [
                lambda: ceildiv(a, k) * k >= a,
                lambda: ceildiv(a, k) * k - a < k,
                lambda: ceildiv(a, k) * k <= a + k - 1,
                lambda: ((a + k - 1) // k * k % k).eq(0),
                lambda: (a + k - 1) // k * k >= a,
                lambda: ceildiv(b, k) >= 1,
                lambda: ceildiv(a * k, k).eq(a),
                lambda: ceildiv(a, k).eq((a + k - 1) // k),
                lambda: a >= a % k,
                lambda: a % b <= a,
                lambda: a - a % b >= 0,
                lambda: a % b < b,
                lambda: (a + (k - a % k) % k) % k < 1,
                lambda: a + (k - a % k) % k >= a,
                lambda: a + -a % k < a + k,
                lambda: ((a + -a % k) % k).eq(0),
                lambda: ceildiv(a, k) * k * b >= a * b,
                lambda: ceildiv(a, b) * b >= a,
                lambda: ceildiv(a, b) * b < a + b,
                lambda: a // k * k <= a,
                lambda: a // b <= a,
                lambda: a // k + ceildiv(a, k) <= a if k > 2 else a // 2 + ceildiv(a, 2) >= a,
                lambda: ceildiv(s[0], 8).eq(s[0] // 8),
                lambda: (ceildiv(s[1], k) * k).eq(s[1]) if 16 % k == 0 else ceildiv(s[1], k) <= s[1],
                lambda: minimum(ceildiv(a, k) * k, a).eq(a),
                lambda: a // k <= ceildiv(a, k),
            ]
        )()

    def pooling(self) -> Cond:
        a, b = self.size(), self.positive()
        k, stride, pad = self.r.choice(((1, 1, 0), (2, 2, 0), (3, 1, 1), (3, 2, 1), (5, 1, 2), (7, 2, 3), (4, 2, 1)))
        out = (b + 2 * pad - k) // stride + 1
        s = self.s
        again = (out + 2 * pad - k) // stride + 1
        return self.r.choice(
            [
                lambda: out >= 1,
                lambda: out <= b + 2 * pad,
                lambda: (out - 1) * stride + k <= b + 2 * pad,
                lambda: again <= out + 2 * pad,
                lambda: again >= 0,
                lambda: ((b - 1) // 2 + 1).eq(ceildiv(b, 2)),
                lambda: ((b + 2 - 3) // 1 + 1).eq(b),
                lambda: ((b - 1) // 2 // 2).eq((b - 1) // 4),
                lambda: (((b - 1) // 2 + 1 - 1) // 2 + 1).eq((b - 1) // 4 + 1),
                lambda: out * a >= a if 2 * pad + 2 >= k else out * a >= 0,
                lambda: ((b - 1) * stride - 2 * pad + k + 2 * pad - k).eq((b - 1) * stride),
                lambda: (((b - 1) * stride + k - 2 * pad) + 2 * pad - k) // stride + 1 <= b,
                lambda: s[17] >= 4,
                lambda: (s[17] * 2 >= s[18]) & (s[17] * 2 <= s[18] + 1),
                lambda: (s[17] * a).eq(((s[18] - 1) // 2 + 1) * a),
                lambda: s[17] <= s[18],
                lambda: maximum(out, 0) * a <= (b + 2 * pad) * a,
                lambda: s[37] <= 514,
                lambda: (s[36] >= 9) & (s[36] <= 512),
            ]
        )()

    def implied(self) -> Cond:
        a, s = self.size(), self.s
        return self.r.choice(
            [
                lambda: s[3] < s[8],
                lambda: s[3] + 1 < s[9],
                lambda: s[3] * a <= s[9] * a,
                lambda: s[5] >= s[6],
                lambda: s[7] >= s[6],
                lambda: s[27] >= s[25],
                lambda: s[27] >= s[26],
                lambda: s[5] * a >= s[6] * a,
                lambda: s[10] >= 8,
                lambda: s[10] > s[11],
                lambda: s[10] + 8 <= s[23] * 4,
                lambda: s[23] * 4 > s[10],
                lambda: s[14] > s[15],
                lambda: s[14] <= s[16] * 2,
                lambda: s[14] * a >= s[16] * a,
                lambda: s[31] >= 2,
                lambda: s[34] >= 1,
                lambda: s[3] <= 65535,
                lambda: s[3] * s[6] <= 65536 * 128,
                lambda: s[0] * s[6] <= 4096 * 128,
                lambda: s[0] >= 8,
                lambda: s[1] >= 16,
                lambda: s[2] >= 7,
                lambda: s[24] >= 4,
                lambda: s[24] < s[26],
                lambda: s[24] < s[27],
                lambda: s[32] < s[1],
                lambda: s[33] <= 8190,
                lambda: s[28] >= s[30],
                lambda: s[28] >= 1,
                lambda: s[28] <= s[29] * 1024,
                lambda: s[19] <= LIMIT,
                lambda: s[21] * s[22] <= LIMIT,
                lambda: s[10] * s[12] < LIMIT,
                lambda: s[12] * s[11] < LIMIT,
                lambda: s[0] <= LIMIT // 16,
                lambda: s[38] >= 1,
                lambda: s[39] * a >= a,
                lambda: s[35].eq(0) | (s[35] >= 2),
                lambda: s[13] <= s[12],
                lambda: (s[3] + s[4]) // 4 * 4 >= s[3] + 2,
                lambda: s[8] * s[9] >= 64,
                lambda: a.eq(self.size()),
                lambda: a < self.size(),
                lambda: a >= self.r.choice((0, 1, 2, 3)),
            ]
        )()


def questions(environment: Environment, count: int, seed: int = 25) -> list[tuple[str, Cond]]:
    """Different questions, each with its kind."""
    drawn = Drawn(environment, seed)
    found: dict[Any, str] = {}
    while len(found) < count:
        kind, goal = drawn.question()
        if isinstance(goal, Cond):
            found.setdefault(goal, kind)
    return [(kind, goal) for goal, kind in found.items()]


def asked(environment: Environment, goal: Cond) -> tuple[str, str, float]:
    """(who answered, the status, seconds)."""
    ctx = environment.context()
    PROOFS.clear()
    start = process_time()
    proof = ctx.prove(goal)
    seconds = process_time() - start
    return ("nobody" if proof.status == "unknown" else proof.by), proof.status, seconds


def measure(count: int, with_z3: bool) -> list[dict[str, Any]]:
    other = Environment()
    other.context().prove_many(goal for _, goal in questions(other, EARLIER))
    environment = Environment()
    rows = []
    for kind, goal in questions(environment, count):
        by, status, seconds = asked(environment, goal)
        row = {"kind": kind, "goal": str(goal), "by": by, "status": status, "seconds": seconds}
        if with_z3 and by == "nobody":
            with intset.using(tiers=("z3",)):
                row["z3"] = asked(environment, goal)[1]
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=COUNT, help=f"how many questions; default {COUNT}")
    parser.add_argument("--z3", action="store_true", help="ask z3 alone what was left unknown")
    parser.add_argument("--all", action="store_true", help="show every question")
    parser.add_argument("--json", action="store_true", help="print every question with its answer and seconds")
    options = parser.parse_args()
    rows = measure(options.count, options.z3)
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    seconds = sorted(row["seconds"] for row in rows)
    by = Counter(row["by"] for row in rows)
    for name, number in by.most_common():
        own = sum(row["seconds"] for row in rows if row["by"] == name)
        print(f"{name:>7}: {number:5d} questions, {own:8.3f} s")
    missed = "" if by["z3"] <= Z3_SHARE * len(rows) else "  MISSED"
    print(f"by z3: {by['z3'] / len(rows):.1%}, target {Z3_SHARE:.0%}{missed}")
    print(f"seconds: {sum(seconds):.3f} in all, {seconds[len(seconds) // 2] * 1e6:.0f} us at the median, ", end="")
    print(f"{seconds[-1] * 1e3:.0f} ms at most")
    for row in sorted(rows, key=lambda row: -row["seconds"]):
        if options.all or row["by"] in ("z3", "nobody"):
            alone = f", z3 alone: {row['z3']}" if "z3" in row else ""
            print(f"{row['seconds'] * 1e3:9.2f} ms  {row['by']:>7}  {row['status']:8}  {row['goal']}{alone}")


if __name__ == "__main__":
    main()
