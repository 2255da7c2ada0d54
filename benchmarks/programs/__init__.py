"""Programs of the benchmark of compiled nests: schedules as users write them, with hand-written counterparts."""

from benchmarks.programs import convolutions, images, linear, stencils
from benchmarks.programs.program import Built, Program

PROGRAMS: dict[str, Program] = {**stencils.PROGRAMS, **linear.PROGRAMS, **convolutions.PROGRAMS, **images.PROGRAMS}

__all__ = ["PROGRAMS", "Built", "Program"]
