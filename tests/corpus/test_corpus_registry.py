"""The registry of formats: helps and docs name what is there; options of reading, resolved."""

import dataclasses
import inspect
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.paths import ROOT

from simplex_jax._src.cli import main
from simplex_jax._src.corpus import (
    CorpusError,
    Reading,
    TextOptions,
    VectorReading,
    convert,
    from_texts,
    read,
    resolve,
)
from simplex_jax._src.corpus.formats import FORMATS, described, formats_of, having, registry
from simplex_jax._src.corpus.reading import Format

EVERY_WORD = TextOptions(min_df=1, max_df=1.0, stop_words="none")


def test_the_registry_is_sound():
    fields = {field.name for field in dataclasses.fields(VectorReading)}
    assert all(set(entry.options) <= fields for entry in FORMATS.values())
    assert [entry.name for entry in formats_of("counts")][-1] == "lines", "which takes any file"
    assert having("first_index") == "ldac, svmlight"
    modules = {path.stem for path in (ROOT / "simplex_jax/_src/corpus/formats").glob("*.py")}
    helpers = {"__init__", "registry"}
    functions = [entry.texts or entry.read for entry in FORMATS.values()]
    functions = [getattr(function, "func", function) for function in functions]
    readers = {function.__module__.rpartition(".")[2] for function in functions}
    assert readers == modules - helpers, "give each a line in registry.py"


@pytest.mark.parametrize("reader", [read, convert])
def test_readers_spell_out_the_options_of_all_formats(reader):
    parameters = inspect.signature(reader).parameters
    assert {option for entry in formats_of("counts") for option in entry.options} <= set(parameters)
    assert parameters["encoding"].default == Reading().encoding


@pytest.mark.parametrize("reader", [read, convert])
def test_readers_pass_the_options_of_all_formats_on(reader, tmp_path, monkeypatch):
    class Passed(Exception):
        """The reading that reaches a format."""

    def selected(path, reading, kind):
        raise Passed(reading)

    monkeypatch.setattr(registry, "selected", selected)
    places = [tmp_path / "x", tmp_path / "store"][: 1 + (reader is convert)]
    for option, value in {
        "format": "lines",
        "vocabulary": Path("v"),
        "text": TextOptions(min_df=7),
        "encoding": "latin-1",
        "names": Path("n"),
        "transpose": True,
        "layer": "raw",
        "first_index": 0,
        "text_column": "body",
        "id_column": "key",
    }.items():
        with pytest.raises(Passed) as caught:
            reader(*places, **{option: value})
        assert getattr(caught.value.args[0], option) == value


@pytest.mark.parametrize("kind", ["counts", "vectors"])
def test_the_docs_list_every_format(kind):
    pages = [
        (ROOT / "docs" / f"{page}.md").read_text("utf-8") for page in ("reading", "sam", "dpm")
    ]
    text = " ".join(" ".join(pages).split())
    assert described(kind) in text, f"docs/reading.md must say: {described(kind)}"


@pytest.mark.parametrize(
    ("command", "kinds"),
    [("lda", ["counts"]), ("sam", ["vectors", "counts"]), ("dpm", ["counts"])],
)
def test_the_help_lists_every_format(command, kinds):
    shown = CliRunner().invoke(main, [command, "fit", "--help-all"], terminal_width=400).stdout
    shown = " ".join(shown.split())
    assert described(*kinds) in shown
    assert "|".join(entry.name for entry in formats_of(*kinds)) in shown


def test_a_new_format_is_one_record(tmp_path, monkeypatch):
    """A record in the registry is read, recognised and named in errors."""
    toy = Format(
        "toy",
        "counts",
        "a toy",
        lambda source: source.head.startswith(b"TOY"),
        lambda path, reading: from_texts([path.read_text()], options=reading.text),
        options=("layer",),
        texts=lambda path, reading: iter([("1", path.read_text())]),
    )
    monkeypatch.setattr(registry, "_ALL", (toy, *registry._ALL))
    monkeypatch.setitem(FORMATS, "toy", toy)
    (tmp_path / "x").write_text("TOY apple\n")
    assert read(tmp_path / "x", text=EVERY_WORD).vocabulary == ("apple", "toy")
    assert resolve(tmp_path / "x", Reading(layer="a")).format == "toy"
    assert having("layer") == "toy, 10x, h5ad"
    assert having("min_df") == "toy, folder, csv, tsv, jsonl, mallet, lines"
    with pytest.raises(ValueError, match=r"^format='tyo': .* toy, store"):
        read(tmp_path / "x", "tyo")
    with pytest.raises(ValueError, match=r"^names=y: .* toy"):
        read(tmp_path / "x", names="y")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("x.csv", "key,year,Body\n1,2,apple\n", ("csv", "Body", "key")),
        ("x.tsv", "text\napple\n", ("tsv", "text", None)),
        ("x.jsonl", '{"abstract": "apple", "doc_id": 1}\n', ("jsonl", "abstract", "doc_id")),
        ("x.txt", "apple pear\n", ("lines", None, None)),
        ("", None, ("folder", None, None)),
    ],
)
def test_resolving_says_how_a_file_is_read(tmp_path, name, content, expected):
    if content is None:
        (tmp_path / "a.txt").write_text("apple")
    else:
        (tmp_path / name).write_text(content)
    reading = resolve(tmp_path / name, Reading(text=EVERY_WORD))
    assert (reading.format, reading.text_column, reading.id_column) == expected
    columns = {"text_column": reading.text_column, "id_column": reading.id_column}
    one = read(tmp_path / name, text=EVERY_WORD)
    two = read(tmp_path / name, reading.format, text=EVERY_WORD, **columns)
    assert (one.counts != two.counts).nnz == 0
    assert one[1:] == two[1:]


def test_the_number_of_a_column_is_kept(tmp_path):
    (tmp_path / "x.tsv").write_text("apple\npear\n")
    assert resolve(tmp_path / "x.tsv", Reading(text_column="1")).text_column == "1"


@pytest.mark.parametrize(
    ("header", "columns", "says"),
    [
        ("id,text,text", {}, r"x.csv:1: .*columns .* 'text'"),
        ("id,Text, text", {}, r"columns .* 'text'"),
        ("id,a,a", {"text_column": "a"}, r"columns .* 'a'"),
        ("id,id,text", {}, r"columns .* 'id'"),
    ],
)
def test_a_column_that_is_there_twice_is_refused(tmp_path, header, columns, says):
    (tmp_path / "x.csv").write_text(f"{header}\n1,apple,pear\n")
    for function in (
        lambda path: read(path, text=EVERY_WORD, **columns),
        lambda path: resolve(path, Reading(**columns)),
    ):
        with pytest.raises(CorpusError, match=says):
            function(tmp_path / "x.csv")
    (tmp_path / "x.csv").write_text("id,a,a,text\n1,b,c,apple\n")
    assert read(tmp_path / "x.csv", text=EVERY_WORD).vocabulary == ("apple",)


def test_ngrams_case_and_tokens():
    texts = ["New York, the city", "a new city"]

    def words(**options):
        return from_texts(texts, options=dataclasses.replace(EVERY_WORD, **options)).vocabulary

    assert words(ngrams=(2, 2)) == ("new city", "new york", "the city", "york the")
    assert words(ngrams=(1, 2), stop_words="english") == (
        *("city", "new", "new city", "new york", "york", "york city"),
    )
    assert words(lowercase=False) == ("New", "York", "city", "new", "the")
    with pytest.warns(UserWarning, match="6 of 7 words"):
        assert words(token_pattern=r"\b\w\b") == ("a",)
    with pytest.warns(UserWarning, match=r"1 of 2 words .*'new york'"):
        pairs = from_texts(texts, options=EVERY_WORD, vocabulary=["new york", "city"])
    assert pairs.counts.toarray().tolist() == [[0, 1], [0, 1]], "single words are counted"
    counted = dataclasses.replace(EVERY_WORD, ngrams=(1, 2))
    pairs = from_texts(texts, options=counted, vocabulary=["new york", "city"])
    assert pairs.counts.toarray().tolist() == [[1, 1], [0, 1]]


@pytest.mark.parametrize("ngrams", [(0, 1), (2, 1), (1,), (1, 2, 3)])
def test_bad_ngrams(ngrams):
    with pytest.raises(ValueError, match=r"^ngrams "):
        TextOptions(ngrams=ngrams)


@pytest.mark.filterwarnings("ignore:.* words, such as:UserWarning")  # that are left out
@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.txt", "我们 喜欢\n苹果\n", r"stop_words=none; .*--tokens blanks .* or --token-pattern"),
        ("x.txt", "\n".join(["我们 喜欢"] * 30 + ["apple"]), r"1 of 31 .* or --token-pattern"),
        ("x.json", '[{"text": "apple"},\n {"text": "pear"}]', r"x.json:1: not JSON .* `jq -c"),
        ("x.json", '[\n {"text": "apple"}]', r"x.json:1: not JSON on one line"),
        ("x", '[{"text": "apple"}]', r"x:1: not a JSON .* `jq -c"),
        ("x.h5ad", "not HDF5\n", "HDF5 file; "),
        ("x.npz", "not a zip\n", r"npz file .*save_npz"),
        ("x.mtx", "1 1 1\n", r"x.mtx:1: .*`%%MatrixMarket matrix"),
    ],
)
def test_the_remedy_fits_the_file(tmp_path, name, content, says):
    (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(CorpusError, match=says):
        read(tmp_path / name, text=EVERY_WORD if name.startswith("x.txt") else None)
    pattern = dataclasses.replace(EVERY_WORD, token_pattern=r"\w+")
    if name == "x.txt":
        assert "我们" in read(tmp_path / name, text=pattern).vocabulary
