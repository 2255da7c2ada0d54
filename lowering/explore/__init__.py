"""Explorations: a function measured at every configuration of a space, in one process, a pool or a cluster.

`driver` hands out batches and writes their results; `engines` has executors and what a worker runs; `dataset` is the
folder of Parquet files and its results; `measures` has the key that identifies a folder's results.
"""

from lowering.explore.dataset import Exploration
from lowering.explore.driver import explore
from lowering.explore.measures import Footprints, Lowering, Measure, ModelledCost, Timing

__all__ = ["Exploration", "Footprints", "Lowering", "Measure", "ModelledCost", "Timing", "explore"]
