"""The commands: run notebooks, publish reports, compare them."""
