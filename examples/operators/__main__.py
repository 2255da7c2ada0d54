"""Print the nest of an operator under a schedule."""

import argparse

import lowering.tvm as tvm
from examples.operators import OPERATORS

parser = argparse.ArgumentParser(prog="examples.operators", description=__doc__)
parser.add_argument("operator", choices=OPERATORS)
parser.add_argument("schedule", choices=("generic", "x86", "cuda"), nargs="?", default="generic")
chosen = parser.parse_args()
print(tvm.lower(*OPERATORS[chosen.operator].scheduled(chosen.schedule), name=chosen.operator))
