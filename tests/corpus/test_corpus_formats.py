"""Readers of matrices, pairs, tables and objects on small files that they must read exactly."""

import csv
import gzip
import importlib
import io
import json
import sys

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from simplex_jax._src.corpus import (
    CorpusError,
    Reading,
    TextOptions,
    convert,
    read,
    read_texts,
    resolve,
)

COUNTS = np.array([[2, 0, 1], [0, 0, 0], [0, 5, 1]])
WORDS = ("apple", "pear", "plum")
NAMES = ("one", "two", "three")
EVERY_WORD = TextOptions(min_df=1, max_df=1.0)


@pytest.fixture
def place(tmp_path):
    """A folder, with `words` and `names` in it."""
    (tmp_path / "words").write_text("\n".join(WORDS))
    (tmp_path / "names").write_text("\n".join(NAMES) + "\n\n")
    return tmp_path


def saved(place, name, content):
    content = content if isinstance(content, bytes) else content.encode()
    (place / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return place / name


def check(corpus, words=("w0", "w1", "w2"), names=("1", "2", "3")):
    np.testing.assert_array_equal(corpus.counts.toarray(), COUNTS)
    assert corpus.counts.has_canonical_format
    assert corpus.vocabulary == words
    assert corpus.names == names


def market(table, **options):
    file = io.BytesIO()
    scipy.io.mmwrite(file, table, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        market(sp.coo_array(COUNTS)),
        market(sp.coo_array(COUNTS.astype(float)), comment="counts\nof fruit"),
        market(sp.coo_array(COUNTS * 10.0)).replace(b"0E1\n", b"E1\n").replace(b"E1", b""),
        b"%%MatrixMarket MATRIX Coordinate Real General\n%\n\n 3 3  4 \n"
        b"1 1 2.000e+00\r\n3\t2 5.\n1 3 10e-1\n 3 3 1\n\n",
        b"%%MatrixMarket matrix coordinate unsigned-integer general\n3 3 6\n"
        b"3 3 1\n1 1 1\n3 2 5\n1 3 1\n1 1 1\n2 2 0",
        b"%%MatrixMarket matrix coordinate pattern general\n3 3 9\n"
        + b"1 1\n1 1\n1 3\n"
        + b"3 2\n" * 5
        + b"3 3\n",
    ],
    ids=["scipy", "scipy real", "scipy short", "loose", "unsorted, doubled, zero", "pattern"],
)
@pytest.mark.parametrize("name", ["counts.mtx", "counts.mtx.gz", "anything"])
def test_matrix_market(place, content, name):
    path = saved(place, name, content)
    check(read(path))
    files = {"vocabulary": place / "words", "names": place / "names"}
    check(read(path, **files), WORDS, NAMES)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("counts.mtx", market(sp.coo_array(COUNTS))),
        ("counts", market(sp.coo_array(COUNTS))),
        ("docword.x.txt", b"3\n3\n4\n1 1 2\n1 3 1\n3 2 5\n3 3 1\n"),
        ("docword.x.txt.gz", b"3\r\n3\r\n4\r\n1 1 2\r\n1 3 1\r\n3 2 5\r\n3 3 1\r\n"),
        ("counts.ldac", b"2 0:2 2:1\n0\n2 1:5 2:1\n"),
        ("counts.svm", b"0 1:2 3:1\n0\n0 2:5 3:1\n"),
    ],
)
def test_a_mark_of_utf_8_before_counts_is_skipped(place, name, content):
    path = saved(place, name, b"\xef\xbb\xbf" + content)
    form = {".ldac": "ldac", ".svm": "svmlight"}.get(path.suffix)
    check(read(path, form, vocabulary=place / "words"), WORDS)


@pytest.mark.parametrize("layout", ["mtx", "npz", "h5ad"])
def test_a_transposed_matrix_is_told_and_turned(place, layout):
    tall = np.vstack([COUNTS, COUNTS, [[0, 0, 7]]])  # 7 documents
    (place / "names").write_text("\n".join("abcdefg"))
    path = place / f"counts.{layout}"
    if layout == "mtx":
        path.write_bytes(market(sp.coo_array(tall.T)))
    elif layout == "npz":
        sp.save_npz(path, sp.csr_array(tall.T))
    else:
        write_h5ad(path, tall.T, "csc", obs=[f"w{i}" for i in range(3)], var=list("0123456"))
    for file in ({"vocabulary": place / "words"}, {"names": place / "names"}):
        with pytest.raises(CorpusError, match="give --transpose"):
            read(path, **file)
        np.testing.assert_array_equal(read(path, **file, transpose=True).counts.toarray(), tall)
    corpus = read(path, vocabulary=place / "words", names=place / "names", transpose=True)
    assert corpus.vocabulary == WORDS
    assert corpus.names == tuple("abcdefg")
    if layout != "h5ad":
        other = place / f"tall.{layout}"
        other.write_bytes(market(sp.coo_array(tall)))
        with pytest.raises(CorpusError, match=r"leave --transpose"):
            read(other, "mtx", place / "words", transpose=True)


def test_documents_with_names_may_be_many_and_empty(place, monkeypatch):
    """The limit is for a number that a file only declares."""
    monkeypatch.setattr("simplex_jax._src.corpus.formats.matrices.MAX_UNUSED", 0)
    sp.save_npz(place / "x.npz", sp.csr_array([[1], [0], [0]]))
    with pytest.raises(CorpusError, match="3 documents, 1 entries"):
        read(place / "x.npz")
    assert read(place / "x.npz", names=place / "names").names == NAMES


@pytest.mark.parametrize(
    "content",
    [
        "2 0:2 2:1\n0\n2 1:5 2:1\n",
        "2 0:2 2:1\r\n0 \r\n2 1:5 2:1",
        "2  0:2\t2:1 \n0\n3 2:1 1:2 1:3\n\n \n",
        "3 0:2 1:0 2:1\n0\n2 1:5 2:1\n",
    ],
    ids=["plain", "crlf", "loose", "zero"],
)
@pytest.mark.parametrize(
    ("name", "vocab"),
    [
        *(("fruit.dat", "vocab.txt"), ("fruit.dat.gz", "fruit.vocab"), ("x", None)),
        *(("Fruit.dat", "Fruit.vocab"), ("Fruit.dat.GZ", "fruit.vocab")),
    ],
)
def test_ldac(place, content, name, vocab):
    if vocab:
        saved(place, vocab, "\n".join(WORDS))
    path = saved(place, name, content)
    check(read(path), WORDS if vocab else ("w0", "w1", "w2"))
    check(read(path, "ldac", place / "words", names=place / "names"), WORDS, NAMES)


def test_ldac_across_blocks(place, monkeypatch):
    monkeypatch.setattr("simplex_jax._src.corpus.files.BLOCK", 16)
    counts = np.random.default_rng(0).poisson(1.0, (40, 30))
    lines = [" ".join([str((row > 0).sum()), *(f"{i}:{n}" for i, n in enumerate(row) if n)])
             for row in counts]  # fmt: skip
    path = saved(place, "x.dat", "\n".join(lines))
    np.testing.assert_array_equal(read(path).counts.toarray(), counts)
    lines[30] = "1 30:1"
    saved(place, "vocab.txt", "\n".join(f"word{i}" for i in range(30)))
    with pytest.raises(CorpusError, match=r"x.dat:31: word id 30 is not in 0..29"):
        read(saved(place, "x.dat", "\n".join(lines)))


@pytest.mark.parametrize(
    "content",
    [
        "1 1:2 3:1\n0\n-1 2:5 3:1\n",
        "# made by hand\n\n+1 qid:3 3:1 1:2 # first\n0 # none\n0.5 2:5.0 3:1e0\n",
        "1.0 1:2.0 3:1.0 \r\n2,3\n1 2:2 2:3 3:1.000\n",
    ],
    ids=["plain", "comments", "real"],
)
def test_svmlight(place, content):
    path = saved(place, "x.svm.gz", content)
    check(read(path))
    check(read(path, vocabulary=place / "words", names=place / "names"), WORDS, NAMES)


def test_svmlight_from_0_as_scikit_learn_writes_it(place):
    dump_svmlight_file(COUNTS, [1, 0, 1], str(place / "x"))
    check(read(place / "x", "svmlight", first_index=0))
    with pytest.raises(CorpusError, match=r"x:1: invalid index 0 .* give --first-index 0"):
        read(place / "x", "svmlight")


@pytest.mark.parametrize(
    ("header", "records"),
    [
        (",apple,pear,plum", ["d1,2,0,1", "d2,0,0,0", "d3,0,5,1"]),
        ('"";"apple";"pear";"plum"', ['"d1";2;0;1', '"d2";0;0;0', '"d3";0;5;1']),
        ("Doc_ID, apple,pear ,plum", ["d1, 2,0,1.0", "d2,0,0,0", "", "d3,0,5e0,1."]),
    ],
    ids=["pandas", "R", "loose"],
)
def test_dense(place, header, records):
    path = saved(place, "x.csv.gz", "\n".join([header, *records]))
    check(read(path, "dense"), WORDS, ("d1", "d2", "d3"))
    check(read(path, "dense", names=place / "names"), WORDS, NAMES)
    with pytest.raises(CorpusError, match=r"x.csv.gz:1: .* or --format .* dense"):
        read(path)


def test_dense_names_transposed_and_tabs(place):
    path = saved(place, "x.tsv", "apple\tid\tpear\tplum\n2\t1\t0\t1\n0\t2\t0\t0\n0\t3\t5\t1\n")
    check(read(path, "dense", id_column="id"), WORDS, ("1", "2", "3"))
    words = read(path, "dense").vocabulary
    assert words == ("apple", "id", "pear", "plum"), "a word may be called id"
    path = saved(place, "y.csv", ",a,b,c\napple,2,0,0\npear,0,0,5\nplum,1,0,1\n")
    check(read(path, "dense", transpose=True), WORDS, ("a", "b", "c"))


TEXTS = ["apple apple plum", "", 'pear, pear\npear "pear" pear; plum']


@pytest.mark.parametrize("header", ["id,Text,year", "year;text;id"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv(place, header, end):
    separator = ";" if ";" in header else ","
    fields = header.lower().split(separator)
    rows = [
        separator.join(
            {"id": name, "text": '"' + text.replace('"', '""') + '"', "year": "1990"}[field]
            for field in fields
        )
        for name, text in zip(NAMES, TEXTS, strict=True)
    ]
    path = saved(place, "x.csv.gz", end.join([header, *rows, ""]))
    check(read(path, text=EVERY_WORD), WORDS, NAMES)
    check(read(path, text=EVERY_WORD, id_column="year"), WORDS, ("1990",) * 3)


def test_csv_of_long_documents_leaves_the_limit_of_the_process_alone(place):
    path = saved(place, "x.csv", "body\n" + "pear " * 50_000)
    assert read(path, text=EVERY_WORD).counts.sum() == 50_000
    with pytest.raises(CorpusError):
        read(saved(place, "x.csv", 'body\n"pear'), text=EVERY_WORD)
    begun = [read_texts(saved(place, f"{name}.csv", "text\na\nb\n")) for name in "yz"]
    for texts in begun:  # and neither comes to an end
        assert next(texts)[1] == "a"
    begun.clear()
    assert csv.field_size_limit() == 131_072


def test_tsv(place):
    texts = [text.replace("\n", " ") for text in TEXTS]
    texts[2] = '"' + texts[2]  # means nothing
    lines = [f"{name}\t1990\t{text}" for name, text in zip(NAMES, texts, strict=True)]
    named = saved(place, "x.tsv", "\n".join(["key\tyear\tabstract", *lines]))
    check(read(named, text=EVERY_WORD), WORDS, NAMES)
    bare = saved(place, "x.txt", "\n".join(lines) + "\n")
    columns = {"text_column": "3", "id_column": "1"}
    check(read(bare, "tsv", text=EVERY_WORD, **columns), WORDS, NAMES)
    check(read(bare, "tsv", text=EVERY_WORD, text_column="3"), WORDS)


@pytest.mark.parametrize("header", ["0,1,2", ",0,1,2"])
def test_numbers_may_be_the_names_of_columns(place, header):
    """As pandas names them: the second column was read, and the names were a document."""
    index = "7," if header.startswith(",") else ""
    path = saved(place, "x.csv", f"{header}\n{index}one,pear,apple\n")
    corpus = read(path, text=EVERY_WORD, text_column="2")
    assert (corpus.vocabulary, corpus.names) == (("apple",), ("1",))
    rated = saved(place, "y.csv", "2,apple\n1,pear\n")
    assert read(rated, text=EVERY_WORD, text_column="2").names == ("1", "2"), "no names"


def test_a_line_of_column_names_is_not_taken_for_a_document_unsaid(place):
    path = saved(place, "x.csv", "id,Text\na,apple\n")
    with pytest.warns(UserWarning, match=r"x\.csv:1: .*'Text' .*text_column"):
        assert len(read(path, text=EVERY_WORD, text_column="2").names) == 2


@pytest.mark.parametrize("name", ["x.jsonl", "x.ndjson.gz", "x"])
def test_jsonl(place, name):
    texts = [TEXTS[0], None, TEXTS[2]]
    lines = [
        json.dumps({"title": title, "body": text, "deep": [{}]})
        for title, text in zip(NAMES, texts, strict=True)
    ]
    path = saved(place, name, "\n".join(lines[:2]) + "\n\n" + lines[2])
    check(read(path, text=EVERY_WORD), WORDS, NAMES)
    numbers = [json.dumps({"n": i, "x": text}) for i, text in enumerate(texts)]
    path = saved(place, name, "\n".join(numbers))
    check(read(path, "jsonl", text=EVERY_WORD, text_column="x"), WORDS)
    named = read(path, "jsonl", text=EVERY_WORD, text_column="x", id_column="n")
    check(named, WORDS, ("0", "1", "2"))


def test_jsonl_with_half_a_character(place):
    line = '{"id": "\\ud800", "text": "apple\\ud800pear"}'
    corpus = read(saved(place, "x.jsonl", line), text=EVERY_WORD)
    assert corpus.vocabulary == WORDS[:2]
    assert corpus.names == (r"\ud800",)


@pytest.mark.parametrize(
    "start", ["", "\n", "\n  \n", "sep=;\n", "SEP=;\r\n\n", "\ufeffsep=;\n", "\ufeff\n"]
)
def test_csv_has_the_separator_of_its_first_line_that_is_not_blank(place, start):
    path = saved(place, "x.csv", f"{start}id;text\n1;apple, pear\n2;plum;\n")
    line = start.count("\n") + 3
    with pytest.raises(CorpusError, match=rf"x.csv:{line}: 3 fields instead of 2; quote fields"):
        read(path, text=EVERY_WORD)
    path.write_text(path.read_text().replace("plum;", "plum"))
    assert read(path, text=EVERY_WORD).vocabulary == ("apple", "pear", "plum")


def test_separators_in_quotes_do_not_count(place):
    header = '"ID";"Wie, wann, ""wo, warum""?";"text"'
    path = saved(place, "x.csv", f'{header}\n"a";"so";"apple"\n')
    assert read(path, text=EVERY_WORD).vocabulary == ("apple",)


def test_csv_may_have_vertical_bars(place):
    path = saved(place, "x.csv", "id|text\n1|apple, pear; plum\n")
    assert read(path, text=EVERY_WORD).vocabulary == ("apple", "pear", "plum")


def test_long_names_of_columns_are_cut(place):
    path = saved(place, "x.csv", f"1,{'apple ' * 100}\n2,pear\n")
    with pytest.raises(CorpusError, match=r"among 1, (apple ){9}app\.\.\.; give --text-column"):
        read(path, text=EVERY_WORD)


def test_tokens_in_json_are_told_how_to_be_read(place):
    path = saved(place, "x.jsonl", json.dumps({"text": ["apple"] * 100}))
    with pytest.raises(
        CorpusError, match=r'"apple", .{1,9}\.\.\.; give a string, .*--tokens blanks'
    ):
        read(path, text=EVERY_WORD)


def test_csv_may_say_its_separator(place):
    content = "sep=|\nid|text;a,b\n1|apple\n"
    path = saved(place, "x.csv", content)
    assert read(path, text=EVERY_WORD, text_column="text;a,b").names == ("1",)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.csv", "\nid\ttext\n1\tapple\n", r"x.csv:2: .*'id\\ttext'; .*tabs.* --format tsv"),
        ("x.tsv", "id\ttext\n1\ta\tb\n", r"x.tsv:2: 3 fields .* CSV"),
        ("x.tsv", 'id\ttext\n1\t"a\nb"\n', r"x.tsv:3: 1 fields .* CSV"),
        ("x.tsv", "id\ttext\n1\ta\rb\n", "x.tsv:2: a carriage return .*convert"),
        ("x.csv", "id,text\r1,a\r2,b\n", "x.csv:1: a carriage return .*convert"),
        ("x.tsv", '"id"\t"text"\n"1"\t"apple"\n', "x.tsv:1: .* in quotes, .* or write CSV"),
        ("x.csv", "\n\n", "x.csv: no record"),
    ],
)
def test_remedies_of_tables_are_those_of_the_format(place, name, content, says):
    with pytest.raises(CorpusError, match=says):
        read(saved(place, name, content), text=EVERY_WORD)


def test_tables_may_have_odd_names_that_are_asked_for(place):
    path = saved(place, "x.csv", "id\ttext\napple\tpear\n")
    assert read(path, text=EVERY_WORD, text_column="id\ttext").vocabulary == WORDS[:2]
    assert read(path, text=EVERY_WORD, text_column="1").names == ("1", "2")
    path = saved(place, "x.tsv", '"text"\napple\n')
    assert read(path, text=EVERY_WORD, text_column='"text"').vocabulary == WORDS[:1]


def write_h5ad(path, table, layout, obs=NAMES, var=WORDS, name="X"):
    """A file as anndata writes it."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "a") as file:
        if layout == "dense":
            file[name] = table
        else:
            group = file.create_group(name)
            group.attrs["encoding-type"] = f"{layout}_matrix"
            group.attrs["shape"] = table.shape
            sparse = getattr(sp, f"{layout}_array")(table)
            for part in ("data", "indices", "indptr"):
                group.create_dataset(part, data=getattr(sparse, part), compression="gzip")
        for axis, labels in (("obs", obs), ("var", var)):
            group = file.require_group(axis)
            group.attrs["_index"] = "name"
            if "name" not in group:
                group.create_dataset("name", data=list(labels), dtype=h5py.string_dtype())


@pytest.mark.parametrize("layout", ["csr", "csc", "dense"])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_h5ad(place, layout, dtype):
    path = place / "cells.h5ad"
    write_h5ad(path, COUNTS.astype(dtype), layout)
    check(read(path), WORDS, NAMES)
    write_h5ad(path, COUNTS * 2, layout, name="layers/twice")
    np.testing.assert_array_equal(read(path, layer="twice").counts.toarray(), 2 * COUNTS)
    with pytest.raises(CorpusError, match=r"no layer 'raw'; .*: X, twice"):
        read(path, layer="raw")


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("layout", ["csr", "csc", "dense"])
def test_h5ad_is_stored_in_pieces(place, layout, transpose, monkeypatch):
    """The same corpus as if read at once; in pieces where those of a document are together."""
    hdf5 = importlib.import_module("simplex_jax._src.corpus.formats.hdf5")
    monkeypatch.setattr(hdf5, "_ENTRIES", 2)
    pieces = []
    assembled = hdf5.assembled
    monkeypatch.setattr(
        hdf5, "assembled", lambda *parts: pieces.append(parts[1][0]) or assembled(*parts)
    )
    labels = {"obs": WORDS, "var": NAMES} if transpose else {"obs": NAMES, "var": WORDS}
    write_h5ad(place / "x.h5ad", COUNTS.T if transpose else COUNTS, layout, **labels)
    stored = convert(place / "x.h5ad", place / "store", transpose=transpose)
    whole = read(place / "x.h5ad", transpose=transpose)
    assert (stored.names, stored.vocabulary) == (whole.names, whole.vocabulary)
    np.testing.assert_array_equal(stored.rows().toarray(), whole.counts.toarray())
    if layout == ("csc" if transpose else "csr"):
        assert pieces[:2] == [2, 1]


def test_h5ad_in_pieces_whose_ends_are_of_a_small_type(place, monkeypatch):
    h5py = pytest.importorskip("h5py")
    hdf5 = importlib.import_module("simplex_jax._src.corpus.formats.hdf5")
    monkeypatch.setattr(hdf5, "_ENTRIES", 50)
    table = np.ones((12, 10), np.int32)
    write_h5ad(place / "x.h5ad", table, "csr", [f"d{i}" for i in range(12)], list("abcdefghij"))
    with h5py.File(place / "x.h5ad", "a") as file:
        ends = file["X/indptr"][()].astype(np.int8)
        del file["X/indptr"]
        file["X/indptr"] = ends
    stored = convert(place / "x.h5ad", place / "store")
    np.testing.assert_array_equal(stored.rows().toarray(), table)


def test_h5ad_in_pieces_names_what_is_wrong(place):
    write_h5ad(place / "x.h5ad", np.log1p(COUNTS), "csr")
    with pytest.raises(CorpusError, match=r"x.h5ad: X .*--layer .*none"):
        convert(place / "x.h5ad", place / "store")
    assert not (place / "store").exists()
    (place / "store").mkdir()
    (place / "store" / "mine").touch()
    write_h5ad(place / "y.h5ad", COUNTS, "csr")
    with pytest.raises(FileExistsError, match="already there"):
        convert(place / "y.h5ad", place / "store")


def test_h5ad_in_pieces_names_the_file_and_the_row_in_it(place, monkeypatch):
    monkeypatch.setattr("simplex_jax._src.corpus.formats.hdf5._ENTRIES", 2)
    write_h5ad(place / "x.h5ad", COUNTS * [[1], [1], [-1]], "csr")
    with pytest.raises(CorpusError, match=r"x\.h5ad: row 2, column 1 .* is -5"):
        convert(place / "x.h5ad", place / "store")
    write_h5ad(place / "y.h5ad", COUNTS, "csr", var=["apple", "pear", "apple"])
    with pytest.raises(CorpusError, match=r"y\.h5ad: .* repeats word 0, 'apple'"):
        convert(place / "y.h5ad", place / "store")
    write_h5ad(place / "z.h5ad", 0 * COUNTS, "dense")
    with pytest.raises(CorpusError, match=r"z\.h5ad: .*is empty"):
        convert(place / "z.h5ad", place / "store")


def test_h5ad_of_normalised_values_says_which_layers_there_are(place):
    write_h5ad(place / "x.h5ad", np.log1p(COUNTS), "csr")
    write_h5ad(place / "x.h5ad", COUNTS, "csr", name="layers/counts")
    with pytest.raises(CorpusError, match=r"x.h5ad: X .*--layer .*: counts$"):
        read(place / "x.h5ad")


def test_h5ad_without_h5py_says_what_to_install(place, monkeypatch):
    path = saved(place, "x.h5ad", b"\x89HDF\r\n\x1a\n")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(CorpusError, match=r"x.h5ad: .* needs h5py; pip install .*\[h5ad\]"):
        read(path)


@pytest.mark.parametrize(
    "options",
    [
        *({"min_df": 2}, {"max_df": 1.0}, {"max_vocabulary": None}, {"stop_words": "none"}),
        *({"lowercase": False}, {"token_pattern": "x"}, {"ngrams": (1, 2)}),
    ],
)
def test_counts_have_no_options_of_texts(place, options):
    sp.save_npz(place / "x.npz", sp.csr_array(COUNTS))
    (option,) = options
    formats = "folder, csv, tsv, jsonl, mallet, lines"
    says = f"^{option}=.* npz; .* {formats}"
    with pytest.raises(ValueError, match=says):
        read(place / "x.npz", text=TextOptions(**options))
    with pytest.raises(ValueError, match=says):
        convert(place / "x.npz", place / "store", text=TextOptions(**options))
    stored = convert(place / "x.npz", place / "store", text=TextOptions())
    with pytest.raises(ValueError, match=f"^{option}=.* store; "):
        read(place / "store", text=TextOptions(**options))
    np.testing.assert_array_equal(read(place / "store").counts.toarray(), np.array(COUNTS))
    assert stored.documents == len(COUNTS)


@pytest.mark.parametrize(
    ("name", "content", "option", "value"),
    [
        ("x.txt", "apple", "transpose", True),
        ("x.csv", "text\napple", "layer", "X"),
        ("x.dat", "1 0:1\n", "text_column", "text"),
        ("x.jsonl", '{"text": "apple"}', "first_index", 0),
    ],
)
def test_an_option_that_the_format_does_not_support(place, name, content, option, value):
    path = saved(place, name, content)
    with pytest.raises(ValueError, match=f"^{option}=.*: ") as caught:
        read(path, **{option: value})
    assert not isinstance(caught.value, CorpusError)
    with pytest.raises(TypeError, match=r"read\(\) got an unexpected .* 'colour'"):
        read(path, colour=1)


@pytest.mark.parametrize(
    ("content", "format"),
    [
        ("2 0:1 5:2\n1 3:1\n", "ldac"),
        ("0\n0\n1 3:1\n", "ldac"),
        ("9000 " + " ".join(f"{i}:1" for i in range(9000)) + "\n", "ldac"),
        ("1 3:1 5:2\n1 3:1\n", "svmlight"),
        ("-1 " + " ".join(f"{i}:1" for i in range(9000)) + "\n", "svmlight"),
        ("# text\n1 3:1.5\n", "svmlight"),
        ("At 10:30 we met\n", "lines"),
        ("12 apples: 3\n", "lines"),
        ("\n", "lines"),
        ("2\n3\n1\n1 1 1\n", "uci"),
        ('{"text": "a"}\n', "jsonl"),
        ("{a set}\n", "lines"),
        ("PKU is inherited\n", "lines"),
        ("%%MatrixMarket matrix\n", "mtx"),
    ],
)
def test_recognition(tmp_path, content, format):
    assert resolve(saved(tmp_path, "x", content), Reading()).format == format


def test_associated_press(shared_data):
    corpus = read(shared_data / "ap" / "ap.dat")
    assert corpus.counts.shape == (2246, 10473)
    assert corpus.counts.sum() == 435_838
    assert corpus.vocabulary[:2] == ("i", "new")


def test_speeches_in_columns(shared_data):
    path = shared_data / "sotu" / "documents.txt"
    corpus = read(path, "tsv", text_column="3", id_column="1")
    assert corpus.counts.shape[0] == 9743
    assert {"congress", "treaty"} <= set(corpus.vocabulary)
