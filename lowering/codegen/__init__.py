"""C99 and Python from nests.

emitter.py         rules by kind of statement, over the driver of `lowering/nest`
straight_line.py   operands as temporaries, branches and inline text
spelling.py        identifiers, parentheses, comments
word_spans.py      which machine integers may wrap
flat_access.py     accesses by the number of the element in storage; constant tables
python_*.py        Python source, which `run` executes
c*.py              C99

Guarantee: both languages give the same results, with the arithmetic of machine types.
"""
