"""Files that are neither text nor counts in a known format, recognised by their first bytes."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from simplex_jax._src.corpus.corpus import CorpusError, error_at


class Kind(NamedTuple):
    """A kind of files that are not read."""

    name: str  # with an article
    start: bytes  # regular expression of its first bytes
    remedy: str


_UNPACK = "unpack it, or pack it as .zip, .gz or .xz"
_TEXT_OF = "extract its text first"
_PICTURE = "give texts, such as those that OCR finds in it"
_SOUND = "give texts, such as a transcript of it"
_PICKLED = (
    "no pickle is ever loaded, since it can run any program: where it was written, save counts "
    "with scipy.sparse.save_npz, or texts one a line"
)
_OF_R = "in R, save counts with Matrix::writeMM(counts, 'counts.mtx'), or texts with write.csv"
_OF_PANDAS = "save it as CSV: pandas.{}(file).to_csv('table.csv')"
_SAVE_NPZ = "save counts with scipy.sparse.save_npz(file, scipy.sparse.csr_array(counts))"

_NEVER_READ = (
    Kind("a 7z archive", rb"7z\xbc\xaf\x27\x1c", _UNPACK),
    Kind("a RAR archive", rb"Rar!\x1a\x07", _UNPACK),
    Kind("packed by zstd", rb"\x28\xb5\x2f\xfd", _UNPACK),
    Kind("packed by lz4", rb"\x04\x22\x4d\x18", _UNPACK),
    Kind("packed by compress", rb"\x1f\x9d[\x80-\x90]", _UNPACK),
    Kind("packed by lzip", rb"LZIP\x01", _UNPACK),
    Kind("a tar archive", rb".{257}ustar", _UNPACK),
    Kind("a PDF", rb"\s*%PDF-\d", f"{_TEXT_OF} (pdftotext)"),
    Kind("a PostScript file", rb"%!PS-Adobe", f"{_TEXT_OF} (ps2txt)"),
    Kind("a DjVu file", rb"AT&TFORM", f"{_TEXT_OF} (djvutxt)"),
    Kind(
        "an Office file of before 2007, such as .doc, .xls or .ppt",
        rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "save it as CSV or as a text file first",
    ),
    Kind("a file in Rich Text Format", rb"\{\\rtf", "save it as a text file first"),
    Kind("a pickle of Python", rb"\x80[\x02-\x05]", _PICKLED),
    Kind("a pickle of Python", rb"\([dl]p0\n|ccopy_reg\n|c__builtin__\n|cnumpy\.", _PICKLED),
    Kind("an R data file (.RData)", rb"RD[XAB][123]\n", _OF_R),
    Kind(
        "an R object (.rds)",
        rb"X\n\0\0\0[\x01-\x03]|B\n[\x01-\x03]\0\0\0|A\n[23]\n\d{6}\n\d{6}\n",
        _OF_R,
    ),
    Kind("a Parquet file", rb"PAR1[\0-\x1f]", _OF_PANDAS.format("read_parquet")),
    Kind("an Arrow (Feather) file", rb"ARROW1\0|FEA1\0", _OF_PANDAS.format("read_feather")),
    Kind("an ORC file", rb"ORC[\0-\x08]", _OF_PANDAS.format("read_orc")),
    Kind("an Avro file", rb"Obj\x01", "save it as JSON lines or CSV"),
    Kind(
        "an SQLite database",
        rb"SQLite format 3\0",
        "save a table as CSV: sqlite3 -header -csv FILE 'SELECT ...' > table.csv",
    ),
    Kind("a DuckDB database", rb".{8}DUCK", "save a table as CSV: COPY ... TO 'table.csv'"),
    Kind("a Stata file (.dta)", rb"<stata_dta>", _OF_PANDAS.format("read_stata")),
    Kind("an SPSS file (.sav)", rb"\$FL[23]@\(#\)", _OF_PANDAS.format("read_spss")),
    Kind("a SAS file", rb"\0{12}\xc2\xea\x81\x60", _OF_PANDAS.format("read_sas")),
    Kind(
        "a MATLAB file (.mat)",
        rb"MATLAB \d\.\d MAT-file",
        "in Python, scipy.io.loadmat reads it: " + _SAVE_NPZ,
    ),
    Kind("a PNG image", rb"\x89PNG\r\n", _PICTURE),
    Kind("a JPEG image", rb"\xff\xd8\xff", _PICTURE),
    Kind("a GIF image", rb"GIF8[79]a", _PICTURE),
    Kind("a TIFF image", rb"II[*+]\0|MM\0[*+]", _PICTURE),
    Kind("a BMP image", rb"BM.{4}\0{4}", _PICTURE),
    Kind("a WebP image", rb"RIFF.{4}WEBP", _PICTURE),
    Kind("a HEIC or AVIF image", rb"\0{3}.ftyp(?:hei|mif1|avif)", _PICTURE),
    Kind("a video or sound file", rb"\0{3}.ftyp|\x1a\x45\xdf\xa3|RIFF.{4}(?:WAVE|AVI )", _SOUND),
    Kind("a sound file", rb"ID3[\x02-\x04]|OggS\0|fLaC\0|\xff\xfb[\x90-\xe0]", _SOUND),
    Kind("a program", rb"\x7fELF|MZ.{58}.{2}\0\0|\xcf\xfa\xed\xfe", "give text, or leave it out"),
)

_BINARY = (
    Kind("an array of NumPy (.npy)", rb"\x93NUMPY", _SAVE_NPZ),
    Kind("an HDF5 file", rb"\x89HDF\r", "give it by itself, not in a folder of texts"),
    Kind("a compressed pickle of Python", rb"\x78[\x01\x5e\x9c\xda]", _PICKLED),
)
"""Kinds that are read in other places, or whose start may be text."""

_OFFICE = (
    Kind("a Word document", rb"word/", "save it as a text file"),
    Kind("an Excel workbook", rb"xl/", "save it as CSV"),
    Kind("a PowerPoint presentation", rb"ppt/", "save its text first"),
    Kind("an OpenDocument file or an e-book", rb"mimetype$", "save it as CSV or as a text file"),
    Kind("an Office file", rb"", "save it as CSV or as a text file"),
)
"""Zip archives in which programs keep tables, texts or books, by the names of their members."""

_PICKLES = (".pkl", ".pickle", ".joblib", ".dill", ".pt", ".pth")


def refuse(head: bytes, path: Path) -> None:
    """Raise a CorpusError if the first bytes are those of a file that is never read."""
    for kind in _NEVER_READ:
        if re.match(kind.start, head, re.DOTALL):
            raise error_at(path, f"this is {kind.name}", kind.remedy)


def refuse_members(names: Sequence[str], path: Path) -> None:
    """Raise a CorpusError for a zip archive of parts in XML, which would be read as texts."""
    if not {"[Content_Types].xml", "mimetype"}.isdisjoint(names):
        members = [name.encode() for name in names]
        kind = next(kind for kind in _OFFICE if any(re.match(kind.start, name) for name in members))
        raise error_at(path, f"this is {kind.name}", kind.remedy)
    if any(name.endswith("data.pkl") for name in names):
        raise error_at(path, "this is a saved model of PyTorch, a pickle", _PICKLED)


def error_of_binary(head: bytes, path: Path, line: int) -> CorpusError:
    """Return the error for a file with a NUL byte in this line; `head` is its first bytes."""
    for kind in _BINARY:
        if re.match(kind.start, head, re.DOTALL):
            return error_at(path, f"this is {kind.name}, not text", kind.remedy, line=line)
    if path.name.lower().endswith(_PICKLES):
        return error_at(path, "this is a pickle, not text", _PICKLED, line=line)
    remedy = "give text, or leave binary files out"
    return error_at(path, "a NUL byte: this is not text", remedy, line=line)
