"""Explorations: a function measured at every configuration of a space, in one process, a pool or a cluster.

`driver` hands out batches and writes their results; `work` is what a worker runs; `engines` are the executors;
`dataset` is the folder of Parquet files; `identity` is the key that says whose results a folder has.
"""

from lowering.explore.driver import explore
from lowering.explore.measures import Footprints, Lowering, Measure, ModelledCost, Timing
from lowering.explore.results import Exploration

__all__ = ["Exploration", "Footprints", "Lowering", "Measure", "ModelledCost", "Timing", "explore"]
