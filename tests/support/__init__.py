"""Shared test helpers: statistical checks, reference distributions, tiny models, damaged files."""
