"""A fit says how to get it again, to the bit, however its run has ended."""

import json
import shlex

import numpy as np
import pytest
from click.testing import CliRunner
from support.cut_runs import look_after_every_step
from support.fits import assert_same

from simplex_jax import dpm, dtm, hdp, lda, sam
from simplex_jax._src.cli import main
from simplex_jax._src.corpus import from_counts
from simplex_jax._src.runtime import driver
from simplex_jax._src.runtime.hooks import Event, Hook

COUNTS = np.kron(np.eye(3, dtype=np.int32), [6, 4, 3, 2])[np.repeat(np.arange(3), [14, 10, 6])]
MODELS = {"lda": lda, "hdp": hdp, "sam": sam, "dpm": dpm, "dtm": dtm}
DATA = from_counts(COUNTS)
OPTIONS = {
    "lda": {"num_topics": 3, "alpha": "learn-asymmetric", "batch_size": 10, "chains": 2},
    "hdp": {"beta": 0.5, "capacity": 32},
    "sam": {"num_topics": 3, "start": "prior", "sample_every": 3},
    "dpm": {"chains": 2},
    "dtm": {"num_topics": 3, "static_passes": 5},
}


class Over(Hook):
    """Ends a run as a clock does, at any step."""

    def __init__(self, step):
        self.step = step

    def over(self, event: Event) -> bool:
        return event.step >= self.step


def fit(model, **options):
    given = {"seed": 5, "holdout": 3, "keep_samples": 4} | OPTIONS[model]
    return MODELS[model].fit(DATA, **given, **options)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_a_run_that_a_clock_has_ended_is_repeated_by_its_length(model, monkeypatch, tmp_path):
    """Also on its way to another length, which is that of a run of it from the start."""
    look_after_every_step(monkeypatch)
    for steps in (1, 23):
        place = tmp_path / f"{steps}"
        ended = fit(model, seconds=1e9, hooks=[Over(steps)], checkpoint=place)
        assert int(np.max(ended.state.step)) == steps
        again = eval(ended.again, MODELS | {"data": DATA})
        assert_same(again, ended, "warnings")
        assert again.again == ended.again
    longer = fit(model, steps=42, checkpoint=place, resume=True)
    whole = fit(model, steps=42)
    assert len(longer.metrics) - len(whole.metrics) in (0, 1)  # that at the first end
    assert_same(longer, whole, "metrics")
    passes = {"passes": 14} if model == "lda" else {"passes": 42}
    assert longer.done == whole.done == passes
    assert MODELS[model].Fit.load(whole.save(tmp_path / "run")).again == whole.again
    assert whole.again in (tmp_path / "run" / "report.html").read_text().replace("&#39;", "'")


@pytest.mark.slow
def test_a_sample_at_the_end_would_be_noticed(monkeypatch, tmp_path):
    """A run used to sample its last state, also where a longer run does not."""
    call = driver._Loop._call

    def sampling(self, info):
        call(self, info)
        if self._stop and self._step % self._times.every:
            for sample in self.calls.sample:
                sample(self._event)

    look_after_every_step(monkeypatch)
    monkeypatch.setattr(driver._Loop, "_call", sampling)
    fit("sam", steps=23, checkpoint=tmp_path)
    longer = fit("sam", steps=42, checkpoint=tmp_path, resume=True)
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(longer.topics, fit("sam", steps=42).topics)


def invoke(*args):
    return CliRunner().invoke(main, [str(arg) for arg in args], catch_exceptions=False)


@pytest.fixture
def texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["oak elm ash wood", "sun moon star sky", "oak ash leaf", "moon sky night star"] * 9
    (tmp_path / "my texts.txt").write_text("\n".join(lines))
    return tmp_path


def same_files(one, other, *names):
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


FILES = {
    "lda": ("topics.csv", "doc_topics.npz", "topics.npz", "topic_keys.txt"),
    "hdp": ("topics.csv", "doc_topics.npz", "topics.npz"),
    "sam": ("topics.csv", "doc_topics.npz", "topics.npz"),
    "dpm": ("clusters.csv",),
}


@pytest.mark.slow
@pytest.mark.parametrize("model", FILES)
def test_the_command_that_a_run_prints_gives_the_same_files(model, texts, monkeypatch):
    """That of a run by the clock, that of one resumed after a cut, and that of one made longer."""
    look_after_every_step(monkeypatch)
    options = ["--seed", 3, "--min-df", 1, "--stop-words", "none", "--keep-samples", 3]
    options += ["--topics", 2] if model in ("lda", "sam") else []
    length = ["--time-limit", 0.3] if model == "lda" else ["--seconds", 0.3]
    result = invoke(model, "my texts.txt", *options, *length, "--out", "ended")
    assert result.exit_code == 0, result.output
    again = json.loads((texts / "ended" / "config.json").read_text())["again"]
    assert f"this again:  {again}\n" in result.output
    assert shlex.split(again)[:3] == ["simplex-jax", model, "my texts.txt"]
    assert "--seconds" not in again
    assert "--time-limit" not in again
    assert invoke(*shlex.split(again)[1:], "--out", "again").exit_code == 0
    same_files(texts / "ended", texts / "again", *FILES[model])

    more = json.loads((texts / "ended" / "summary.json").read_text())["done"]["passes"] + 17
    for run in ("ended", "again"):
        assert invoke(model, "--resume", run, "--passes", more).exit_code == 0
    again = json.loads((texts / "again" / "config.json").read_text())["again"]
    assert f"--passes {more}" in again
    assert invoke(*shlex.split(again)[1:], "--out", "whole").exit_code == 0
    same_files(texts / "ended", texts / "whole", *FILES[model])
    same_files(texts / "again", texts / "whole", *FILES[model])
