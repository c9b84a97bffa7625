"""Random files: nothing but a `CorpusError` ever leaves a reader, and what it accepts is sound."""

import io
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simplex_jax._src.corpus import (
    MAX_COUNT,
    CorpusError,
    Reading,
    TextOptions,
    digest,
    from_counts,
    read,
    read_columns,
    resolve,
    store,
)
from simplex_jax._src.corpus.formats import FORMATS

fuzz = settings(
    max_examples=100,
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
BANNER = b"%%MatrixMarket matrix coordinate integer general\n"
MTX = [
    BANNER + b"%\n2 3 3\n1 1 2\n1 3 1\n2 2 5\n",
    BANNER.replace(b"integer", b"real") + b"2 3 2\n1 1 2.0\n2 2 1e1\n",
    BANNER.replace(b"integer", b"pattern") + b"2 3 2\n1 1\n2 2\n",
]
PAIRS = [b"2 0:1 2:5\n0\n1 1:2\n", b"# made\n-1 1:1 3:5.0 # x\n+1 qid:1 2:1e0\n"]
DENSE = [b",apple,pear\r\nd1,1,0\r\nd2,2.0,3\r\n", b"apple;pear\n1;0\n2;1e0\n"]
TABLES = [b'id,text\r\n1,"apple, ""pear"""\n2,plum\n', b"id\ttext\n1\tapple pear\n2\tplum\n"]
TRIPLES = [
    b'"","doc_id","term","n"\r\n"1","a","apple, red",2\r\n"2","b","pear",1e+00\r\n',
    b"document\ttoken\na\tapple\na\tapple\nb\tpear\n",
]
JSONL = [b'{"id": 1, "text": "apple pear"}\n\n{"id": "b", "text": null}\n']
LINES = ["apple pear\npl\u00fcm\n".encode(), "\ufeffapple\r\n\r\npear".encode()]
INSTANCES = [b"a\ten\tapple pear\nb\ten\tplum\n", b"a en apple\n\nb, de, pear plum\n"]
STATES = [
    b"#doc source pos typeindex type topic\n#alpha : 0.1 0.1\n#beta : 0.01\n"
    b"0 a.txt 0 0 apple 1\n0 a.txt 1 2 pear 0\n2 c.txt 0 2 pear 1\n"
]
TENX = {
    "matrix.mtx": BANNER + b"%\n3 2 3\n1 1 2\n3 1 1\n2 2 5\n",
    "features.tsv": b"E0\tapple\tPeaks\nE1\tpear\tPeaks\nE2\tapple\tPeaks\n",
    "barcodes.tsv": b"AAAC-1\nAAAG-1\n",
}
DICTIONARIES = [b"2\n0\tapple\t1\n2\tplum\t2\n1\tpear\t2\n"]


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
        accepted(path, **arguments)


def accepted(path, **arguments):
    """The sound corpus at `path`, or None after an error that is one line."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*(no word has id 0|words?, such as)")
            corpus = read(path, **arguments)
    except CorpusError as error:
        message = str(error)
    else:
        counts = corpus.counts
        counts.check_format(full_check=True)
        assert counts.dtype == np.int32
        assert counts.has_canonical_format
        assert 1 <= counts.data.min() <= counts.data.max() <= MAX_COUNT
        assert counts.shape == (len(corpus.names), len(corpus.vocabulary))
        assert len(set(corpus.vocabulary)) == len(corpus.vocabulary)
        return corpus
    assert message.isprintable()
    assert message.startswith(str(path.parent))
    assert "; " in message
    return None


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
@given(st.one_of(damaged(STATES), st.binary(max_size=64).map(lambda rest: STATES[0][:150] + rest)))
def test_states_of_mallet(content):
    accept_or_refuse(content, "topic-state", format="mallet-state")


@fuzz
@given(st.one_of(damaged(INSTANCES), st.text(max_size=64).map(str.encode)))
def test_instances_of_mallet(content):
    accept_or_refuse(content, "x.txt", format="mallet", text=EVERY_WORD)


@fuzz
@given(st.data())
def test_10x_folders(data):
    part = data.draw(st.sampled_from(list(TENX)))
    with tempfile.TemporaryDirectory() as folder:
        for name, content in TENX.items():
            content = data.draw(damaged([content])) if name == part else content
            Path(folder, name).write_bytes(content)
        accepted(Path(folder))


@fuzz
@given(st.one_of(damaged(DICTIONARIES), table.map(lambda rows: b"2\n" + rows.replace(b" ", b"\t"))))
def test_dictionaries_of_gensim(content):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "x.mm").write_bytes(MTX[0])
        Path(folder, "dictionary.txt").write_bytes(content)
        accepted(Path(folder, "x.mm"))


@fuzz
@given(st.binary(max_size=64))
def test_recognition(content):
    accept_or_refuse(content, "x")


entry = st.tuples(number, number).map(lambda pair: f"{pair[0]}:{pair[1]}")
lines_of_pairs = st.lists(
    st.tuples(number, st.lists(entry, max_size=3)).map(
        lambda line: " ".join([str(line[0]), *line[1]])
    ),
    max_size=6,
).map(lambda lines: "\n".join(lines).encode())


@fuzz
@given(st.one_of(damaged(MTX), table, table.map(lambda rows: BANNER + b"2 3 2\n" + rows)))
def test_matrix_market(content):
    accept_or_refuse(content, "x.mtx", format="mtx")


@pytest.mark.parametrize("format", ["ldac", "svmlight"])
@fuzz
@given(content=st.one_of(damaged(PAIRS), lines_of_pairs))
def test_pairs(format, content):
    accept_or_refuse(content, "x.dat", format=format)


@pytest.mark.parametrize("format", ["csv", "tsv"])
@fuzz
@given(content=st.one_of(damaged(TABLES), st.text('",;\n\ta\r', max_size=32).map(str.encode)))
def test_tables(format, content):
    accept_or_refuse(content, "x", format=format, text=EVERY_WORD)
    accept_or_refuse(content, "x", format=format, text=EVERY_WORD, text_column="1")


@fuzz
@given(
    st.one_of(
        damaged(TRIPLES),
        st.text('",;\n\t1.e\r', max_size=32).map("doc,word,n\n{}".format).map(str.encode),
    )
)
def test_triples(content):
    accept_or_refuse(content, "x", format="triples")


@fuzz
@given(st.one_of(damaged(DENSE), st.text('",;\n\t1.e\r', max_size=32).map(str.encode)))
def test_dense(content):
    accept_or_refuse(content, "x", format="dense")


@fuzz
@given(st.one_of(damaged(JSONL), st.text('{}[]",:\n\\u0ad', max_size=32).map(str.encode)))
def test_jsonl(content):
    accept_or_refuse(content, "x", format="jsonl", text=EVERY_WORD)


@pytest.mark.parametrize(("name", "originals"), [("x.csv", TABLES), ("x.jsonl", JSONL)])
@fuzz
@given(data=st.data())
def test_columns(name, originals, data):
    content = data.draw(st.one_of(damaged(originals), st.binary(max_size=32)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        for column in ("id", "text", ""):
            try:
                result = read_columns(path, [column])
            except CorpusError as error:
                message = str(error)
            else:
                assert len(result.names) == len(result.columns[column])
                continue
            assert message.isprintable()
            assert message.startswith(folder)


# The bytes of HDF5 are not damaged at random: its library is known to loop for ever on some.
@fuzz
@given(
    st.fixed_dictionaries(
        {
            "encoding": st.sampled_from(["csr_matrix", "csc_matrix", "array", ""]),
            "shape": st.lists(st.integers(-1, 4), min_size=1, max_size=3),
            **{
                name: st.lists(st.integers(-1, 4) | st.floats(), max_size=4)
                for name in ("data", "indices", "indptr")
            },
            **{axis: st.lists(st.text(max_size=3), max_size=4) for axis in ("obs", "var")},
        }
    )
)
def test_h5ad(parts):
    accept_or_refuse(anndata_file(**parts), "x.h5ad")


def anndata_file(encoding, shape, data, indices, indptr, obs, var):
    h5py = pytest.importorskip("h5py")
    content = io.BytesIO()
    with h5py.File(content, "w") as file, np.errstate(invalid="ignore"):
        matrix = file.create_group("X")
        matrix.attrs.update({"encoding-type": encoding, "shape": shape})
        matrix["data"] = np.array(data)
        for part, values in (("indices", indices), ("indptr", indptr)):
            matrix[part] = np.array(values).astype(np.int32)
        for axis, labels in (("obs", obs), ("var", var)):
            file.create_group(axis).attrs["_index"] = "name"
            plain = [label.replace("\0", "").encode("utf-8", "replace") for label in labels]
            file[axis].create_dataset("name", data=plain, dtype=h5py.string_dtype())
    return content.getvalue()


@settings(fuzz, max_examples=100)
@given(data=st.data())
def test_stored(data):
    original = from_counts([[1, 0, 2], [0, 3, 0]])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stored")
        store.write(path, original)
        file = data.draw(st.sampled_from(sorted(path.iterdir())))
        content = file.read_bytes()
        changed = data.draw(damaged([content]))
        file.write_bytes(changed)
        corpus = accepted(path, format="store")
        if corpus is not None:
            # Only how the JSON is written may have changed.
            assert digest(corpus) == digest(original)
            assert content == changed or file.name in ("corpus.json", "vocabulary.json")


def test_the_undamaged_files_are_accepted(tmp_path):
    (tmp_path / "vocab.x.txt").write_text("apple\npear\nplum\n")
    originals = {
        "docword.x.txt": UCI,
        "x.npz": NPZ,
        "x.txt": LINES,
        "x.mtx": MTX,
        "x.dat": PAIRS,
        "topic-state": STATES,
        "mallet.txt": INSTANCES[:1],
        "x.csv": TABLES[:1],
        "x.tsv": TABLES[1:],
        "x.jsonl": JSONL,
        "x.h5ad": [
            anndata_file(
                "csr_matrix", [2, 3], [1, 2, 3], [0, 2, 1], [0, 2, 3], ["a", "b"], ["x", "y", "z"]
            )
        ],
    }
    for name, contents in originals.items():
        for content in contents:
            (tmp_path / name).write_bytes(content)
            texts = FORMATS[resolve(tmp_path / name, Reading()).format].texts
            assert read(tmp_path / name, text=EVERY_WORD if texts else None).counts.nnz
    for content in TRIPLES:
        path = tmp_path / ("x.tsv" if b"\t" in content else "x.csv")
        path.write_bytes(content)
        assert resolve(path, Reading()).format == "triples"
        assert read(path).names == ("a", "b")
    for name, content in TENX.items():
        (tmp_path / "10x").mkdir(exist_ok=True)
        (tmp_path / "10x" / name).write_bytes(content)
    assert read(tmp_path / "10x").vocabulary == ("apple", "pear", "apple-1")
    for content in DENSE:
        (tmp_path / "x.csv").write_bytes(content)
        assert read(tmp_path / "x.csv", "dense").vocabulary == ("apple", "pear")
    with pytest.raises(CorpusError):
        read(tmp_path / "y")
