"""Warnings name the user's line, however deep in the library they are."""

import pytest

from simplex_jax import corpus
from simplex_jax._src.warn import warn_caller


def test_warning_names_the_line_that_called_the_library():
    with pytest.warns(UserWarning, match="none of its 60") as found:
        corpus.from_texts(["tea time"] * 30, vocabulary=("other", "words"))
    assert [warning.filename for warning in found] == [__file__]


def test_warning_of_another_category():
    with pytest.warns(RuntimeWarning, match="odd") as found:
        warn_caller("odd", RuntimeWarning)
    assert found[0].filename == __file__
