"""Expressions: hash-consed nodes, their reference semantics, their text."""

import intset.expr.methods  # noqa: F401  # nodes walk and print themselves by means of modules above theirs
