"""Warnings about the proportions of documents."""

import numpy as np

from simplex_jax._src.models.topics import checks


def test_few_uncertain_documents_are_no_warning():
    """A default run has some; each has its error in the tables, and nothing is to be done."""
    errors = np.full(1000, 0.01)
    errors[:50] = 0.04
    assert checks.share_warnings(errors, 0.02) == []
    errors[50] = 0.04
    (warning,) = checks.share_warnings(errors, 0.02)
    assert "5.1%" in warning
    assert "0.040" in warning
