"""Exact dataflow of loop nests.

accesses.py          elements that operands read, with their guards; elements that assumptions define
program.py           a nest as a tree of loops with reads and writes
access_relations.py  accesses as sets and relations; dependences
reaching.py          the writes that reach a read, and the values they leave
flow.py              `dataflow`: reaching definitions, dead stores, touched elements
"""

from lowering.dataflow.flow import Dataflow, Source, account_of, dataflow

__all__ = ["Dataflow", "Source", "account_of", "dataflow"]
