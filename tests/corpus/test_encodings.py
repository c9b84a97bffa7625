"""Texts in any encoding, with any line ends, and partly in another encoding."""

import gzip
import io
import zipfile

import pytest

from simplex_jax._src.corpus import (
    CorpusError,
    Reading,
    TextOptions,
    read,
    read_columns,
    read_texts,
)
from simplex_jax._src.corpus.formats.tables import read_frame

EVERY_WORD = TextOptions(min_df=1, max_df=1.0, stop_words="none")
TEXTS = ["äpfel und birnen", "кошка спит", "pommes, poires", "李子 和 苹果", "plums"]
MARKED = ["utf-8-sig", "utf-16", "utf-32"]
UNMARKED = ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-7"]


def texts(path, **options):
    return [text for _, text in read_texts(path, **options)]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", MARKED)
def test_a_byte_order_mark_tells_the_encoding(tmp_path, encoding, ends):
    content = ends.join(TEXTS)
    (tmp_path / "x.txt").write_bytes(content.encode(encoding))
    (tmp_path / "y.txt.gz").write_bytes(gzip.compress(content.encode(encoding)))
    table = ends.join(["id\ttext", *(f"{n}\t{text}" for n, text in enumerate(TEXTS)), ""])
    (tmp_path / "x.tsv").write_bytes(table.encode(encoding))
    for given in ({}, {"encoding": encoding}, {"encoding": "latin-1"}):
        for name in ("x.txt", "y.txt.gz", "x.tsv"):
            assert texts(tmp_path / name, **given) == TEXTS


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_either_order_of_bytes(tmp_path, mark):
    name = "utf-16-le" if mark == b"\xff\xfe" else "utf-16-be"
    (tmp_path / "x.txt").write_bytes(mark + "\r\n".join(TEXTS).encode(name))
    for given in ({}, {"encoding": "utf-16"}, {"encoding": name}):
        assert texts(tmp_path / "x.txt", **given) == TEXTS


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", UNMARKED)
def test_an_encoding_that_is_given(tmp_path, encoding, ends):
    (tmp_path / "x.txt").write_bytes(ends.join(TEXTS).encode(encoding))
    assert texts(tmp_path / "x.txt", encoding=encoding) == TEXTS


@pytest.mark.parametrize(("name", "told"), [("utf-16-le", "utf-16-le"), ("utf-16-be", "utf-16-be")])
def test_utf_16_without_a_mark_is_named(tmp_path, name, told):
    (tmp_path / "x.txt").write_bytes("apples and\npears".encode(name))
    with pytest.raises(CorpusError, match=rf"x.txt:1: .*; give --encoding \(encoding\) {told}"):
        texts(tmp_path / "x.txt")
    with pytest.raises(CorpusError, match=r"no byte-order mark .*; give .* utf-16-le or utf-16-be"):
        texts(tmp_path / "x.txt", encoding="utf-16")


def test_folders_and_archives_in_utf_16(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, text in enumerate(TEXTS):
        (folder / f"{number}.txt").write_bytes(text.encode(["utf-8", "utf-16"][number % 2]))
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, path.name)
    assert texts(folder) == texts(tmp_path / "x.zip") == TEXTS


def test_counts_in_utf_16_and_with_carriage_returns(tmp_path):
    """Old spreadsheets and PowerShell write any text so."""
    (tmp_path / "vocab.txt").write_bytes("apple\rpear\rplum".encode("utf-16"))
    contents = {
        "docword.x.txt": "2\n3\n3\n1 1 2\n1 3 1\n2 2 5\n",
        "x.mtx": "%%MatrixMarket matrix coordinate integer general\n2 3 3\n1 1 2\n1 3 1\n2 2 5\n",
        "x.dat": "2 0:2 2:1\n1 1:5\n",
    }
    for name, content in contents.items():
        for data in (content.encode("utf-16"), content.replace("\n", "\r").encode()):
            (tmp_path / name).write_bytes(data)
            corpus = read(tmp_path / name, vocabulary=tmp_path / "vocab.txt")
            assert corpus.counts.toarray().tolist() == [[2, 0, 1], [0, 5, 0]]
            assert corpus.vocabulary == ("apple", "pear", "plum")


def test_a_table_of_categories_in_utf_16(tmp_path):
    (tmp_path / "x.csv").write_bytes("colour;size\rgrün;klein\rrot;groß\r".encode("utf-16"))
    columns = read_frame(tmp_path / "x.csv", Reading()).columns
    assert columns == {"colour": ["grün", "rot"], "size": ["klein", "groß"]}


def test_carriage_returns_of_a_text_with_line_feeds_stay(tmp_path):
    """Only a file without any LF has lines that end in CR."""
    (tmp_path / "x.txt").write_bytes(b"a\rb" + b" " * 5000 + b"\nc\n")
    assert [text.split() for text in texts(tmp_path / "x.txt")] == [["a", "b"], ["c"]]
    for content in (b"a\rb%s\rc", b"a%s\rb\rc"):
        (tmp_path / "x.txt").write_bytes(content % (b" " * 200_000))
        assert [text.split() for text in texts(tmp_path / "x.txt")] == [["a"], ["b"], ["c"]]


MIXED = [
    ("strict", None),
    ("replace", "caf\ufffd \ufffdsoir\ufffd na\u00efve"),
    ("ignore", "caf soir na\u00efve"),
    ("backslashreplace", "caf\\xe9 \\x93soir\\x94 na\u00efve"),
    ("cp1252", "caf\u00e9 \u201csoir\u201d na\u00efve"),
]


@pytest.mark.parametrize(("errors", "expected"), MIXED)
def test_a_line_in_another_encoding(tmp_path, errors, expected):
    wrong = b"caf\xe9 \x93soir\x94 " + "na\u00efve".encode()
    contents = {
        "x.txt": b"plum\n" + wrong + b"\n",
        "x.csv": b"id,text\n1,plum\n2," + wrong + b"\n",
        "x.jsonl": b'{"text": "plum"}\n{"text": "' + wrong.replace(b"\\", b"\\\\") + b'"}\n',
    }
    if errors == "backslashreplace":
        del contents["x.jsonl"]  # where a backslash begins an escape
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        if expected is None:
            with pytest.raises(CorpusError, match=r"not utf-8; .*encoding-errors .* replace, or"):
                texts(tmp_path / name)
            continue
        with pytest.warns(UserWarning, match=rf"{name}: bytes .* in line"):
            assert texts(tmp_path / name, encoding_errors=errors) == ["plum", expected]
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_bytes(wrong)
    (tmp_path / "folder" / "b").write_bytes(b"plum")
    if expected is not None:
        with pytest.warns(UserWarning, match=r"folder: .* 1 files.* a: "):
            assert texts(tmp_path / "folder", encoding_errors=errors) == [expected, "plum"]


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("gb18030", "市场 股票"),
        ("shift_jis", "遺伝子 細胞"),
        ("koi8-r", "банк цена"),
        ("cp1251", "ген"),
    ],
)
def test_other_scripts_are_not_taken_for_latin_1(tmp_path, encoding, text):
    path = tmp_path / "x.txt"
    path.write_bytes(f"apple\n{text}\n".encode(encoding))
    with pytest.raises(CorpusError, match=f"x.txt:2: .* not Latin letters: .*{encoding}"):
        read(path, text=EVERY_WORD)
    assert texts(path, format="lines", encoding=encoding)[1] == text


def test_bytes_that_windows_lacks_are_those_of_latin_1(tmp_path):
    (tmp_path / "x.txt").write_bytes(b"a\x81b\xff")
    with pytest.warns(UserWarning, match=" utf-8 in line "):
        assert texts(tmp_path / "x.txt", encoding_errors="cp1252") == ["a\x81b\xff"]


def test_intact_texts_have_no_warning(tmp_path):
    (tmp_path / "x.txt").write_text("\n".join(TEXTS), "utf-8")
    assert texts(tmp_path / "x.txt", encoding_errors="replace") == TEXTS


def test_half_a_letter_of_utf_16_is_let_through_if_asked(tmp_path):
    (tmp_path / "x.txt").write_bytes("plum\nä\ud800b".encode("utf-16", "surrogatepass"))
    with pytest.raises(CorpusError, match=r"x\.txt:1: not utf-16"):
        texts(tmp_path / "x.txt")
    for errors in ("replace", "cp1252"):
        assert texts(tmp_path / "x.txt", encoding_errors=errors) == ["plum", "ä\ufffdb"]


def test_every_reader_has_the_option(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"id,text,by\n1,caf\xe9,caf\xe9\n2,plum,a\n")
    with pytest.warns(UserWarning, match=" utf-8 in line "):
        corpus = read(tmp_path / "x.csv", text=EVERY_WORD, encoding_errors="cp1252")
    assert corpus.vocabulary == ("café", "plum")
    with pytest.warns(UserWarning, match=" utf-8 in line "):
        table = read_frame(tmp_path / "x.csv", Reading(encoding_errors="cp1252"))
    assert table.columns["text"] == ["café", "plum"]
    with pytest.warns(UserWarning, match=" utf-8 in line "):
        metadata = read_columns(tmp_path / "x.csv", ["by"], encoding_errors="cp1252")
    assert metadata.columns == {"by": ["café", "a"]}
    with pytest.raises(ValueError, match=r"^encoding_errors .*'sloppy'$"):
        read(tmp_path / "x.csv", encoding_errors="sloppy")


def packed(content):
    return gzip.compress(content, mtime=0)


def pickled():
    import pickle

    file = io.BytesIO()
    pickle.dump({"texts": ["a b"]}, file)
    return file.getvalue()


def office(kind):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr(f"{kind}/document.xml", "<w/>")
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"%PDF-1.7\n%\xe2\xe3\n1 0 obj\n", "a PDF"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, r"of before 2007.*\.xls.*; save it as"),
        (office("xl"), r"an Excel .* CSV"),
        (office("word"), "a Word"),
        (office("ppt"), "a PowerPoint"),
        (pickled(), "a pickle of Python"),
        (b"(dp0\nS'a'\np1\nI1\ns.", "a pickle of Python"),
        (packed(b"RDX3\nX\n\0\0\0\x03"), r"an R data file \(.RData\); in R, save counts"),
        (packed(b"X\n\0\0\0\x03\0\x04\x03\x01"), r"an R object \(.rds\); in R, save"),
        (b"PAR1\x15\x04\x15 a PAR1", r"a Parquet .* CSV: pandas.read_parquet"),
        (b"ARROW1\0\0", "an Arrow .*read_feather"),
        (b"\x8a" * 8 + b"DUCK\x40" + b"\0" * 40, "a DuckDB .* CSV"),
        (b"SQLite format 3\0\x10", r"an SQLite .* CSV: sqlite3"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a PNG image; give texts"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "a JPEG image"),
        (b"\0\0\0 ftypisom\0", "video or sound"),
        (b"ID3\x03\0", "a sound file"),
        (b"{\\rtf1\\ansi apples}", "Rich Text"),
        (b"\n<!DOCTYPE html>\n<p>apples", "a web page"),
        (b"<HTML lang=en><p>apples", "a web page"),
        (b"<?xml version='1.0'?><TEI>", "an XML file"),
        (b"\xac\xed\0\x05sr\0\x1fcc.mallet", "MALLET"),
        (b"MATLAB 5.0 MAT-file, Platform: GLNXA64", r"a MATLAB file .*scipy.io.loadmat"),
        (b"\x93NUMPY\x01\0v\0{'descr': '<i8'}\n\1", r"an array of NumPy .*scipy.sparse.save_npz"),
        (b"\x7fELF\x02\x01\x01\0", "a program"),
        (b"x\x9c\x03\0\0\0\0\x01", "a compressed pickle|NUL"),
    ],
)
@pytest.mark.parametrize("place", ["file", "folder"])
def test_what_is_not_text_is_named(tmp_path, content, told, place):
    if place == "folder":
        (tmp_path / "a.txt").write_text("apples")
    (tmp_path / "b.bin").write_bytes(content)
    with pytest.raises(CorpusError, match=told):
        read(tmp_path / "b.bin" if place == "file" else tmp_path, text=EVERY_WORD)


@pytest.mark.parametrize(
    "text",
    [
        "BM 25 ranks texts by their words",
        "PAR1 is a receptor of thrombin",
        "PAR1\nPAR2",
        "PAR1\ta receptor",
        "The old DUCK swims",
        "ORC\nrocks",
        "A\n2\n197635\nB\n",
        "MZ sends regards, and this is a line of text that is longer than sixty-four letters",
        "cat\nmat\n",
        "RIFF and WAVE",
        "xylophones",
        "Obj 1",
        "GIF 89a is an image format",
        "ID3 tags",
        "<html5 is a standard>",
    ],
)
def test_texts_that_begin_like_others_are_texts(tmp_path, text):
    (tmp_path / "x.txt").write_text(text)
    assert texts(tmp_path / "x.txt", format="lines") == text.splitlines()
