"""Losses, objectives, the trainer."""
