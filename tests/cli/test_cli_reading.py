"""Reading of INPUT by the commands: what config.json says of it, and what is refused or said."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

from simplex_jax._src.cli import counts, main

TINY = ["--topics", "2", "--steps", "2", "--holdout", "0", "--devices", "1", "--quiet"]
TEXTS = ["New York city river", "New York city goal", "old river bank", "goal team match"] * 5
EVERY = ["--min-df", "1", "--max-df", "1.0"]


def invoke(*arguments, **options):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], **options)


def read_json(path):
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of single words and pairs of a table, with their capitals."""
    place = tmp_path_factory.mktemp("reading")
    rows = [f"{number},{text}" for number, text in enumerate(TEXTS)]
    (place / "x.csv").write_text("\n".join(["key,Body", *rows]))
    words = ["--token-pattern", r"\w{2,}", "--ngrams", 1, 2, "--keep-case", "--stop-words", "none"]
    result = invoke("lda", place / "x.csv", *TINY, *EVERY, *words, "--out", place / "run")
    assert result.exit_code == 0, result.output
    return place / "run"


@pytest.mark.slow
def test_the_configuration_says_how_the_input_was_read(run):
    config = read_json(run / "config.json")
    reading = config["source"]["reading"]
    assert (reading["format"], reading["text_column"], reading["id_column"]) == (
        "csv",
        "Body",
        "key",
    )
    assert (reading["token_pattern"], reading["ngrams"]) == (r"\w{2,}", [1, 2])
    assert reading["lowercase"] is False
    assert reading["encoding"] == "utf-8"


def test_the_command_for_the_same_run_has_the_same_words(run):
    again = read_json(run / "config.json")["again"]
    assert " --ngrams 1 2 " in again
    assert " --keep-case " in again
    assert "--lowercase" not in again


def test_other_documents_are_cut_into_words_alike(run, tmp_path):
    words = (run / "vocabulary.txt").read_text().splitlines()
    assert {"New York", "river", "York city"} <= set(words)
    (tmp_path / "new.txt").write_text("New York river\nnew york\n")
    arguments = ["--model", run, tmp_path / "new.txt", "--out", tmp_path / "new.npz"]
    result = invoke("lda", "transform", *arguments)
    assert result.exit_code == 0, result.output
    # New, York, river, New York are known; "York river", new, york and "new york" are not.
    assert "2 documents, 8 tokens: 4 (50.0" in result.stderr


def test_other_documents_may_be_counts_and_the_model_of_texts(run, tmp_path):
    (tmp_path / "words").write_text("New York\nriver\nzebra\n")
    sp.save_npz(tmp_path / "x.npz", sp.csr_array(np.array([[2, 1, 0], [0, 0, 3]])))
    given = [tmp_path / "x.npz", "--vocab", tmp_path / "words", "--out", tmp_path / "new.npz"]
    result = invoke("lda", "transform", "--model", run, *given)
    assert result.exit_code == 0, result.output
    assert "2 documents, 6 tokens: 3 (50.0" in result.stderr


ENCODED = {"encoding": "utf-8", "encoding_errors": "strict", "transpose": False}
READING = dict.fromkeys(counts.FILE_OPTIONS) | ENCODED | {"stop_words": "english"}


def mapped(vocabulary, reading, tmp_path):
    """Return one text over the words of a model whose corpus was read with these options."""
    (tmp_path / "new.txt").write_text("The system of interest: rivers and system law\n")
    return counts.read_as(vocabulary, READING | reading, tmp_path / "new.txt", READING)


@pytest.mark.parametrize("reading", [{"vocabulary": "words", "format": "lines"}, {"format": "uci"}])
def test_stop_words_in_a_given_vocabulary_are_words_of_the_model(tmp_path, reading):
    # The English list has system and interest: they were left out of new texts, unsaid.
    actual = mapped(("interest", "law", "system"), reading, tmp_path)
    assert (actual.corpus.counts.toarray().tolist(), actual.unknown) == ([[1, 1, 2]], 3)


def test_stop_words_stay_out_of_texts_of_which_they_were_left_out(tmp_path):
    actual = mapped(("rivers law",), {"format": "lines", "ngrams": [2, 2]}, tmp_path)
    assert (actual.corpus.counts.toarray().tolist(), actual.unknown) == ([[1]], 0)
    pairs = {"format": "lines", "ngrams": [2, 2], "stop_words": "none"}
    assert mapped(("the system",), pairs, tmp_path).unknown == 5


def test_given_words_that_texts_cannot_give_are_said(tmp_path):
    (tmp_path / "new.txt").write_text("law of the system\n")
    (tmp_path / "words").write_text("law\nthe system\nLaw\nof\n")
    given = READING | {"vocabulary": tmp_path / "words"}
    with pytest.warns(UserWarning, match=r"2 of 4 words .*'the system'"):
        counts.read(tmp_path / "new.txt", given)
    with pytest.warns(UserWarning, match="2 of 4 words "):
        counts.convert(tmp_path / "new.txt", tmp_path / "store", given | {"drop_words": None})
    more = {"ngrams": (1, 2), "token_pattern": r"\w+", "lowercase": False}
    assert counts.read(tmp_path / "new.txt", given | more).counts.toarray().tolist() == [
        [1, 1, 0, 1]
    ]


def test_words_of_counts_that_texts_cannot_give_are_said(tmp_path):
    words = ("law", "system", "system law", "Law")
    with pytest.warns(UserWarning, match=r"2 of 4 words .*'system law'"):
        actual = mapped(words, {"format": "store"}, tmp_path)
    assert actual.corpus.counts.toarray().tolist() == [[1, 2, 0, 0]]
    with pytest.warns(UserWarning, match="not counted"):  # streamed: no format is recorded
        mapped(words, {"stream": True}, tmp_path)


@pytest.mark.parametrize("command", ["lda", "hdp", "sam", "store"])
def test_options_of_texts_are_refused_for_counts(command, tmp_path):
    sp.save_npz(tmp_path / "x.npz", sp.csr_array(np.eye(8, 4, dtype=int)))
    verb = ["lda", "store"] if command == "store" else [command]
    out = [tmp_path / "run"] if command == "store" else ["--out", tmp_path / "run"]
    result = invoke(*verb, tmp_path / "x.npz", *out, "--stop-words", "none", "--quiet")
    assert result.exit_code == 1
    assert "stop_words=none: " in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["lda", "x.txt"], ["--min-df", 2]),
        (["hdp", "x.txt"], ["--max-vocabulary", 9]),
        (["sam", "x.txt"], ["--stop-words", "no-such-file"]),
        (["lda", "store", "x.txt", "stored"], ["--stop-words", "none"]),
        (["lda", "store", "x.txt", "stored"], ["--max-df", 0.9, "--drop-words", "words"]),
    ],
)
def test_options_without_an_effect_on_given_words_are_refused(
    command, option, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.txt").write_text("\n".join(TEXTS))
    (tmp_path / "words").write_text("river\ngoal\n")
    result = invoke(*command, "--vocab", "words", "--quiet", *option)
    assert result.exit_code == 2
    assert f"{option[0]} has no effect " in result.stderr
    assert "--vocab" in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"x.txt", "words"}


def test_limits_of_given_words_have_an_effect_on_directions(tmp_path):
    (tmp_path / "x.txt").write_text("\n".join(TEXTS))
    (tmp_path / "words").write_text("river\ngoal\n")
    result = invoke("sam", tmp_path / "x.txt", "--vocab", tmp_path / "words", "--min-df", 99)
    assert result.exit_code == 1
    assert "has no effect" not in result.stderr


@pytest.mark.parametrize("command", ["lda", "hdp", "sam"])
def test_a_word_that_no_line_can_hold_is_refused(command, tmp_path):
    """Before the run, whose vocabulary.txt could not be read again."""
    lines = [json.dumps({"text": f"new\nyork {name} pear"}) for name in ("tax", "war") * 10]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    pattern = ["--token-pattern", r"[a-z]+\s[a-z]+", "--min-df", 1, "--max-df", 1.0]
    if command == "sam":
        pattern += ["--idf", "smooth"]
    result = invoke(command, tmp_path / "x.jsonl", "--out", tmp_path / "run", "--quiet", *pattern)
    assert result.exit_code == 1, result.output
    assert "vocabulary.txt: " in result.stderr
    assert not (tmp_path / "run").exists()


def test_a_run_with_ngrams_goes_on(run):
    result = invoke("lda", "--resume", run)
    assert result.exit_code == 0, result.output


def test_standard_input(tmp_path):
    out, text = tmp_path / "run", "\n".join(TEXTS)
    result = invoke("lda", "-", *TINY, *EVERY, "--out", out, input=text)
    assert result.exit_code == 0, result.output
    config = read_json(out / "config.json")
    assert (config["source"]["input"], config["corpus"]["documents"]) == ("-", 20)
    assert config["source"]["reading"]["format"] == "lines"
    shares = tmp_path / "new.npz"
    result = invoke("lda", "transform", "-", "--model", out, "--out", shares, input="river goal\n")
    assert result.exit_code == 0, result.output
    with np.load(shares, allow_pickle=False) as arrays:
        assert arrays["proportions"].shape == (1, 2)


@pytest.mark.parametrize("command", ["lda", "sam", "dpm"])
def test_an_empty_input_is_bad_usage(command):
    result = invoke(command, "", "--topics" if command != "dpm" else "--steps", "2")
    assert result.exit_code == 2
    assert "path is empty" in result.stderr


def test_words_to_drop_that_are_not_there_are_said(tmp_path):
    (tmp_path / "x.txt").write_text("\n".join(TEXTS))
    (tmp_path / "drop").write_text("Goal\nRiver\n")
    arguments = [tmp_path / "x.txt", *EVERY, "--drop-words", tmp_path / "drop"]
    for number, (quiet, says) in enumerate([([], True), (["--quiet"], False)]):
        result = invoke("lda", "store", *arguments, tmp_path / f"store{number}", *quiet)
        assert result.exit_code == 0, result.output
        warning = f"warning: {tmp_path / 'drop'}: none of its 2 words is in the corpus"
        assert (warning in result.stderr) == says


@pytest.mark.parametrize(
    ("option", "status", "says"),
    [
        (["--token-pattern", "("], 2, "token_pattern must be a regular expression; it is '('"),
        (["--ngrams", "2", "1"], 2, "ngrams must be two whole numbers"),
        (
            ["--first-index", "0"],
            1,
            "first_index=0: not supported by format lines; supported",
        ),
    ],
)
def test_bad_options_of_reading_are_one_line(tmp_path, option, status, says):
    (tmp_path / "x.txt").write_text("\n".join(TEXTS))
    result = invoke("lda", tmp_path / "x.txt", *TINY, *EVERY, *option, "--out", tmp_path / "run")
    assert result.exit_code == status
    assert says in result.stderr.splitlines()[-1]
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_table_says_how_it_was_read(tmp_path):
    rows = [f"{i},{'red' if i % 2 else 'green'},small" for i in range(12)]
    (tmp_path / "x.csv").write_text("\n".join(["id,colour,size", *rows]))
    out = tmp_path / "run"
    arguments = ["--steps", "2", "--holdout", "0", "--keep-samples", "1", "--quiet"]
    result = invoke("dpm", tmp_path / "x.csv", *arguments, "--out", out)
    assert result.exit_code == 0, result.output
    assert read_json(out / "config.json")["source"]["reading"]["format"] == "table"
