"""Contexts: ranges, facts, scopes, configuration."""
