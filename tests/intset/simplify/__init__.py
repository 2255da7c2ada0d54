"""Expressions: their nodes, meaning and text."""
