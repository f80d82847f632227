"""Evaluations: learned and classical searchers on equal budgets, what evaluate.py holds, counts and shows."""
