"""`simplex-jax dpm` as a user meets it: outputs, resumption, new rows, errors."""

import csv
import json
import re
import shutil
import signal

import numpy as np
import pytest
from click.testing import CliRunner
from support.cut_runs import cut

from simplex_jax._src.cli import main, verbs
from simplex_jax._src.models import dpm, files

AREAS = ("Home", "Search", "Office", "Word", "Visual C", "Basic <b>")
GROUPS = np.repeat([0, 1, 2], [22, 16, 9])
TINY = [
    *("--seed", "1", "--holdout", "6", "--steps", "150", "--eval-every", "5"),
    *("--initial-clusters", "10", "--keep-samples", "5"),
]


def invoke(*arguments):
    return CliRunner().invoke(main, ["dpm", *(str(argument) for argument in arguments)])


def web_data(path, visits, areas=AREAS):
    """A file of the pages that users have visited, in lda-c, with the names of the pages beside."""
    path.write_text(
        "".join(f"{len(row)} {' '.join(f'{area}:1' for area in row)}\n" for row in visits)
    )
    (path.parent / "vocab.txt").write_text("\n".join(areas))
    return path


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    path = tmp_path_factory.mktemp("visits") / "visits.dat"
    rows = [[2 * g, 2 * g, 2 * g + 1] * 2 for g in GROUPS]
    return web_data(path, [*rows, []])


@pytest.fixture(scope="module")
def run(visits, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    result = invoke(visits, *TINY, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "48 rows (6 held out, 1 without an observation)" in result.stderr
    assert "log predictive" in result.stderr
    assert re.search(r"in a sample: 3 to \d", result.stdout)
    assert "3 clusters in" in result.stdout
    assert "without 6 held-out rows" in result.stdout
    assert "without 6 held-out rows" in (out / "report.html").read_text()
    return out


def arrays_of(path):
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def table_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_run_writes_everything(run):
    config = json.loads((run / "config.json").read_text())
    assert config["command"] == "dpm"
    assert config["settings"]["alpha"] == "learn"
    assert config["corpus"]["rows"] == 48
    assert {path.name for path in run.iterdir()} == {*files.names_of(dpm.MODEL), "checkpoint"}

    fitted = dpm.load(run)
    profiles = fitted.clusters.profiles
    assert profiles.shape == (3, 6)
    np.testing.assert_allclose(profiles.sum(axis=1), 1, rtol=1e-5)
    assert fitted.variables.items == AREAS
    sizes = table_of(run / "clusters.csv")
    assert list(sizes[0]) == [
        *("cluster", "size", "lower", "upper", "present", "most_over_represented")
    ]
    assert [row["cluster"] for row in sizes] == ["0", "1", "2"]
    for row in sizes:
        assert float(row["lower"]) <= float(row["size"]) <= float(row["upper"])
    assert sizes[0]["most_over_represented"].startswith("Home")
    profiles = table_of(run / "profiles.csv")
    assert list(profiles[0]) == [
        *("cluster", "rank", "value", "measure", "estimate", "lower", "upper", "sd"),
        *("overall", "lift"),
    ]
    for row in profiles:
        assert float(row["lower"]) <= float(row["estimate"]) <= float(row["upper"])
        assert float(row["lift"]) > 1
    keys = [line.split("\t") for line in (run / "cluster_keys.txt").read_text().splitlines()]
    assert [key[0] for key in keys] == ["0", "1", "2"]
    assert keys[0][2].split(", ")[0] == "Home"

    rows = table_of(run / "rows.csv")
    assert [row["row"] for row in rows] == [str(i) for i in range(1, 49)]
    clusters = np.array([int(row["cluster"]) for row in rows])
    assert (clusters[:47] == GROUPS).mean() > 0.95, "held-out rows are assigned, too"
    assert sum(row["partition"] == "" for row in rows) == 6
    shares = arrays_of(run / "row_clusters.npz")["proportions"]
    assert shares.shape == (48, 3)
    assert (shares.sum(axis=1) <= 1 + 1e-5).all()

    summary = json.loads((run / "summary.json").read_text())
    assert summary["alpha"]["lower"] < summary["alpha"]["mean"] < summary["alpha"]["upper"]
    assert sum(summary["num_clusters_posterior"].values()) == pytest.approx(1)
    assert summary["examples"][0][0]["values"][0] == "Home"
    assert {"alpha", "log_predictive"} <= set(summary["diagnostics"])
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert {"alpha", "num_clusters", "largest", "log_predictive", "log_predictive_average"} <= set(
        last
    )


def test_the_report(run, tmp_path):
    html = (run / "report.html").read_text()
    for shown in ("Dirichlet-process mixture", "Basic &lt;b&gt;", "concentration alpha", "×"):
        assert shown in html
    assert "Basic <b>" not in html
    assert not re.search(r'(src|href)="(?!#|data:)|url\((?!#)', html)
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r'href="#([a-z]+)"', html)) <= set(ids)
    assert invoke("report", run).exit_code == 0
    assert (run / "report.html").read_text() == html
    result = invoke("report", run, "--top-values", 1, "--out", tmp_path / "one.html")
    assert result.exit_code == 0, result.stderr
    assert len((tmp_path / "one.html").read_text()) < len(html)


def test_nothing_is_written_over(run, visits):
    again = invoke(visits, *TINY, "--out", run)
    assert again.exit_code == 1
    assert "--overwrite" in again.stderr
    result = invoke("--resume", run)
    assert "is finished" in result.stderr


@pytest.mark.slow
def test_a_run_cut_twice_ends_with_the_same_numbers(run, visits, tmp_path, monkeypatch):
    out = tmp_path / "cut"
    arguments = [visits, *TINY, "--checkpoint-every", 0, "--out", out]
    for number, step, status in ((signal.SIGINT, 30, 130), (signal.SIGTERM, 110, 143)):
        with monkeypatch.context() as patch:
            patch.setattr(verbs, "MetricsLog", cut(number, step))
            result = invoke(*arguments, "--quiet")
        assert result.exit_code == status, result.stderr
        assert result.stderr.splitlines()[-1].endswith(f"simplex-jax dpm --resume {out}")
        assert "The run was interrupted" in (out / "report.html").read_text()
        arguments = ["--resume", out]
    result = invoke("--resume", out, "--quiet")
    assert result.exit_code == 0, result.stderr
    for name in ("clusters.npz", "samples.npz", "row_clusters.npz"):
        one, two = arrays_of(out / name), arrays_of(run / name)
        for array in one:
            np.testing.assert_array_equal(one[array], two[array])


@pytest.mark.parametrize("more", [[], ["--all"]])
def test_the_table_of_transform_is_not_called_npz(run, tmp_path, more):
    """It would be a text of that name, and with --all the shares would take its place."""
    out = tmp_path / "new.npz"
    result = invoke("transform", "--model", run, tmp_path / "x.csv", "--out", out, *more)
    assert result.exit_code == 2
    assert " .csv" in result.output
    assert not out.exists()


def test_transform_and_evaluate(run, tmp_path):
    others = [area.replace("Word", "Excel") for area in AREAS]
    new = web_data(tmp_path / "new.dat", [[0, 0, 1, 0], [], [4, 5, 5]], others)
    out = tmp_path / "new.csv"
    result = invoke("transform", "--model", run, new, "--out", out, "--all")
    assert result.exit_code == 0, result.stderr
    assert "3 documents, 7 tokens: 0 (0.0%) of words unknown" in result.stderr
    rows = table_of(out)
    assert [(row["row"], row["cluster"]) for row in rows[::2]] == [("1", "0"), ("3", "2")]
    shares = arrays_of(tmp_path / "new.npz")["proportions"]
    assert shares.shape == (3, 3)
    np.testing.assert_allclose(shares[1], np.array([22, 16, 9]) / 48, atol=0.15)
    assert invoke("transform", "--model", run, new, "--out", out).exit_code == 1
    assert invoke("transform", "--model", run, new, "--seed", 1).exit_code == 2, "nothing is drawn"

    result = invoke("evaluate", "--model", run, new, "--quiet")
    assert result.exit_code == 0, result.stderr
    measures = json.loads(result.stdout)
    assert (measures["rows"], measures["samples"]) == (3, 5)
    single = measures["log_predictive_samples"]
    assert single["least"] <= single["mean"] <= measures["log_predictive"] < 0
    assert 0 < measures["new"] < 1
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    result = invoke("evaluate", "--model", run, tmp_path / "x.csv")
    assert "is of counts" in result.stderr


@pytest.mark.slow
def test_a_table_of_categories(tmp_path):
    kinds = ("red,small,p", "blue,large,q", "blue,large,r")
    lines = ["id,colour,size,kind", *(f"r{i},{kinds[i % 3]}" for i in range(35)), "none,,?,NA"]
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "run"
    result = invoke(tmp_path / "x.csv", *TINY, "--quiet", "--out", out)
    assert result.exit_code == 0, result.stderr
    fitted = dpm.load(out)
    assert fitted.variables.columns == ("colour", "size", "kind")
    assert fitted.corpus["empty"] == 1
    assert table_of(out / "rows.csv")[-1]["row"] == "none"
    (tmp_path / "new.csv").write_text("size,colour,age,kind\nsmall,red,9,p\nhuge,red,8,p\n")
    result = invoke("transform", "--model", out, tmp_path / "new.csv", "--out", tmp_path / "y.csv")
    assert result.exit_code == 0, result.stderr
    assert "2 rows, 6 fields: 1 with" in result.stderr
    others, rows = table_of(tmp_path / "y.csv"), table_of(out / "rows.csv")
    assert {row["cluster"] for row in others} == {rows[0]["cluster"]}
    (tmp_path / "new.csv").write_text("size\nsmall\n")
    result = invoke("evaluate", "--model", out, tmp_path / "new.csv")
    assert result.exit_code == 1
    assert "no column 'colour'" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--alpha", "-1"],
        ["--alpha", "2", "--alpha-prior", "1,1"],
        ["--sampler", "sgrld"],
        ["--split-merge", "2", "--sampler", "scir"],
        ["--dry-run"],
        ["--atom-step-size", "0.5"],
        ["--sampler", "hmc"],
        ["--counts", "all"],
        ["--loss", "01"],
        ["--keep-samples", "0"],
        ["--passes", "2", "--steps", "3"],
        ["--drop-column", "a"],
        ["--no-such-option"],
    ],
)
def test_bad_usage_is_status_two(visits, tmp_path, arguments):
    result = invoke(visits, *arguments, "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert not (tmp_path / "run").exists()


def test_options_that_would_do_nothing_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    result = invoke(tmp_path / "x.csv", "--min-df", 3)
    assert result.exit_code == 2
    assert "--min-df is for counts" in result.stderr
    result = invoke("--vocab", "x")
    assert result.exit_code == 2
    assert "--vocab requires INPUT" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--batch-size", "1000"], "batch_size must be at most the 44 rows"),
        (["--holdout", "48"], "holdout"),
        (["--format", "uci"], "the number of documents is"),
    ],
)
def test_bad_settings_are_status_one_and_leave_nothing(visits, tmp_path, arguments, word):
    result = invoke(visits, *arguments, "--quiet", "--out", tmp_path / "run")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert word in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("x.dat", b"1 0:1\n2 0:1\n", "x.dat:1: invalid index 0"),
        ("docword.x.txt", b"1\n1\n1\n1 1 0\n", "every document is empty"),
        ("x.mtx", b"%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 nan\n", "x.mtx:3"),
        ("x.csv", b"a,b\n1\n", "x.csv:2: 1 fields instead of 2"),
        ("x.csv", b"a,b\n1,?\n", "x.csv: column 'b' has no value"),
        ("x.csv", b"", "the file is empty"),
        ("x.csv", None, "x.csv: no such file"),
    ],
)
def test_bad_data_is_one_line_and_status_one(tmp_path, name, content, word):
    (tmp_path / "vocab.x.txt").write_text("a\n")
    if content is not None:
        (tmp_path / name).write_bytes(content)
    result = invoke(tmp_path / name, "--quiet", "--out", tmp_path / "run")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert word in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "name",
    [
        *("clusters.npz", "samples.npz", "summary.json", "variables.json"),
        *("metrics.jsonl", "config.json"),
    ],
)
def test_a_damaged_run_is_one_line(run, tmp_path, name):
    damaged = shutil.copytree(run, tmp_path / "run")
    (damaged / name).write_text("{}\n")
    result = invoke("report", damaged)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert name in result.stderr


@pytest.mark.parametrize(
    ("name", "array", "value"),
    [
        *(("clusters.npz", "profiles", 1.5), ("clusters.npz", "sizes", -1)),
        *(("samples.npz", "atoms", np.nan), ("samples.npz", "membership", 2)),
    ],
)
def test_numbers_out_of_range_are_an_error(run, tmp_path, name, array, value):
    damaged = shutil.copytree(run, tmp_path / "run")
    arrays = arrays_of(run / name)
    arrays[array].flat[0] = value
    np.savez(damaged / name, **arrays)
    result = invoke("report", damaged)
    assert result.exit_code == 1
    assert f"{name}: {array} has" in result.stderr
    np.savez(damaged / name, **(arrays | {array: arrays[array][..., :1]}))
    assert "different runs" in invoke("report", damaged).stderr


def test_a_run_of_another_model_is_told_apart(run):
    result = CliRunner().invoke(main, ["lda", "report", str(run)])
    assert result.exit_code == 1
    assert "run of simplex-jax dpm" in result.stderr


def test_resume_wants_a_run_and_no_other_settings(run, tmp_path):
    result = invoke("--resume", run, "--alpha", 4)
    assert result.exit_code == 2
    assert "--alpha cannot change" in result.stderr
    config = json.loads((run / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"source": {"input": "x"}}))
    result = invoke("--resume", tmp_path)
    assert result.exit_code == 1
    assert "cannot resume" in result.stderr


def measured(path, *more):
    """Two groups of two columns of real numbers, and more columns."""
    rng = np.random.default_rng(0)
    size = 60
    group = np.arange(size) % 2
    numbers = rng.normal(size=(size, 2)).round(2) + 8.0 * group[:, None]
    columns = {"height": numbers[:, 0], "weight": numbers[:, 1]} | {
        name: make(rng, size) for name, make in more
    }
    lines = [
        ",".join(columns),
        *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True)),
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
def test_columns_of_real_numbers_are_numbers(tmp_path):
    table = measured(tmp_path / "x.csv", ("colour", lambda rng, n: rng.choice(["r", "g"], n)))
    out = tmp_path / "run"
    short = ("--passes", 20, "--chains", 1, "--seed", 1)
    result = invoke(table, *short, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "columns of numbers (height, weight) and of categories (colour)" in result.stderr
    assert "2 clusters in" in result.stdout
    fitted = dpm.load(out)
    assert fitted.variables.kinds == ("number", "number", "category")
    # The heading is the number of clusters of the point partition, as are the labels.
    assert re.search("<h1>2 clusters of 60 rows</h1>", (out / "report.html").read_text())


COUNTS = ("visits", lambda rng, n: rng.poisson(40, n))
CODES = ("ward", lambda rng, n: rng.integers(4, size=n))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ((COUNTS,), ["column 'visits'", "since 'height' has numbers", "--kind categories"]),
        ((COUNTS, CODES), ["columns 'visits', 'ward'", "--category-column"]),
    ],
)
def test_whole_numbers_beside_real_ones_have_to_be_told(tmp_path, columns, words):
    table = measured(tmp_path / "x.csv", *columns)
    result = invoke(table, "--quiet", "--out", tmp_path / "run")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert all(word in result.stderr for word in ["x.csv", *words])


def test_many_whole_numbers_alone_have_to_be_told(tmp_path):
    table = tmp_path / "x.csv"
    table.write_text("age,ward\n" + "".join(f"{20 + i},{i % 3}\n" for i in range(40)))
    result = invoke(table, "--quiet", "--out", tmp_path / "run")
    assert result.exit_code == 1
    assert "column 'age'" in result.stderr
    assert "ward" not in result.stderr


@pytest.mark.slow
def test_whole_numbers_are_what_is_told(tmp_path):
    table = tmp_path / "x.csv"
    table.write_text("age,ward\n" + "".join(f"{20 + i},{i % 3}\n" for i in range(40)))
    short = ("--steps", 5, "--initial-clusters", 2, "--quiet")
    for options, kinds in (
        (["--drop-column", "age"], ("category",)),
        (["--kind", "categories"], ("category", "category")),
        (["--number-column", "age", "--category-column", "ward"], ("number", "category")),
    ):
        out = tmp_path / str(len(options)) / options[1]
        result = invoke(table, *short, *options, "--out", out)
        assert result.exit_code == 0, result.stderr
        assert dpm.load(out).variables.kinds == kinds


@pytest.mark.slow
def test_measurements_taken_for_categories_are_warned_of(tmp_path):
    out = tmp_path / "run"
    table = measured(tmp_path / "x.csv")
    invoke(table, "--kind", "categories", "--steps", 5, "--initial-clusters", 2, "--out", out)
    assert any("'height' has" in one and "--number-column" in one for one in dpm.load(out).warnings)
    rows = "".join(f"{i / 7}\n" for i in range(1_100))
    (tmp_path / "many.csv").write_text("x\n" + rows)
    result = invoke(tmp_path / "many.csv", "--kind", "categories", "--out", tmp_path / "other")
    assert result.exit_code == 1
    assert "1,100 values" in result.stderr
    assert "--number-column" in result.stderr


def test_help_lists_the_verbs():
    shown = " ".join(invoke("--help").stdout.split())
    for verb in ("fit", "transform", "evaluate", "report"):
        assert f" {verb} " in shown
        assert invoke(verb, "--help").exit_code == 0
