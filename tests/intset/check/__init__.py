"""Certificates and their checker."""
