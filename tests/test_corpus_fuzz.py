"""Random files: nothing but a `CorpusError` ever leaves a reader, and what it accepts is sound."""

import io
import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simplex_jax.corpus import MAX_COUNT, CorpusError, TextOptions, read

fuzz = settings(
    max_examples=200,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
EVERY_WORD = TextOptions(min_df=1, max_df=1.0)


def saved(counts, layout):
    file = io.BytesIO()
    sp.save_npz(file, getattr(sp, layout)(np.array(counts)))
    return file.getvalue()


NPZ = [saved([[1, 0, 2], [0, 3, 0]], layout) for layout in ("csr_array", "csc_array", "coo_array")]
UCI = [b"2\n3\n3\n1 1 2\n1 3 1\n2 2 5\n", b"2\n3\n1\n2 3 1"]
LINES = ["apple pear\npl\u00fcm\n".encode(), "\ufeffapple\r\n\r\npear".encode()]


@st.composite
def damaged(draw, originals):
    """One of `originals` with some stretches replaced, at most four times."""
    content = bytearray(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        length = draw(st.integers(0, 8))
        content[start : start + length] = draw(st.binary(max_size=8))
    return bytes(content)


number = st.one_of(
    st.integers(-1, 4), st.integers(-(10**20), 10**20), st.sampled_from(["", "x", "1.5", "nan"])
)
table = st.lists(st.lists(number, min_size=1, max_size=4), max_size=8).map(
    lambda rows: "\n".join(" ".join(map(str, row)) for row in rows).encode()
)


def accept_or_refuse(content, name, **arguments):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "vocab.x.txt").write_text("apple\npear\nplum\n")
        path = Path(folder, name)
        path.write_bytes(content)
        try:
            corpus = read(path, **arguments)
        except CorpusError as error:
            message = str(error)
            assert message.isprintable()
            assert message.startswith(folder)
            assert "; " in message
            return
    counts = corpus.counts
    counts.check_format(full_check=True)
    assert counts.dtype == np.int32
    assert counts.has_canonical_format
    assert 1 <= counts.data.min() <= counts.data.max() <= MAX_COUNT
    assert counts.shape == (len(corpus.names), len(corpus.vocabulary))
    assert len(set(corpus.vocabulary)) == len(corpus.vocabulary)


@fuzz
@given(st.one_of(damaged(UCI), table, table.map(lambda rows: b"2\n3\n2\n" + rows)))
def test_uci(content):
    accept_or_refuse(content, "docword.x.txt")


@fuzz
@given(st.one_of(damaged(NPZ), st.binary(max_size=64).map(lambda rest: b"PK\x03\x04" + rest)))
def test_npz(content):
    accept_or_refuse(content, "x.npz", format="npz")


@fuzz
@given(
    st.fixed_dictionaries(
        {
            "format": st.sampled_from([b"csr", b"csc", b"coo"]),
            "shape": st.lists(st.integers(-1, 4), min_size=1, max_size=3),
            **{
                name: st.lists(st.integers(-1, 4) | st.floats(), max_size=4)
                for name in ("data", "indices", "indptr", "row", "col")
            },
        }
    )
)
def test_npz_of_inconsistent_arrays(arrays):
    file = io.BytesIO()
    indices = ("indices", "indptr", "row", "col")
    with np.errstate(invalid="ignore"):
        whole = {name: np.array(arrays[name]).astype(np.int64) for name in indices}
    np.savez(file, **{**arrays, **whole})
    accept_or_refuse(file.getvalue(), "x.npz")


@fuzz
@given(st.one_of(damaged(LINES), st.binary(max_size=64), st.text(max_size=64).map(str.encode)))
def test_lines(content):
    accept_or_refuse(content, "x.txt", format="lines", text=EVERY_WORD)


@fuzz
@given(st.binary(max_size=64))
def test_recognition(content):
    accept_or_refuse(content, "x", text=EVERY_WORD)


def test_the_undamaged_files_are_accepted(tmp_path):
    (tmp_path / "vocab.x.txt").write_text("apple\npear\nplum\n")
    for name, originals in (("docword.x.txt", UCI), ("x.npz", NPZ), ("x.txt", LINES)):
        for content in originals:
            (tmp_path / name).write_bytes(content)
            assert read(tmp_path / name, text=EVERY_WORD).counts.nnz
    with pytest.raises(CorpusError):
        read(tmp_path / "y")
