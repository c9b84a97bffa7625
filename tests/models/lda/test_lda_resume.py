"""A run that was interrupted goes on to the very numbers of one that was not."""

import mmap
import signal
import tracemalloc
from typing import NamedTuple

import chex
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from support.cut_runs import Cut, look_after_every_step
from support.fits import assert_same

from simplex_jax._src.base import Kernel
from simplex_jax._src.corpus import device
from simplex_jax._src.models import lda as topics
from simplex_jax._src.models.lda import feed as model
from simplex_jax._src.models.lda import model as lda
from simplex_jax._src.models.lda import sharding
from simplex_jax._src.models.lda.kernel import Info, Memory
from simplex_jax._src.runtime import gathering
from simplex_jax._src.runtime.checkpoint import MAPPED, CheckpointError, Parts, Store

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
        alpha="learn-asymmetric",
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
        chex.assert_trees_all_equal(resumed.topics, fit("memoised").topics)


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
    assert cut.num_samples == 4  # after the passes of three steps that end at 9, 12, 15 and 18
    assert cut.metrics[-1]["step"] == 18
    np.testing.assert_allclose(cut.topics.sum(axis=1), 1, rtol=1e-5)
    resumed = fit("memoised", resume=True, **options)
    assert resumed.interrupted is None
    whole = fit("memoised")
    assert resumed.samples == {}
    assert_same(resumed, whole, "samples")
    files = sorted(samples.iterdir())
    assert [file.name for file in files] == [f"sample-{i:05d}.npz" for i in range(3)]
    for i, file in enumerate(files):
        with np.load(file, allow_pickle=False) as result:
            for name, values in whole.samples.items():
                np.testing.assert_array_equal(result[name], values[i])
    again = fit("memoised", resume=True, **options)  # of a run that is over
    assert_same(again, resumed)


def test_resuming_without_a_checkpoint_starts_anew_and_another_run_is_refused(tmp_path):
    first = fit("memoised", checkpoint=tmp_path, resume=True)
    assert_same(first, fit("memoised"))
    with pytest.raises(CheckpointError, match=r"seed is 7 .* 8"):
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
        return state, Info(jnp.ones(2), ())

    def build(*_):
        return Kernel(init, update), lambda key, first: lambda key, step: step

    monkeypatch.setattr(model, "build", build)
    options = {"steps": 40, "eval_every": 3, "checkpoint": tmp_path, "checkpoint_every": 0.0}
    with pytest.raises(FloatingPointError, match=r"position became NaN in update 8: .*-step-6'"):
        topics.fit(COUNTS, 2, **options)
    assert max(int(path.name.split("-")[-1]) for path in tmp_path.iterdir()) == 6


LENGTHS = np.array([3, 0, 5, 1, 1, 0, 2, 7, 4])


def labels_on(shards, chains, lengths=LENGTHS):
    """Different labels for all tokens, as a run of so many devices has them."""
    rng = np.random.default_rng(0)
    tokens = rng.permutation(chains * lengths.sum()).astype(np.uint16).reshape(chains, -1)
    documents = np.split(tokens, np.cumsum(np.sort(lengths))[:-1], axis=1)
    rows = [np.concatenate(documents[shard::shards], axis=1) for shard in range(shards)]
    labels = np.zeros((chains, shards, max(row.shape[1] for row in rows)), np.uint16)
    for shard, row in enumerate(rows):
        labels[:, shard, : row.shape[1]] = row
    return labels


def saved_by(labels, processes):
    """The labels [C, shards, T] in a checkpoint of so many processes."""
    parts = np.split(labels, processes, axis=1)
    places = range(0, labels.shape[1], labels.shape[1] // processes)
    by_place = {(0, place, 0): part for place, part in zip(places, parts, strict=True)}
    return Parts(labels.shape, labels.dtype, by_place)


@pytest.mark.parametrize("chains", [1, 3])
@pytest.mark.parametrize(
    ("before", "processes", "after"),
    [(1, 1, 1), (1, 1, 2), (2, 1, 1), (2, 2, 1), (4, 4, 2), (4, 2, 3), (3, 3, 2), (3, 1, 3)],
)
def test_labels_come_from_any_number_of_devices(before, processes, after, chains, monkeypatch):
    monkeypatch.setattr(device, "_READ", 4)
    saved, expected = saved_by(labels_on(before, chains), processes), labels_on(after, chains)
    for shard in range(after):
        labels = np.zeros((chains, expected.shape[-1]), np.uint16)
        sharding.fill_labels(labels, saved, LENGTHS, shard, after)
        np.testing.assert_array_equal(labels, expected[:, shard])


def test_labels_without_an_axis_of_chains_or_devices():
    labels, expected = labels_on(1, 1), labels_on(2, 1)[0, 1]
    for axes in (1, 2):
        some = labels[(0,) * axes]
        saved, result = Parts(some.shape, some.dtype, {(0,) * some.ndim: some}), expected * 0
        sharding.fill_labels(result, saved, LENGTHS, 1, 2)
        np.testing.assert_array_equal(result, expected)


def test_labels_of_other_documents_are_refused():
    """Three documents of 1, 1 and 5 tokens on two devices: the first has six tokens."""
    lengths = np.array([1, 5, 1])
    labels = labels_on(2, 1, lengths)
    assert labels.shape == (1, 2, 6)
    for wrong in (labels[:, :, :5], labels.astype(np.uint8)):
        with pytest.raises(ValueError, match="checkpoint's labels"):
            sharding.fill_labels(np.zeros((1, 7), np.uint16), saved_by(wrong, 1), lengths)


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_a_process_takes_memory_for_its_own_labels_only(after, tmp_path, monkeypatch):
    """Of 8 MB on four devices."""
    monkeypatch.setattr(device, "_READ", 2**10)
    lengths = np.full(1024, 2**12)
    lengths[0] = 1  # which makes the first shard shorter
    labels = labels_on(4, 1, lengths)
    Store(tmp_path).save(0, {"labels": labels[0]}, {})
    saved = Store(tmp_path).latest({"labels": MAPPED}, {}).tree["labels"]
    own = np.zeros(labels_on(after, 1, lengths).shape[-1], np.uint16)
    tracemalloc.start()
    sharding.fill_labels(own, saved, lengths, after - 1, after)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < labels.nbytes / 8


@pytest.mark.slow
@pytest.mark.parametrize("chains", [1, 2])
def test_a_resumed_run_never_has_all_saved_labels_in_memory(chains, tmp_path, monkeypatch):
    options = {"chains": chains, "devices": 1, "checkpoint": tmp_path}
    fit("memoised", hooks=[Cut(3)], **options)
    fill, seen = sharding.fill_labels, []

    def watched(labels, saved, *place):
        seen.extend(saved.parts.values())
        fill(labels, saved, *place)

    monkeypatch.setattr(sharding, "fill_labels", watched)
    fit("memoised", resume=True, **options)
    assert [part.size for part in seen] == [chains * COUNTS.sum()]
    assert isinstance(bottom(seen[0]), mmap.mmap)


def bottom(array):
    """What the memory of an array is."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array
