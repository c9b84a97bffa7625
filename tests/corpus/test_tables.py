"""Tables of any columns: fields, missing ones, names of the rows, bad tables."""

import gzip

import pytest

from simplex_jax._src.corpus import CorpusError, Reading
from simplex_jax._src.corpus.formats import registry
from simplex_jax._src.corpus.formats.tables import read_frame

TEXT = "id,colour,size\na,red,small\nb,green,?\nc,,NA\nd,red, large \n"
COLUMNS = {"colour": ["red", "green", None, "red"], "size": ["small", None, None, "large"]}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.csv", TEXT),
        ("x.csv", TEXT.replace(",", ";").replace("\n", "\r\n")),
        ("x.tsv", TEXT.replace(",", "\t")),
        ("x.TAB.gz", TEXT.replace(",", "\t")),
        ("anything", '\ufeffid,colour,size\na,"red",small\nb,green,?\nc,,NA\n\nd,red,"large"'),
    ],
    ids=["commas", "semicolons", "tabs", "gzip", "quotes"],
)
def test_fields_and_missing_ones(tmp_path, name, text):
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert read_frame(tmp_path / name, Reading()) == (COLUMNS, tuple("abcd"))
    found = registry.recognised(tmp_path / name, "counts").name
    assert found == ("lines" if name == "anything" else "tsv" if "t" in name.lower() else "csv")


def saved(folder, text):
    (folder / "x.csv").write_text(text)
    return folder / "x.csv"


def test_the_column_of_names(tmp_path):
    path = saved(tmp_path, "title,kind\nMs,a\nMr,b\nMs,a\n")
    table = read_frame(path, Reading())
    assert list(table.columns) == ["title", "kind"], "no names, for two of them are equal"
    assert table.names == ("1", "2", "3")
    table = read_frame(path, Reading(id_column="title"))
    assert (list(table.columns), table.names) == (["kind"], ("Ms", "Mr", "Ms"))
    assert list(read_frame(path, Reading(), drop=("kind",)).columns) == ["title"]


def test_a_first_column_without_a_name_has_the_row_names_of_pandas_and_r(tmp_path):
    path = saved(tmp_path, ",x,y\n0,1.5,a\n1,2.5,b\n")
    assert read_frame(path, Reading()) == ({"x": ["1.5", "2.5"], "y": ["a", "b"]}, ("0", "1"))
    assert read_frame(path, Reading(id_column="y")) == ({"x": ["1.5", "2.5"]}, ("a", "b"))
    path = saved(tmp_path, '"","id","x"\n"1","p",1.5\n"2","q",2.5\n')
    assert read_frame(path, Reading()) == ({"x": ["1.5", "2.5"]}, ("p", "q"))
    for repeated in (",x\n0,1\n0,2\n", ",\n0,1\n1,2\n"):
        with pytest.raises(CorpusError, match=r"column \d has no name"):
            read_frame(saved(tmp_path, repeated), Reading())


def test_a_variable_of_a_model_does_not_name_the_rows(tmp_path):
    """One row is always distinct, and a column of a usual name may be a variable."""
    path = saved(tmp_path, "title,size\nMr,small\n")
    table = read_frame(path, Reading(), variables=("title", "size"))
    assert table == ({"title": ["Mr"], "size": ["small"]}, ("1",))
    path.write_text("id,size\na,small\nb,large\n")
    assert read_frame(path, Reading(), drop=("id",)).names == ("1", "2")


@pytest.mark.parametrize("field", ["", " ", "?", "NA", "na", "N/A", "n/a", "<NA>", "NaT", "nan"])
def test_missing_fields(tmp_path, field):
    table = read_frame(saved(tmp_path, f"a,b\nx,1\n{field},2\n"), Reading())
    assert table.columns == {"a": ["x", None], "b": ["1", "2"]}


def test_tabs_in_a_csv_are_told(tmp_path):
    (tmp_path / "x.csv").write_text("a\tb\n1\t2\n")
    with pytest.raises(CorpusError, match=r"x.csv:1: .*if tabs separate .* name the file .tsv"):
        read_frame(tmp_path / "x.csv", Reading())


@pytest.mark.parametrize(
    ("text", "line", "options", "says"),
    [
        ("", None, {}, "file is empty"),
        ("\n\n", None, {}, "no record"),
        ("a,b\n", None, {}, "no row"),
        ("a,b\n1,2\n1\n", 3, {}, "1 fields instead of 2"),
        ("a,b\n1,2\n1,2,3\n", 3, {}, "3 fields instead of 2"),
        ("a,a\n1,2\n", 1, {}, "column 2 is 'a' again"),
        ("a,\n1,2\n", 1, {}, "column 2 has no name"),
        ("id\n1\n2\n", 1, {}, "no column is"),
        ("a\n1\n", 1, {"drop": ("b",)}, "no column 'b'"),
        ("a\n1\n", 1, {"reading": Reading(id_column="b")}, "no column 'b'"),
        ('a,b\n1,"2\n', 2, {}, "malformed record"),
        ("a\n\0\n", 2, {}, "a NUL byte"),
        ("a\n\udcff\n", 2, {}, "is not utf-8"),
    ],
)
def test_bad_tables(tmp_path, text, line, options, says):
    (tmp_path / "bad.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(CorpusError, match=says) as caught:
        read_frame(tmp_path / "bad.csv", **({"reading": Reading()} | options))
    message = str(caught.value)
    assert message.isprintable()
    assert f"bad.csv{'' if line is None else f':{line}'}: " in message
