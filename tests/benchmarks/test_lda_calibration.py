"""Intervals of LDA on corpora that are drawn from the model."""

import functools

import lda_calibration
import pytest
from lda_calibration import judge


@functools.cache
def held(narrow: bool) -> tuple[float, float]:
    rows = [judge(seed, 5.0) for seed in range(6)]
    return (
        sum(row["words_held"] for row in rows) / sum(row["words"] for row in rows),
        sum(row["shares_held"] for row in rows) / sum(row["intervals"] for row in rows),
    )


@pytest.mark.slow
def test_ninety_in_a_hundred_hold_the_truth():
    """Of some 700 words and 70 shares, which depend on each other a little."""
    words, shares = held(False)
    assert 0.85 < words < 0.95
    assert 0.8 < shares < 0.97


@pytest.mark.slow
def test_intervals_half_as_wide_would_be_noticed(monkeypatch):
    interval = lda_calibration.beta_interval
    monkeypatch.setattr(lda_calibration, "beta_interval", lambda m, sd, p: interval(m, sd / 2, p))
    words, shares = held(True)
    assert words < 0.8
    assert shares < 0.8
