"""From schedules to loop nests; division lowering; interpreter, C output and the command line."""

from lowering.division import lower_division

__all__ = ["lower_division"]
