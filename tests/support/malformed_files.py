"""Malformed files that a reader must refuse.

A case is a function that writes its files into a folder and returns the path to read, the start of
the message (a file name, with `:LINE` if there is a line), what the message must say, and the
arguments of `read`.
"""

import gzip
import io
import os
import zipfile

import numpy as np

from simplex_jax._src.corpus import MAX_COUNT, TextOptions

HEADER = "2\n3\n2\n"
BAG = HEADER + "1 1 1\n2 2 2\n"
VOCAB = b"apple\npear\nplum\n"
EVERY_WORD = TextOptions(min_df=1, max_df=1.0)
CASES = {}


def case(name, place, says, content, file="documents.txt", **arguments):
    """A file with `content`."""

    def write(folder):
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder / file, place, says, arguments

    assert name not in CASES
    CASES[name] = write


def uci(name, line, says, docword, vocab=VOCAB, place="docword.bad.txt", **arguments):
    """A docword file, beside a vocabulary of three words."""

    def write(folder):
        if vocab is not None:
            (folder / "vocab.bad.txt").write_bytes(vocab)
        path = folder / "docword.bad.txt"
        path.write_bytes(docword if isinstance(docword, bytes) else docword.encode())
        return path, place if line is None else f"{place}:{line}", says, arguments

    assert name not in CASES
    CASES[name] = write


def npz(name, says, vocabulary=None, change=None, **arrays):
    """A sparse array with some parts replaced (None: omitted), and then its bytes."""

    def write(folder):
        path = folder / "bad.npz"
        parts = {
            "format": np.array(b"csr"),
            "shape": np.array([2, 3]),
            "data": np.array([1, 2, 3]),
            "indices": np.array([0, 2, 1]),
            "indptr": np.array([0, 2, 3]),
        }
        parts.update(
            {key: None if value is None else np.asarray(value) for key, value in arrays.items()}
        )
        np.savez_compressed(path, **{key: part for key, part in parts.items() if part is not None})
        if change is not None:
            path.write_bytes(change(path.read_bytes()))
        if vocabulary is not None:
            (folder / "words").write_bytes(vocabulary)
        named = {} if vocabulary is None else {"vocabulary": folder / "words"}
        return path, "bad.npz", says, named

    assert f"npz {name}" not in CASES
    CASES[f"npz {name}"] = write


def npy_types(archive, dtype):
    """The same archive with types in its headers replaced, and matching checksums."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b"<i8", dtype))
    return out.getvalue()


def other(function):
    CASES[function.__name__.replace("_", " ")] = function
    return function


# Bag of words: the header.
uci("uci header is text", 1, "documents is 'hello'", "hello\n3\n2\n1 1 1\n2 2 2\n")
uci("uci header without words", 2, "words is '1 1 1'", "2\n1 1 1\n2 2 2\n")
uci("uci header missing", 1, "documents is '1 1 1'", "1 1 1\n2 2 2\n")
uci("uci header in one line", 1, "three lines", "2 3 2\n1 1 1\n2 2 2\n")
uci("uci header negative", 1, "'-2'", "-2\n3\n2\n1 1 1\n2 2 2\n")
uci("uci header zero", 2, "words is '0'", "2\n0\n2\n1 1 1\n2 2 2\n")
uci("uci header fraction", 3, "entries is '2.0'", "2\n3\n2.0\n1 1 1\n2 2 2\n")
uci("uci header of 30 digits", 1, "documents is", "9" * 30 + "\n3\n2\n1 1 1\n2 2 2\n")
uci("uci header of a megabyte", 1, "documents is", "1" * 2**20)
uci("uci header only started", 3, "entries is ''", "2\n3\n")
uci("uci entries 1e12", 3, "more than fit", f"2\n3\n{10**12}\n1 1 1\n2 2 2\n")
uci("uci documents 1e17", 1, "documents with only 2", f"{10**17}\n3\n2\n1 1 1\n2 2 2\n")
uci("uci words 1e12", 2, "keep at most", f"2\n{10**12}\n2\n1 1 1\n2 2 2\n")
uci("uci words unlike vocabulary", 2, "vocabulary has 3", "2\n4\n2\n1 1 1\n2 2 2\n")
uci("uci fewer entries", 3, "3 entries, .* 2; ", "2\n3\n3\n1 1 1\n2 2 200000\n")
uci("uci more entries", 6, "entries than the 2", HEADER + "1 1 1\n2 2 2\n2 3 1\n")

# Bag of words: the entries.
uci("uci document 0", 4, "document id 0 is not in 1..2", HEADER + "0 1 1\n2 2 2\n")
uci("uci document beyond", 5, "document id 3 is not in 1..2", HEADER + "1 1 1\n3 2 2\n")
uci("uci document negative", 5, "document id -1", HEADER + "1 1 1\n-1 2 2\n")
uci("uci word 0", 5, "word id 0 is not in 1..3", HEADER + "1 1 1\n2 0 2\n")
uci("uci word beyond", 4, "word id 4 is not in 1..3", HEADER + "1 4 1\n2 2 2\n")
uci("uci word negative", 4, "word id -3", HEADER + "1 -3 1\n2 2 2\n")
uci("uci word wraps", 4, "word id 4294967297", HEADER + f"1 {2**32 + 1} 1\n2 2 2\n")
uci("uci word wraps 64", 4, "three whole numbers", HEADER + f"1 {2**64 + 1} 1\n2 2 2\n")
uci("uci count negative", 5, "count -2 is not in 0..16777216", HEADER + "1 1 1\n2 2 -2\n")
uci("uci count huge", 5, f"count {MAX_COUNT + 1}", HEADER + f"1 1 1\n2 2 {MAX_COUNT + 1}\n")
uci("uci count of 400 digits", 4, "three whole numbers", HEADER + f"1 1 {'7' * 400}\n2 2 2\n")
uci("uci count nan", 5, "'2 2 nan'", HEADER + "1 1 1\n2 2 nan\n")
uci("uci count inf", 4, "'1 1 inf'", HEADER + "1 1 inf\n2 2 2\n")
uci("uci count fraction", 4, "'1 1 1.5'", HEADER + "1 1 1.5\n2 2 2\n")
uci("uci count exponent", 4, "'1 1 1e3'", HEADER + "1 1 1e3\n2 2 2\n")
uci("uci count hexadecimal", 4, "'1 1 0x1'", HEADER + "1 1 0x1\n2 2 2\n")
uci("uci count with plus", 4, "three whole numbers", HEADER + "1 1 +1\n2 2 2\n")
uci("uci four fields", 5, "'2 2 2 2'", HEADER + "1 1 1\n2 2 2 2\n")
uci("uci two fields", 4, "'1 1'", HEADER + "1 1\n2 2 2\n")
uci("uci two, then four fields", 4, "'1 1'", HEADER + "1 1\n1 2 2 2\n")
uci("uci empty field", 4, "'1  1'", HEADER + "1  1\n2 2 2\n")
uci("uci one field", 5, "'2'", HEADER + "1 1 1\n2\n")
uci("uci commas", 4, "'1,1,1'", HEADER + "1,1,1\n2,2,2\n")
uci("uci comment", 4, "'# first'", HEADER + "# first\n1 1 1\n2 2 2\n")
uci("uci control characters", 4, r"\\x1b\[2J", HEADER + "1 1 \x1b[2J\n2 2 2\n")
uci("uci digits of another script", 4, "three whole numbers", HEADER + "1 1 \u0663\n2 2 2\n")
uci("uci all counts zero", None, "document is empty", HEADER + "1 1 0\n2 2 0\n")
uci(
    "uci duplicates with a huge sum",
    None,
    r"row 0, column 1 .* is 16777217",
    HEADER + f"1 2 {MAX_COUNT}\n1 2 1\n",
)
uci("uci far down", 700_003, "'x'", "2\n3\n700000\n" + "1 1 1\n" * 699_999 + "x\n")
uci("uci endless line", 4, "too long", HEADER.replace("2\n", "9\n") + "1" * (2**23))

# Bag of words: the file and its vocabulary.
uci("uci empty", None, "file is empty", b"")
uci("uci binary", 1, "documents is", bytes(range(256)))
uci("uci in UTF-16", 5, "document id 3 is not in", (HEADER + "1 1 1\n3 2 2\n").encode("utf-16"))
uci("uci no vocabulary", None, "tried vocab.bad.txt, vocab.txt", HEADER + "1 1 1\n", vocab=None)
uci("vocabulary empty", None, "file is empty", HEADER + "1 1 1\n", b"", "vocab.bad.txt")
uci("vocabulary blank", None, "no word in", BAG, b"\n\n", "vocab.bad.txt")
uci("vocabulary repeats", 3, "of line 1", BAG, b"a\nb\na\n", "vocab.bad.txt")
uci("vocabulary with a gap", 2, "no word", BAG, b"a\n\nb\n", "vocab.bad.txt")
uci("vocabulary latin-1", 2, "not utf-8", BAG, b"a\nb\xe9\nc\n", "vocab.bad.txt")
uci("vocabulary binary", 2, "NUL", BAG, b"a\nb\0\nc\n", "vocab.bad.txt")
uci(
    "vocabulary missing", None, "no such file", BAG, place="/nowhere/v", vocabulary="/nowhere/v"
)  # fmt: skip

# SciPy sparse.
npz("negative", "row 0, column 2 .* is -2", data=[1, -2, 3])
npz("nan", "row 1, column 1 .* is nan", data=[1.0, 2.0, np.nan])
npz("infinite", "is inf", data=[1.0, np.inf, 3.0])
npz("fraction", "is 1.5", data=[1.5, 2.0, 3.0])
npz("huge", "16777217", data=[1, 2, MAX_COUNT + 1])
npz("complex", "wrong types", data=[1j, 2, 3])
npz("text", "wrong types", data=["1", "2", "3"])
npz("times", "wrong types", data=np.array([1, 2, 3], "M8[s]"))
npz("index beyond", "valid array", indices=[0, 3, 1])
npz("index negative", "valid array", indices=[0, -1, 1])
npz("index fraction", "wrong types", indices=[0.0, 2.0, 1.0])
npz("index wraps", "valid array|inconsistent", indices=np.array([0, 2**63, 1], np.uint64))
npz("indices too few", "inconsistent arrays", indices=[0, 2])
npz("pointers decrease", "valid array", indptr=[0, 4, 3])
npz("pointers beyond", "inconsistent arrays", indptr=[0, 2, 9])
npz("pointers too few", "inconsistent arrays", indptr=[0, 3])
npz("pointers not from 0", "inconsistent arrays", indptr=[1, 2, 3])
npz("data in two dimensions", "inconsistent arrays", data=[[1, 2, 3]])
npz(
    "data empty",
    "document is empty",
    data=np.zeros(0, int),
    indices=np.zeros(0, int),
    indptr=[0, 0, 0],
)
npz("shape of one", r"shape is \(6,\)", shape=[6])
npz("shape of three", r"shape is \(2, 3, 1\)", shape=[2, 3, 1])
npz("shape zero", r"shape is \(0, 3\)", shape=[0, 3])
npz("shape negative", r"shape is \(2, -3\)", shape=[2, -3])
npz("documents 1e18", "pointer size 3 should be", shape=[10**18, 3])
npz(
    "coo documents 1e18",
    "documents, 3 entries",
    format=b"coo",
    row=[0, 0, 1],
    col=[0, 2, 1],
    shape=[10**18, 3],
)
npz("type unknown to NumPy", "valid dtype", change=lambda file: npy_types(file, b"<i7"))
npz("words 1e9", "1000000000 words, 3 entries", shape=[2, 10**9])
npz("words 1e18", "words", shape=[2, 10**18])
npz("coo index beyond", "inconsistent arrays", format=b"coo", row=[0, 0, 7], col=[0, 2, 1])
npz("coo without rows", "sparse format coo", format=b"coo", col=[0, 2, 1])
npz("format unknown", "sparse format xyz", format=b"xyz")
npz("format not ascii", "npz|sparse format", format=b"\xff\xfe")
npz("format missing", "not a SciPy sparse array", format=None)
npz("data missing", "format, shape", data=None)
npz(
    "dense",
    "it holds counts",
    format=None,
    data=None,
    indices=None,
    indptr=None,
    shape=None,
    counts=np.eye(3),
)
npz("pickled data", "pickled objects", data=np.array([1, 2, None]))
npz("pickled format", "pickled objects", format=np.array({"a": 1}, object))
npz("pickled beside", "extra holds pickled", extra=np.array([print], object))
npz("structured", "wrong types", data=np.zeros(3, [("a", int)]))
npz("bomb", "unpacks to", data=np.ones(2**24))
npz("truncated", "npz file ", change=lambda content: content[:-30])
npz("cut in the middle", "npz file ", change=lambda content: content[: len(content) // 2])
npz(
    "flipped bit",
    "npz file ",
    change=lambda content: content[:60] + bytes([content[60] ^ 4]) + content[61:],
)
npz("gzip", "npz file ", change=gzip.compress)
npz("not a zip", "npz file ", change=lambda _: b"PK but not a zip file")
npz("transposed", r"2 words .* for 3 columns; .* give --transpose", vocabulary=b"a\nb\n")
npz("vocabulary too long", "4 words in", vocabulary=b"a\nb\nc\nd\n")

# One document a line.
case("lines empty", "documents.txt", "file is empty", b"")
case("lines blank", "documents.txt", "no word is", b"\n\n \n")
case("lines of digits", "documents.txt", "no word is", "1 2 3\n4 5\n", text=EVERY_WORD)
case("lines all rare", "documents.txt", "lower min_df", "apple\npear\n")
case(
    "lines latin-1",
    "documents.txt:3",
    "byte 3 .* utf-8; .*latin-1",
    b"a\nb\nca\xe9\n",
)
case("lines cut in a letter", "documents.txt:1", "byte 4", "pea\u00e4".encode()[:-1])
case("lines of surrogates", "documents.txt:2", "not utf-8", b"a\n\xed\xa0\x80\n")
case("lines UTF-16", "documents.txt:2", "not utf-16 .*truncated", "a\npea".encode("utf-16")[:-1])
case("lines UTF-16 without mark", "documents.txt:1", "in utf-16-be", "a\n".encode("utf-16-be"))
case("lines UTF-16 asked for", "documents.txt", "no byte-order mark", b"ab", encoding="utf-16")
case("lines UTF-32", "documents.txt:1", "not utf-32", "apple\n".encode("utf-32")[:-2])
case("lines binary", "documents.txt:2", "NUL", b"\x01 apple\n\x01\0\n")
case("lines pickle", "documents.txt", "a pickle of Python", b"\x80\x04\x95\n\0")
case("lines not ascii", "documents.txt:2", "not ascii", "a\n\u00e4", encoding="ascii")
PACKED = gzip.compress(b"apple pear\n" * 1000 + os.urandom(2000).hex().encode())
case("lines gzip truncated", "documents.txt", "gzip data ends", PACKED[:-400])
case("lines gzip without end", "documents.txt", "gzip data ends", PACKED[:-4])
case("lines gzip header only", "documents.txt", "gzip data ends", PACKED[:6])
case("lines gzip flipped", "documents.txt", "is damaged", PACKED[:-8] + b"\0" + PACKED[-7:])
case("lines gzip garbled", "documents.txt", "is damaged", PACKED[:10] + b"\xff" * 50)
case("lines gzip then garbage", "documents.txt", "is damaged", PACKED + b"garbage")
case("lines gzip of nothing", "documents.txt", "file is empty", gzip.compress(b""))
case(
    "lines gzip bomb",
    "documents.txt",
    "decompression bomb",
    gzip.compress((b"x" * 2**20 + b"\n") * 70),
)
case("lines endless line", "documents.txt:2", "more than 64 MiB", b"a\n" + b"b" * (2**26 + 1))
case(
    "lines stop words missing",
    "/nowhere",
    "no such file",
    "a\n",
    text=TextOptions(stop_words="/nowhere"),
)
case("uci asked for text", "documents.txt:1", "documents is 'apple'", "apple\n", format="uci")
case("npz asked for text", "documents.txt", "npz file ", "apple\n", format="npz")
case("folder asked for a file", "documents.txt", "not a folder", "apple\n", format="folder")


@other
def missing_file(folder):
    return folder / "nothing.txt", "nothing.txt", "no such file", {}


@other
def missing_folder(folder):
    return folder / "nothing", "nothing", "no such file", {"format": "folder"}


@other
def name_with_a_newline(folder):
    return folder / "a\nb", r"a\nb", "no such file", {}


@other
def name_with_a_nul(folder):
    return str(folder / "a\0b"), r"a\x00b", "null", {}


@other
def name_too_long(folder):
    return folder / ("a" * 300), "aaa", "name too long", {}


@other
def lines_of_a_folder(folder):
    return folder, "", "is a folder", {"format": "lines"}


@other
def uci_of_a_folder(folder):
    return folder, "", "is a folder", {"format": "uci"}


@other
def npz_of_a_folder(folder):
    return folder, "", "is a folder", {"format": "npz"}


@other
def vocabulary_is_a_folder(folder):
    (folder / "documents.txt").write_bytes(b"apple\n")
    return folder / "documents.txt", "", "is a folder", {"vocabulary": folder}


@other
def vocabulary_of_other_texts(folder):
    (folder / "documents.txt").write_bytes(b"apple\n")
    (folder / "words").write_bytes(b"Apple\n")
    return folder / "documents.txt", "documents.txt", "vocabulary", {"vocabulary": folder / "words"}


@other
def folder_empty(folder):
    return folder, "", "no file in", {}


@other
def folder_of_hidden_files(folder):
    (folder / ".a").write_bytes(b"apple")
    return folder, "", "no file in", {}


@other
def folder_of_empty_files(folder):
    (folder / "a").write_bytes(b"")
    return folder, "", "no word is", {}


@other
def folder_with_a_latin_1_file(folder):
    (folder / "a.txt").write_bytes(b"apple")
    (folder / "b.txt").write_bytes(b"pear\n\nplum p\xeache")
    return folder, "b.txt:3", "byte 7 .* utf-8; .*latin-1", {}


@other
def folder_with_a_binary_file(folder):
    (folder / "a.png").write_bytes(b"PNG\r\n\x1a\n\0\0")
    return folder, "a.png:3", "NUL", {}


@other
def folder_with_a_truncated_gzip_file(folder):
    (folder / "a.gz").write_bytes(PACKED[:-20])
    return folder, "a.gz", "ends early", {}


@other
def folder_with_a_broken_link(folder):
    (folder / "a").symlink_to("nowhere")
    return folder, "a", "no such file", {}


@other
def folder_with_a_huge_file(folder):
    with (folder / "a").open("wb") as file:
        file.truncate(2**26 + 1)
    return folder, "a", "more than 64 MiB", {}


@other
def folder_with_a_pipe(folder):
    os.mkfifo(folder / "a")
    return folder, "a", "regular file", {}


@other
def pipe(folder):
    os.mkfifo(folder / "a")
    return folder / "a", "a", "regular file", {}


@other
def device(folder):
    return "/dev/zero", "/dev/zero", "regular file", {}
