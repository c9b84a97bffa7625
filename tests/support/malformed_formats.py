"""Malformed files of the other formats; see `malformed_files`."""

import gzip
import json

import numpy as np
import pytest

from simplex_jax._src.corpus import MAX_COUNT, from_counts, store
from support.malformed_files import CASES, EVERY_WORD, case, other

BANNER = "%%MatrixMarket matrix coordinate integer general\n"
REAL = BANNER.replace("integer", "real")
SIZES = "2 3 2\n"
WORDS = "apple\npear\nplum\n"


def mtx(name, line, says, content, **arguments):
    place = "bad.mtx" if line is None else f"bad.mtx:{line}"
    case(f"mtx {name}", place, says, content, "bad.mtx", **arguments)


def pairs(format, name, line, says, content, vocabulary=WORDS):
    """A file of lines of pairs, with a vocabulary of three words."""

    def write(folder):
        path = folder / "bad.dat"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        arguments = {"format": format}
        if vocabulary is not None:
            (folder / "words").write_text(vocabulary)
            arguments["vocabulary"] = folder / "words"
        return path, "bad.dat" if line is None else f"bad.dat:{line}", says, arguments

    assert f"{format} {name}" not in CASES
    CASES[f"{format} {name}"] = write


def table(name, line, says, content, file="bad.csv", **arguments):
    place = file if line is None else f"{file}:{line}"
    arguments = {"text": EVERY_WORD, **arguments}
    case(f"table {name}", place, says, content, file, **arguments)


# Matrix Market.
mtx("empty", None, "file is empty", "")
mtx(
    "without banner",
    1,
    "missing banner",
    SIZES + "1 1 1\n2 2 2\n",
    format="mtx",
)
mtx("short banner", 1, "invalid .*header element", "%%MatrixMarket matrix\n")
mtx("binary banner", 1, "matrix market file", b"%%MatrixMarket\xff\x00\n")
mtx("endless banner", 1, "invalid .*header element", "%%MatrixMarket matrix" + " x" * 2**20)
mtx("dense", 1, "matrix is array", "%%MatrixMarket matrix array integer general\n1 1\n1\n")
mtx("complex", 1, "values are complex", BANNER.replace("integer", "complex") + SIZES)
mtx("symmetric", 1, "matrix is symmetric", BANNER.replace("general", "symmetric") + SIZES)
mtx("without sizes", 3, "premature eof", BANNER + "%\n")
mtx("two sizes", None, "invalid integer value; .* three sizes", BANNER + "2 3\n")
mtx("negative size", 3, "dimensions can't be negative", BANNER + "%\n-2 3 2\n")
mtx("size fraction", None, "invalid integer value", BANNER + "2.0 3 2\n")
mtx("size zero", None, "0 rows", BANNER + "0 3 2\n1 1 1\n")
mtx("entries 1e12", None, "more than fit", BANNER + f"2 3 {10**12}\n1 1 1\n2 2 2\n")
mtx("rows 1e17", None, "keep at most", BANNER + f"{10**17} 3 2\n1 1 1\n2 2 2\n")
mtx("rows 1e9", None, "1000000000 documents, 2", BANNER + f"{10**9} 3 2\n1 1 1\n2 2 2\n")
mtx("columns 1e9", None, "1000000000 words, 2", BANNER + f"2 {10**9} 2\n1 1 1\n2 2 2\n")
mtx("row 0", 3, "out of bounds", BANNER + SIZES + "0 1 1\n2 2 2\n")
mtx("row beyond", 4, "out of bounds", BANNER + SIZES + "1 1 1\n3 2 2\n")
mtx("column negative", 3, "'1 -1 1' is not", BANNER + SIZES + "1 -1 1\n2 2 2\n")
mtx("column wraps", 3, "out of range", BANNER + SIZES + f"1 {2**32 + 1} 1\n2 2 2\n")
mtx(
    "negative", None, "row 1, column 1 .* is -2, .*out of range", BANNER + SIZES + "1 1 1\n2 2 -2\n"
)
mtx("negative real", None, "row 1, column 1 .* is -2.0", REAL + SIZES + "1 1 1\n2 2 -2\n")
mtx(
    "fraction",
    3,
    "'1 1 1.5' .* integer values",
    BANNER + SIZES + "1 1 1.5\n2 2 2\n",
)
mtx("exponent", 3, "'1 1 1e3' .* integer values", BANNER + SIZES + "1 1 1e3\n2 2 2\n")
mtx("fraction real", None, "is 1.5, ", REAL + SIZES + "1 1 1.5\n2 2 2\n")
mtx("nan", 3, "'1 1 nan' .* real values", REAL + SIZES + "1 1 nan\n2 2 2\n")
mtx("infinite", 3, "'1 1 -inf'", REAL + SIZES + "1 1 -inf\n2 2 2\n")
mtx("overflows", None, "is inf", REAL + SIZES + "1 1 1e999\n2 2 2\n")
mtx("huge", None, "is 16777217.0", REAL + SIZES + f"1 1 {MAX_COUNT + 1}.0\n2 2 2\n")
mtx("hexadecimal", 3, "'1 1 0x1'", REAL + SIZES + "1 1 0x1\n2 2 2\n")
mtx("trailing letters", 3, "'1 1 1abc'", BANNER + SIZES + "1 1 1abc\n2 2 2\n")
mtx("four fields", 3, "'1 1 1 7'", BANNER + SIZES + "1 1 1 7\n2 2 2\n")
mtx("empty real", 3, "not an entry", REAL + SIZES + "1 1 .\n2 2 2\n")
mtx("late comment", 4, "'% more'", BANNER + SIZES + "1 1 1\n% more\n2 2 2\n")
mtx(
    "fewer entries",
    None,
    "truncated file, .* 1 ",
    BANNER + "2 3 3\n1 1 1\n2 2 21111\n",
)
mtx("more entries", 5, "too many lines", BANNER + SIZES + "1 1 1\n2 2 2\n2 3 1\n")
mtx(
    "values in a pattern",
    3,
    "of pattern values",
    BANNER.replace("integer", "pattern") + SIZES + "1 1 1\n",
)
mtx("all zero", None, "document is empty", BANNER + SIZES + "1 1 0\n2 2 0\n")
mtx(
    "huge sum",
    None,
    r"row 0, column 0 .* is 16777217",
    BANNER + SIZES + f"1 1 {MAX_COUNT}\n1 1 1\n",
)
mtx("UTF-16", 3, "'1 x 1' is not", (BANNER + SIZES + "1 x 1\n2 2 2\n").encode("utf-16"))
mtx("gzip bomb", None, "bomb", gzip.compress(BANNER.encode() + (b"%" * 2**15 + b"\n") * 2200))
mtx("gzip truncated", None, "ends early", gzip.compress((BANNER + SIZES).encode())[:-9])
mtx("endless comment", 3, "premature eof", BANNER + "%" * 2**20)


# Triples.
def triples(name, line, says, content, file="bad.csv", **arguments):
    place = file if line is None else f"{file}:{line}"
    case(f"triples {name}", place, says, content, file, **arguments)


TITLES = "document,term,n\n"
triples("fraction", 3, "'1.5' in column 'n'", TITLES + "a,elm,1\nb,elm,1.5\n")
triples("negative", 2, "'-1' in column 'n'", TITLES + "a,elm,-1\n")
triples("missing", 2, "'NA' in column 'n'", TITLES + "a,elm,NA\n")
triples("huge", 2, "'16777217' in column 'n'", TITLES + f"a,elm,{MAX_COUNT + 1}\n")
triples("huge sum", None, "row 0, column 0", TITLES + f"a,elm,{MAX_COUNT}\na,elm,1\n")
triples("no word", 3, "nothing in column 'term'; fill it in", TITLES + "a,elm,1\nb, ,2\n")
triples("no document", 2, "nothing in column 'document'", TITLES + ",elm,1\n")
triples("short", 3, "2 fields instead of 3", TITLES + "a,elm,1\nb,elm\n")
triples("no record", None, "no record below", TITLES)
triples("zeros", None, "document is empty", TITLES + "a,elm,0\n")
triples(
    "tabs", 2, "1 fields instead of 3; fields of a TSV", TITLES.replace(",", "\t") + "a\n", "x.tsv"
)
triples("list of words", None, "own 'id', .*--id-column", "id,word,freq\n1,elm,9\n2,oak,7\n")
triples(
    "unknown",
    1,
    "documents among book",
    "book,word,n\nx,elm,1\n",
    format="triples",
)
triples("no words", 1, "words among doc", "doc,topic\nx,1\n", format="triples")
triples(
    "two words",
    1,
    "words: token, lemma",
    "doc_id,token,lemma\na,b,c\n",
    format="triples",
)
triples(
    "one column",
    1,
    "both documents and",
    TITLES + "a,elm,1\n",
    format="triples",
    text_column="document",
)

# lda-c.
pairs("ldac", "empty", None, "file is empty", "")
pairs("ldac", "blank", None, "no document", "\n\n")
pairs("ldac", "text", 1, "1 pairs .* 'apple'", "apple pear\n")
pairs("ldac", "fewer pairs", 2, "1 pairs .* '2'", "1 0:1\n2 0:1\n")
pairs("ldac", "more pairs", 1, "2 pairs .* '1'", "1 0:1 1:1\n")
pairs("ldac", "number negative", 1, "after the number '-1'", "-1 0:1\n")
pairs("ldac", "number 1e12", 1, "after the number '1000000000000'", "1000000000000 0:1\n")
pairs("ldac", "number of 400 digits", 1, "1 pairs after", "7" * 400 + " 0:1\n")
pairs("ldac", "word negative", 1, "word id -1 is not in 0..2", "1 -1:1\n")
pairs("ldac", "word beyond", 2, "word id 3 is not in 0..2", "1 0:1\n1 3:1\n")
pairs("ldac", "word wraps", 1, "word id 4294967296", f"1 {2**32}:1\n")
pairs("ldac", "word 1e9", None, "1000000001 words, 1 entries", f"1 {10**9}:1\n", None)
pairs("ldac", "word 1e17", 1, "is not in 0..2147483646", f"1 {10**17}:1\n", None)
pairs("ldac", "count negative", 1, "count -2 is not in", "1 0:-2\n")
pairs("ldac", "count huge", 1, "count 16777217 is not in", f"1 0:{MAX_COUNT + 1}\n")
pairs("ldac", "count fraction", 1, "'0:1.5' is not `id:count`", "1 0:1.5\n")
pairs("ldac", "count nan", 1, "'0:nan'", "1 0:nan\n")
pairs("ldac", "count missing", 1, "'0:'", "1 0:\n")
pairs("ldac", "word missing", 1, "':1'", "1 :1\n")
pairs("ldac", "two colons", 1, "'0:1:1'", "1 0:1:1\n")
pairs("ldac", "comment", 1, "is not `id:count`|pairs after", "1 0:1 # first\n")
pairs("ldac", "blank inside", 2, "is blank; .* 0 ", "1 0:1\n\n1 1:1\n")
pairs("ldac", "all empty", None, "document is empty", "0\n0\n")
pairs("ldac", "UTF-16", 1, "pairs after", "2 0:1\n".encode("utf-16"))
pairs("ldac", "binary", 1, "is not|pairs after", bytes(range(256)))
pairs("ldac", "endless line", 1, "too long", b"1" * (2**26 + 2**23))
pairs("ldac", "control characters", 1, r"\\x1b\[2J", "1 \x1b[2J\n")
pairs("ldac", "gzip bomb", None, "bomb", gzip.compress((b"0" + b" " * 2**20 + b"\n") * 70))

# SVMlight.
pairs("svmlight", "empty", None, "file is empty", "")
pairs("svmlight", "only comments", None, "no document", "# nothing\n")
pairs("svmlight", "text", 1, "could not convert .*'apple'", "apple pear\n")
pairs("svmlight", "index 0", 2, "invalid index 0 .* give --first-index 0", "1 1:1\n1 0:1\n")
pairs("svmlight", "index negative", 1, "invalid index -1", "1 -1:1\n")
pairs("svmlight", "index beyond", None, "word id 4, .* 3 words", "1 4:1\n")
pairs("svmlight", "index 2^31", None, "2147483647 words, 1 entries", f"1 {2**31 - 1}:1\n", None)
pairs("svmlight", "index 1e10", 1, "value too large", f"1 {10**10}:1\n", None)
pairs("svmlight", "count negative", None, "is -2.0, ", "1 1:-2\n")
pairs("svmlight", "count fraction", None, "row 1, .* is 0.5, ", "1 1:1\n1 1:0.5\n")
pairs("svmlight", "count nan", None, "is nan", "1 1:nan\n")
pairs("svmlight", "count infinite", None, "is inf", "1 1:inf\n")
pairs("svmlight", "count overflows", None, "is inf", "1 1:1e999\n")
pairs("svmlight", "count huge", None, "is 16777217.0", f"1 1:{MAX_COUNT + 1}.0\n")
pairs("svmlight", "count missing", 1, "could not convert", "1 1:\n")
pairs("svmlight", "index a word", 1, "invalid literal", "1 pear:1\n")
pairs("svmlight", "no colon", 1, "unpack", "1 1\n")
pairs("svmlight", "all empty", None, "document is empty", "1\n-1\n")
pairs("svmlight", "UTF-16", 1, "invalid index 0", "1 0:1\n".encode("utf-16"))

# Tables.
table("empty", None, "file is empty", "")
table("blank", None, "no record", "\n\n")
table("only a header", None, "no document", "id,text\n")
table("without a text column", 1, "text among id", "id,words\n1,a\n")
table(
    "without a text column, but long fields",
    1,
    "among Nr, Para, Note; give --text-column .text_column., perhaps 'Para', a number if",
    "Nr,Para,Note\n1,sour apple,x\n2,sweet pear,\n",
)
table("of numbers", 1, "no column of", "1,2\n3,4\n")
table(
    "another text column", 1, "no column 'words' among id, text", "id,text\n", text_column="words"
)
table("another id column", 1, "no column 'key'", "id,text\n1,apple\n", id_column="key")
table("column beyond", 1, "no column '3' among 1, 2", "1,apple\n", text_column="3")
table("column 0", 1, "no column '0'", "1,apple\n", text_column="0")
table("fewer fields", 3, "1 fields instead of 2", "id,text\n1,apple\n2\n")
table("more fields", 2, "3 fields instead of 2", "id,text\n1,apple, pear\n")
table("after a long record", 4, "3 fields", 'id,text\n1,"apple\npear"\n2,apple,\n')
table("quote left open", 3, "malformed record", 'id,text\n1,apple\n2,"pear\nplum\n')
table("quote inside", 2, "malformed record", 'id,text\n1,"apple" pear\n')
table("latin-1", 2, "not utf-8", b"id,text\n1,p\xeache\n")
table("UTF-16", 2, "1 fields instead of 2", "id,text\n1\n".encode("utf-16"))
table("NUL", 2, "NUL", b"id,text\n1,ap\0ple\n")
table("without words", None, "no word is", "id,text\n1,2 3\n")
table("escapes", 1, r"among \\x1b\[2J", "\x1b[2J,b\n")
table("many columns", 1, r"c11, \.\.\.", ",".join(f"c{i}" for i in range(99)) + "\n")
table("tsv fields", 3, "3 fields instead of 2", "id\ttext\n1\tapple\n2\tpear\tplum\n", "bad.tsv")
table("tsv without header", 1, "no column of", "1\tapple\n2\tpear\n", "bad.tsv")
table("endless quote", 2, "field larger|more than 64", 'text\n"' + ("pear " * 2**18 + "\n") * 60)


# Tables of counts.
def dense(name, line, says, content, file="bad.csv", **arguments):
    place = file if line is None else f"{file}:{line}"
    case(f"dense {name}", place, says, content, file, format="dense", **arguments)


dense("empty", None, "file is empty", "")
dense("only titles", None, "no counts below", "apple,pear\n")
dense("only names", None, "no counts below", "id\nd1\n")
dense("words", 3, "'d2' in column 'who' .* --id-column", "who,plum\n1,1\nd2,1\n")
dense("empty field", 2, "'' in column 'pear'", "apple,pear\n1,\n")
dense("missing", 2, "'NA' in column 'pear'", "apple,pear\n1,NA\n")
dense("negative", 2, "'-1' in column 'pear'", "apple,pear\n1,-1\n")
dense("underscore", 2, "'1_0' in column 'apple'", "apple,pear\n1_0,1\n")
dense("two lines", 2, "n2' in column 'apple'", 'apple,pear\n"1\n2",1\n')
dense("fraction", None, "row 0, column 1 .* is 1.5", "apple,pear\n1,1.5\n")
dense("huge", None, "is 100000000.0, ", "apple,pear\n1,1e8\n")
dense("overflows", None, "is inf", "apple,pear\n1,1e999\n")
dense("fewer fields", 3, "1 fields instead of 2", "apple,pear\n1,1\n1\n")
dense("tabs", 1, "name the file .tsv", "apple\tpear\n1\t1\n")
dense("a word twice", None, "repeats word 0, 'apple'", "apple,apple\n1,1\n")
dense("a word without a name", None, "word 1", "apple,\n1,1\n")
dense("no such names", 1, "no column 'key' among apple, pear", "apple,pear\n1,1\n", id_column="key")
dense(
    "a word like a title",
    None,
    "column, 'file', names two .* put it elsewhere",
    "file,a\n1,1\n1,2\n",
)
dense("all zero", None, "document is empty", "apple,pear\n0,0\n")

# JSON lines.
JSONL = {"file": "bad.jsonl"}
table("json empty", None, "file is empty", "", **JSONL)
table("json blank", None, "no document", "\n \n", **JSONL)
table("json text", 1, "not JSON", "apple\n", **JSONL)
table("json cut", 2, "not JSON", '{"text": "apple"}\n{"text": "pe\n', **JSONL)
table("json list", 1, "not a JSON object", '["apple"]\n', **JSONL)
table("json nan", 1, "not a JSON object", "NaN\n", **JSONL)
table("json two objects", 1, "not JSON", '{"text": "a"}{"text": "b"}\n', **JSONL)
table("json deep", 1, "nested too deeply", "[" * 200_000, **JSONL)
table("json long number", 1, "not JSON", '{"text": "apple", "n": ' + "1" * 5000 + "}", **JSONL)
table("json without text", 1, "among x; ", '{"x": "apple"}\n', **JSONL)
table("json empty object", 1, "among none", "{}\n", **JSONL)
table("json field gone", 2, "no field 'text'", '{"text": "apple"}\n{"id": 1}\n', **JSONL)
table("json text number", 1, "field 'text' is 5; give a string", '{"text": 5}\n', **JSONL)
table("json text list", 1, r"field 'text' is \[", '{"text": ["apple"]}\n', **JSONL)
table("json id list", 1, r"field 'id' is \[\]", '{"text": "apple", "id": []}\n', **JSONL)
table("json id null", 1, "field 'id' is null", '{"text": "apple", "id": null}\n', **JSONL)
table("json latin-1", 1, "not utf-8", b'{"text": "p\xeache"}\n', **JSONL)


def stored(name, file, says, change, place=None):
    """A stored corpus with one file changed by a function of its bytes (None: removed)."""

    def write(folder):
        path = folder / "stored"
        store.write(path, from_counts([[2, 0, 1], [0, 0, 0], [0, 5, 1]]))
        if change is None:
            (path / file).unlink()
        else:
            (path / file).write_bytes(change((path / file).read_bytes()))
        return path, place or file, says, {"format": "store"}

    assert f"store {name}" not in CASES
    CASES[f"store {name}"] = write


def edited(**values):
    return lambda content: json.dumps({**json.loads(content), **values}).encode()


def flipped(place):
    return lambda content: content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


for each in ("indptr.npy", "indices.npy", "data.npy", "vocabulary.json", "names.json"):
    stored(f"without {each}", each, "no such file", None)
    stored(
        f"truncated {each}", each, "bytes, not|not JSON|names that", lambda content: content[:-2]
    )
stored("without manifest", "corpus.json", "by `store`", None, place="stored")
stored("manifest empty", "corpus.json", "not JSON", lambda _: b"")
stored("manifest a list", "corpus.json", "of this version", lambda _: b"[]")
stored("manifest deep", "corpus.json", "too deeply", lambda _: b"[" * 200_000)
stored("manifest of 5000 digits", "corpus.json", "not JSON", lambda _: b"1" * 5000)
stored("manifest binary", "corpus.json", "not JSON", lambda _: b"\xff\xfe")
stored("version", "corpus.json", "of this version", edited(kind="simplex_jax corpus 9"))
stored("documents 1e18", "corpus.json", "whole number", edited(documents=10**19))
stored("documents true", "corpus.json", "whole number", edited(documents=True))
stored("digest a path", "corpus.json", "not a SHA-256", edited(digest="../../etc/passwd"))
stored("a word more", "vocabulary.json", "list of 3", lambda _: b'["a", "b", "c", "d"]')
stored("word a number", "vocabulary.json", "not a string", lambda _: b'["a", "b", 3]')
stored("word twice", "vocabulary.json", "repeats word 0", lambda _: b'["a", "b", "a"]')
stored("header", "data.npy", "not 4 numbers of type <i4", flipped(20))
stored("pointer", "indptr.npy", "decrease|not from 0", flipped(128 + 8))
stored("last pointer", "indptr.npy", "not from 0 to 4", flipped(128 + 24))
stored("word beyond", "indices.npy", "not below 3", flipped(128 + 4))
stored("count negative", "data.npy", "a count is", lambda b: b[:-1] + b"\xff")
stored("pickle", "data.npy", "bytes, not", lambda _: b"\x93NUMPY\x01\x00v\x00{'descr': '|O'")
stored("another count", "data.npy", "not the counts", flipped(128), "stored")
stored("a word renamed", "vocabulary.json", "not the counts", lambda _: b'["a","b","c"]', "stored")
stored("a name changed", "names.json", "not the names", lambda _: b'["a", "b", "c"]')
stored("tokens", "corpus.json", "not the counts", edited(tokens=10), "stored")
stored("digest", "corpus.json", "not the counts", edited(digest="0" * 64), "stored")
stored("documents", "corpus.json", "bytes, not", edited(documents=10**17), "indptr.npy")


def h5ad(name, says, change=None, damage=None, **arguments):
    """An AnnData file, changed with h5py and then in its bytes."""

    def write(folder):
        h5py = pytest.importorskip("h5py")
        path = folder / "bad.h5ad"
        with h5py.File(path, "w") as file:
            matrix = file.create_group("X")
            matrix.attrs.update({"encoding-type": "csr_matrix", "shape": [2, 3]})
            for part, values in (
                ("data", [1.0, 2, 3]),
                ("indices", [0, 2, 1]),
                ("indptr", [0, 2, 3]),
            ):
                matrix[part] = np.array(values, np.float32 if part == "data" else np.int32)
            for axis, labels in (("obs", ["a", "b"]), ("var", ["apple", "pear", "plum"])):
                group = file.create_group(axis)
                group.attrs["_index"] = "_index"
                group.create_dataset("_index", data=labels, dtype=h5py.string_dtype())
            if change is not None:
                change(file, h5py)
        if damage is not None:
            path.write_bytes(damage(path.read_bytes()))
        return path, "bad.h5ad", says, arguments

    assert f"h5ad {name}" not in CASES
    CASES[f"h5ad {name}"] = write


def instead(name, value=None, **options):
    """A change that replaces an array by another or by nothing."""

    def change(file, _):
        del file[name]
        if value is not None or options:
            file.create_dataset(name, data=value, **options)

    return change


def link(name, target):
    def change(file, h5py):
        del file[name]
        file[name] = getattr(h5py, target[0])(*target[1:])

    return change


def attribute(group, name, value):
    return lambda file, _: file[group].attrs.__setitem__(name, value)


def virtual(file, h5py):
    del file["X/data"]
    layout = h5py.VirtualLayout((3,), np.float32)
    layout[:] = h5py.VirtualSource("elsewhere.h5", "data", (3,))
    file["X"].create_virtual_dataset("data", layout)


h5ad("negative", "row 0, column 2 .* is -2", instead("X/data", np.array([1, -2, 3])))
h5ad("nan", "not whole numbers", instead("X/data", np.array([1, np.nan, 3])))
h5ad("infinite", "row 0, column 2 .* is inf", instead("X/data", np.array([1, np.inf, 3])))
h5ad("fraction", "not whole numbers", instead("X/data", np.array([1, 1.5, 3])))
h5ad("huge", "16777217", instead("X/data", np.array([1, 2, MAX_COUNT + 1])))
h5ad("strings", "values of type", instead("X/data", np.array([b"1", b"2", b"3"])))
h5ad("objects", "values of type", instead("X/data", ["1", "2", "3"]))
h5ad("data missing", "is no data", instead("X/data"))
h5ad("data in two dimensions", "array of 1", instead("X/data", np.ones((3, 1))))
h5ad("index beyond", "valid array", instead("X/indices", np.array([0, 3, 1])))
h5ad("index negative", "valid array", instead("X/indices", np.array([0, -1, 1])))
h5ad("pointers beyond", "inconsistent arrays", instead("X/indptr", np.array([0, 2, 9])))
h5ad("shape of one", r"shape is \(6,\)", attribute("X", "shape", [6]))
h5ad("shape 1e18", "pointer size 3 should be", attribute("X", "shape", [10**18, 3]))
h5ad("words 1e9", "3 words in", attribute("X", "shape", [2, 10**9]))
h5ad("words 1e18", "inconsistent|3 words", attribute("X", "shape", [2, 10**18]))
h5ad("encoding unknown", "X is dataframe", attribute("X", "encoding-type", "dataframe"))
h5ad("encoding missing", "X is None", lambda file, _: file["X"].attrs.clear())
h5ad("X missing", "there is no X", instead("X"))
h5ad("X of one dimension", "array of 2", instead("X", np.ones(3)))
h5ad("X dense with a fraction", "not whole numbers", instead("X", np.full((2, 3), 0.5)))
h5ad("layer missing", "no layer 'raw'; .*: X", layer="raw")
h5ad("obs missing", "is no obs", instead("obs"))
h5ad("obs in an old format", "obs .*old format", instead("obs", np.ones(2)))
h5ad("index missing", "there is no _index", instead("var/_index"))
h5ad("index named elsewhere", "there is no /X/data|strings", attribute("var", "_index", "/X/data"))
h5ad("index of numbers", "not of strings", instead("var/_index", np.arange(3)))
h5ad("word twice", "repeats word 0, 'a'", instead("var/_index", ["a", "b", "a"]))
h5ad("word not utf-8", "not an intact", instead("var/_index", [b"a", b"b", b"\xff"]))
h5ad("a name less", "1 names for 2 documents", instead("obs/_index", ["a"]))
h5ad("external link", "X is a link", link("X", ("ExternalLink", "/etc/passwd", "/")))
h5ad("soft link", "X is a link", link("X", ("SoftLink", "/obs")))
h5ad("virtual array", "in another file", virtual)
h5ad(
    "external array",
    "in another file",
    instead("X/data", shape=(3,), dtype="f4", external=[("/etc/passwd", 0, 12)]),
)
h5ad("bomb", "unpacks to", instead("X/data", shape=(10**12,), dtype="f4", chunks=True))
h5ad("truncated", "not an intact HDF5", damage=lambda content: content[:-100])
h5ad("cut in the middle", "not an intact HDF5", damage=lambda content: content[:900])
h5ad("only a signature", "not an intact HDF5", damage=lambda content: content[:8])
case("h5ad asked for text", "documents.txt", "not an HDF5 file", "apple\n", format="h5ad")


def option(name, says, place, **files):
    """A good matrix with a bad file of words or names."""

    def write(folder):
        path = folder / "good.mtx"
        path.write_text(BANNER + SIZES + "1 1 1\n2 2 2\n")
        for what, content in files.items():
            (folder / what).write_bytes(content)
        return path, place, says, {what: folder / what for what in files}

    CASES[f"option {name}"] = write


option("names too few", "1 names for 2 documents", "good.mtx", names=b"a\n")
option("names of words", "give --transpose", "good.mtx", names=b"a\nb\nc\n")
option("names latin-1", "not utf-8", "names:2", names=b"a\n\xe9\n")
option("names empty", "file is empty", "names", names=b"")
option("words in rows", "give --transpose", "good.mtx", vocabulary=b"a\nb\n")
option("words too many", "4 words .* for 3 columns", "good.mtx", vocabulary=b"a\nb\nc\nd\n")


@other
def store_with_a_vocabulary(folder):
    (folder / "words").write_text("a\nb\n")
    store.write(folder / "stored", from_counts([[1, 2]]))
    return folder / "stored", "stored", "its own vocabulary", {"vocabulary": folder / "words"}


@other
def records_of_no_known_format(folder):
    path = folder / "visits.data"
    path.write_text('A,1,"news"\n' + "C,1\nV,1000,1\n" * 10)
    return path, "visits.data", "1 of 21 lines .* --format lines", {"text": EVERY_WORD}


@other
def folder_as_a_store(folder):
    (folder / "a.txt").write_bytes(b"apple")
    return folder, folder.name, "by `store`", {"format": "store"}


@other
def names_missing(folder):
    path = folder / "a.mtx"
    path.write_text(BANNER + SIZES + "1 1 1\n2 2 2\n")
    return path, "/nowhere", "no such file", {"names": "/nowhere"}
