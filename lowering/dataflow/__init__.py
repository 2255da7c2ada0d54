"""Exact dataflow of loop nests.

accesses.py          elements that operands read, with their guards; elements that assumptions define
program.py           a nest as a tree of loops with reads and writes
access_relations.py  accesses as sets and relations; dependences
reaching.py          the writes that reach a read, and the values they leave
in_bounds.py         proofs that accesses lie in their tensors
flow.py              `dataflow`: reaching definitions, dead stores, touched elements
"""

from lowering.dataflow.flow import Dataflow, Source, account_of, dataflow
from lowering.dataflow.in_bounds import CheckedAccess

__all__ = ["CheckedAccess", "Dataflow", "Source", "account_of", "dataflow"]
