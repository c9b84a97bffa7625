"""A run that was interrupted goes on to the very numbers of one that was not."""

import signal
from typing import NamedTuple

import chex
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from support.cut_runs import Cut, look_after_every_step
from support.fits import assert_same

from simplex_jax.base import Kernel
from simplex_jax.models import lda as topics
from simplex_jax.models.lda import feed as model
from simplex_jax.models.lda import model as lda
from simplex_jax.models.lda import sharding
from simplex_jax.models.lda.counts import Memory
from simplex_jax.runtime import gathering
from simplex_jax.runtime.checkpoint import CheckpointError

COUNTS = sp.csr_array(np.random.default_rng(0).poisson(1.0, (12, 6)).astype(np.int32))
HELDOUT = COUNTS[:3], COUNTS[3:6]
STEPS = 24
KINDS = {
    "memoised": {"keep_samples": 3, "beta": "learn"},
    "subsampled": {"counts": "subsampled", "sweeps": 2, "chains": 2},
}


def fit(kind, **options):
    return topics.fit(
        COUNTS,
        2,
        steps=STEPS,
        batch_size=5,
        eval_every=3,
        alpha="learn",
        heldout=HELDOUT,
        **{"seed": 7} | KINDS[kind] | options,
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ten_interrupted_runs_end_as_the_whole_one(kind, tmp_path, monkeypatch, seed):
    look_after_every_step(monkeypatch)
    whole = fit(kind)
    for step in np.random.default_rng(seed).choice(np.arange(1, STEPS), 10, replace=False):
        place = tmp_path / str(step)
        cut = fit(kind, checkpoint=place, hooks=[Cut(step)])
        assert cut.state.step.max() == step
        assert_same(fit(kind, checkpoint=place, resume=True), whole)


@pytest.mark.slow
def test_a_run_that_forgot_its_samples_would_be_noticed(tmp_path, monkeypatch):
    """The same with moments that are not brought back: it must differ."""
    look_after_every_step(monkeypatch)
    monkeypatch.setattr(gathering.Posterior, "load", lambda self, saved: None)
    fit("memoised", checkpoint=tmp_path, hooks=[Cut(20)])
    resumed = fit("memoised", checkpoint=tmp_path, resume=True)
    with pytest.raises(AssertionError):
        chex.assert_trees_all_equal(resumed.mean, fit("memoised").mean)


@pytest.mark.slow
def test_what_is_learned_is_summarised():
    fitted = fit("memoised")
    assert (fitted.alpha > 0).all()
    assert (fitted.alpha_sd > 0).all()
    assert fitted.alpha[0] != fitted.alpha[1]
    assert len(set(fitted.beta)) == 1
    assert {"alpha", "beta", "log_predictive"} <= set(fitted.diagnostics)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_with_a_summary_and_a_checkpoint(number, tmp_path, capfd):
    samples = tmp_path / "samples"
    options = {"checkpoint": tmp_path / "run", "samples_dir": samples}
    cut = fit("memoised", hooks=[Cut(18, number)], **options)
    assert cut.interrupted is number
    assert cut.samples == 7  # the steps 12 to 18
    assert cut.metrics[-1]["step"] == 18
    np.testing.assert_allclose(cut.mean.sum(axis=1), 1, rtol=1e-5)
    resumed = fit("memoised", resume=True, **options)
    assert resumed.interrupted is None
    whole = fit("memoised")
    assert resumed.kept == {}
    assert_same(resumed, whole, "kept")
    files = sorted(samples.iterdir())
    assert [file.name for file in files] == [f"sample-{i:05d}.npz" for i in range(3)]
    for i, file in enumerate(files):
        with np.load(file, allow_pickle=False) as found:
            for name, values in whole.kept.items():
                np.testing.assert_array_equal(found[name], values[i])
    again = fit("memoised", resume=True, **options)  # of a run that is over
    assert_same(again, resumed)


def test_resuming_without_a_checkpoint_starts_anew_and_another_run_is_refused(tmp_path):
    first = fit("memoised", checkpoint=tmp_path, resume=True)
    assert_same(first, fit("memoised"))
    with pytest.raises(CheckpointError, match="seed is 7 in the checkpoint and 8"):
        fit("memoised", checkpoint=tmp_path, resume=True, seed=8)


class Sampler(NamedTuple):
    memory: Memory


def test_a_topic_that_is_nan_stops_the_run_and_names_the_step_and_the_checkpoint(
    tmp_path, monkeypatch
):
    """A kernel that goes wrong at step 8 of 40, with a checkpoint after every chunk of 3."""

    def init(key, position):
        memory = Memory(jnp.zeros(1, jnp.uint8), jnp.zeros((2, 6), jnp.int32))
        start = jnp.log(position), jnp.int32(0), jnp.ones(2), jnp.ones(6)
        return lda.State(*start, Sampler(memory))

    def update(key, state, batch):
        bad = jnp.where(state.step + 1 >= 8, jnp.nan, 1.0)
        state = state._replace(position=state.position.at[0, 0].mul(bad), step=state.step + 1)
        return state, lda.Info(jnp.ones(2), ())

    def build(*_):
        return Kernel(init, update), lambda key, first: lambda key, step: step

    monkeypatch.setattr(model, "build", build)
    options = {"steps": 40, "eval_every": 3, "checkpoint": tmp_path, "checkpoint_every": 0.0}
    with pytest.raises(FloatingPointError, match=r"position became NaN in update 8: .*-step-6'"):
        topics.fit(COUNTS, 2, **options)
    assert max(int(path.name.split("-")[-1]) for path in tmp_path.iterdir()) == 6


@pytest.mark.slow
def test_labels_come_from_any_number_of_devices_and_not_from_other_documents():
    """Three documents of 1, 1 and 5 tokens on two devices: the first has six tokens."""
    like = np.empty(7, np.uint8)
    lengths, labels = np.array([1, 5, 1]), np.arange(1, 8, dtype=np.uint8)
    dealt = np.array([[1, 3, 4, 5, 6, 7], [2, 0, 0, 0, 0, 0]], np.uint8)
    placed = sharding.dealt_again(dealt, lengths, like)
    np.testing.assert_array_equal(placed, labels)
    with pytest.raises(ValueError, match="not those of these documents"):
        sharding.dealt_again(dealt[:, :5], lengths, like)
