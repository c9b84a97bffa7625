"""Which part of a run counts, and that what is forgotten of the burn-in stays forgotten."""

import numpy as np
import pytest

from simplex_jax._src.runtime import gathering, windows
from simplex_jax._src.runtime.checkpoint import CheckpointWarning
from simplex_jax._src.runtime.hooks import Event
from simplex_jax._src.runtime.moments import Moments
from simplex_jax._src.runtime.sample_files import Folder
from simplex_jax._src.runtime.windows import Place


def event(step, last=100, seconds=0.0, every=1):
    return Event(step, 0, last, seconds, 0.0, None, None, {}, every)


def test_segments_double():
    window = windows.doubling(4)
    places = {step: window(step) for step in (4, 5, 6, 8, 9, 12, 16, 17, 33)}
    assert places == {
        **{4: None, 5: Place(0, 0.25), 6: Place(0, 0.5), 8: Place(0, 1.0), 9: Place(1, 0.125)},
        **{12: Place(1, 0.5), 16: Place(1, 1.0), 17: Place(2, 1 / 16), 33: Place(3, 1 / 32)},
    }


def posterior(window):
    def make():
        return gathering.Gathered({"x": Moments((1, 2), True)}, {"x": (1, 2), "y": (1,)})

    def read(event):
        x = np.random.default_rng(event.step).normal(3.0, 0.01, (1, 2))
        return gathering.Sample({"x": x}, {"x": x**2}, {"x": x})

    return gathering.Posterior(read, make, window, lambda event: {"y": [float(event.step)]})


@pytest.mark.parametrize("steps", [6, 8, 19, 24, 25, 31, 32, 33, 40, 300])
def test_what_counts_is_the_last_half_to_two_thirds(steps):
    whole = posterior(windows.doubling(4))
    for step in range(1, steps + 1):
        whole.sample(event(step))
    first = {6: 5, 8: 5, 19: 9, 24: 9, 25: 13, 31: 13, 32: 13, 33: 17, 40: 17, 300: 129}[steps]
    assert 1 / 3 <= (first - 1) / steps <= 1 / 2 or steps <= 8
    rows = [np.random.default_rng(step).normal(3.0, 0.01, 2) for step in range(first, steps + 1)]
    for gathered in (whole.gathered(), whole.result(None)):
        mean, sd = gathered.moments["x"].pooled()
        assert gathered.samples == len(rows)
        np.testing.assert_allclose(mean, np.mean(rows, axis=0), rtol=1e-6)
        within = np.mean(np.square(rows), axis=0)
        np.testing.assert_allclose(sd**2, np.var(rows, axis=0, ddof=1) + within, rtol=1e-4)
        np.testing.assert_array_equal(gathered.traces()["x"][:, 0], rows)


def test_what_is_merged_in_place_is_the_same_to_the_bit():
    one, other = posterior(windows.doubling(3)), posterior(windows.doubling(3))
    for step in range(1, 40):
        one.sample(event(step))
        other.sample(event(step))
    expected, actual = one.gathered().moments["x"], other.result(None).moments["x"]
    for name, array in expected.save().items():
        np.testing.assert_array_equal(actual.save()[name], array)
    assert other.gathered().samples == 0


def test_an_evaluation_that_is_not_due_leaves_no_trace():
    """That at the end of a run, which a longer run would not have made."""
    gathered = posterior(windows.doubling(1))
    for step in (1, 2, 3):
        gathered.sample(event(step))
    gathered(event(3)._replace(due=False))
    assert gathered.gathered().traces()["y"].shape == (0, 1)
    gathered(event(4))
    assert gathered.gathered().traces()["y"].tolist() == [[4.0]]


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


def test_a_run_without_a_sample_has_its_last_state():
    early = posterior(windows.doubling(20))
    early.sample(event(10))
    assert early.result(event(11)).samples == 1
    with pytest.raises(ValueError, match="--resume RUN --passes"):
        posterior(windows.doubling(20)).result(None)


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        (4, []),
        (7, [5, 6, 7]),
        (16, [10, 12, 14, 16]),
        (22, [12, 14, 16, 20]),
    ],
)
def test_kept_samples_of_the_next_segment_take_the_places_of_the_oldest(steps, kept):
    hook = sampled(gathering.Kept(lambda event: {}, 4, windows.doubling(4), None), steps, 1)
    assert hook.samples().get("step", np.zeros(0)).tolist() == kept


def sampled(hook, steps, every, begun=0):
    """Sample as the driver does: at multiples of `every`."""
    for step in range(begun + 1, steps + 1):
        if step % every == 0:
            hook.sample(event(step, steps, every=every))
    hook.finish(event(steps, steps, every=every))
    return hook


@pytest.mark.parametrize("steps", [20, 40, 41, 97, 200])
def test_exactly_as_many_samples_are_kept_as_asked_for_if_there_are_as_many(steps):
    """From the last half of the run, whether it has been cut, or made longer, on its way or not."""
    for every in (1, 2, 3, 6, 7):
        window = windows.doubling(every)
        half = [step for step in range(every, steps + 1, every) if 2 * step > steps]
        for most in range(1, len(half)):
            hook = gathering.Kept(lambda event: {}, most, window, None)
            kept = sampled(hook, steps, every).samples()["step"]
            assert len(kept) == most, (every, most)
            assert kept[0] >= steps / 4
            assert np.diff([steps / 4, *kept, steps]).max() <= steps / 2 / most + every + steps / 4
            cut = sampled(gathering.Kept(lambda event: {}, most, window, None), steps // 3, every)
            again = gathering.Kept(lambda event: {}, most, window, None)
            again.load(cut.save())
            sampled(again, steps, every, begun=steps // 3)
            np.testing.assert_array_equal(again.samples()["step"], kept)


def test_all_samples_of_the_last_half_are_kept_if_they_are_few():
    hook = gathering.Kept(lambda event: {}, 50, windows.doubling(1), None)
    assert sampled(hook, 40, 1).samples()["step"].tolist() == list(range(17, 41))


def test_places_are_not_looked_at_again_for_each_sample():
    looks = 0

    def counting(updates):
        nonlocal looks
        looks += 1
        return windows.doubling(300)(updates)

    hook = gathering.Kept(lambda event: {}, 1000, counting, None)
    assert len(sampled(hook, 2000, 1).samples()["step"]) == 1000
    assert looks <= 3 * 2000  # for each event its place and that of one that follows, and a few


def kept_to(end, hook=None, begun=0, directory=None):
    """Keep samples of the updates to the last one, from scratch or after those of another hook."""
    folder = directory and Folder(directory, "this run")
    now = gathering.Kept(lambda event: {}, 4, windows.doubling(1), folder)
    if hook is not None:
        now.load(hook.save())
    return sampled(now, end, 1, begun)


def steps_of(hook, directory):
    if directory is None:
        return hook.samples()["step"].tolist()
    return sorted(int(np.load(path)["step"]) for path in directory.glob("sample-*.npz"))


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("end", [64, 80, 128, 640])
def test_a_run_that_is_made_longer_keeps_what_a_run_of_that_length_would(tmp_path, on_disk, end):
    directory = tmp_path if on_disk else None
    hook = kept_to(end, kept_to(64, None, 0, directory), 64, directory)
    assert steps_of(hook, directory) == kept_to(end).samples()["step"].tolist()
    if end == 64:
        assert steps_of(hook, directory) == [40, 48, 56, 64]


@pytest.mark.parametrize("saved", [1, 7, 12, 20])
@pytest.mark.parametrize("beyond", [1, 2, 6])
def test_a_run_that_is_killed_goes_on_to_the_same_files(tmp_path, saved, beyond):
    """Also where later samples have taken the places of those of its checkpoint."""
    folder = Folder(tmp_path, "this run")
    hook = gathering.Kept(lambda event: {}, 4, windows.doubling(1), folder)
    for step in range(1, saved + beyond + 1):
        hook.sample(event(step))
        if step == saved:
            checkpoint = hook.save()
    again = gathering.Kept(lambda event: {}, 4, windows.doubling(1), folder)
    again.load(checkpoint)
    assert max(steps_of(None, tmp_path), default=0) <= saved
    kept = steps_of(sampled(again, 27, 1, saved), tmp_path)
    assert kept == kept_to(27).samples()["step"].tolist()


def load(saved, directory, mark="this run"):
    folder = directory and Folder(directory, mark)
    gathering.Kept(lambda event: {}, 4, windows.doubling(1), folder).load(saved)


def test_samples_that_a_killed_run_has_left_are_not_those_of_a_shorter_one(tmp_path):
    saved = sorted(kept_to(64, None, 0, tmp_path).save(), key=lambda held: held[1])
    assert steps_of(None, tmp_path) == [40, 48, 56, 64]
    load(saved[:2], tmp_path)  # the checkpoint is from before the last two
    assert steps_of(None, tmp_path) == [40, 48]


def test_samples_of_another_run_stay_where_a_run_goes_on(tmp_path):
    """Also where that run has as many, or none yet."""
    saved = kept_to(64, None, 0, tmp_path).save()
    for held in (saved, saved[:2], []):
        with pytest.raises(FileExistsError, match="4 samples of"):
            load(held, tmp_path, "another run")
    assert steps_of(None, tmp_path) == [40, 48, 56, 64]


def test_samples_go_along_to_files_but_not_to_another_place(tmp_path):
    """Those that are nowhere are missed."""
    in_memory, in_files = kept_to(64).save(), kept_to(64, None, 0, tmp_path / "a").save()
    load(in_memory, tmp_path / "b")
    assert steps_of(None, tmp_path / "b") == [40, 48, 56, 64]
    with pytest.raises(ValueError, match=r"samples_dir$"):
        load(in_files, None)
    with pytest.warns(CheckpointWarning, match=r"^4 of 4 samples "):
        load(in_files, tmp_path / "c")
    number = next(number for number, step, *_ in in_memory if step == 56)
    (tmp_path / "b" / f"sample-{number:05d}.npz").unlink()
    with pytest.warns(CheckpointWarning, match=r"^1 of 4 samples "):
        load(in_files, tmp_path / "b")
    assert steps_of(None, tmp_path / "b") == [40, 48, 64]


@pytest.mark.parametrize("steps", [17, 33])
def test_samples_that_an_ended_run_has_removed_are_not_missed(tmp_path, steps):
    """Those that do not count any more go at the end, after the last checkpoint."""
    hook = gathering.Kept(lambda event: {}, 20, windows.doubling(1), Folder(tmp_path, "this run"))
    for step in range(1, steps + 1):
        hook.sample(event(step))
    saved = hook.save()
    hook.finish(event(steps))
    assert len(hook.save()) < len(saved)
    again = gathering.Kept(lambda event: {}, 20, windows.doubling(1), Folder(tmp_path, "this run"))
    again.load(saved)
    assert again.save() == hook.save()
