"""Helpers that tests share: statistical checks, reference laws, tiny models, damaged files."""
