"""From schedules to loop nests; division lowering; interpreter, C output and the command line."""

from lowering.annotate import annotate_shapes
from lowering.codegen.c import to_c
from lowering.dataflow import Dataflow, Source, dataflow
from lowering.division import lower_division
from lowering.errors import AccessError, CheckError, CompilerError, LayoutError
from lowering.interpreter import run
from lowering.layout import IndexMap
from lowering.lower import lower
from lowering.nest.ir import Function
from lowering.nest.parser import parse_nest
from lowering.nest.undef import undef
from lowering.passes import (
    Width,
    drop_dead,
    lower_divisions,
    narrow,
    rebase,
    simplify,
    strength_reduce,
    unique_names,
)

__all__ = [
    "AccessError",
    "CheckError",
    "CompilerError",
    "Dataflow",
    "Function",
    "IndexMap",
    "LayoutError",
    "Source",
    "Width",
    "annotate_shapes",
    "dataflow",
    "drop_dead",
    "lower",
    "lower_division",
    "lower_divisions",
    "narrow",
    "parse_nest",
    "rebase",
    "run",
    "simplify",
    "strength_reduce",
    "to_c",
    "undef",
    "unique_names",
]
