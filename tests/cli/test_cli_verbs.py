"""Commands on a finished run: new documents, perplexity, the report; and dry runs, stores."""

import csv
import json
import os
import shutil
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

from simplex_jax._src.cli import main
from simplex_jax._src.models import lda
from simplex_jax._src.models.topics.native.library import LIBRARY
from simplex_jax._src.native import VARIABLE
from simplex_jax._src.runtime import directory

TEXTS = ["river water stream boat", "goal match team ball"] * 20
NEW = ["water zebra boat stream", "", "zebra", "team match the goal"]


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def write(path, lines):
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return write(tmp_path_factory.mktemp("texts") / "texts.txt", TEXTS)


@pytest.fixture(scope="module")
def run(texts, tmp_path_factory):
    """A run with two chains, learned concentrations and kept samples."""
    out = tmp_path_factory.mktemp("runs") / "run"
    result = invoke(
        *("lda", "fit", texts, "--topics", 2, "--passes", 60, "--seed", 1, "--out", out),
        *("--min-df", 1, "--max-df", 1.0, "--holdout", 4, "--chains", 2, "--keep-samples", 3),
        *("--alpha", "learn-asymmetric", "--beta", "learn"),
    )
    assert result.exit_code == 0, result.stderr
    return out


@pytest.mark.slow
def test_chains_learning_and_samples(run):
    settings = json.loads((run / "config.json").read_text())["settings"]
    assert settings["chains"] == 2
    assert (settings["alpha"], settings["beta"]) == ("learn-asymmetric", "learn")
    assert len(list((run / "samples").iterdir())) == 3
    with np.load(run / "topics.npz", allow_pickle=False) as arrays:
        assert (arrays["alpha_sd"] > 0).all()
        assert np.isfinite(arrays["stability"]).all()
        np.testing.assert_allclose(arrays["topics"].sum(axis=1), 1, rtol=1e-5)
    html = (run / "report.html").read_text()
    assert "alpha, learned, per" in html
    assert "in 2 chains" in html


def test_transform(run, tmp_path):
    documents = write(tmp_path / "new.txt", NEW)
    out = tmp_path / "new.npz"
    result = invoke("lda", "transform", "--model", run, documents, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "4 documents, 8 tokens: 2 (25.0%) of words unknown" in result.stderr
    assert "known words: 2" in result.stderr
    with np.load(out, allow_pickle=False) as arrays:
        shares, names, errors = (arrays[name] for name in ("proportions", "documents", "error"))
    assert errors.shape == (4,)
    assert (errors[1:3] == 0).all()
    assert (errors <= 0.02).all()
    assert names.tolist() == ["1", "2", "3", "4"]
    with np.load(run / "doc_topics.npz", allow_pickle=False) as arrays:
        rivers = int(arrays["proportions"][arrays["documents"].tolist().index("1")].argmax())
    assert shares[[0, 3]].argmax(axis=1).tolist() == [rivers, 1 - rivers]
    with np.load(run / "topics.npz", allow_pickle=False) as arrays:
        prior = arrays["alpha"] / arrays["alpha"].sum()
    np.testing.assert_allclose(shares[1:3], np.stack([prior, prior]), rtol=1e-5)

    again = invoke("lda", "transform", "--model", run, documents, "--out", out)
    assert again.exit_code == 1
    assert "--overwrite" in again.stderr
    quiet = ["--out", out, "--overwrite", "--quiet"]
    assert invoke("lda", "transform", "--model", run, documents, *quiet).output == ""


def test_transform_to_a_table(run, tmp_path):
    documents = write(tmp_path / "new.txt", NEW)
    for name in ("new.npz", "new.csv"):
        result = invoke("lda", "transform", documents, "--model", run, "--out", tmp_path / name)
        assert result.exit_code == 0, result.stderr
    with np.load(tmp_path / "new.npz", allow_pickle=False) as arrays:
        shares = arrays["proportions"]
    with (tmp_path / "new.csv").open() as file:
        header, *rows = csv.reader(file)
    assert header == ["document", "error", "topic_0", "topic_1"]
    assert [row[0] for row in rows] == ["1", "2", "3", "4"]
    np.testing.assert_allclose([list(map(float, row[2:])) for row in rows], shares, rtol=1e-4)


def test_transform_of_a_document_with_a_long_name(run, tmp_path, monkeypatch):
    monkeypatch.setattr(directory, "_MOST_NAMES", 1000)
    rows = [f"{'x' * 500 if i == 3 else i},river water" for i in range(20)]
    documents = write(tmp_path / "new.csv", ["id,text", *rows])
    given = ["lda", "transform", documents, "--model", run, "--out"]
    result = invoke(*given, tmp_path / "shares.npz")
    assert result.exit_code == 1
    assert " document 4, 'xxx" in result.stderr
    assert invoke(*given, tmp_path / "shares.csv").exit_code == 0


def test_transform_names_its_file_after_the_input(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "new.texts.txt", NEW)
    assert invoke("lda", "transform", "new.texts.txt", "--model", run).exit_code == 0
    assert (tmp_path / "new.doc_topics.npz").exists()


@pytest.mark.filterwarnings("default:.*none of its 60 tokens")
def test_transform_of_foreign_words(run, tmp_path):
    """They get the mean of the prior, alone or beside others."""
    prior = lda.load(run).transform([""])[0]
    for texts, message in (
        (["zebra lion"] * 3, "6 (100.0%) of words unknown"),
        (["zebra"], "1 (100.0%) of words unknown"),
        (["1 2 3"], "0 (0.0%) of words unknown"),
    ):
        out = tmp_path / f"{len(texts)}.npz"
        documents = write(tmp_path / "x.txt", texts)
        result = invoke(
            *("lda", "transform", "--model", run, documents, "--out", out, "--overwrite")
        )
        assert result.exit_code == 0
        assert message in result.stderr
        with np.load(out) as arrays:
            np.testing.assert_array_equal(arrays["proportions"], np.tile(prior, (len(texts), 1)))
    many = write(tmp_path / "many.txt", ["zebra lion"] * 30)
    result = invoke("lda", "transform", "--model", run, many, "--out", tmp_path / "many.npz")
    assert result.exit_code == 0
    assert "many.txt: none of its 60 tokens" in result.stderr


def test_columns_are_put_to_the_words_of_the_model(run, tmp_path):
    vocabulary = (run / "vocabulary.txt").read_text().splitlines()
    counts = np.eye(len(vocabulary), dtype=int) * 9
    order = np.arange(len(vocabulary))[::-1]
    for name, columns in (("a", counts), ("b", counts[:, order])):
        sp.save_npz(tmp_path / f"{name}.npz", sp.csr_array(columns))
    write(tmp_path / "a.txt", vocabulary)
    write(tmp_path / "b.txt", [vocabulary[i] for i in order])
    shares = []
    for name in ("a", "b"):
        out = tmp_path / f"{name}.out.npz"
        result = invoke(
            *("lda", "transform", "--model", run, tmp_path / f"{name}.npz"),
            *("--vocab", tmp_path / f"{name}.txt", "--out", out),
        )
        assert result.exit_code == 0, result.stderr
        shares.append(np.load(out)["proportions"])
    np.testing.assert_array_equal(*shares)


def test_evaluate(run, texts, tmp_path):
    result = invoke("lda", "evaluate", "--model", run, texts)
    assert result.exit_code == 0, result.stderr
    actual = json.loads(result.stdout)
    assert 3.5 < actual["perplexity"] < 5, "four equally likely words on either side"
    assert actual["target_tokens"] == 80
    assert actual["unknown_tokens"] == 0
    assert set(actual["coherence"]) == {"npmi", "u_mass", "c_v"}

    observed = write(tmp_path / "observed.txt", ["river water zebra", "goal match"])
    target = write(tmp_path / "target.txt", ["stream boat", "team lion lion"])
    result = invoke("lda", "evaluate", "--model", run, "--observed", observed, "--target", target)
    actual = json.loads(result.stdout)
    assert 3.5 < actual["perplexity"] < 6
    assert (actual["unknown_tokens"], actual["unknown_target_tokens"]) == (1, 2)
    assert actual["target_tokens"] == 3

    short = write(tmp_path / "short.txt", ["river water"])
    result = invoke("lda", "evaluate", "--model", run, "--observed", observed, "--target", short)
    assert result.exit_code == 1
    assert "the same documents" in result.stderr

    # The second half of one document was predicted from the first of another.
    named = [write(tmp_path / "a.csv", ["id,text", "a,river water", "b,goal match"])]
    named += [write(tmp_path / "b.csv", ["id,text", "b,team lion", "a,stream boat"])]
    parts = ("--observed", named[0], "--target", named[1])
    result = invoke("lda", "evaluate", "--model", run, *parts)
    assert result.exit_code == 1
    assert "document 1 is 'a' in --observed and 'b' in --target" in result.stderr


def test_evaluate_from_left_to_right(run, texts):
    result = invoke("lda", "evaluate", "--model", run, texts, "--method", "left-to-right")
    assert result.exit_code == 0, result.stderr
    actual = json.loads(result.stdout)
    assert 3.5 < actual["perplexity"] < 6, "a word of each document, of eight, tells its side"
    assert 0 < actual["perplexity_error"] < 0.5
    assert (actual["documents"], actual["tokens"]) == (40, 160)
    one = invoke(
        *("lda", "evaluate", "--model", run, texts, "--method", "left-to-right"),
        *("--particles", 8, "--moves", 0),
    )
    assert json.loads(one.stdout)["perplexity_error"] > actual["perplexity_error"]
    parts = ["--target", texts, "--observed", texts]
    for given in (parts, [texts, "--particles", 9], [texts, "--moves", 9]):
        method = ["--method", "left-to-right"] if given is parts else []
        result = invoke("lda", "evaluate", "--model", run, *given, *method)
        assert result.exit_code == 2
        assert "left-to-right" in result.stderr


def test_evaluate_wants_one_kind_of_input(run, texts):
    for given in ([], [texts, "--observed", texts], ["--target", texts]):
        result = invoke("lda", "evaluate", "--model", run, *given)
        assert result.exit_code == 2
        assert "either INPUT, or both" in result.stderr


def test_report_is_written_again(run, tmp_path):
    before = (run / "report.html").read_bytes()
    assert invoke("lda", "report", run).exit_code == 0
    assert (run / "report.html").read_bytes() == before
    result = invoke("lda", "report", run, "--top-words", 1, "--out", tmp_path / "one.html")
    assert result.exit_code == 0, result.stderr
    assert len((tmp_path / "one.html").read_bytes()) < len(before)
    own = invoke("lda", "report", run, "--out", run / "report.html")
    assert own.exit_code == 0, own.stderr


def test_report_replaces_no_other_file_unasked(run, tmp_path):
    mine = write(tmp_path / "report.html", ["mine"])
    for out in (mine, tmp_path):  # A folder gets a report.html.
        result = invoke("lda", "report", run, "--out", out)
        assert result.exit_code == 1
        assert f"{mine} exists: choose another --out, or pass --overwrite" in result.stderr
        assert mine.read_text() == "mine\n"
    result = invoke("lda", "report", run, "--out", mine, "--overwrite")
    assert result.exit_code == 0, result.stderr
    assert mine.read_bytes() == (run / "report.html").read_bytes()


def test_overwrite_never_replaces_what_the_command_reads(run, tmp_path):
    documents, words = write(tmp_path / "new.csv", NEW), write(tmp_path / "names.csv", NEW)
    (tmp_path / "same.csv").symlink_to(documents)
    before = documents.read_bytes()
    given = ["lda", "transform", documents, "--model", run, "--names", words, "--overwrite"]
    for name, read in (("new.csv", "INPUT"), ("same.csv", "INPUT"), ("names.csv", "--names")):
        result = invoke(*given, "--out", tmp_path / name)
        assert result.exit_code == 1, result.output
        said = f"{tmp_path / name} is read as {read}: choose another name to write to"
        assert result.stderr == f"simplex-jax: error: {said}\n"
    assert documents.read_bytes() == words.read_bytes() == before


@pytest.mark.skipif(os.name != "posix", reason="no pipes with names")
def test_overwrite_replaces_files_only(run, tmp_path):
    """Before the work begins."""
    os.mkfifo(tmp_path / "pipe")
    documents = write(tmp_path / "new.txt", NEW)
    result = invoke(
        *("lda", "transform", documents, "--model", run, "--overwrite"),
        *("--out", tmp_path / "pipe"),
    )
    assert result.exit_code == 1, result.output
    said = f"{tmp_path / 'pipe'} is not a regular file: choose another name to write to"
    assert result.stderr == f"simplex-jax: error: {said}\n"
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("name", ["topics.npz", "summary.json", "metrics.jsonl", "config.json"])
def test_a_damaged_run_is_one_line(run, tmp_path, name):
    damaged = shutil.copytree(run, tmp_path / "run")
    (damaged / name).write_text("{}\n")
    result = invoke("lda", "report", damaged)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert name in result.stderr


def test_the_command_that_continues_an_unfinished_run_can_be_pasted(run, tmp_path):
    place = shutil.copytree(run, tmp_path / "my run")
    (place / "topics.npz").unlink()
    assert invoke("lda", "report", place).stderr.endswith(f" --resume '{place}'\n")


def test_verbs_want_a_run(tmp_path, texts):
    for verb in (["report", tmp_path], ["transform", "--model", tmp_path, texts]):
        result = invoke("lda", *verb)
        assert result.exit_code == 1
        assert "no config.json" in result.stderr


def test_a_finished_run_has_nothing_to_resume(run):
    result = invoke("lda", "--resume", run)
    assert result.exit_code == 0
    assert "is finished" in result.stderr


@pytest.mark.slow
def test_dry_run(texts, tmp_path):
    out = tmp_path / "run"
    result = invoke("lda", texts, "--min-df", 1, "--max-df", 1.0, "--dry-run", "--out", out)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert {"corpus", "state", "update", "summary"} <= {line.split()[0] for line in lines}
    assert lines[-1].startswith("in all")
    assert not out.exists()


@pytest.mark.slow
def test_store_and_stream(texts, tmp_path):
    store = tmp_path / "store"
    result = invoke("lda", "store", texts, store, "--min-df", 1, "--max-df", 1.0)
    assert result.exit_code == 0, result.stderr
    assert "40 documents, 160 tokens, 8 words" in result.stdout
    sizes = ["--topics", 2, "--steps", 6, "--batch-size", 10]
    result = invoke("lda", store, *sizes, "--stream", "--out", tmp_path / "run")
    assert result.exit_code == 0, result.stderr
    assert f"lda transform --model {tmp_path / 'run'} {store} --out" in result.stdout
    assert not (tmp_path / "run" / "doc_topics.npz").exists()
    assert "perplexity_average" in (tmp_path / "run" / "metrics.jsonl").read_text()
    assert json.loads((tmp_path / "run" / "config.json").read_text())["corpus"]["held_out"] == 4


def test_help_names_the_units_and_the_verbs():
    shown = " ".join(invoke("lda", "--help").stdout.split())
    assert "per topic (not the sum)" in shown
    assert "per word (not the sum)" in shown
    for verb in ("fit", "transform", "evaluate", "report", "store"):
        assert f" {verb} " in shown
        assert invoke("lda", verb, "--help").exit_code == 0


def test_first_level_of_help_fits_two_screens_and_all_options_have_a_group(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    first = invoke("lda", "--help").stdout
    everything = invoke("lda", "--help-all").stdout
    assert len(first.splitlines()) <= 100
    for flag in ("--topics", "--alpha", "--out", "--chains", "--passes", "--seed", "--resume"):
        assert f"  {flag} " in first
    assert "--token-pattern" not in first
    for flag in ("--token-pattern", "--distributed", "--eval-every", "--sampler", "--topics"):
        assert f"  {flag} " in everything
    for title in ("Common options", "Length", "Model", "Reading", "Output", "Several processes"):
        assert f"\n{title}:\n" in everything


def test_windows_want_gensim_and_texts(run, texts, monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.corpora", None)
    result = invoke("lda", "evaluate", "--model", run, texts, "--windows")
    assert result.exit_code == 1
    assert result.stderr.endswith("needs gensim: pip install 'simplex-jax[coherence]'\n")
    result = invoke("lda", "evaluate", "--model", run, "--windows", "--observed", texts)
    assert result.exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize("method", ["completion", "left-to-right"])
def test_coherence_in_windows(run, texts, method):
    """Of words that are always, or never, in the same text."""
    pytest.importorskip("gensim")
    result = invoke("lda", "evaluate", "--model", run, texts, "--windows", "--method", method)
    assert result.exit_code == 0, result.stderr
    actual = json.loads(result.stdout)["coherence_in_windows"]
    assert actual.keys() == {"c_v", "c_npmi"}
    assert -1 < actual["c_npmi"] < 0.5


def test_the_version_says_where_the_local_step_runs():
    """Without importing what would know: the library's own folder tells."""
    shown = CliRunner().invoke(main, ["--version"]).output
    native = LIBRARY.built() is not None and os.environ.get(VARIABLE) != "0"
    assert ("on CPUs by native code" if native else "on CPUs by XLA") in shown
