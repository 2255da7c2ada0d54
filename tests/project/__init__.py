"""Tests of the project itself: its documents, what is installed."""
