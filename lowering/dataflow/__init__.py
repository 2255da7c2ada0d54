"""Exact dataflow of loop nests.

program.py   a nest as a tree of loops with reads and writes, under their guards
reaching.py  accesses as sets and relations; dependences; the writes that reach a read, and the values they leave
flow.py      `dataflow`: reaching definitions, dead stores, touched elements; proofs that accesses lie in their tensors
"""

from lowering.dataflow.flow import CheckedAccess, Dataflow, Source, account_of, dataflow

__all__ = ["CheckedAccess", "Dataflow", "Source", "account_of", "dataflow"]
