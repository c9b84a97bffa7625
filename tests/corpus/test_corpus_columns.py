"""Document metadata in files."""

import json

import numpy as np
import pytest

from simplex_jax._src.corpus import (
    CorpusError,
    Reading,
    TextOptions,
    read,
    read_columns,
    reordered,
    resolve,
)
from simplex_jax._src.evaluate.covariates import column

CSV = 'id,year,text,party\na,1999,"apple, pear",D\nb,,plum,R\n'
JSONL = (
    '{"id": "a", "year": 1999, "text": "apple", "party": "D"}\n'
    '{"id": "b", "year": null, "text": "plum", "party": "R"}\n{"id": "c", "text": "", "new": true}'
)
EVERY_WORD = TextOptions(min_df=1, max_df=1.0)


def saved(place, name, content):
    (place / name).write_text(content)
    return place / name


def columns_of(path, names, documents):
    """Columns in the order of the file, or of documents."""
    metadata = read_columns(path, names)
    return (reordered(metadata, documents, path) if documents else metadata).columns


@pytest.mark.parametrize("tabs", [False, True])
def test_columns_of_tables(tmp_path, tabs):
    content = CSV.replace('"apple, pear"', "apple").replace(",", "\t") if tabs else CSV
    path = saved(tmp_path, "x.tsv" if tabs else "x.csv", content)
    result = read_columns(path, ["party", "year"])
    assert result.names == read(path, text=EVERY_WORD).names == ("a", "b")
    assert result.columns == {"party": ["D", "R"], "year": ["1999", ""]}
    assert read_columns(path, ["year"], id_column="party").names == ("D", "R")
    unnamed = saved(tmp_path, "y.csv", "year,text\n1,apple\n2,pear\n")
    assert read_columns(unnamed, ["year"]).names == ("1", "2")
    headless = saved(tmp_path, "z.tsv", "1914\tapple\n1915\tpear\n")
    resolved = resolve(headless, Reading(text_column="2"))
    assert read_columns(headless, ["1"], text_column=resolved.text_column).columns == {
        "1": ["1914", "1915"]
    }


def test_a_table_needs_no_texts(tmp_path):
    path = saved(tmp_path, "x.csv", "name,year\nb,2\na,1\n")
    assert columns_of(path, ["year"], ["a", "b"]) == {"year": ["1", "2"]}


def test_a_document_is_found_by_its_name_in_letters_or_in_parts(tmp_path):
    """Files of a Mac have names in which an accent is a character of its own."""
    path = saved(tmp_path, "x.csv", "name,year\nb,2\ncaf\u00e9,1\ncafe\u0301,3\nth\u00e9,4\n")
    wanted = ["cafe\u0301", "caf\u00e9", "the\u0301"]
    assert columns_of(path, ["year"], wanted) == {"year": ["3", "1", "4"]}
    with pytest.raises(CorpusError, match=r"1 of 2 .* 'the'"):
        columns_of(path, ["year"], ["b", "the"])


def test_names_may_repeat_in_the_order_of_the_documents(tmp_path):
    path = saved(tmp_path, "x.csv", "name,year\na,1\nb,2\na,3\n")
    assert columns_of(path, ["year"], ["a", "b", "a"]) == {"year": ["1", "2", "3"]}
    with pytest.raises(CorpusError, match=r"records .* 'a'"):
        columns_of(path, ["year"], ["a", "a", "b"])


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.csv", "year\n1\n2\n"), ("x.jsonl", '{"year": "1"}\n{"year": "2"}')],
)
def test_records_without_names_are_those_of_numbered_documents(tmp_path, name, content):
    """A document called 2 had the second record, whatever its place."""
    path = saved(tmp_path, name, content)
    assert columns_of(path, ["year"], ["1", "2"]) == {"year": ["1", "2"]}
    for documents in (["2", "1"], ["2"], ["1", "2", "3"]):
        with pytest.raises(CorpusError, match=r"of names, .* 1 to 2; .*--id-column"):
            columns_of(path, ["year"], documents)


@pytest.mark.parametrize(("name", "separator"), [("x.csv", ","), ("x.tsv", "\t")])
def test_metadata_may_have_a_column_called_term(tmp_path, name, separator):
    path = saved(tmp_path, name, "doc_id,term\na,1\nb,2\n".replace(",", separator))
    assert columns_of(path, ["term"], ["b", "a"]) == {"term": ["2", "1"]}
    with pytest.raises(CorpusError, match=r"triples .* h5ad, csv"):
        read_columns(path, ["term"], format="triples")


def test_blanks_around_the_names_of_columns_are_left_out(tmp_path):
    path = saved(tmp_path, "x.csv", "id, year, text\na,1999,apple\n")
    assert read_columns(path, ["year"]).columns == {"year": ["1999"]}
    assert read(path, text=EVERY_WORD, text_column="text").vocabulary == ("apple",)


def test_fields_of_objects(tmp_path):
    result = read_columns(saved(tmp_path, "x.jsonl", JSONL), ["year", "party", "new"])
    assert result.names == ("a", "b", "c")
    assert result.columns == {
        "year": [1999, None, None],
        "party": ["D", "R", None],
        "new": [None, None, True],
    }


def test_half_characters_of_json_are_written_out(tmp_path):
    path = saved(tmp_path, "x.jsonl", '{"id": 1, "party": "D\\ud800"}')
    assert read_columns(path, ["party"]).columns == {"party": [r"D\ud800"]}


@pytest.mark.parametrize("transpose", [False, True])
def test_columns_of_anndata(tmp_path, transpose):
    h5py = pytest.importorskip("h5py")
    path, axis = tmp_path / "x.h5ad", "var" if transpose else "obs"
    with h5py.File(path, "w") as file:
        file["X"] = np.array([[1, 0], [0, 2]])
        for name in ("obs", "var"):
            file.create_group(name).attrs["_index"] = "name"
            file[name]["name"] = [f"{name}0", f"{name}1"]
        table = file[axis]
        table["age"], table["well"], table["kind"] = [1.5, 2.0], [True, False], ["x", "y"]
        table.create_group("odd").attrs["encoding-type"] = "dict"
        group = table.create_group("cell")
        group.attrs["encoding-type"] = "categorical"
        group["categories"], group["codes"] = ["B", "T"], np.array([1, -1], np.int8)
    result = read_columns(path, ["age", "well", "kind", "cell"], transpose=transpose)
    assert result.names == read(path, transpose=transpose).names
    assert result.columns == {
        "age": [1.5, 2.0],
        "well": [True, False],
        "kind": ["x", "y"],
        "cell": ["T", None],
    }
    with pytest.raises(CorpusError, match=r"x\.h5ad: column odd "):
        read_columns(path, ["odd"], transpose=transpose)
    with pytest.raises(CorpusError, match=r"x.h5ad: no column 'size' among .*cell"):
        read_columns(path, ["size"], transpose=transpose)


def test_categories_of_anndata_are_groups_in_their_order(tmp_path):
    # Clusters called 0, 1, ... were numbers to regress on.
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5ad", "w") as file:
        file["X"] = np.eye(4, dtype=int)
        for name in ("obs", "var"):
            file.create_group(name).attrs["_index"] = "name"
            file[name]["name"] = list("abcd")
        for name, categories in (("leiden", ["10", "2"]), ("day", ["2020-03-01", "2019-07"])):
            group = file["obs"].create_group(name)
            group.attrs["encoding-type"] = "categorical"
            group["categories"], group["codes"] = categories, np.array([1, 0, -1, 1], np.int8)
    for documents, codes in ((None, [1, 0, -1, 1]), (["d", "c", "b", "a"], [1, -1, 0, 1])):
        found = columns_of(tmp_path / "x.h5ad", ["leiden"], documents)["leiden"]
        assert found == [("10", "2", None)[code] for code in codes]
        groups = column("leiden", found)
        assert (groups.kind, groups.groups) == ("group", ("10", "2"))
        assert groups.values.tolist() == codes
    # AnnData writes texts as categories: dates would be lost.
    days = column("day", read_columns(tmp_path / "x.h5ad", ["day"]).columns["day"])
    assert days.kind == "date"
    assert days.values[:2].astype(int).tolist() == [2019, 2020]


def test_categories_of_anndata_before_0_8_are_groups_too(tmp_path):
    """Their codes were numbers, and -1 was one of them."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5ad", "w") as file:
        file["X"] = np.eye(3, dtype=int)
        for name in ("obs", "var"):
            file.create_group(name).attrs["_index"] = "name"
            file[name]["name"] = list("abc")
        table = file["obs"]
        table["cell"] = np.array([1, 0, -1], np.int8)
        table.create_group("__categories")["cell"] = ["B", "T"]
        table["cell"].attrs["categories"] = table["__categories/cell"].ref
    found = read_columns(tmp_path / "x.h5ad", ["cell"]).columns["cell"]
    assert found == ["T", "B", None]
    assert column("cell", found).groups == ("B", "T")


def nullable(place, name, values, mask):
    """Values with a mask, as anndata writes columns of pandas' own types."""
    group = place.create_group(name)
    kind = {"U": "string-array", "i": "integer", "b": "boolean"}[np.asarray(values).dtype.kind]
    group.attrs["encoding-type"] = f"nullable-{kind}"
    group["values"], group["mask"] = values, np.array(mask)
    return group


@pytest.fixture
def masked(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "x.h5ad"
    with h5py.File(path, "w") as file:
        file["X"] = np.array([[1, 0], [0, 2]])
        for name in ("obs", "var"):
            file.create_group(name).attrs["_index"] = "name"
            nullable(file[name], "name", [f"{name}0", f"{name}1"], [False, False])
        table = file["obs"]
        nullable(table, "age", [3, 1], [False, True])
        nullable(table, "well", [True, True], [True, False])
        nullable(table, "kind", ["x", ""], [False, True])
        group = table.create_group("cell")
        group.attrs["encoding-type"] = "categorical"
        nullable(group, "categories", ["B", "T"], [False, False])
        group["codes"] = np.array([1, -1], np.int8)
    return path


def test_columns_of_anndata_with_missing_values(masked):
    corpus = read(masked)
    assert (corpus.names, corpus.vocabulary) == (("obs0", "obs1"), ("var0", "var1"))
    result = read_columns(masked, ["age", "well", "kind", "cell"])
    assert result.names == corpus.names
    assert result.columns == {
        "age": [3, None],
        "well": [None, True],
        "kind": ["x", None],
        "cell": ["T", None],
    }


def mask_of(name, mask):
    def change(table):
        del table[name]["mask"]
        table[name]["mask"] = np.array(mask)

    return change


def no_strings(table):
    del table["name"]
    nullable(table, "name", [1, 2], [False, False])


def no_category(table):
    table["cell/codes"][0] = 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            mask_of("name", [False, True]),
            r"index of obs .* row 1 \(counted from 0",
        ),
        (mask_of("name", [False]), r"index of obs .* 1 of 2 masks"),
        (mask_of("age", [0, 0, 0]), r"column age .* 3 of 2 masks"),
        (no_strings, r"index of obs .* strings"),
        (no_category, "not an intact HDF5 file"),
    ],
)
def test_masks_of_anndata_that_do_not_fit(masked, change, says):
    h5py = pytest.importorskip("h5py")
    with h5py.File(masked, "a") as file:
        change(file["obs"])
    with pytest.raises(CorpusError, match=f"x.h5ad: .*{says}"):
        read_columns(masked, ["age", "cell"])


@pytest.mark.parametrize(
    ("name", "content", "names", "documents", "says"),
    [
        ("x.csv", CSV, ["age"], None, "x.csv:1: no column 'age'"),
        ("x.csv", "id,a,a\n1,2,3\n", ["a"], None, r"x.csv:1: .* 'a'"),
        ("x.csv", CSV, ["year"], ["a", "c", "d"], r"2 of 3 .* 'c'"),
        ("x.csv", CSV + "a,1,x,D\n", ["year"], ["a"], r"records .* 'a'; .*--id-column"),
        ("x.csv", CSV + "c,1\n", ["year"], None, "x.csv:4: 2 fields instead of 4"),
        ("x.csv", "", ["year"], None, r"x.csv: .*file is empty"),
        ("x.jsonl", JSONL, ["age"], None, "x.jsonl: no column 'age'"),
        ("x.jsonl", '{"a": [1]}\n', ["a"], None, r"x.jsonl:1: field 'a' is \[1\]; give a string"),
        (
            "x.txt",
            "apple\n",
            ["a"],
            None,
            r"x.txt: lines .* h5ad, csv",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path, name, content, names, documents, says):
    with pytest.raises(CorpusError, match=says):
        columns_of(saved(tmp_path, name, content), names, documents)


def test_fields_are_those_that_json_has(tmp_path):
    path = saved(tmp_path, "x.jsonl", json.dumps({"a": 1.5, "b": False, "c": "é"}))
    assert read_columns(path, list("abc")).columns == {"a": [1.5], "b": [False], "c": ["é"]}
