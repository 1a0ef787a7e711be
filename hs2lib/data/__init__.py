"""Data sets: where they are, how their rows are checked, and groups of them."""
