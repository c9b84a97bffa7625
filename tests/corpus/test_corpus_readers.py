"""Each reader on small files that it must read exactly, and on real data."""

import gzip
import tarfile
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax._src.corpus import CorpusError, TextOptions, read

COUNTS = np.array([[2, 0, 1], [0, 0, 0], [0, 5, 1]])
WORDS = ("apple", "pear", "plum")
EVERY_WORD = TextOptions(min_df=1, max_df=1.0)
DOCWORD = b"3\n3\n4\n1 1 2\n1 3 1\n3 2 5\n3 3 1\n"
VOCAB = b"apple\npear\nplum\n"


def write_uci(folder, docword=DOCWORD, name="docword.fruit.txt", vocab="vocab.fruit.txt"):
    (folder / vocab).write_bytes(gzip.compress(VOCAB) if vocab.endswith(".gz") else VOCAB)
    path = folder / name
    path.write_bytes(gzip.compress(docword) if name.endswith(".gz") else docword)
    return path


@pytest.mark.parametrize(
    ("name", "vocab"),
    [
        ("docword.fruit.txt", "vocab.fruit.txt"),
        ("docword.fruit.txt.gz", "vocab.fruit.txt"),
        ("docword.fruit.train.txt.gz", "vocab.fruit.txt.gz"),
        ("docword.fruit.train.txt", "vocab.txt"),
        ("docword.Fruit.txt", "vocab.Fruit.txt"),
        ("docword.Fruit.TXT", "vocab.fruit.txt"),
        ("docword.txt", "vocab.txt"),
        ("bag", "vocab.txt"),
    ],
)
def test_uci_finds_its_vocabulary(tmp_path, name, vocab):
    corpus = read(write_uci(tmp_path, name=name, vocab=vocab))
    np.testing.assert_array_equal(corpus.counts.toarray(), COUNTS)
    assert corpus.vocabulary == WORDS
    assert corpus.names == ("1", "2", "3")


@pytest.mark.parametrize(
    "docword",
    [
        DOCWORD.replace(b"\n", b"\r\n"),
        DOCWORD.replace(b" ", b"\t"),
        DOCWORD.replace(b"1 3 1", b"  1   3 1  "),
        DOCWORD[:-1],
        DOCWORD + b"\n\n",
        b"3\n3\n4\n3 3 1\n1 1 2\n3 2 5\n1 3 1\n",
        b"3\n3\n6\n1 1 1\n3 3 1\n1 1 1\n1 3 1\n3 2 5\n2 2 0\n",
        b"3\n3\n4\n001 1 2\n1 3 1\n3 2 5\n3 3 1\n",
    ],
    ids=["crlf", "tabs", "blanks", "no last newline", "blank end", "unsorted", "doubled", "zeros"],
)
def test_uci_variants_mean_the_same(tmp_path, docword):
    corpus = read(write_uci(tmp_path, docword))
    np.testing.assert_array_equal(corpus.counts.toarray(), COUNTS)


def test_uci_takes_a_vocabulary_from_elsewhere(tmp_path):
    path = write_uci(tmp_path)
    other = tmp_path / "words"
    other.write_text("ein\nzwei\ndrei")
    assert read(path, vocabulary=other).vocabulary == ("ein", "zwei", "drei")


def test_uci_across_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("simplex_jax._src.corpus.files.BLOCK", 16)
    rng = np.random.default_rng(0)
    counts = rng.poisson(1.0, (40, 3))
    rows, columns = np.nonzero(counts)
    lines = [f"{i + 1} {j + 1} {counts[i, j]}" for i, j in zip(rows, columns, strict=True)]
    docword = "\n".join(["40", "3", str(len(lines)), *lines])
    corpus = read(write_uci(tmp_path, docword.encode()))
    np.testing.assert_array_equal(corpus.counts.toarray(), counts)
    lines[30] = "1 4 1"
    docword = "\n".join(["40", "3", str(len(lines)), *lines])
    with pytest.raises(CorpusError, match=r"docword.fruit.txt:34: word id 4"):
        read(write_uci(tmp_path, docword.encode()))


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.uint8, bool])
@pytest.mark.parametrize("compressed", [True, False])
def test_npz(tmp_path, layout, kind, dtype, compressed):
    expected = (COUNTS > 0) if dtype is bool else COUNTS
    path = tmp_path / "counts.npz"
    counts = getattr(sp, f"{layout}_{kind}")(COUNTS.astype(dtype))
    sp.save_npz(path, counts, compressed=compressed)
    corpus = read(path)
    np.testing.assert_array_equal(corpus.counts.toarray(), expected)
    assert corpus.vocabulary == ("w0", "w1", "w2")
    words = tmp_path / "words.txt"
    words.write_bytes(VOCAB)
    assert read(path, vocabulary=words).vocabulary == WORDS


def test_npz_of_another_byte_order(tmp_path):
    path = tmp_path / "counts.npz"
    csr = sp.csr_array(COUNTS)
    arrays = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr}
    swapped = {name: array.astype(">i4") for name, array in arrays.items()}
    np.savez(path, format="csr", shape=np.array(COUNTS.shape, ">u2"), **swapped)
    np.testing.assert_array_equal(read(path).counts.toarray(), COUNTS)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_lines(tmp_path, pack):
    path = tmp_path / "documents.txt"
    path.write_bytes(pack("\ufeffApple pear\r\n\nplum\u2028plum\x0bäpfel".encode()))
    corpus = read(path, text=EVERY_WORD)
    assert corpus.names == ("1", "2", "3")
    assert corpus.vocabulary == ("apple", "pear", "plum", "äpfel")
    assert corpus.counts.toarray().tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 2, 1]]


def test_lines_in_latin_1_with_a_vocabulary(tmp_path):
    path = tmp_path / "documents.txt"
    path.write_bytes("Äpfel und Birnen\nBirnen".encode("latin-1"))
    words = tmp_path / "words.txt"
    words.write_text("birnen\näpfel\n", "utf-8")
    corpus = read(path, vocabulary=words, encoding="latin-1")
    assert corpus.vocabulary == ("birnen", "äpfel")
    assert corpus.counts.toarray().tolist() == [[1, 1], [1, 0]]


def test_folder(tmp_path):
    root = tmp_path / "texts"
    files = {
        "b.txt": b"pear",
        "a/z.txt": gzip.compress(b"plum"),
        "a/empty": b"",
        "c": b"plum\npear",
    }
    for name, content in {**files, ".hidden": b"\0", ".git/config": b"apple"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    corpus = read(root, text=EVERY_WORD)
    assert corpus.names == ("a/empty", "a/z.txt", "b.txt", "c")
    assert corpus.vocabulary == ("pear", "plum")
    assert corpus.counts.toarray().tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "table"), [("a.csv", "text\napple\npear\n"), ("a.JSON", '{"text": "apple"}')]
)
def test_tables_in_a_folder_are_not_texts(tmp_path, name, table, packed):
    """Each would be one document, with all its lines or the names of its fields."""
    place = tmp_path / ("x.zip" if packed else "x")
    if packed:
        with zipfile.ZipFile(place, "w") as archive:
            archive.writestr(name, table)
            archive.writestr(f"b{name}", table)
    else:
        place.mkdir()
        (place / name).write_text(table)
    with pytest.raises(CorpusError, match=rf"{name}: a table or JSON .* --format"):
        read(place, text=EVERY_WORD)
    assert read(place, "folder", text=EVERY_WORD).names[0] == name


def test_folder_in_utf_16(tmp_path):
    (tmp_path / "a.txt").write_text("äpfel", "utf-16")
    assert read(tmp_path, text=EVERY_WORD, encoding="utf-16").vocabulary == ("äpfel",)


def test_format_can_be_named(tmp_path):
    path = tmp_path / "documents"
    path.write_text("1\n2\n3\napples and pears\n")
    with pytest.raises(CorpusError, match="no vocabulary"):
        read(path)
    assert read(path, format="lines", text=EVERY_WORD).counts.shape == (4, 2)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_utf_8_sig_is_utf_8(tmp_path, mark):
    (tmp_path / "x.csv").write_text(mark + "id,text\nä,Äpfel\n", encoding="utf-8")
    corpus = read(tmp_path / "x.csv", text=EVERY_WORD, encoding="utf-8-sig")
    assert (corpus.names, corpus.vocabulary) == (("ä",), ("äpfel",))
    (tmp_path / "x.csv").write_bytes(b"id,text\n1,a\0b\n")
    with pytest.raises(CorpusError, match=r"x.csv:2: a NUL byte"):
        read(tmp_path / "x.csv", encoding="UTF_8_sig")


def test_unknown_format_and_encoding_are_bad_arguments(tmp_path):
    for arguments in (
        {"format": "doc"},
        {"encoding": "utf-9"},
        {"encoding": "hex"},
        {"encoding": "a\0"},
    ):
        with pytest.raises(ValueError, match=next(iter(arguments))) as caught:
            read(tmp_path, **arguments)
        assert not isinstance(caught.value, CorpusError)


@pytest.mark.slow
def test_wikipedia(shared_data):
    folder = shared_data / "wikipedia"
    corpus = read(folder / "docword.wikipedia.test.txt.gz")
    assert corpus.counts.shape == (1000, 7702)
    assert corpus.vocabulary[:2] == ("writings", "yellow")
    assert 138_000 < corpus.counts.sum() < 140_000
    train = read(folder / "docword.wikipedia.train.txt.gz")
    assert train.counts.shape == (141_879, 7702)
    assert train.counts.nnz == 11_916_160
    assert train.counts[0, 319] == 3


def test_speeches(shared_data):
    corpus = read(shared_data / "sotu" / "documents.txt")
    assert corpus.counts.shape[0] == 9743
    assert {"congress", "treaty"} <= set(corpus.vocabulary)


def test_papers_that_are_not_utf_8(shared_data, tmp_path):
    with tarfile.open(shared_data / "nips0-12.tar.xz") as archive:
        for member in archive:
            if member.isfile():
                archive.extract(member, tmp_path, filter="data")
            if len(list(tmp_path.rglob("*.txt"))) == 200:
                break
    with pytest.raises(CorpusError, match=r"\.txt:\d+: byte \d+ .* utf-8; .*latin-1"):
        read(tmp_path)
    corpus = read(tmp_path, encoding="latin-1")
    assert corpus.counts.shape[0] == 200
    assert "neural" not in corpus.vocabulary  # in more than half of the papers
    assert {"gaussian", "hebbian"} <= set(corpus.vocabulary)
