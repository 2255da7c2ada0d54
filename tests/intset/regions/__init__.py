"""Regions and relations."""
