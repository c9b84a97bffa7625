"""Packed files, archives and standard input: what is read, and what is refused."""

import bz2
import gzip
import io
import lzma
import os
import stat
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from support.marks import slow_but

from simplex_jax._src.corpus import CorpusError, Reading, TextOptions, read, resolve
from simplex_jax._src.corpus.files import unpacked_limit
from simplex_jax._src.corpus.formats.tables import read_frame

EVERY_WORD = TextOptions(min_df=1, max_df=1.0)
LINES = b"apple pear\n\nplum plum\n"
COUNTS = [[1, 1, 0], [0, 0, 0], [0, 0, 2]]


def zipped(**members):
    """A zip archive of files by name."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def saved(folder, content, name="x"):
    (folder / name).write_bytes(content)
    return folder / name


PACKINGS = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zip": lambda content: zipped(**{"inner.txt": content, "__MACOSX/._inner.txt": b"\0"}),
}


@pytest.mark.parametrize("packing", PACKINGS)
def test_every_packing_is_seen_by_its_first_bytes(tmp_path, packing):
    pack = PACKINGS[packing]
    corpus = read(saved(tmp_path, pack(LINES)), text=EVERY_WORD)
    assert corpus.counts.toarray().tolist() == COUNTS
    # The name counts without the ending of the packing, and a vocabulary may be packed as well.
    table = saved(tmp_path, pack(b"id,text\na,apple\n"), f"x.CSV.{packing}")
    if packing == "zip":
        table = saved(tmp_path, zipped(**{"deep/x.csv": b"id,text\na,apple\n"}), "y.zip")
    assert read(table, text=EVERY_WORD).names == ("a",)
    assert list(read_frame(table, Reading()).columns) == ["text"]
    saved(tmp_path, pack(b"apple\npear\n"), f"vocab.txt.{packing}")
    bag = saved(tmp_path, pack(b"1\n2\n1\n1 2 3\n"), f"docword.x.txt.{packing}")
    assert read(bag, "uci").vocabulary == ("apple", "pear")


@pytest.mark.parametrize("packing", slow_but(PACKINGS, "gz", "zip"))
def test_damaged_files_and_bombs_are_refused(tmp_path, packing):
    packed = PACKINGS[packing](os.urandom(3000).hex().encode())
    for content in (packed[:-30], packed[:100], packed[:50] + b"\xff" * 20 + packed[70:]):
        with pytest.raises(CorpusError) as caught:
            read(saved(tmp_path, content), "lines", text=EVERY_WORD)
        message = str(caught.value)
        assert message.isprintable()
        assert message.startswith(str(tmp_path / "x"))
        assert "; " in message
    bomb = saved(tmp_path, PACKINGS[packing]((b"x" * 2**20 + b"\n") * 70))
    with pytest.raises(CorpusError, match=r"than 64 MiB, .* decompression bomb"):
        read(bomb, "lines", text=EVERY_WORD)


@pytest.mark.parametrize(
    ("size", "limit"),
    [(2**10, 2**26), (2**20, 200 * 2**20), (2**30, 2**36), (2**36, 30 * 2**36)],
)
def test_a_large_file_is_no_bomb(size, limit):
    """HDF5 of 64 GiB and more, packed or not, is read in pieces."""
    assert unpacked_limit(size) == limit


def test_a_zip_archive_of_texts_is_a_folder(tmp_path):
    content = zipped(
        **{"b.txt": b"pear", "a/z.txt": b"plum\nplum", "a/empty": b"", ".git/x": b"\0"}
    )
    corpus = read(saved(tmp_path, content, "texts.zip"), text=EVERY_WORD)
    assert corpus.names == ("a/empty", "a/z.txt", "b.txt")
    assert corpus.counts.toarray().tolist() == [[0, 0], [0, 2], [1, 0]]
    one = saved(tmp_path, zipped(**{"b.txt": b"pear\nplum"}), "one.zip")
    assert read(one, text=EVERY_WORD).names == ("1", "2"), "a document a line"
    assert read(one, "folder", text=EVERY_WORD).names == ("b.txt",)


def encrypted():
    """An archive whose member says that it needs a password."""
    content = bytearray(zipped(**{"a.txt": b"apple"}))
    for start in (content.index(b"PK\x03\x04") + 6, content.index(b"PK\x01\x02") + 8):
        content[start] |= 1
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "format", "says"),
    [
        (zipped(**{"a.txt": b"pear", "b.txt": b"p\xeache"}), None, r"b.txt:1: byte 2 .* not utf-8"),
        (zipped(**{"a.txt": b"pear", "b.png": b"P\0"}), None, r"b.png:1: a NUL byte"),
        (
            zipped(**{"a": b"pear", "b": b"plum"}),
            "lines",
            "zip archive of 2 files",
        ),
        (zipped(**{".a": b"pear"}), None, "no file in"),
        (zipped(), None, "no file in"),
        (zipped(a=b"x" * 2**26, b=b"y" * 2**26), None, "than 64 MiB, .* decompression bomb"),
        (encrypted(), None, "cannot be unpacked .* without a password"),
        (b"PK\x03\x04 not a zip file", None, r"npz file .*save_npz"),
        (b"7z\xbc\xaf\x27\x1c\0", None, "a 7z archive; unpack it"),
        (b"Rar!\x1a\x07\x01", None, "a RAR archive"),
        (b"\x28\xb5\x2f\xfd\0", None, "packed by zstd"),
        (
            gzip.compress(b"a.txt".ljust(257, b"\0") + b"ustar" + b"\0" * 300, mtime=0),
            None,
            "a tar archive",
        ),
    ],
)
def test_archives_that_cannot_be_read(tmp_path, content, format, says):
    path = saved(tmp_path, content, "x.zip")
    with pytest.raises(CorpusError, match=says) as caught:
        read(path, format)
    assert str(caught.value).isprintable()
    assert str(caught.value).startswith(str(path))


def test_an_npz_is_not_an_archive_of_texts(tmp_path):
    sp.save_npz(tmp_path / "x.npz", sp.csr_array(np.array(COUNTS)))
    assert resolve(tmp_path / "x.npz", Reading()).format == "npz"


def from_standard_input(content, code):
    """The output of a program that reads `content` from standard input."""
    program = (
        f"from simplex_jax._src.corpus import *\nevery = TextOptions(min_df=1, max_df=1.0)\n{code}"
    )
    return subprocess.run(
        [sys.executable, "-c", program], input=content, capture_output=True, check=False
    )


@pytest.mark.parametrize("pack", slow_but([bytes, lzma.compress], lzma.compress))
def test_standard_input(pack):
    code = "print(read('-', text=every).counts.toarray().tolist(), read('-', text=every).names)"
    result = from_standard_input(pack(LINES), code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.decode().strip() == f"{COUNTS} ('1', '2', '3')"


@pytest.mark.slow
def test_errors_of_standard_input():
    result = from_standard_input(b"apple\np\xeache\n", "read('-', text=every)")
    assert b"CorpusError: -:2: byte 2 of the line is not utf-8" in result.stderr
    result = from_standard_input(b"", "read('-', text=every)")
    assert b"CorpusError: -: the file is empty" in result.stderr


def test_an_empty_path_is_not_the_current_folder():
    with pytest.raises(CorpusError, match=r"^'': "):
        read("")


def test_a_pipe_is_not_an_empty_document(tmp_path):
    saved(tmp_path, b"apple", "a.txt")
    os.mkfifo(tmp_path / "b.txt")
    assert stat.S_ISFIFO((tmp_path / "b.txt").stat().st_mode)
    with pytest.raises(CorpusError, match=r"b.txt: .*regular file"):
        read(tmp_path, text=EVERY_WORD)


@pytest.mark.parametrize("member", ["[Content_Types].xml", "mimetype"])
def test_office_files_are_not_archives_of_texts(tmp_path, member):
    content = zipped(**{member: b"x", "xl/sharedStrings.xml": b"<si><t>apple</t></si>"})
    with pytest.raises(CorpusError, match=r"x\.xlsx: .* Excel .* CSV"):
        read(saved(tmp_path, content, "x.xlsx"), text=EVERY_WORD)
