"""Exact dataflow of loop nests.

accesses.py   which elements an operand reads, and when; what an assumption defines
program.py    a nest as loops, reads and writes in order
points.py     their instances and elements, as sets and relations
reaching.py   the writes that reach a read
values.py     the value that is met, over the reader's variables
flow.py       `dataflow`
"""

from lowering.dataflow.flow import Dataflow, Source, account_of, dataflow

__all__ = ["Dataflow", "Source", "account_of", "dataflow"]
