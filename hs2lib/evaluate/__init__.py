"""Benchmarks, judges, policies side by side."""
