"""Tests of properties common to all answers: claims, budgets, determinism."""
