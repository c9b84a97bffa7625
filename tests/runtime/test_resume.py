"""A run that is cut and goes on gives, to the bit, what one run would have given."""

import itertools
import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.cut_runs import Cut, look_after_every_step

from simplex_jax._src import batches, estimators
from simplex_jax._src.runtime import driver, hooks
from simplex_jax._src.runtime.checkpoint import ANY, CheckpointError, Saver, Store
from simplex_jax._src.runtime.checkpoint import saver as saver_module
from simplex_jax._src.samplers import scir

STEPS, CHUNK = 200, 20
ABOUT = {"alpha": 0.1, "step_size": 0.1}
KERNEL = scir.build(estimators.categorical(size=50), alpha=0.1, step_size=0.1)
STREAM = batches.shuffled(jnp.arange(50) % 4, 5)
KEY = jax.random.key(3)


class Mean:
    """A hook that accumulates."""

    def __init__(self):
        self.sum, self.steps = np.zeros(4, np.float32), []

    def __call__(self, event):
        self.sum = self.sum + np.asarray(event.state.position)
        self.steps.append(event.step)

    def save(self):
        return {"sum": self.sum, "steps": self.steps}

    def load(self, saved):
        self.sum, self.steps = saved["sum"], saved["steps"]


@pytest.fixture
def fresh():
    return KERNEL.init(jax.random.key(2), jnp.full(4, 0.25))


def part(directory, fresh, cut=None, every=1e9, about=ABOUT):
    """Go on from the newest checkpoint, as a program would that is started again."""
    directory.mkdir(exist_ok=True)
    mean, log = Mean(), hooks.MetricsLog(directory / "metrics.jsonl")
    saver = Saver(Store(directory / "saved"), {"mean": mean}, about, every)
    state, first_step, seconds = saver.restore(fresh) or (fresh, 0, 0.0)
    events, cuts = [], [] if cut is None else [Cut(cut)]
    end, _ = driver.run(
        KEY,
        KERNEL,
        state,
        STREAM,
        STEPS - int(state.step),
        hooks=[*cuts, saver, log, events.append, mean],
        chunk=CHUNK,
        first_step=first_step,
        seconds=seconds,
    )
    return end, mean, events


def run(state, steps=STEPS, **options):
    return driver.run(KEY, KERNEL, state, STREAM, steps, chunk=CHUNK, **options)[0]


def logged_steps(path):
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def saved_steps(directory):
    return [int(name.split("-")[2]) for name in sorted(os.listdir(directory / "saved"))]


def test_cut_at_ten_random_points(tmp_path, fresh, monkeypatch, seed):
    mean = Mean()
    whole = run(fresh, hooks=[mean])
    look_after_every_step(monkeypatch)
    cuts = np.sort(np.random.default_rng(seed).choice(np.arange(1, STEPS), 10, replace=False))
    for cut in cuts:
        end, _, events = part(tmp_path, fresh, cut)
        assert int(end.step) == cut
        assert {(event.first_step, event.last_step) for event in events} <= {(0, STEPS)}
    end, mean_end, events = part(tmp_path, fresh)
    assert np.asarray(end.position).tobytes() == np.asarray(whole.position).tobytes()
    assert mean_end.sum.tobytes() == mean.sum.tobytes()
    assert mean_end.steps == mean.steps == list(range(CHUNK, STEPS + 1, CHUNK))
    assert logged_steps(tmp_path / "metrics.jsonl") == mean.steps
    again, _, events = part(tmp_path, fresh)
    assert int(again.step) == STEPS
    assert not events, "nothing was left to do"


def test_the_seconds_go_on(tmp_path, fresh):
    _, _, before = part(tmp_path, fresh, cut=100)
    _, _, after = part(tmp_path, fresh)
    assert [event.step for event in after] == [120, 140, 160, 180, 200]
    assert after[0].seconds > before[-1].seconds
    state = run(fresh, 40, seconds=5.0, max_seconds=5.0)
    assert int(state.step) == 0, "a continued run that has had its time"
    state = run(fresh, 40, seconds=5.0, max_seconds=5.0 + 1e-9)
    assert int(state.step) == CHUNK


def test_it_saves_at_chunks_or_by_time_and_keeps_three(tmp_path, fresh, monkeypatch):
    look_after_every_step(monkeypatch)
    part(tmp_path / "chunks", fresh, cut=55, every=0)
    assert saved_steps(tmp_path / "chunks") == [20, 40, 55]
    monkeypatch.setattr(saver_module.time, "monotonic", itertools.count().__next__)
    part(tmp_path / "time", fresh, cut=55, every=7)
    assert len(saved_steps(tmp_path / "time")) == 3
    assert saved_steps(tmp_path / "time")[0] % CHUNK
    with pytest.raises(ValueError, match="every"):
        Saver(Store(tmp_path), {}, {}, every=-1.0)


def test_the_first_checkpoint_is_early(tmp_path, fresh, monkeypatch):
    """After 5 s, however rare the others are."""
    look_after_every_step(monkeypatch)
    now = itertools.count(0.0, 0.5)  # a look at the clock after each update
    monkeypatch.setattr(saver_module.time, "monotonic", now.__next__)
    part(tmp_path / "early", fresh, cut=15, every=60.0)
    assert saved_steps(tmp_path / "early") == [10, 15]
    monkeypatch.setattr(saver_module.time, "monotonic", itertools.count(0.0, 0.5).__next__)
    part(tmp_path / "often", fresh, cut=9, every=2.0)
    assert saved_steps(tmp_path / "often")[0] == 4


def test_what_came_after_the_last_checkpoint_is_done_again(tmp_path, fresh):
    class Fail(Mean):
        def __call__(self, event):
            super().__call__(event)
            if event.step == 140:
                raise RuntimeError

    log, fail = hooks.MetricsLog(tmp_path / "metrics.jsonl"), Fail()
    saver = Saver(Store(tmp_path / "saved"), {"mean": fail}, ABOUT, every=0)
    with pytest.raises(RuntimeError):
        run(fresh, hooks=[log, fail, saver])
    assert saved_steps(tmp_path)[-1] == 120, "not what a failed hook has left"
    assert logged_steps(tmp_path / "metrics.jsonl")[-1] == 140
    end, mean, _ = part(tmp_path, fresh)
    assert logged_steps(tmp_path / "metrics.jsonl") == mean.steps == list(range(20, 201, 20))
    assert end.position.tolist() == run(fresh).position.tolist()


def test_another_run_does_not_go_on(tmp_path, fresh):
    part(tmp_path, fresh, cut=40)
    with pytest.raises(CheckpointError, match=r"alpha is 0\.1 .* 0\.2"):
        part(tmp_path, fresh, about={**ABOUT, "alpha": 0.2})
    store = Store(tmp_path / "saved")
    with pytest.raises(CheckpointError, match="hooks/other"):
        Saver(store, {"other": Mean()}, ABOUT).restore(fresh)
    with pytest.raises(CheckpointError, match=r"state/position is float32 \[4\]"):
        Saver(store, {"mean": Mean()}, ABOUT).restore(fresh._replace(position=jnp.ones(5)))


def test_early_stop_goes_on_counting(tmp_path):
    def event(step, value):
        return hooks.Event(step, 0, 9, 0.0, 0.0, None, (), {"loss": value})

    stop = hooks.EarlyStop("loss", patience=3)
    assert [stop(event(*pair)) for pair in ((1, 5.0), (2, 6.0), (3, 6.0))] == [False] * 3
    store = Store(tmp_path)
    store.save(0, {"stop": stop.save()}, {})
    again = hooks.EarlyStop("loss", patience=3)
    again.load(store.latest({"stop": ANY}, {}).tree["stop"])
    assert again(event(4, 5.5))


def test_empty_tuples_of_hooks_keep_their_places(tmp_path, fresh):
    class Pairs(Mean):
        def save(self):
            return {"sum": ((), np.ones(2)), "steps": ()}

    event = hooks.Event(1, 0, 1, 0.5, 0.0, fresh, (), {})
    Saver(Store(tmp_path), {"pairs": Pairs()}, ABOUT).finish(event)
    restored = Pairs()
    Saver(Store(tmp_path), {"pairs": restored}, ABOUT).restore(fresh)
    assert restored.steps == []
    assert restored.sum[0] == []
    assert restored.sum[1].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("seconds", -1.0),
        ("seconds", np.nan),
        ("seconds", np.inf),
        ("first_step", -1),
        ("first_step", 1),
        ("first_step", 0.5),
    ],
)
def test_bad_arguments_are_named(fresh, argument, value):
    with pytest.raises(ValueError, match=argument):
        run(fresh, **{argument: value})
