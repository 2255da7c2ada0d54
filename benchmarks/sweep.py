"""Random expressions against enumeration: `python -m benchmarks.sweep [--count 10000] [--seed 0] [--json]`.

`intset.testing.contexts` draws the questions and states the properties.
"""

import argparse
import json

import intset
from intset.testing import sweep
from lowering.cli import reports


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep", description="Random expressions.")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    arguments = parser.parse_args()
    found = sweep(arguments.count, arguments.seed, intset.domain_names(), reports.track)
    if arguments.json:
        print(json.dumps(found, indent=1))
        return 1 if found["wrong"] else 0
    print(f"{found['cases']} expressions ({found['not_empty']} with values), domains: {', '.join(found['domains'])}")
    print(f"wrong answers: {len(found['wrong'])}")
    for entry in found["wrong"]:
        print(f"  #{entry['number']} {entry['domain']}: {entry['what']}\n    {entry['case']}")
    exact = 100 * (1 - len(found["inexact"]) / found["cases"])
    silent = sum(not entry["notes"] for entry in found["inexact"])
    print(f"hulls by auto: {exact:.2f}% exact; {len(found['inexact'])} not, {silent} of these without a note")
    for entry in found["inexact"]:
        print(
            f"  #{entry['number']}: {entry['what']}\n    {entry['case']}\n    notes: {'; '.join(entry['notes']) or '-'}"
        )
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
