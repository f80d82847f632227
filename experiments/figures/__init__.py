"""Figures and tables of the paper: a file and a YAML each."""
