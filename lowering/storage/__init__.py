"""Where the allocations of a function lie: on the stack, in one arena that is shared by lives, or on the heap."""

from lowering.storage.plan import Plan, plan_storage

__all__ = ["Plan", "plan_storage"]
