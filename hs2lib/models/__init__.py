"""Reward models and policies."""
