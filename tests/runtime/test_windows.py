"""Which part of a run counts, and that what is forgotten of the burn-in stays forgotten."""

import numpy as np
import pytest

from simplex_jax.runtime import gathering, windows
from simplex_jax.runtime.hooks import Event
from simplex_jax.runtime.moments import Moments
from simplex_jax.runtime.windows import Place


def event(step, last=100, seconds=0.0):
    return Event(step, 0, last, seconds, 0.0, None, None, {})


def test_the_second_half_by_steps():
    window = windows.second_half()
    assert [window(event(step)) for step in (1, 49, 50, 75, 100)] == [
        *(None, None, Place(0, 0.0), Place(0, 0.5), Place(0, 1.0))
    ]


def test_the_second_half_by_time_is_told_by_the_clock():
    happened = event(3, last=2**31 - 1, seconds=6.0)
    assert windows.second_half(10.0)(happened) == Place(0, pytest.approx(0.2))
    assert windows.second_half(20.0)(happened) is None


def test_segments_double():
    window = windows.doubling(4)
    places = {step: window(event(step)) for step in (4, 5, 6, 8, 9, 12, 16, 17, 33)}
    assert places == {
        **{4: None, 5: Place(0, 0.25), 6: Place(0, 0.5), 8: Place(0, 1.0), 9: Place(1, 0.125)},
        **{12: Place(1, 0.5), 16: Place(1, 1.0), 17: Place(2, 1 / 16), 33: Place(3, 1 / 32)},
    }


def posterior(window):
    def make():
        return gathering.Gathered({"x": Moments((1, 2), True)}, {"x": (1, 2)})

    def read(event):
        x = np.random.default_rng(event.step).normal(3.0, 0.01, (1, 2))
        return gathering.Sample({"x": x}, {"x": x**2}, {"x": x})

    return gathering.Posterior(read, make, window)


@pytest.mark.parametrize("steps", [6, 8, 19, 31, 40])
def test_what_counts_is_the_last_half_to_three_quarters(steps):
    whole = posterior(windows.doubling(4))
    for step in range(1, steps + 1):
        whole.sample(event(step))
    first = {6: 5, 8: 5, 19: 9, 31: 9, 40: 17}[steps]
    rows = [np.random.default_rng(step).normal(3.0, 0.01, 2) for step in range(first, steps + 1)]
    gathered = whole.gathered()
    mean, sd = gathered.moments["x"].pooled()
    assert gathered.samples == len(rows)
    np.testing.assert_allclose(mean, np.mean(rows, axis=0), rtol=1e-6)
    within = np.mean(np.square(rows), axis=0)
    np.testing.assert_allclose(sd**2, np.var(rows, axis=0, ddof=1) + within, rtol=1e-4)
    np.testing.assert_array_equal(gathered.traces()["x"][:, 0], rows)


def test_a_restored_posterior_goes_on():
    whole, first, second = (posterior(windows.doubling(4)) for _ in range(3))
    for step in range(1, 20):
        whole.sample(event(step))
        if step < 11:
            first.sample(event(step))
    second.load(first.save())
    for step in range(11, 20):
        second.sample(event(step))
    found, expected = second.gathered(), whole.gathered()
    np.testing.assert_array_equal(found.traces()["x"], expected.traces()["x"])
    np.testing.assert_array_equal(found.moments["x"].pooled(), expected.moments["x"].pooled())


def test_a_run_that_ends_in_its_burn_in_has_its_last_sample():
    early = posterior(windows.second_half())
    early.sample(event(10))
    assert early.gathered(event(11)).samples == 1


@pytest.mark.parametrize(("steps", "kept"), [(16, [10, 12, 14, 16]), (22, [12, 14, 16, 20])])
def test_kept_samples_of_the_next_segment_take_the_places_of_the_last(steps, kept):
    hook = gathering.Kept(lambda event: {}, 4, windows.doubling(4), None)
    for step in range(1, steps + 1):
        hook.sample(event(step))
    assert hook.samples()["step"].tolist() == kept
