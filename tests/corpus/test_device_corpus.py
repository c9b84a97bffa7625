"""The corpus on the device: nothing lost, nothing twice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_lda import table

from simplex_jax._src.corpus import device

WORDS = 5
documents_of_a_corpus = st.lists(
    st.lists(st.integers(0, WORDS - 1), max_size=6), min_size=1, max_size=9
)
slots = jax.jit(device.token_slots, static_argnums=2)
compact = jax.jit(device.compact, static_argnums=1)


def words_of(documents):
    """The words of each document, on the host."""
    tokens = np.asarray(documents.tokens)
    return [
        tokens[first : first + length].tolist()
        for first, length in zip(documents.starts, documents.lengths, strict=True)
    ]


@settings(deadline=None, max_examples=25)
@given(documents_of_a_corpus)
def test_tokens_are_those_of_the_counts(rows):
    counts = table(rows, WORDS)
    corpus = device.to_device(counts)
    assert device.size(corpus) == len(rows)
    assert sorted(corpus.order.tolist()) == list(range(len(rows)))
    assert all(leaf.dtype == jnp.int32 for leaf in corpus)
    starts = np.asarray(corpus.starts)
    assert starts[0] == 0
    assert (np.diff(np.diff(starts)) >= 0).all(), "shortest first"
    mine = device.select(corpus, jnp.arange(len(rows)))
    ordered = table(words_of(mine), WORDS)
    np.testing.assert_array_equal(ordered.toarray(), counts.toarray()[np.asarray(corpus.order)])


@pytest.mark.parametrize("seed", range(3))
def test_random_tables_of_all_shapes_of_documents(seed):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.05, (200, 300))
    counts[::7] = 0  # empty
    counts[1::7] = 0
    counts[1::7, 3] = 1  # one word
    counts[5] = rng.poisson(200, 300)  # 60,000 tokens
    corpus = device.to_device(sp.csr_array(counts))
    documents = device.select(corpus, jnp.arange(200))
    again = table(words_of(documents), 300)
    np.testing.assert_array_equal(again.toarray(), counts[np.asarray(corpus.order)])
    # Equal lengths keep their order.
    empty = np.flatnonzero(counts.sum(axis=1) == 0)
    np.testing.assert_array_equal(corpus.order[: len(empty)], empty)


def test_a_corpus_without_tokens_and_tables_that_cannot_be():
    corpus = device.to_device(sp.csr_array((2, 3), dtype=np.int32))
    assert corpus.starts.tolist() == [0, 0, 0]
    assert device.capacity(corpus, 1) == 1
    assert compact(device.select(corpus, jnp.arange(2)), 1).lengths.tolist() == [0, 0]
    with pytest.raises(ValueError, match=r"^counts .*one document"):
        device.to_device(sp.csr_array((0, 3), dtype=np.int32))
    with pytest.raises(ValueError, match=r"^counts .* 2 devices"):
        device.to_device(sp.csr_array(np.full((130, 1), 2**24, np.int64)))
    with pytest.raises(ValueError, match="document 1 has"):
        device.to_device(sp.csr_array(np.array([[1], [2**24 + 1]], np.int64)))


@settings(deadline=None, max_examples=25)
@given(rows=documents_of_a_corpus, ids=st.lists(st.integers(0, 12), min_size=3, max_size=3))
def test_select_and_ids_beyond_the_last_are_empty(rows, ids):
    corpus = device.to_device(table(rows, WORDS))
    result = words_of(device.select(corpus, jnp.array(ids)))
    order = corpus.order.tolist()
    assert result == [sorted(rows[order[i]]) if i < len(rows) else [] for i in ids]


@pytest.mark.parametrize(("documents", "batch_size"), [(7, 3), (6, 3), (5, 1), (4, 4), (1, 1)])
def test_blocks_and_an_epoch_hold_every_document_once(documents, batch_size):
    corpus = device.to_device(table([[0] * i for i in range(documents)], WORDS))
    blocks = np.asarray(device.blocks(device.size(corpus), batch_size))
    assert blocks.shape == (-(-documents // batch_size), batch_size)
    assert [i for i in blocks.ravel().tolist() if i < documents] == list(range(documents))
    stream = jax.jit(device.block_stream(device.size(corpus), batch_size))
    orders = set()
    for epoch in range(6):
        steps = range(epoch * len(blocks), (epoch + 1) * len(blocks))
        seen = [tuple(stream(jax.random.key(1), step).tolist()) for step in steps]
        assert sorted(seen) == sorted(map(tuple, blocks.tolist()))
        orders.add(tuple(seen))
    assert len(orders) > 1 or len(blocks) < 3


def test_uniform_stream_yields_distinct_documents_uniformly():
    corpus = device.to_device(table([[0]] * 10, WORDS))
    stream = device.uniform_stream(corpus, 4)
    keys = jax.random.split(jax.random.key(2), 4000)
    ids = np.sort(jax.vmap(lambda key: stream(key, 0))(keys), axis=1)
    assert (np.diff(ids, axis=1) > 0).all()
    assert (ids >= 0).all()
    assert (ids < 10).all()
    # Each document is in a batch with probability 0.4: at five sd, a false alarm below 1e-5.
    assert (abs(np.bincount(ids.ravel()) - 1600) < 5 * np.sqrt(4000 * 0.4 * 0.6)).all()


@settings(deadline=None, max_examples=25)
@given(
    rows=documents_of_a_corpus,
    ids=st.lists(st.integers(0, 12), min_size=3, max_size=3, unique=True),
)
def test_token_slots_find_every_token_once(rows, ids):
    corpus = device.to_device(table(rows, WORDS))
    documents = device.select(corpus, jnp.array(ids))
    lengths = np.asarray(documents.lengths)
    result, count = [], 4
    for first in range(0, int(lengths.sum()) + count, count):
        place, document = slots(documents, jnp.int32(first), count)
        inside = np.asarray(place) < corpus.tokens.shape[0]
        result += zip(
            np.asarray(document)[inside].tolist(), np.asarray(place)[inside].tolist(), strict=True
        )
        assert inside.sum() == np.clip(lengths.sum() - first, 0, count)
        assert ((np.asarray(document) >= 0) & (np.asarray(document) < 3)).all()
    wanted = [
        (b, start + i)
        for b, (start, length) in enumerate(zip(documents.starts.tolist(), lengths, strict=True))
        for i in range(length)
    ]
    assert result == wanted


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(
    rows=documents_of_a_corpus,
    ids=st.lists(st.integers(0, 12), min_size=3, max_size=3, unique=True),
)
def test_compact_keeps_the_documents_within_the_capacity(rows, ids):
    corpus = device.to_device(table(rows, WORDS))
    batch_size = min(3, len(rows))
    longest = sorted(map(len, rows))[-batch_size:]
    assert device.capacity(corpus, batch_size) == max(1, sum(longest))
    documents = device.select(corpus, jnp.array(ids))
    assert int(documents.lengths.sum()) <= device.capacity(corpus, batch_size)
    copied = compact(documents, 18)
    assert copied.tokens.shape == (18,)
    assert words_of(copied) == words_of(documents)


def test_compact_goes_on_after_a_chunk():
    rng = np.random.default_rng(0)
    corpus = device.to_device(sp.csr_array(rng.poisson(5, (300, 40))))
    documents = device.select(corpus, jnp.asarray(rng.permutation(300)))
    room = device.capacity(corpus, 300)
    assert room > 3 * device.CHUNK
    assert words_of(compact(documents, room)) == words_of(documents)
