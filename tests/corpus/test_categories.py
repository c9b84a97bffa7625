"""Tables of categorical columns: values, missing ones, names, those of a model, bad tables."""

import gzip

import numpy as np
import pytest

from simplex_jax._src.corpus import CorpusError, categories, kind_of, read_table

TEXT = "id,colour,size\na,red,small\nb,green,?\nc,,NA\nd,red, large \n"
CODES = [[1, 1], [0, -1], [-1, -1], [1, 0]]


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
def test_values_and_missing_ones(tmp_path, name, text):
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    table = read_table(tmp_path / name)
    np.testing.assert_array_equal(table.codes, CODES)
    assert table.codes.dtype == np.int32
    assert table.columns == ("colour", "size")
    assert table.values == (("green", "red"), ("large", "small"))
    assert (table.names, table.unknown) == (tuple("abcd"), 0)
    kind = kind_of(tmp_path / name, "table", "counts")
    assert kind == ("counts" if name == "anything" else "table")


def saved(folder, text):
    (folder / "x.csv").write_text(text)
    return folder / "x.csv"


def test_the_column_of_names(tmp_path):
    path = saved(tmp_path, "title,kind\nMs,a\nMr,b\nMs,a\n")
    table = read_table(path)
    assert table.columns == ("title", "kind"), "no names, for two of them are equal"
    assert table.names == ("1", "2", "3")
    table = read_table(path, id_column="title")
    assert (table.columns, table.names) == (("kind",), ("Ms", "Mr", "Ms"))
    assert read_table(path, drop=("kind",)).columns == ("title",)


def test_the_columns_of_a_model(tmp_path):
    model = (("size", "colour"), (("large", "small"), ("blue", "red")))
    table = read_table(saved(tmp_path, TEXT), variables=model)
    np.testing.assert_array_equal(table.codes, [[1, 1], [-1, -1], [-1, -1], [0, 1]])
    assert table.unknown == 1, "green"
    with pytest.raises(CorpusError, match="no column 'age', which the model has"):
        read_table(tmp_path / "x.csv", variables=(("age",), (("1",),)))


def test_a_variable_of_a_model_does_not_name_the_rows(tmp_path):
    """One row is always distinct, and a column of a usual name may be a variable."""
    path = tmp_path / "x.csv"
    path.write_text("title,size\nMr,small\n")
    table = read_table(path, variables=(("title", "size"), (("Mr", "Ms"), ("large", "small"))))
    assert table.codes.tolist() == [[0, 1]]
    assert table.names == ("1",)
    path.write_text("id,size\na,small\nb,large\n")
    assert read_table(path, drop=("id",)).names == ("1", "2")


@pytest.mark.parametrize("field", ["", " ", "?", "NA", "na", "N/A", "n/a", "<NA>", "NaT", "nan"])
def test_missing_fields(tmp_path, field):
    table = read_table(saved(tmp_path, f"a,b\nx,1\n{field},2\n"))
    assert table.values == (("x",), ("1", "2"))
    assert table.codes.tolist() == [[0, 0], [-1, 1]]
    # A value of a model is one, whatever it is called.
    known = read_table(tmp_path / "x.csv", variables=(("a",), (("na", "x"),)))
    assert known.codes.tolist() == [[1], [0 if field == "na" else -1]]


def test_digest(tmp_path):
    table = read_table(saved(tmp_path, TEXT))
    some = table._replace(codes=table.codes[[0, 3]], names=("a", "d"))
    assert categories.digest(table) == categories.digest(table._replace(names=()))
    assert categories.digest(some) != categories.digest(table)
    other = read_table(saved(tmp_path, TEXT.replace("red", "rot")))
    assert categories.digest(other) != categories.digest(table)


def test_tabs_in_a_csv_are_told(tmp_path):
    (tmp_path / "x.csv").write_text("a\tb\n1\t2\n")
    with pytest.raises(CorpusError, match=r"x.csv:1: .*if tabs separate .* name the file .tsv"):
        read_table(tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("text", "line", "options", "says"),
    [
        ("", None, {}, "the file is empty"),
        ("\n\n", None, {}, "no record"),
        ("a,b\n", None, {}, "no row"),
        ("a,b\n1,2\n1\n", 3, {}, "1 fields instead of 2"),
        ("a,b\n1,2\n1,2,3\n", 3, {}, "3 fields instead of 2"),
        ("a,a\n1,2\n", 1, {}, "column 2 is 'a' again"),
        ("a,\n1,2\n", 1, {}, "column 2 has no name"),
        ("a,b\n1,?\n2,NA\n", 1, {}, "column 'b' has no value"),
        ("a\n" + "".join(f"{i}\n" for i in range(1001)), 1, {}, "column 'a' has 1,001 values"),
        ("id\n1\n2\n", 1, {}, "no column is left"),
        ("a\n1\n", 1, {"drop": ("b",)}, "no column 'b'"),
        ("a\n1\n", 1, {"id_column": "b"}, "no column 'b'"),
        ('a,b\n1,"2\n', 2, {}, "malformed record"),
        ("a\n\0\n", 2, {}, "a NUL byte"),
        ("a\n\udcff\n", 2, {}, "is not utf-8"),
    ],
)
def test_bad_tables(tmp_path, text, line, options, says):
    (tmp_path / "bad.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(CorpusError, match=says) as caught:
        read_table(tmp_path / "bad.csv", **options)
    message = str(caught.value)
    assert message.isprintable()
    assert f"bad.csv{'' if line is None else f':{line}'}: " in message
