"""C99 and Python from nests.

emitter.py         what both languages share: names, parentheses, operands as straight-line code, rules for statements
word_spans.py      which machine integers may wrap
python_*.py        Python source, which `run` executes
c*.py              C99

Guarantee: both languages give the same results, with the arithmetic of machine types.
"""
