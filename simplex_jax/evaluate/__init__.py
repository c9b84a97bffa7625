"""Judging a fitted model: held-out perplexity, checks and the report."""
