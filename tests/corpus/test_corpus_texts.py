"""Texts as they are in a file, and their words in order."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax._src import corpus
from simplex_jax._src.cli import counts
from simplex_jax._src.corpus import CorpusError, TextOptions
from simplex_jax._src.corpus.text import count_texts

NAMES, TEXTS = ["b", "a"], ["The river, the Stream", "goal match"]


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in zip(NAMES, TEXTS, strict=True):
        (folder / name).write_text(text)
    with zipfile.ZipFile(tmp_path / "texts.zip", "w") as archive:
        for name in sorted(NAMES):
            archive.write(folder / name, name)
    rows = list(zip(NAMES, TEXTS, strict=True))
    (tmp_path / "t.txt").write_text("\n".join(TEXTS) + "\n")
    (tmp_path / "t.csv").write_text("id,text\n" + "".join(f'{n},"{t}"\n' for n, t in rows))
    (tmp_path / "t.tsv").write_text("id\ttext\n" + "".join(f"{n}\t{t}\n" for n, t in rows))
    (tmp_path / "t.jsonl").write_text(
        "".join(json.dumps({"id": n, "text": t}) + "\n" for n, t in rows)
    )
    return tmp_path


@pytest.mark.parametrize("name", ["folder", "texts.zip", "t.txt", "t.csv", "t.tsv", "t.jsonl"])
def test_names_are_those_of_the_corpus(place, name):
    result = dict(corpus.read_texts(place / name))
    whole = corpus.read(place / name, text=TextOptions(min_df=1, max_df=1.0))
    assert tuple(result) == whole.names
    assert sorted(result.values()) == sorted(TEXTS)


def test_counts_have_no_texts(place):
    (place / "x.dat").write_text("1 0:1\n")
    with pytest.raises(CorpusError, match=r"x\.dat: ldac .*: folder, csv"):
        corpus.read_texts(place / "x.dat", format="ldac")


def test_words_are_in_order_with_stop_words():
    assert list(corpus.tokens(TEXTS)) == [["the", "river", "the", "stream"], ["goal", "match"]]
    options = TextOptions(lowercase=False, token_pattern=r"\w+", ngrams=(2, 2))
    assert list(corpus.tokens(TEXTS[:1], options)) == [["The", "river", "the", "Stream"]]


def test_excerpts_are_the_beginnings_of_the_texts():
    texts = ["a river\n\n  and a stream", "", "x" * 199 + " river", "river " * 1000]
    result = corpus.from_texts(texts, options=TextOptions(min_df=1, max_df=1.0))
    short, empty, *cut = result.excerpts
    assert (short, empty) == ("a river and a stream", "")
    assert all(len(text) <= 200 and text.endswith("…") for text in cut)
    assert corpus.drop_words(result, ["river"]).excerpts == result.excerpts
    assert corpus.to_vocabulary(result, ["river"]).corpus.excerpts == result.excerpts
    assert corpus.vectors.cut(result, max_vocabulary=1).excerpts == result.excerpts
    for part in corpus.holdout(result, 2, seed=0):
        rows = [int(name) for name in part.names]
        assert part.excerpts == tuple(result.excerpts[row] for row in rows)
    assert corpus.from_counts([[1, 2]]).excerpts == ()


MANY = ["the river, the stream, an oak", "goal match"] * 5


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda x: np.array(x, object), "series"])
def test_texts_are_a_corpus(kind):
    if kind == "series":
        kind = pytest.importorskip("pandas").Series
    result, counted = count_texts(kind(MANY)), corpus.from_texts(MANY)
    assert result.vocabulary == counted.vocabulary
    assert (result.counts != counted.counts).nnz == 0
    assert result.excerpts == counted.excerpts
    few = count_texts(kind(MANY[:1]), ["stream", "the", "zebra"])
    assert few.counts.toarray().tolist() == [[1, 2, 0]], "rare words, and stop words"


def test_words_that_other_options_have_made_are_told():
    """They were counted as if they were in no text."""
    texts, vocabulary = ["New York, an oak"], ["New York", "a", "oak", "ne\u0301e"]
    with pytest.warns(UserWarning, match=r"^texts: 2 of 4 words .*'New York'") as told:
        result = count_texts(texts, vocabulary)
    assert len(told) == 1
    assert result.counts.toarray().tolist() == [[0, 0, 1, 0]]
    options = corpus.TextOptions(lowercase=False, ngrams=(1, 2), token_pattern=r"\w+")
    counted = corpus.from_texts(texts, options=options, vocabulary=vocabulary)
    assert counted.counts.toarray().tolist() == [[1, 0, 1, 0]]


def test_given_words_that_no_text_can_have_are_told(tmp_path):
    with pytest.warns(UserWarning, match=r"^texts: 1 of 2 words .*'NASA'.*--keep-case"):
        corpus.from_texts(["NASA and an oak"], vocabulary=["NASA", "oak"])
    with pytest.warns(UserWarning, match=r"^texts: 1 of 2 words .*'AI'"):
        corpus.from_texts([["AI", "new york"]], vocabulary=["AI", "new york"])
    hashtags = TextOptions(token_pattern=r"#(\w+)")
    tagged = corpus.from_texts(["an #oak"], vocabulary=["oak"], options=hashtags)
    assert tagged.counts.toarray().tolist() == [[1]], "and no warning"
    (tmp_path / "x.txt").write_text("NASA and an oak\n")
    (tmp_path / "words").write_text("oak\nNASA\n")
    with pytest.warns(UserWarning, match=r"x\.txt: 1 of 2 words "):
        corpus.read(tmp_path / "x.txt", vocabulary=tmp_path / "words")


def test_the_command_tells_of_such_words_once(tmp_path):
    (tmp_path / "x.txt").write_text("NASA and an oak\n")
    (tmp_path / "words").write_text("oak\nNASA\n")
    reading = vars(corpus.Reading(vocabulary=tmp_path / "words")) | {"drop_words": None}
    with pytest.warns(UserWarning, match=r"x\.txt: 1 of 2 words ") as told:
        counts.read(tmp_path / "x.txt", reading)
    assert len(told) == 1
    with pytest.warns(UserWarning, match=r"x\.txt: 1 of 2 words ") as told:
        counts.convert(tmp_path / "x.txt", tmp_path / "store", reading)
    assert len(told) == 1


@pytest.mark.parametrize(
    "data",
    [
        corpus.from_counts([[1, 2]]),
        [[1, 2]],
        [],
        np.eye(2),
        np.ones(3),
        np.array([["a", "b"]]),
        sp.csr_array(np.eye(2)),
        sp.coo_array(np.ones(3)),
        None,
    ],
    ids=lambda data: type(data).__name__,
)
def test_other_data_are_left_alone(data):
    assert count_texts(data) is data


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("the river", r"^texts: .*, 'the river', "),
        (Path("a.txt"), r"^texts: .*, 'a.txt', "),
        ([None, "a river"], r"text 0 \(counted from 0\) is None"),
        (["a river", None], r"text 1 \(counted from 0\) is None"),
    ],
)
def test_what_is_not_texts_is_told(data, told):
    for take in (count_texts, corpus.from_texts):
        with pytest.raises(CorpusError, match=told):
            take(data)


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["a river", np.nan], r"text 1 \(counted from 0\) is nan"),
        ([b"a river"], r"text 0 \(counted from 0\) is b'a river', not a string"),
        ([["a", 1]], r"text 0 .* is \['a', 1\], not a string"),
        ({"text": ["a river"]}, r"^texts: a dict "),
    ],
    ids=["missing", "bytes", "words", "mapping"],
)
def test_tables_and_missing_texts_are_told(texts, told):
    # The names of columns were counted as texts, and a missing text was an error of min_df.
    with pytest.raises(CorpusError, match=told):
        corpus.from_texts(texts, options=TextOptions(min_df=1, max_df=1.0))


def test_a_data_frame_is_not_taken_for_the_names_of_its_columns():
    frame = pytest.importorskip("pandas").DataFrame({"text": ["a river"]})
    with pytest.raises(CorpusError, match=r"^texts: a DataFrame "):
        corpus.from_texts(frame, options=TextOptions(min_df=1, max_df=1.0))
