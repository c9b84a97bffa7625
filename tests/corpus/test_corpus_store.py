"""Stored corpora: the same corpus comes back, in batches that are whole, uniform, repeatable."""

import errno
import gc
import importlib
import itertools
import threading
import time
import tracemalloc

import chex
import jax
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from simplex_jax._src.corpus import CorpusError, convert, device, digest, from_counts, read, store

RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(0.3, (50, 20))
COUNTS[::7] = 0
COUNTS[3] = RNG.poisson(200, 20)
CORPUS = from_counts(COUNTS, names=[f"document {i}\n" for i in range(50)])
KEY = jax.random.key(7)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return store.write(tmp_path_factory.mktemp("store") / "corpus", CORPUS)


def same(stored, corpus):
    np.testing.assert_array_equal(stored.rows().toarray(), corpus.counts.toarray())
    assert stored.vocabulary == corpus.vocabulary
    assert stored.names == corpus.names
    assert stored.digest == digest(corpus)
    assert (stored.documents, stored.tokens) == (corpus.counts.shape[0], corpus.counts.sum())


@settings(deadline=None, max_examples=25)
@given(
    rows=st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=9),
    block=st.integers(1, 5),
)
def test_what_was_written_comes_back(tmp_path_factory, rows, block):
    rows[-1][1] = 2
    corpus = from_counts(rows, ["apple", "\ud800", "plum"])
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simplex_jax._src.corpus.store._BLOCK", block)
        patch.setattr("simplex_jax._src.corpus.store._ROWS", block)
        same(store.write(folder / "a", corpus), corpus)
        same(store.open(folder / "a"), corpus)
    again = read(folder / "a")
    assert digest(again) == digest(corpus)
    assert again.names == corpus.names


def test_what_is_not_a_store_is_said_to_be_none(tmp_path):
    (tmp_path / "x.txt").write_text("apple\n")
    for path in (tmp_path / "x.txt", tmp_path):
        with pytest.raises(CorpusError, match=r"^[^:]*: .*`store`"):
            store.open(path)
    with pytest.raises(CorpusError, match=r"corpus\.json: no such"):
        store.open(tmp_path / "none")


def test_rows_and_documents_of_a_stored_corpus(stored):
    np.testing.assert_array_equal(stored.rows(3, 9).toarray(), COUNTS[3:9])
    np.testing.assert_array_equal(stored.rows(45).toarray(), COUNTS[45:])
    assert stored.rows(7, 8).nnz == 0
    chosen = np.array([9, 0, 3])
    np.testing.assert_array_equal(stored.select(chosen).toarray(), COUNTS[chosen])
    with pytest.raises(ValueError, match="read-only"):
        stored.data[0] = 1


def test_rows_stay_on_disk(stored):
    rows = stored.rows()
    assert np.shares_memory(rows.indices, stored.indices)
    assert np.shares_memory(rows.data, stored.data)


@pytest.mark.parametrize(("most_rows", "entries"), [(1, 9), (7, 10**6), (10**6, 15), (10**6, 1)])
def test_blocks_of_rows_are_the_rows(monkeypatch, most_rows, entries):
    module = importlib.import_module("simplex_jax._src.corpus.corpus")
    monkeypatch.setattr(module, "_ROWS", most_rows)
    monkeypatch.setattr(module, "_ENTRIES", entries)
    blocks = list(module.row_blocks(CORPUS.counts))
    np.testing.assert_array_equal(sp.vstack(blocks).toarray(), COUNTS)
    assert all(block.shape[0] == 1 or block.nnz <= entries for block in blocks)
    assert max(block.shape[0] for block in blocks) <= most_rows


def test_nothing_is_left_of_a_corpus_that_could_not_be_written(tmp_path):
    blocks = [sp.csr_array(COUNTS[:9]), sp.csr_array(-COUNTS)]
    for bad, says in (
        (blocks, r"^blocks: row \d\d, .* is -2"),
        ([sp.csr_array((2, 20), dtype=np.int32)], "document is empty"),
        ([blocks[0], blocks[0][:, :3]], "3 words, not 20"),
    ):
        with pytest.raises(CorpusError, match=says):
            store.write_blocks(tmp_path / "x", bad, CORPUS.vocabulary)
    with pytest.raises(CorpusError, match="2 names for 9 documents"):
        store.write_blocks(tmp_path / "x", blocks[:1], CORPUS.vocabulary, ["a", "b"])
    assert not list(tmp_path.iterdir())
    store.write(tmp_path / "x", CORPUS)
    with pytest.raises(FileExistsError, match="already there"):
        store.write(tmp_path / "x", CORPUS)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_places_of_a_store(tmp_path, monkeypatch):
    """An empty folder, by a link or the current one too; others are refused before any reading."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    store.write(tmp_path / "link", CORPUS)
    assert (tmp_path / "link").is_symlink()
    assert store.open(tmp_path / "folder").names == CORPUS.names
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert store.write(".", CORPUS).names == CORPUS.names
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "here", "link"]
    (tmp_path / "file").touch()
    missing = tmp_path / "no such corpus"
    with pytest.raises(NotADirectoryError, match=r"/file is a "):
        convert(missing, tmp_path / "file" / "new")
    with pytest.raises(FileExistsError, match="folder: already there"):
        convert(missing, tmp_path / "folder")


def test_a_full_disk_names_the_store(tmp_path, monkeypatch):
    def fill(path, pieces):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "_write_bytes", fill)
    with pytest.raises(OSError, match="No space left") as caught:
        store.write(tmp_path / "x", CORPUS)
    assert caught.value.filename == str(tmp_path / "x")
    assert not list(tmp_path.iterdir())


def write_sources(folder, counts):
    """The same counts as UCI and as lda-c."""
    rows, columns = np.nonzero(counts)
    lines = [f"{i + 1} {j + 1} {counts[i, j]}" for i, j in zip(rows, columns, strict=True)]
    head = [str(size) for size in (*counts.shape, len(lines))]
    (folder / "docword.x.txt").write_text("\n".join([*head, *lines]))
    pairs = [[f"{j}:{n}" for j, n in enumerate(row) if n] for row in counts]
    (folder / "x.dat").write_text("\n".join(" ".join([str(len(row)), *row]) for row in pairs))
    (folder / "vocab.txt").write_text("\n".join(f"w{i}" for i in range(counts.shape[1])))
    (folder / "names").write_text("\n".join(f"d{i}" for i in range(counts.shape[0])))
    return lines, head


@pytest.mark.parametrize("name", ["docword.x.txt", "x.dat"])
@pytest.mark.parametrize("block", [16, 2**22])
def test_files_are_converted_as_they_are_read(tmp_path, monkeypatch, name, block):
    monkeypatch.setattr("simplex_jax._src.corpus.files.BLOCK", block)
    write_sources(tmp_path, COUNTS)
    same(convert(tmp_path / name, tmp_path / "a"), read(tmp_path / name))
    named = {"names": tmp_path / "names"}
    same(convert(tmp_path / name, tmp_path / "b", **named), read(tmp_path / name, **named))


@pytest.mark.parametrize("name", ["indptr.npy", "indices.npy", "data.npy", "names.json"])
def test_a_store_without_one_of_its_files_is_no_folder_of_texts(tmp_path, name):
    store.write(tmp_path / "a", CORPUS)
    (tmp_path / "a" / name).unlink()
    with pytest.raises(CorpusError, match=rf"a/{name}: no such file"):
        read(tmp_path / "a")


def test_other_files_are_converted_in_memory(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"text": "apple pear"}\n' * 5)
    (tmp_path / "words").write_text("pear\n")
    stored = convert(tmp_path / "x.jsonl", tmp_path / "a", vocabulary=tmp_path / "words")
    same(stored, read(tmp_path / "x.jsonl", vocabulary=tmp_path / "words"))


def test_what_cannot_be_converted_piece_by_piece(tmp_path):
    lines, head = write_sources(tmp_path, COUNTS)
    (tmp_path / "docword.x.txt").write_text("\n".join([*head, *reversed(lines)]))
    with pytest.raises(CorpusError, match=r"document 48 comes after document 49; sort the lines"):
        convert(tmp_path / "docword.x.txt", tmp_path / "a")
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(CorpusError, match=r"x\.dat: no vocabulary"):
        convert(tmp_path / "x.dat", tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_conversion_holds_a_few_documents_in_memory(tmp_path, monkeypatch):
    counts = RNG.poisson(1.0, (4000, 50))
    write_sources(tmp_path, counts)
    monkeypatch.setattr("simplex_jax._src.corpus.files.BLOCK", 2**14)
    for name in ("x.dat", "docword.x.txt"):
        read(tmp_path / name)  # what is imported and compiled on the way does not count
        tracemalloc.start()
        try:
            convert(tmp_path / name, tmp_path / f"{name}.store")
            assert tracemalloc.get_traced_memory()[1] < 4e6
            tracemalloc.reset_peak()
            read(tmp_path / name)
            assert tracemalloc.get_traced_memory()[1] > 5e6, "it would have been seen"
        finally:
            tracemalloc.stop()


def rows_of(batch, words=20):
    """The counts of the documents of a batch, and that nothing else is in it."""
    assert all(isinstance(leaf, np.ndarray) and leaf.dtype == np.int32 for leaf in batch)
    assert not batch.tokens[batch.lengths.sum() :].any()
    np.testing.assert_array_equal(batch.starts, np.cumsum(batch.lengths) - batch.lengths)
    return [
        np.bincount(batch.tokens[first : first + length], minlength=words).tolist()
        for first, length in zip(batch.starts, batch.lengths, strict=True)
    ]


def first_batches(stored, *arguments, count=5, **options):
    stream = store.batches(stored, *arguments, **options)
    result = list(itertools.islice(stream, count))
    stream.close()
    return result


@pytest.mark.parametrize("batch_size", [1, 7, 50])
def test_batches_are_distinct_documents_of_the_corpus_in_one_shape(stored, batch_size):
    result = first_batches(stored, batch_size, KEY)
    longest = np.sort(COUNTS.sum(axis=1))[-batch_size:].sum()
    known = COUNTS.tolist()
    for batch in result:
        assert batch.tokens.shape == (longest,)
        rows = rows_of(batch)
        assert len(rows) == batch_size
        for row in rows:
            assert rows.count(row) <= known.count(row)
    if batch_size == 50:
        assert rows_of(result[0]) == known


def test_batches_are_what_device_batches_are(stored):
    ids = np.array([3, 8, 20])
    batch = stored.batch(ids, 5000)
    corpus = device.to_device(CORPUS.counts)
    places = np.argsort(np.asarray(corpus.order))[ids]
    expected = device.compact(device.select(corpus, places), 5000)
    assert jax.tree.structure(batch) == jax.tree.structure(expected)
    np.testing.assert_array_equal(batch.starts, expected.starts)
    np.testing.assert_array_equal(batch.lengths, expected.lengths)
    total = batch.lengths.sum()
    np.testing.assert_array_equal(batch.tokens[:total], expected.tokens[:total])
    assert batch.ids.tolist() == [3, 8, 20]


def test_a_batch_is_a_function_of_the_key_and_the_step(stored):
    whole = first_batches(stored, 7, KEY, count=9)
    for first in (0, 4):
        for mine, other in zip(
            first_batches(stored, 7, KEY, first), whole[first : first + 5], strict=True
        ):
            chex.assert_trees_all_equal(mine, other)
    assert len({batch.tokens.tobytes() for batch in whole}) == 9
    other = first_batches(stored, 7, jax.random.key(8), count=1)[0]
    assert other.tokens.tobytes() != whole[0].tokens.tobytes()


def uniform(batch_sizes, ids, among, steps=4000, batch_size=5):
    """Whether documents, told by their lengths, are equally often in `batch_size` of 10.

    At five standard deviations: a false alarm below 1e-5.
    """
    times = np.bincount(np.concatenate(batch_sizes), minlength=51)[np.sort(ids) + 1]
    share = batch_size / len(among)
    assert sum(times) == steps * batch_size
    return (abs(times - steps * share) < 5 * np.sqrt(steps * share * (1 - share))).all()


def test_batches_are_uniform_subsets(tmp_path):
    ladder = store.write(tmp_path / "x", from_counts(np.arange(1, 51)[:, None] * np.ones((1, 1))))
    among = np.array([0, 3, 4, 9, 17, 18, 19, 33, 48, 49])
    lengths = [batch.lengths for batch in first_batches(ladder, 5, KEY, count=4000, among=among)]
    assert all(len(set(row.tolist())) == 5 for row in lengths)
    assert uniform(lengths, among, among)
    together = sum({1, 4} <= set(row.tolist()) for row in lengths) / 4000
    assert abs(together - 2 / 9) < 5 * np.sqrt(2 / 9 * 7 / 9 / 4000)
    # A stream that now and then repeats its first document would be seen.
    skewed = [np.where(np.arange(5) == 0, 1, row) if i % 4 == 0 else row
              for i, row in enumerate(lengths)]  # fmt: skip
    assert not uniform(skewed, among, among)


def test_arguments_of_batches(stored):
    for arguments, says in (
        ((0, KEY), "batch_size"),
        ((51, KEY), r"batch_size 51 .* 50"),
        ((5, KEY, -1), "first_step"),
    ):
        with pytest.raises(ValueError, match=says):
            store.batches(stored, *arguments)
    with pytest.raises(ValueError, match="at most 3"):
        store.batches(stored, 4, KEY, among=np.arange(3))


def test_documents_too_long_for_a_batch_are_refused(tmp_path):
    counts = sp.csr_array(np.full((3, 64), 2**24, np.int32))
    huge = store.write(tmp_path / "x", from_counts(counts))
    assert huge.tokens == 3 * 64 * 2**24
    with pytest.raises(ValueError, match="2147483648 tokens"):
        store.batches(huge, 2, KEY)


def workers():
    return [thread for thread in threading.enumerate() if "corpus-batches" in thread.name]


def ended():
    for _ in range(500):
        if not workers():
            return True
        time.sleep(0.01)
    return False


def test_the_thread_ends_with_the_iterator(stored):
    stream = store.batches(stored, 5, KEY)
    assert not workers()
    next(stream)
    assert len(workers()) == 1
    stream.close()
    assert ended()
    stream = store.batches(stored, 5, KEY)
    next(stream)
    del stream
    gc.collect()
    assert ended()


def test_the_next_batch_is_made_while_the_first_is_used(stored, monkeypatch):
    made = []
    batch = store.Stored.batch

    def seen(self, ids, room):
        made.append(threading.current_thread().name)
        return batch(self, ids, room)

    monkeypatch.setattr(store.Stored, "batch", seen)
    stream = store.batches(stored, 5, KEY)
    next(stream)
    for _ in range(500):
        if len(made) == 3:
            break
        time.sleep(0.01)
    assert len(made) == 3, "two ahead, and no more"
    assert all("corpus-batches" in name for name in made)
    stream.close()


def test_an_error_in_the_thread_reaches_the_loop(stored, monkeypatch):
    def fails(self, ids, room):
        raise OSError("the disk is gone")

    monkeypatch.setattr(store.Stored, "batch", fails)
    with pytest.raises(OSError, match="disk is gone"):
        next(store.batches(stored, 5, KEY))
    assert ended()
