"""Explorations: a function measured at every configuration of a space, in one process, a pool or a cluster.

`dataset` hands out batches and writes their results into a folder of Parquet files; `engines` has executors and what a
worker runs; `measures` has the key that identifies a folder's results.
"""

from lowering.explore.dataset import Exploration, explore
from lowering.explore.measures import Footprints, Lowering, Measure, ModelledCost, Timing

__all__ = ["Exploration", "Footprints", "Lowering", "Measure", "ModelledCost", "Timing", "explore"]
