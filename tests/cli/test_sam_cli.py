"""`simplex-jax sam` as a user meets it: outputs, resumption, other documents, errors."""

import csv
import io
import json
import re
import shutil
import signal

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from support.cut_runs import Cut

from simplex_jax._src.cli import main, verbs
from simplex_jax._src.models import files, sam
from simplex_jax._src.models.sam.commands import _standard_error
from simplex_jax._src.models.topics import editing

LINES = ["river water stream boat", "goal match team ball", "violin sonata opera quartet"] * 16
TEXTS = [*LINES, "unheard"]
CUT = ["--min-df", "2", "--max-df", "1.0"]
TINY = [
    *("--topics", "3", "--alpha", "0.5", "--kappa1", "learn", "--seed", "1", "--holdout", "6"),
    *("--steps", "40", "--eval-every", "4", "--keep-samples", "2", "--kappa1-prior", "1,0.0167"),
]


def invoke(*arguments):
    return CliRunner().invoke(main, ["sam", *(str(argument) for argument in arguments)])


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


@pytest.fixture(scope="module")
def run(texts, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    result = invoke(texts, *CUT, *TINY, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "1 without a direction" in result.stderr
    assert "kinetic" in result.stderr
    return out


def arrays_of(path):
    with np.load(path, allow_pickle=False) as actual:
        return dict(actual)


def test_a_run_writes_everything(run):
    config = json.loads((run / "config.json").read_text())
    assert config["command"] == "sam"
    assert config["settings"]["kappa1"] == "learn"
    assert (config["corpus"]["documents"], config["corpus"]["excluded"]) == (49, 1)
    written = {*files.names_of(sam.MODEL)} - {editing.TRAINED}  # of edited runs
    assert {path.name for path in run.iterdir()} == written | {"checkpoint", "samples"}
    assert len(list((run / "samples").iterdir())) == 2
    words = (run / "vocabulary.txt").read_text().splitlines()
    assert words == sorted(set(" ".join(LINES).split()))

    model = sam.Fit.load(run)
    assert model.topics.shape == model.topics_sd.shape == (3, 12)
    np.testing.assert_allclose(np.linalg.norm(model.topics, axis=1), 1, rtol=1e-5)
    assert model.kappa1_sd > 0
    assert (model.idf > 0).all()
    with (run / "topics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["topic", "rank", "word", "loading", "lower", "upper", "interval"]
    for row in rows:
        lower, loading, upper = (float(row[name]) for name in ("lower", "loading", "upper"))
        assert lower <= loading <= upper or np.isnan([lower, upper]).all()  # too few samples
        assert (float(row["loading"]) > 0) == (int(row["rank"]) > 0)
    assert any(int(row["rank"]) < 0 for row in rows)
    keys = [line.split("\t") for line in (run / "topic_keys.txt").read_text().splitlines()]
    assert [key[0] for key in keys] == ["0", "1", "2"]
    assert any(word.startswith("-") for word in keys[0][2].split())

    shares = arrays_of(run / "doc_topics.npz")
    assert shares["proportions"].shape == (49, 3)
    np.testing.assert_allclose(shares["proportions"][-1], 1 / 3, rtol=1e-6)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["excluded"] == ["49"]
    assert "topics: 49 (summary.json" in " ".join(summary["warnings"])
    assert len(summary["documents"]) == 3
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert {"step", "passes", "seconds", "log_perplexity", "log_perplexity_average"} <= set(last)


def test_the_report(run, tmp_path):
    html = (run / "report.html").read_text()
    for shown in (
        "present",
        "absent",
        "violin",
        "Spherical admixture model",
        "kinetic energy",
        "Learned concentrations",
    ):
        assert shown in html
    tiles = re.search(r'<dl class="tiles">(.*?)</dl>', html, re.DOTALL)[1]
    assert "posterior samples" in tiles
    assert "kinetic" not in tiles
    assert not re.search(r'(src|href)="(?!#|data:)|url\((?!#)', html)
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(set(ids)) == len(ids)
    assert re.search(r"<small>-0\.\d{3}</small>", html)
    assert invoke("report", run).exit_code == 0
    assert (run / "report.html").read_text() == html
    result = invoke("report", run, "--top-words", 1, "--out", tmp_path / "one.html")
    assert result.exit_code == 0, result.stderr
    assert len((tmp_path / "one.html").read_text()) < len(html)


def test_nothing_is_written_over(run, texts):
    again = invoke(texts, *TINY, "--out", run)
    assert again.exit_code == 1
    assert "--overwrite" in again.stderr
    result = invoke("--resume", run)
    assert "is finished" in result.stderr


@pytest.mark.slow
def test_a_run_cut_twice_ends_with_the_same_samples(run, texts, tmp_path, monkeypatch):
    out = tmp_path / "cut"
    arguments = [texts, *CUT, *TINY, "--checkpoint-every", 0, "--out", out]
    for number, step, status in ((signal.SIGINT, 12, 130), (signal.SIGTERM, 28, 143)):
        with monkeypatch.context() as patch:
            patch.setattr(verbs, "MetricsLog", Cut(step, number).log)
            result = invoke(*arguments, "--quiet")
        assert result.exit_code == status, result.stderr
        assert result.stderr.splitlines()[-1].endswith(f"simplex-jax sam --resume {out}")
        assert "The run was interrupted" in (out / "report.html").read_text()
        arguments = ["--resume", out]
    result = invoke("--resume", out, "--quiet")
    assert result.exit_code == 0, result.stderr
    samples = [f"samples/sample-0000{i}.npz" for i in range(2)]
    for name in ("topics.npz", "doc_topics.npz", *samples):
        one, two = arrays_of(out / name), arrays_of(run / name)
        for array in one:
            np.testing.assert_array_equal(one[array], two[array])


def test_transform_and_evaluate(run, tmp_path):
    new = tmp_path / "new.txt"
    new.write_text("water boat zebra\nzebra\nsonata violin opera\n")
    out = tmp_path / "new.npz"
    result = invoke("transform", "--model", run, new, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "3 documents, 7 tokens: 2 (28.6%) of words unknown" in result.stderr
    actual = arrays_of(out)
    assert actual["documents"].tolist() == ["1", "2", "3"]
    np.testing.assert_allclose(actual["proportions"][1], 1 / 3, rtol=1e-6)
    known = arrays_of(run / "doc_topics.npz")["proportions"]
    assert actual["proportions"][0].argmax() == known[0].argmax()
    assert invoke("transform", "--model", run, new, "--out", out).exit_code == 1
    table = tmp_path / "new.csv"
    assert invoke("transform", "--model", run, new, "--out", table).exit_code == 0
    assert table.read_text().splitlines()[0].startswith("document,topic_0")

    result = invoke("evaluate", "--model", run, new, "--samples", 64, "--quiet")
    assert result.exit_code == 0, result.stderr
    measures = json.loads(result.stdout)
    assert (measures["documents"], measures["without_direction"]) == (2, 1)
    assert np.isfinite(measures["log_perplexity"])
    assert 1 <= measures["effective_samples"] <= 64
    assert np.isfinite(measures["prior_draws"]["log_perplexity"])
    new.write_text("water boat zebra\n")
    result = invoke("evaluate", "--model", run, new, "--samples", 4)
    assert json.loads(result.stdout)["standard_error"] is None
    assert "warning: The held-out log-perplexity is unreliable" in result.stderr
    assert _standard_error(np.array([1.0, 3.0])) == 1.0
    for verb in ("transform", "evaluate"):
        result = invoke(verb, "--model", run, new, "--normalise")
        assert result.exit_code == 2
        assert "--normalise is for" in result.stderr


@pytest.mark.slow
def test_unit_vectors(tmp_path):
    rng = np.random.default_rng(0)
    rows = np.kron(np.eye(3), [1.0, 1.0])[rng.integers(0, 3, 20)] + 0.1 * rng.normal(size=(20, 6))
    np.save(tmp_path / "x.npy", rows)
    sp.save_npz(tmp_path / "x.npz", sp.csr_array(rows / np.linalg.norm(rows, axis=1)[:, None]))
    out = tmp_path / "run"
    refused = invoke(tmp_path / "x.npy", *TINY, "--quiet", "--out", out)
    assert refused.exit_code == 1
    assert "give --normalise" in refused.stderr
    result = invoke(tmp_path / "x.npy", "--normalise", *TINY, "--quiet", "--out", out)
    assert result.exit_code == 0, result.stderr
    assert (result.output, sam.Fit.load(out).idf.tolist()) == ("", [1.0] * 6)
    new = [tmp_path / "x.npz", "--format", "vectors", "--model", out]
    result = invoke("transform", *new, "--out", tmp_path / "y.npz")
    assert result.exit_code == 0, result.stderr
    one, two = arrays_of(out / "doc_topics.npz"), arrays_of(tmp_path / "y.npz")
    assert np.abs(one["proportions"] - two["proportions"]).mean() < 0.05, "other draws"
    for verb in ("transform", "evaluate"):
        result = invoke(verb, *new, "--transpose")
        assert result.exit_code == 2
        assert "--transpose is for" in result.stderr
    (tmp_path / "new.txt").write_text("oak elm\n")
    result = invoke("transform", "--model", out, tmp_path / "new.txt")
    assert result.exit_code == 1
    assert "of unit vectors" in result.stderr
    np.save(tmp_path / "wide.npy", np.eye(3, 9))
    result = invoke("transform", "--model", out, tmp_path / "wide.npy")
    assert "its 9 words" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--topics", "0"],
        ["--alpha", "-1"],
        ["--kappa1", "0"],
        ["--sampler", "hmc"],
        ["--kappa0", "learn"],
        ["--sampler", "gmc-apprmh"],
        ["--sampler", "gmc-bgibbs", "--friction", "1"],
        ["--passes", "2", "--steps", "3"],
        ["--idf", "none"],
        ["--normalise"],
        ["--no-such-option"],
    ],
)
def test_bad_usage_is_status_two(texts, tmp_path, arguments):
    result = invoke(texts, *arguments, "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert not (tmp_path / "run").exists()


def test_options_that_would_do_nothing_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    result = invoke(tmp_path / "x.npy", "--min-df", 3)
    assert result.exit_code == 2
    assert "--min-df is for counts" in result.stderr
    result = invoke("--vocab", "x")
    assert result.exit_code == 2
    assert "--vocab requires INPUT" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--topics", "13", *CUT], "num_topics must be at most 12"),
        (["--topics", "3", "--batch-size", "1000", *CUT], "batch_size"),
        (["--holdout", "49", *CUT], "holdout"),
        (
            ["--topics", "3", "--sampler", "gmc-bgibbs", "--batch-size", "5", *CUT],
            "leave batch_size out",
        ),
        (["--min-df", "40"], "no word is in 40 documents"),
    ],
)
def test_bad_settings_are_status_one_and_leave_nothing(texts, tmp_path, arguments, word):
    result = invoke(texts, *arguments, "--quiet", "--out", tmp_path / "run")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert word in result.stderr
    assert not (tmp_path / "run").exists()


def npy(array):
    """The bytes of a file of `numpy.save`."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (npy([[1.0, 0.0], [0.0, 0.0]]), "x.npy: row 1 (counted from 0) is the zero vector"),
        (npy([[1.5, 0.0]]), "x.npy: row 0 (counted from 0) has length 1.5"),
        (b"", "the file is empty"),
        (None, "x.npy: no such file"),
    ],
)
def test_bad_data_is_one_line_and_status_one(tmp_path, content, word):
    if content is not None:
        (tmp_path / "x.npy").write_bytes(content)
    result = invoke(tmp_path / "x.npy", "--quiet", "--out", tmp_path / "run")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert word in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["topics.npz", "summary.json", "metrics.jsonl", "config.json"])
def test_a_damaged_run_is_one_line(run, tmp_path, name):
    damaged = shutil.copytree(run, tmp_path / "run")
    (damaged / name).write_text("{}\n")
    result = invoke("report", damaged)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert name in result.stderr


@pytest.mark.slow
def test_runs_of_lda_are_told_apart(run, texts, tmp_path):
    lda = tmp_path / "lda"
    options = [
        "--topics",
        "2",
        "--steps",
        "2",
        "--holdout",
        "0",
        *CUT,
        "--quiet",
        "--out",
        str(lda),
    ]
    result = CliRunner().invoke(main, ["lda", str(texts), *options])
    assert result.exit_code == 0, result.stderr
    for arguments in (["report", lda], ["transform", texts, "--model", lda], ["--resume", lda]):
        result = invoke(*arguments)
        assert result.exit_code == 1
        assert "run of simplex-jax lda, not of simplex-jax sam" in result.stderr
    result = CliRunner().invoke(main, ["lda", "report", str(run)])
    assert result.exit_code == 1
    assert "run of simplex-jax sam" in result.stderr


def test_resume_wants_no_other_settings(run):
    result = invoke("--resume", run, "--topics", 4)
    assert result.exit_code == 2
    assert "--topics cannot change" in result.stderr


def test_help_lists_the_verbs():
    shown = " ".join(invoke("--help").stdout.split())
    for verb in ("fit", "transform", "evaluate", "report"):
        assert f" {verb} " in shown
        assert invoke(verb, "--help").exit_code == 0
    shown = " ".join(invoke("--help-all").stdout.split())
    assert "[default: 300, unless " in shown
