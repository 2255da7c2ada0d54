"""Operators in TVM's style, each with schedules for one core, many cores and a GPU, and its numpy reference.

    python -m examples.operators conv2d cuda

prints the nest of an operator under a schedule.
"""

from examples.operators import conv, image, matrix, recurrent, reduce, shape
from examples.operators.common import Operator

FAMILIES = {
    "conv": conv.OPERATORS,
    "matrix": matrix.OPERATORS,
    "reduce": reduce.OPERATORS,
    "image": image.OPERATORS,
    "shape": shape.OPERATORS,
    "recurrent": recurrent.OPERATORS,
}
OPERATORS: dict[str, Operator] = {name: op for family in FAMILIES.values() for name, op in family.items()}
