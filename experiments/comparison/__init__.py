"""Comparisons of runs: what compare.py reads, counts and shows."""
