"""Prompts, filters and ratings."""
