"""Notebooks from the command line."""
