"""Code from nests.

straight.py   operands as straight-line code: temporaries, branches, inline text
python_*.py   Python source, which `run` executes
c_*.py        C99
"""
