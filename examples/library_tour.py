"""The engine alone, without tensors: bounds, sets, regions, proofs and simplification.

python examples/library_tour.py
"""

from intset import Context, Range, ShapeVar, Var, evaluate, minimum


def main() -> None:
    i, j = Var("i"), Var("j")
    n, m = ShapeVar("n", lower=1), ShapeVar("m", lower=1)

    print("-- bounds and value sets")
    ctx = Context({i: Range(0, 8), j: Range(0, 4)}, assume=[i * 4 + j < 14])
    print("i*4 + j is in", ctx.bounds(i * 4 + j))
    print("(i*4 + j) // 7 % 3 is in", ctx.bounds((i * 4 + j) // 7 % 3))
    evens = ctx.value_set(i * 6 + 2)
    print("i*6 + 2:", evens, "with", evens.count(), "elements; has 8:", 8 in evens, "has 9:", 9 in evens)

    print("-- symbolic sizes")
    flat = Context({i: Range(0, n), j: Range(0, m)})
    print("i*m + j is in", flat.bounds(i * m + j))
    print("with i kept:", flat.bounds(i * m + j, keep=[i]))

    print("-- regions")
    conv = Context({i: Range(0, 14), j: Range(0, 3)})
    region = conv.image((i * 2 + j, i))
    print("(2i + j, i):", region.box, "with", region.count(), "points")

    print("-- proofs")
    proof = flat.prove(i * m + j < n * m)
    print(proof, "using", proof.used)
    refuted = ctx.prove(i * 4 + j < 13)
    print(refuted.status, "at", refuted.counterexample, "where i*4 + j =", evaluate(i * 4 + j, refuted.counterexample))
    with ctx.assuming(j < 1):
        print("under j < 1:", ctx.prove(i * 4 + j < 13).status)

    print("-- simplification and machine integers")
    print("(i//4)*4 + i%4 =", ctx.simplify((i // 4) * 4 + i % 4))
    print("min(i, 20) =", ctx.simplify(minimum(i, 20)))
    print("i * 2**30 fits 32 bits:", ctx.fits(i * 2**30, bits=32).status)


if __name__ == "__main__":
    main()
