"""Which part of a run counts, and that what is forgotten of the burn-in stays forgotten."""

import numpy as np
import pytest

from simplex_jax.runtime import gathering, windows
from simplex_jax.runtime.checkpoint import CheckpointWarning
from simplex_jax.runtime.hooks import Event
from simplex_jax.runtime.moments import Moments
from simplex_jax.runtime.sample_files import Folder
from simplex_jax.runtime.windows import Place


def event(step, last=100, seconds=0.0, every=1):
    return Event(step, 0, last, seconds, 0.0, None, None, {}, every)


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
    result, expected = second.gathered(), whole.gathered()
    np.testing.assert_array_equal(result.traces()["x"], expected.traces()["x"])
    np.testing.assert_array_equal(result.moments["x"].pooled(), expected.moments["x"].pooled())


@pytest.mark.parametrize(
    ("end", "counted"),
    [(44, [*range(17, 45)]), (60, [*range(33, 61)]), (100, [*range(50, 101)])],
)
def test_a_run_without_a_length_that_is_given_one_keeps_what_is_in_its_second_half(end, counted):
    """After 40 updates its segments are 17 to 32 and 33 to 40, with middles at 24 and 36."""
    early, late = posterior(windows.doubling(4)), posterior(windows.second_half())
    for step in range(1, 41):
        early.sample(event(step, 2**31 - 1))
    late.load(early.save())
    for step in range(41, end + 1):
        late.sample(event(step, end))
    rows = [np.random.default_rng(step).normal(3.0, 0.01, 2) for step in counted]
    np.testing.assert_array_equal(late.gathered().traces()["x"][:, 0], rows)
    mean, _ = late.gathered().moments["x"].pooled()
    np.testing.assert_allclose(mean, np.mean(rows, axis=0), rtol=1e-6)


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


def sampled(hook, steps, every, begun=0, upto=None):
    """Sample as the driver does: at multiples of `every`, and at the end."""
    for step in range(begun + 1, (upto or steps) + 1):
        if step % every == 0 or step == steps:
            hook.sample(event(step, steps, every=every))
    return hook


@pytest.mark.parametrize("steps", [20, 40, 41, 97, 200])
def test_exactly_as_many_samples_are_kept_as_asked_for_if_there_are_as_many(steps):
    window = windows.second_half()
    for every in (1, 2, 3, 6, 7):
        times = [s for s in range(1, steps + 1) if s % every == 0 or s == steps]
        there = [step for step in times if window(event(step, steps))]
        for most in range(1, min(len(there) + 2, 30)):
            hook = gathering.Kept(lambda event: {}, most, window, None)
            kept = sampled(hook, steps, every).samples()["step"]
            assert len(kept) == min(most, len(there)), (every, most)
            # Evenly spaced, at least as far as the samples are
            assert np.diff([steps / 2, *kept]).max() <= steps / 2 / most + every
            # A run that is cut and goes on keeps the same.
            cut = gathering.Kept(lambda event: {}, most, window, None)
            sampled(cut, steps, every, upto=(middle := 3 * steps // 4))
            again = gathering.Kept(lambda event: {}, most, window, None)
            again.load(cut.save())
            sampled(again, steps, every, begun=middle)
            np.testing.assert_array_equal(again.samples()["step"], kept)


@pytest.mark.parametrize(
    ("window", "expected"), [(windows.second_half(), 1000), (windows.doubling(300), 800)]
)
def test_places_are_not_looked_at_again_for_each_sample(window, expected):
    looks = 0

    def counting(event):
        nonlocal looks
        looks += 1
        return window(event)

    hook = gathering.Kept(lambda event: {}, 1000, counting, None)
    assert len(sampled(hook, 2000, 1).samples()["step"]) == expected
    assert looks <= 3 * 2000  # for each event its place and that of one that follows, and a few


def test_a_timed_run_keeps_as_many_samples_as_asked_for():
    hook = gathering.Kept(lambda event: {}, 20, windows.second_half(4.0), None)
    for step in range(1, 41):
        hook.sample(event(step, 2**31 - 1, step / 10, every=3))
    assert len(hook.samples()["step"]) == 20


def kept_to(end, hook=None, begun=0, directory=None):
    """Keep samples of the updates to the last one, from scratch or after those of another hook."""
    folder = directory and Folder(directory, "this run")
    now = gathering.Kept(lambda event: {}, 4, windows.second_half(), folder)
    if hook is not None:
        now.load(hook.save())
    for step in range(begun + 1, end + 1):
        now.sample(event(step, end))
    return now


def steps_of(hook, directory):
    if directory is None:
        return hook.samples()["step"].tolist()
    return sorted(int(np.load(path)["step"]) for path in directory.glob("sample-*.npz"))


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("end", [64, 80, 128, 640])
def test_a_run_that_is_made_longer_keeps_what_a_run_of_that_length_would(tmp_path, on_disk, end):
    """As far as it has it: to 80, those at 56 and 64 stand for those at 50 and 60."""
    directory = tmp_path if on_disk else None
    hook = kept_to(end, kept_to(64, None, 0, directory), 64, directory)
    straight = kept_to(end).samples()["step"].tolist()
    expected = {64: [40, 48, 56, 64], 80: [56, 64, 70, 80]}.get(end, straight)
    assert steps_of(hook, directory) == expected


def load(saved, directory, mark="this run"):
    folder = directory and Folder(directory, mark)
    gathering.Kept(lambda event: {}, 4, windows.second_half(), folder).load(saved)


def test_samples_that_a_killed_run_has_left_are_not_those_of_a_shorter_one(tmp_path):
    saved = kept_to(64, None, 0, tmp_path).save()
    assert steps_of(None, tmp_path) == [40, 48, 56, 64]
    load(saved[:2], tmp_path)  # the checkpoint is from before the last two
    assert steps_of(None, tmp_path) == [40, 48]


def test_samples_of_another_run_stay_where_a_run_goes_on(tmp_path):
    """Also where that run has as many, or none yet."""
    saved = kept_to(64, None, 0, tmp_path).save()
    for held in (saved, saved[:2], []):
        with pytest.raises(FileExistsError, match=r"4 samples of another run, .*give another"):
            load(held, tmp_path, "another run")
    assert steps_of(None, tmp_path) == [40, 48, 56, 64]


def test_samples_go_along_to_files_but_not_to_another_place(tmp_path):
    """Those that are nowhere are missed."""
    in_memory, in_files = kept_to(64).save(), kept_to(64, None, 0, tmp_path / "a").save()
    load(in_memory, tmp_path / "b")
    assert steps_of(None, tmp_path / "b") == [40, 48, 56, 64]
    with pytest.raises(ValueError, match="kept samples in files: give their directory"):
        load(in_files, None)
    with pytest.warns(CheckpointWarning, match="4 of 4 samples .* are no longer in .*it continues"):
        load(in_files, tmp_path / "c")
    (tmp_path / "b" / "sample-00002.npz").unlink()
    with pytest.warns(CheckpointWarning, match="1 of 4 samples .* are no longer in .*it continues"):
        load(in_files, tmp_path / "b")
    assert steps_of(None, tmp_path / "b") == [40, 48, 64]
