"""Expressions: hash-consed nodes, their reference semantics, their text."""
