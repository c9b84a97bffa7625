"""Memoised counts of a corpus on disk: the samples are those of the same run in memory."""

import contextlib
import resource
import shutil
import tempfile

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from support.cut_runs import look_after_every_step
from support.fits import assert_same

from simplex_jax._src.cli import main
from simplex_jax._src.corpus import device, from_counts, store
from simplex_jax._src.models import lda
from simplex_jax._src.models.lda import feed, memory, options
from simplex_jax._src.models.topics import data
from simplex_jax._src.runtime import devices
from simplex_jax._src.runtime.hooks import Hook

# Documents of all lengths, some empty. There are four batches, and the last one has one document;
# with this seed five passes begin with the batch that ended the one before.
COUNTS = np.random.default_rng(0).poisson(0.8, (19, 7)) * np.arange(19)[:, None] // 6
RUN = {"steps": 23, "batch_size": 6, "eval_every": 5, "seed": 6, "counts": "memoised", "holdout": 0}


@pytest.fixture
def stored(tmp_path):
    return store.write(tmp_path / "corpus", from_counts(sp.csr_array(COUNTS.astype(np.int32))))


@pytest.fixture(autouse=True)
def little_memory(monkeypatch):
    """Make tokens and labels take a little more than half of the memory."""
    monkeypatch.setattr(devices, "memory", lambda: 2 * 6 * int(COUNTS.sum()) - 1)
    monkeypatch.setattr(devices, "check_memory", lambda *_: None)


@pytest.fixture(scope="module")
def in_memory():
    return lda.fit(sp.csr_array(COUNTS), 3, **RUN)


def on_disk(stored, **changes):
    """Return a fit of which it is sure that its labels were on disk."""
    fitted = lda.fit(stored, 3, **RUN | changes)
    assert fitted.state.sampler.memory.labels.size < COUNTS.sum()
    return fitted


def is_same(fitted, other):
    pairs = (fitted.state.position, other.state.position), (fitted.topics, other.topics)
    return all(np.array_equal(*pair) for pair in pairs)


def test_the_samples_are_those_in_memory(stored, in_memory):
    fitted = on_disk(stored)
    assert is_same(fitted, in_memory)
    assert int(fitted.state.sampler.memory.counts.sum()) == COUNTS.sum()


def wrong_block(files, event, write=feed.Files.pulse):
    here = files._due[event.step - 1]
    files._due[event.step - 1] = slice(0, here.stop - here.start)
    write(files, event)


def early(*arguments, again, page=feed.with_page):
    """Take the labels of a batch that comes twice in turn from the file, where they are not yet."""
    return page(*arguments, again=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "name", "mutant"),
    [
        (feed.Files, "pulse", wrong_block),
        (feed.Files, "pulse", lambda *_: None),
        (feed, "with_page", early),
    ],
)
def test_labels_of_the_wrong_block_or_time_are_seen(
    place, name, mutant, stored, in_memory, monkeypatch
):
    monkeypatch.setattr(place, name, mutant)
    with contextlib.suppress(ValueError):  # of topics that are none, by counts below zero
        assert not is_same(on_disk(stored), in_memory)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"beta": "learn"}, {"local": "blocked"}, {"engine": "xla"}])
def test_options_go_with_it(changes, stored):
    changes = changes | {"devices": 1}
    assert is_same(on_disk(stored, **changes), lda.fit(sp.csr_array(COUNTS), 3, **RUN | changes))


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"alpha": "learn-asymmetric"}, {"chains": 2}])
def test_labels_stay_in_memory_where_they_must(changes, stored):
    fitted = lda.fit(stored, 3, **RUN | changes)
    assert fitted.state.sampler.memory.labels.shape[-1] == COUNTS.sum()


class Crashed(Exception):
    """The end of a run without a word."""


class Crash(Hook):
    """A hook that ends a run in the middle of a pass, some updates after step 10."""

    def pulse(self, event):
        if event.step == 13:
            raise Crashed


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 2), (2, 1)])
def test_a_crash_loses_nothing_on_disk_or_in_memory(before, after, stored, tmp_path, monkeypatch):
    """A checkpoint has all labels of its step, whatever was written to their file after it."""
    look_after_every_step(monkeypatch)
    little = devices.memory()
    given = {"checkpoint": tmp_path / "run", "checkpoint_every": 0.0}
    monkeypatch.setattr(devices, "memory", lambda: before * little)
    with pytest.raises(Crashed):
        lda.fit(stored, 3, hooks=[Crash()], **RUN | given)
    assert [path.name[-7:] for path in sorted(given["checkpoint"].iterdir())][-1] == "step-10"
    monkeypatch.setattr(devices, "memory", lambda: after * little)
    resumed = lda.fit(stored, 3, resume=True, **RUN | given)
    assert resumed.state.sampler.memory.labels.size < COUNTS.sum() or after == 2
    monkeypatch.setattr(devices, "memory", lambda: 2 * little)
    assert_same(resumed, lda.fit(stored, 3, **RUN), "state")


def test_the_command_says_so_and_what_memory_is_left(stored, tmp_path, monkeypatch):
    place = ["lda", str(tmp_path / "corpus"), "--stream", "--counts", "memoised", "--topics", "3"]
    place += ["--chains", "1"]
    monkeypatch.setattr(memory, "_temporaries", lambda *_: 0)
    done = CliRunner().invoke(main, [*place, "--batch-size", "6", "--holdout", "0", "--dry-run"])
    assert "are on disk" in done.stderr
    settings = lda.resolve(
        store.open(tmp_path / "corpus"), 3, chains=1, batch_size=6, counts="memoised"
    )
    result = memory.estimate(stored, settings)
    monkeypatch.setattr(devices, "memory", lambda: 10**9)
    whole = memory.estimate(stored, settings)
    assert result["corpus"] + result["state"] < whole["corpus"] + whole["state"] - 4 * COUNTS.sum()


def test_a_disk_that_is_too_small_is_one_clear_error(stored, monkeypatch):
    monkeypatch.setattr(feed.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 0, 9))
    with pytest.raises(ValueError, match=r"need .* on disk, and .* has 9 B: set TMPDIR"):
        lda.fit(stored, 3, **RUN)


def test_a_disk_that_fills_up_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    pieces = [(0, np.zeros(5000, np.int32))]
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        with pytest.raises(OSError, match="File too large") as caught:
            feed._written(pieces, 5000, np.dtype(np.int32))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(tmp_path)


def test_more_tokens_than_a_device_can_number_are_on_disk(stored, in_memory, monkeypatch):
    """Only a batch has to be numbered in 31 bits, here in seven."""
    monkeypatch.setattr(devices, "memory", lambda: 10**9)
    for module in (device, options):
        monkeypatch.setattr(module, "MOST_TOKENS", 127)
    assert COUNTS.sum() > 127
    assert is_same(on_disk(stored), in_memory)
    with pytest.raises(ValueError, match=r"^batch_size 19: "):
        lda.fit(stored, 3, **RUN | {"batch_size": 19})


@pytest.mark.parametrize(
    ("words", "dtype"),
    [(2**8, "uint8"), (2**8 + 1, "uint16"), (2**16, "uint16"), (2**16 + 1, "uint32")],
)
def test_tokens_are_as_narrow_as_the_vocabulary_allows(words, dtype):
    assert feed._dtypes((254, words)) == (np.dtype(dtype), np.dtype("uint8"))
    assert np.array(words - 1, dtype) == words - 1


@pytest.mark.slow
@pytest.mark.parametrize("region", [1, 10, 33, 10_000])
def test_tokens_come_to_their_places_by_regions(region, stored, monkeypatch):
    """Region by region, and a few documents at a time, as in memory at once."""
    host = data.on_host(stored)
    whole = np.asarray(device.to_device(host).tokens)
    monkeypatch.setattr(feed, "_REGION", region)
    monkeypatch.setattr(device, "_READ", 7)
    files = feed.Files(host, device.pages(host.lengths, 6), (3, COUNTS.shape[1]))
    np.testing.assert_array_equal(files._tokens, whole)
    np.testing.assert_array_equal(device.to_device(host).tokens, whole)
