"""Exact dataflow of loop nests.

accesses.py         elements that operands read, with their guards; elements that assumptions define
program.py          a nest as a tree of loops with reads and writes
access_relations.py instances and elements of accesses, as sets and relations
reaching.py         the writes that reach a read
written_values.py   the values that writes leave in their elements
dependence.py       pairs of accesses of a statement that meet at an element
flow.py             `dataflow`: reaching definitions, dead stores, touched elements
"""

from lowering.dataflow.flow import Dataflow, Source, account_of, dataflow

__all__ = ["Dataflow", "Source", "account_of", "dataflow"]
