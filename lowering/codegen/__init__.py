"""C99 and Python from nests.

emitter.py         what both share: names, parentheses, operands as straight-line code, rules for statements
python.py          Python source, which `run` executes; python_runtime.py, what that source calls
c.py               C99: statements; c_operands.py, operands and memory; c_words.py, types and functions of C, and
                   c_names.txt, the names that C takes

Guarantee: both languages give the same results, with the arithmetic of machine types.
"""
