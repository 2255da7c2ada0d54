"""Storage of a function's allocations: on the stack, in one arena where disjoint lifetimes share bytes, or on the heap.

plan.py        the plan: lifetimes, and what lies where
placement.py   offsets of blocks in an arena
"""

from lowering.storage.plan import StoragePlan, plan_storage

__all__ = ["StoragePlan", "plan_storage"]
