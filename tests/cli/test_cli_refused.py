"""Commands that are refused, and the files left by those that fail or are cut short."""

import json
import signal

import pytest
from click.testing import CliRunner
from support.cut_runs import Cut

from simplex_jax._src.cli import main, verbs
from simplex_jax._src.models import pipeline
from simplex_jax._src.runtime import devices, directory, lock

TINY = ["--min-df", 1, "--max-df", 1.0, "--steps", 4, "--quiet"]
COMMANDS = {
    "lda": ["--topics", 2],
    "sam": ["--topics", 2, "--idf", "smooth"],
    "dpm": [],
    "hdp": [],
}


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def refused(*arguments):
    """Return the one line that a command says when it fails."""
    result = invoke(*arguments)
    assert result.exit_code == 1, result.output
    assert len(result.stderr.splitlines()) == 1, result.stderr
    return result.stderr


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("river water stream boat\ngoal match team ball\n" * 20)
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_folders_of_a_user_are_never_removed(texts, tmp_path, command):
    out = tmp_path / "run"
    for name in ("checkpoint", "samples"):
        (out / name).mkdir(parents=True)
    (out / "checkpoint" / "model.pt").write_text("mine")
    said = refused(command, texts, *TINY, *COMMANDS[command], "--out", out, "--overwrite")
    assert "checkpoint, samples" in said
    assert "holds no run" in said
    assert (out / "checkpoint" / "model.pt").read_text() == "mine"
    assert (out / "samples").is_dir()


@pytest.mark.parametrize("command", ["dpm", "hdp", "sam"])
def test_a_model_of_one_process_says_why(texts, command, monkeypatch):
    said = invoke(command, texts, "--distributed")
    assert said.exit_code == 2
    assert f"{command} runs in " in said.stderr.splitlines()[-1]
    assert "--distributed" not in invoke(command, "fit", "--help-all").output
    monkeypatch.setattr(pipeline.processes, "count", lambda: 2)
    assert f"{command} runs in " in refused(command, texts, *COMMANDS[command], "--quiet")


EACH = [name if name == "lda" else pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS]


@pytest.mark.parametrize("command", EACH)
def test_a_directory_in_use_is_refused_at_once(texts, tmp_path, command):
    out = tmp_path / "run"
    # A run that is over when it is resumed needs a sample.
    options = [*TINY, *COMMANDS[command], "--sample-every", 1]
    assert invoke(command, texts, *options, "--holdout", 0, "--out", out).exit_code == 0
    config = (out / "config.json").read_bytes()
    (out / "summary.json").unlink()  # as if it had been cut
    with lock.locked(out):
        for given in (["--resume", out, "--quiet"], [texts, *options, "--out", out, "--overwrite"]):
            said = refused(command, *given)
            assert str(out) in said
            assert "another run (process " in said
    assert (out / "config.json").read_bytes() == config
    assert invoke(command, "--resume", out, "--quiet").exit_code == 0


@pytest.mark.parametrize("given", [["--out", "run"], []], ids=["named", "default"])
def test_a_run_among_the_texts_that_it_reads_is_refused(tmp_path, monkeypatch, given):
    # Its files were texts of the corpus from then on: --resume had another digest, or met a NUL.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "river.txt").write_text("river water")
    result = invoke("lda", tmp_path, *given)
    assert result.exit_code == 2
    assert "among the texts" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["river.txt"]


def test_a_run_in_a_hidden_folder_among_texts_is_not_read_with_them(tmp_path):
    (tmp_path / "river.txt").write_text("river water river water")
    run = tmp_path / ".runs" / "1"
    options = ["--min-df", 1, "--max-df", 1.0, "--topics", 2, "--passes", 1, "--quiet"]
    assert invoke("lda", tmp_path, "--out", run, *options).exit_code == 0
    assert invoke("lda", "--resume", run, "--passes", 2, "--quiet").exit_code == 0


@pytest.mark.parametrize("command", ["lda", "sam"])
def test_a_vocabulary_of_one_word(tmp_path, command):
    path = tmp_path / "river.txt"
    path.write_text("river river\nriver\n\n" * 20)
    said = refused(command, path, *TINY, *COMMANDS[command], "--out", tmp_path / "run")
    assert "the vocabulary has 1 word" in said
    assert "--min-df" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("topics", [10**6, 10**9])
def test_more_topics_than_tokens(texts, tmp_path, topics):
    said = refused("lda", texts, *TINY, "--topics", topics, "--out", tmp_path / "run")
    assert "error: num_topics must" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_place_that_cannot_be_written_is_told_before_anything_is_read(texts, command):
    place, wrong = texts / "run", "cannot be {} (Not a directory): choose another"
    # Not even "reading ...", which would be another line.
    said = refused(command, texts, *COMMANDS[command], "--out", place)
    assert f"output directory {str(place)!r} {wrong.format('created')}" in said
    said = refused(command, "transform", "no-such-input", "--model", "no-run", "--out", place)
    assert f"{place} {wrong.format('written')}" in said


def test_a_folder_that_cannot_be_made_is_told_before_anything_is_read(texts):
    place = texts / "made"
    said = refused("lda", "export", "--model", "no-run", "--out", place)
    assert f"{str(place)!r} cannot be created (Not a directory)" in said
    said = refused("lda", "store", "no-such-input", place, "--drop-words", "no-words")
    assert f"{place}: {texts} is a file" in said


@pytest.mark.parametrize(
    ("command", "name"),
    [("lda", "a.tsv"), ("hdp", "a.csv.gz"), ("sam", "a.xlsx"), ("dpm", "a.npz"), ("dpm", "a.tsv")],
)
def test_transform_writes_no_file_whose_name_says_another_format(command, name):
    given = ["no-such-input", "--model", "no-run", "--out", name]
    result = invoke(command, "transform", *given)
    assert result.exit_code == 2
    assert f"--out {name}: " in result.stderr
    assert " .csv" in result.stderr


def test_a_long_name_that_makes_all_names_long_is_told_before_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(directory, "_MOST_NAMES", 1000)
    rows = [f"{'x' * 500 if i == 3 else i},river water stream boat" for i in range(20)]
    (tmp_path / "texts.csv").write_text("\n".join(["id,text", *rows]))
    said = refused("lda", tmp_path / "texts.csv", *TINY, "--topics", 2, "--out", tmp_path / "run")
    assert " document 4, 'xxx" in said
    assert "--id-column" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--checkpoint-every", "nan"], "'--checkpoint-every': 'nan' is not a number"),
        (
            ["--alpha", "1e30", "--dry-run"],
            "alpha must be at most 16,777,216; it is 1e+30",
        ),
        (["--beta", "1e30"], "beta must be at most 16,777,216"),
        (["--alpha", "0"], "'0' is not NUMBER|learn|learn-asymmetric: it must be finite"),
        (["--step-size", "1,x,3"], "'1,x,3' is not NUMBER: it must be a number; it is 'x'."),
    ],
)
def test_values_out_of_range_are_errors_of_usage(texts, given, told):
    result = invoke("lda", texts, *given)
    assert result.exit_code == 2
    assert told in result.stderr


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--passes", 5, "--target-ess", 5], "target_ess and time_limit are for memoised counts"),
        (["--counts", "subsampled", "--target-ess", 5], "target_ess and time_limit are for memois"),
        (["--steps", 5, "--time-limit", 5], "target_ess and time_limit are for memoised counts"),
        (["--seed-words", "seeds.txt", "--beta", "learn"], "beta cannot be learned with seed"),
        (["--counts", "subsampled", "--beta", "learn"], "beta can be learned with memoised counts"),
        (["--processes", 2, "--process", 0], "coordinator, processes and process go together"),
    ],
)
def test_options_that_contradict_each_other_are_errors_of_usage(texts, monkeypatch, given, told):
    (texts.parent / "seeds.txt").write_text("river\n")
    monkeypatch.chdir(texts.parent)
    result = invoke("lda", texts, "--topics", 2, *given)
    assert result.exit_code == 2
    assert told in result.stderr.splitlines()[-1]
    assert "reading" not in result.stderr
    assert not list(texts.parent.glob("simplex-jax-lda*"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--level", 1.5], "'--level': 1.5 is not in the range 0<x<1"),
        (["--every", 10, "--smooth", 3], "every groups numbers and dates, and smooth"),
    ],
)
def test_questions_that_cannot_be_asked_are_errors_of_usage(tmp_path, given, told):
    result = invoke("lda", "effects", "--model", tmp_path, "--by", "x", *given)
    assert result.exit_code == 2
    assert told in result.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "seeds.txt: no such file or directory"),
        ("", "seeds.txt: the file is empty; give a non-empty file"),
        ("\n\n", "seeds.txt: no seed word; give a line of words for each topic"),
        ("river\neconomy:\n", "seeds.txt:2: 'economy:' has no word"),
    ],
)
def test_a_file_of_seed_words_that_cannot_be_used_is_bad_data(texts, tmp_path, content, told):
    if content is not None:
        (tmp_path / "seeds.txt").write_text(content)
    given = ["--topics", 2, "--seed-words", tmp_path / "seeds.txt", "--quiet"]
    assert told in refused("lda", texts, *given)


def test_a_mistyped_command_is_told_the_right_one():
    result = invoke("lda", "tranform", "texts.txt")
    assert result.exit_code == 2
    assert "No such command 'tranform'. Did you mean 'transform'?" in result.stderr


def test_a_step_at_which_a_sampler_diverges(texts, tmp_path):
    given = ["--topics", 2, "--sampler", "sgrld", "--step-size", 5, "--out", tmp_path / "run"]
    said = refused("lda", texts, *TINY, *given)
    assert "step_size is 5.0: sgrld " in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("command", "size", "remedy"),
    [
        ("lda", [], "--topics"),
        ("sam", [], "--topics"),
        ("dpm", ["--capacity", 10**9], "--capacity"),
    ],
)
def test_more_than_the_memory_of_the_device(texts, tmp_path, monkeypatch, command, size, remedy):
    if not size:
        monkeypatch.setattr(devices, "memory", lambda: 100)
    given = [*TINY, *COMMANDS[command], *size, "--out", tmp_path / "run"]
    said = refused(command, texts, *given)
    assert "the device has" in said
    assert remedy in said
    assert not (tmp_path / "run").exists()


def test_a_stored_corpus_streams_with_defaults(tmp_path):
    """The default batch of many words and short documents is the corpus, less what is held out."""
    words = [f"{a}{b}{c}" for a in "bcdfghklmn" for b in "aeiou" for c in "bcdfghklmn"]
    lines = [" ".join(words[i % 500 : i % 500 + 5]) for i in range(0, 900, 7)]
    (tmp_path / "texts.txt").write_text("\n".join(lines) + "\n")
    store, out = tmp_path / "store", tmp_path / "run"
    assert invoke("lda", "store", tmp_path / "texts.txt", store, "--min-df", 1).exit_code == 0
    said = refused("lda", store, "--stream", *TINY[4:], "--batch-size", len(lines), "--out", out)
    assert f"batch_size must be between 1 and {len(lines) - len(lines) // 10}" in said
    assert not out.exists()
    result = invoke("lda", store, "--stream", *TINY[4:], "--out", out)
    assert result.exit_code == 0, result.stderr
    settings = json.loads((out / "config.json").read_text())["settings"]
    assert settings["batch_size"] == len(lines) - len(lines) // 10


@pytest.mark.filterwarnings("ignore:the run takes about")
@pytest.mark.parametrize("command", EACH)
def test_a_run_that_is_cut_before_its_first_evaluation_has_a_report(
    texts, tmp_path, monkeypatch, command
):
    monkeypatch.setattr(verbs, "MetricsLog", Cut(1, signal.SIGINT).log)
    out = tmp_path / "my run"
    options = [*TINY[:4], "--steps", 10**6, "--eval-every", 10**6, *COMMANDS[command], "--quiet"]
    result = invoke(command, texts, *options, "--holdout", 4, "--out", out)
    assert result.exit_code == 130, result.stderr
    assert f"--resume '{out}'" in result.stderr
    assert "interrupted" in (out / "report.html").read_text()
    assert (out / "metrics.jsonl").read_bytes() == b""


def test_a_signal_while_a_run_compiles_leaves_nothing(texts, tmp_path, monkeypatch):
    def interrupt(*arguments):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("simplex_jax._src.runtime.driver._first", interrupt)
    result = invoke("lda", texts, *TINY, *COMMANDS["lda"], "--out", tmp_path / "run")
    assert result.exit_code == 130
    (line,) = result.stderr.splitlines()
    assert line.startswith("simplex-jax: interrupted ")
    assert not (tmp_path / "run").exists()
