"""Data sets as groups."""
