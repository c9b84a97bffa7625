"""Fits of tables of several kinds of columns, with missing cells: files, new rows, commands."""

import csv
import dataclasses
import json

import chex
import numpy as np
import pytest
from click.testing import CliRunner
from support.cut_runs import Cut, look_after_every_step
from support.dpm_table import CELLS, FOUND, GROUPS, KINDS, NEW, TABLE

from simplex_jax._src.cli import main
from simplex_jax._src.corpus import from_counts
from simplex_jax._src.models import dpm
from simplex_jax._src.models.dpm import fitting
from simplex_jax._src.models.dpm.variables import Columns
from simplex_jax._src.runtime.checkpoint import CheckpointError
from simplex_jax._src.runtime.saved import RunError
from simplex_jax.sklearn import DirichletProcessMixture

OPTIONS = {"steps": 60, "eval_every": 5, "initial_clusters": 4, "seed": 2, "keep_samples": 6}


def fit(**options):
    return dpm.fit(TABLE, kinds=KINDS, holdout=6, **(OPTIONS | options))


@pytest.fixture(scope="module")
def fitted():
    return fit()


def test_the_fit(fitted):
    train = ~fitted.held_out[:-1]
    labels = fitted.clusters.labels[:-1] if not fitted.held_out[-1] else fitted.clusters.labels
    assert fitted.variables == FOUND
    assert len(fitted.clusters.sizes) == 2
    assert (labels == GROUPS[train]).mean() > 0.95
    facts = {"rows": 53, "empty": 1, "observations": int(np.isfinite(CELLS).sum())}
    assert facts.items() <= fitted.corpus.items()
    assert np.isfinite(fitted.metrics[-1]["log_predictive_average"])
    flat = FOUND.in_units(FOUND.flat(fitted.clusters.profiles))
    ages, incomes, visits = flat[:, 0], flat[:, 2], flat[:, 6]
    np.testing.assert_allclose(ages, [30, 65], atol=4)
    np.testing.assert_allclose(incomes, [10_002, 9_998], atol=0.6)
    np.testing.assert_allclose(visits, [1, 9], atol=1.2)
    overall = FOUND.in_units(FOUND.flat(fitted.clusters.overall))
    assert overall[0] == pytest.approx(np.nanmean(TABLE["age"][:-1][train]), abs=1.5)
    deviations = FOUND.in_units(FOUND.flat(fitted.clusters.profiles_sd), deviations=True)
    assert (deviations[:, 0] > 0).all()
    assert deviations[0, 0] < 3
    assert any("visits=" in value for value in fitted.examples[0][0]["values"])


def test_a_column_of_which_no_value_is_known_is_told(fitted):
    with pytest.warns(UserWarning, match=r"^column 'sex': .*'x'"):
        fitted.transform({name: cells * 5 for name, cells in (NEW | {"sex": ["x", None]}).items()})


def test_new_rows(fitted):
    shares = fitted.transform(NEW)
    assert shares.argmax(axis=1).tolist() == [1, 0]
    assert (shares.max(axis=1) > 0.8).all()
    array = np.array([[70.0, np.nan, np.nan, 8, np.nan], [np.nan, 10_002, 1, np.nan, 0]])
    np.testing.assert_array_equal(fitted.transform(array), shares)
    with pytest.raises(ValueError, match="no column 'age'"):
        fitted.transform({"sex": ["f"]})
    with pytest.raises(ValueError, match=r"column 'visits', row 0: 1\.5 cannot be used"):
        fitted.transform(NEW | {"visits": [1.5, 2]})
    with pytest.raises(ValueError, match="column 'sex', row 0: 2 "):
        fitted.transform(np.array([[1.0, 1, 2, 1, 1]]))
    with pytest.raises(ValueError, match=r"shape \[n, 5\]"):
        fitted.transform(np.ones((2, 4)))
    with pytest.raises(ValueError, match="of a table"):
        fitted.transform(from_counts(np.eye(2, dtype=int)))


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_files_and_report(fitted, tmp_path):
    place = fitted.save(tmp_path / "run")
    loaded = dpm.load(place)
    assert loaded.variables == fitted.variables
    chex.assert_trees_all_equal(loaded.clusters, fitted.clusters)
    np.testing.assert_array_equal(loaded.transform(NEW), fitted.transform(NEW))
    html = (place / "report.html").read_text()
    assert loaded.report(tmp_path / "again.html").read_text() == html
    for shown in ("A column of numbers has its mean", "sex=f", "sd ", "all rows"):
        assert shown in html
    profiles = rows_of(place / "profiles.csv")
    assert list(profiles[0]) == [
        *("cluster", "rank", "value", "measure", "estimate", "lower", "upper", "sd"),
        *("overall", "lift"),
    ]
    actual = {(row["cluster"], row["value"]): row for row in profiles}
    age = actual["1", "age"]
    assert age["measure"] == "mean"
    assert float(age["lower"]) < float(age["estimate"]) < float(age["upper"])
    assert float(age["estimate"]) == pytest.approx(65, abs=5)
    assert 2 < float(age["sd"]) < 8
    assert age["lift"] == ""
    assert actual["0", "visits"]["measure"] == "rate"
    assert float(actual["0", "visits"]["lift"]) < 0.6
    assert float(actual["1", "sex=f"]["lift"]) > 1
    first = rows_of(place / "clusters.csv")[1]["most_over_represented"]
    assert "age 6" in first
    assert "(sd " in first
    assert json.loads((place / "variables.json").read_text())["kind"] == "table"


@pytest.mark.parametrize("name", ["profiles", "overall"])
def test_damaged_files_are_told(fitted, name, tmp_path):
    place = fitted.save(tmp_path / "run")
    with np.load(place / "clusters.npz") as arrays:
        arrays = dict(arrays)
    arrays[name][..., 6] = -1.0  # a rate
    np.savez(place / "clusters.npz", **arrays)
    with pytest.raises(RunError, match=f"clusters.npz: {name} "):
        dpm.load(place)


@pytest.mark.slow
def test_an_interrupted_run_ends_as_the_whole_one(fitted, tmp_path, monkeypatch):
    look_after_every_step(monkeypatch)
    cut = fit(checkpoint=tmp_path, hooks=[Cut(33)])
    assert cut.state.step == 33
    with pytest.raises(CheckpointError, match=r"data is .* in the checkpoint"):
        dpm.fit(
            TABLE | {"age": TABLE["age"] + 1},
            kinds=KINDS,
            holdout=6,
            checkpoint=tmp_path,
            resume=True,
            **OPTIONS,
        )
    resumed = fit(checkpoint=tmp_path, resume=True)
    chex.assert_trees_all_equal(resumed.clusters, fitted.clusters)
    chex.assert_trees_all_equal(resumed.partitions, fitted.partitions)


SHORT = {"passes": 40, "keep_samples": 5, "initial_clusters": 4, "random_state": 2}


def test_a_concentration_needs_categories():
    numbers = {"age": TABLE["age"], "visits": TABLE["visits"]}
    kinds = {"visits": "count"}
    with pytest.raises(ValueError, match=r"^concentration is .*--category-column"):
        dpm.fit(numbers, kinds=kinds, concentration=1.0)
    model = DirichletProcessMixture("mixed", family_params={"kinds": {}, "concentration": 1.0})
    with pytest.raises(ValueError, match="concentration in family_params is the prior"):
        model.fit(np.array([[1.5, 2.5], [0.5, 1.0]]))


def test_a_column_of_names_is_warned_of(fitted):
    """45 values in 53 rows are no names, though only 47 of the rows are for training."""
    for number, expected in ((45, 0), (53, 1)):
        values = tuple(f"row {i}" for i in range(number))
        variables = FOUND._replace(columns=(*FOUND.columns, "name"), values=(*FOUND.values, values))
        sentences = fitting.warn(dataclasses.replace(fitted, variables=variables))
        told = [sentence for sentence in sentences if sentence.startswith("Column")]
        assert len(told) == expected
    assert "'name' has 53 values for 53 rows" in told[0]


@pytest.mark.slow
def test_the_estimator_of_a_mixed_table(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE)[:-1]
    model = DirichletProcessMixture("mixed", family_params={"kinds": KINDS}, **SHORT).fit(frame)
    assert (model.labels_ == GROUPS).mean() > 0.95
    assert list(model.feature_names_in_) == list(TABLE)
    ages = model.profiles_[:2, model.columns_.items.index("age")]
    np.testing.assert_allclose(ages, [30, 65], atol=6)
    assert model.predict(frame[-3:]).tolist() == [1, 1, 1]
    model.save(tmp_path / "model.npz")
    back = DirichletProcessMixture.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(back.predict_proba(frame), model.predict_proba(frame))
    np.testing.assert_array_equal(back.profiles_, model.profiles_)
    assert back.columns_ == model.columns_
    objects = frame.to_numpy(object)
    kinds = {"kinds": {"x3": "count"}}
    plain = DirichletProcessMixture("mixed", family_params=kinds, **SHORT).fit(objects)
    np.testing.assert_array_equal(plain.labels_, model.labels_)
    # An array has the columns of the frame in order, as scikit-learn has it.
    with pytest.warns(UserWarning, match="valid feature names"):
        shares = back.predict_proba(objects)
    np.testing.assert_array_equal(shares, model.predict_proba(frame))
    with pytest.raises(ValueError, match="features"), pytest.warns(UserWarning, match="names"):
        model.predict(objects[:, :4])
    with pytest.raises(ValueError, match="feature names should"):
        model.predict(frame.rename(columns={"age": "years"}))
    with pytest.raises(ValueError, match="features"):
        plain.predict(objects[:, :4])
    with pytest.raises(ValueError, match=r"dpm\.fit"):
        DirichletProcessMixture("mixed").fit(TABLE)


@pytest.mark.slow
def test_the_estimator_of_numbers_with_missing_ones(tmp_path):
    x = CELLS[:-1, :2]
    model = DirichletProcessMixture("diagonal_gaussian", **SHORT).fit(x)
    assert (model.labels_ == GROUPS).mean() > 0.9
    np.testing.assert_allclose(model.means_[:, 1], [10_002, 9_998], atol=1)
    assert model.standard_deviations_.shape == (2, 2)
    model.save(tmp_path / "model.npz")
    back = DirichletProcessMixture.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(back.score_samples(x), model.score_samples(x))


@pytest.mark.slow
def test_columns_as_a_family_of_an_array():
    one = dpm.fit(CELLS[:9], Columns(*FOUND), **OPTIONS | {"steps": 2, "eval_every": 1})
    assert one.variables == FOUND
    assert one.names[:2] == ("0", "1")


def write(path, table=TABLE, shown="NA"):
    """A file of a table, with a column of names."""
    names = list(table)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *names])
        for i, row in enumerate(zip(*table.values(), strict=True)):
            gone = [cell is None or cell == "" or cell != cell for cell in row]
            fields = [shown if lost else cell for cell, lost in zip(row, gone, strict=True)]
            writer.writerow([f"r{i}", *(int(x) if x in (True, False) else x for x in fields)])
    return path


def invoke(*arguments):
    return CliRunner().invoke(main, ["dpm", *map(str, arguments)])


MIXED = ["--kind", "mixed", "--count-column", "visits", "--category-column", "smoker"]
STEPS = ["--steps", 60, "--eval-every", 5, "--initial-clusters", 4, "--seed", 2]


@pytest.mark.slow
def test_the_command(fitted, tmp_path):
    path, out = write(tmp_path / "x.csv"), tmp_path / "run"
    more = ["--keep-samples", 6, "--holdout", 6, "--out", out]
    result = invoke(path, *MIXED, *STEPS, *more)
    assert result.exit_code == 0, result.stderr
    taken = "of numbers (age, income) and of categories (sex, smoker) and of counts (visits)"
    assert taken in result.stderr
    assert "age 6" in result.stdout
    loaded = dpm.load(out)
    assert loaded.variables == FOUND._replace(values=(*FOUND.values[:4], ("0", "1")))
    chex.assert_trees_all_equal(loaded.clusters.proportions, fitted.clusters.proportions)
    assert rows_of(out / "rows.csv")[3]["row"] == "r3"
    new = write(tmp_path / "new.csv", {name: column[:2] for name, column in NEW.items()}, "")
    result = invoke("transform", "--model", out, new, "--out", tmp_path / "new.out.csv")
    assert result.exit_code == 0, result.stderr
    assert "2 rows, 10 fields: 1 with" in result.stderr
    assert [row["cluster"] for row in rows_of(tmp_path / "new.out.csv")] == ["1", "0"]
    result = invoke("evaluate", "--model", out, path, "--quiet")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["rows"] == 53
    for option, value in (("--names", path), ("--format", "csv")):
        result = invoke("transform", "--model", out, new, option, value)
        assert result.exit_code == 2
        assert f"{option} is for counts" in result.stderr
    bad = write(tmp_path / "bad.csv", NEW | {"visits": [-3, 2]})
    result = invoke("evaluate", "--model", out, bad)
    assert result.exit_code == 1
    assert "bad.csv: column 'visits', row 0: -3 cannot be used" in result.stderr
    assert "is finished" in invoke("--resume", out).stderr


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--count-column", "visits"], 1, "column 'smoker': whole numbers from 0 on"),
        (["--kind", "mixed"], 1, "columns 'visits', 'smoker': whole numbers from 0 on"),
        ([*MIXED, "--number-column", "visits"], 2, "column 'visits' is named twice"),
        ([*MIXED, "--min-df", 2], 2, "--min-df is for counts"),
        ([*MIXED, "--format", "csv"], 2, "--kind is for tables of columns, and INPUT has counts"),
        ([*MIXED, "--count-column", "age"], 1, "column 'age', row 1"),
        ([*MIXED, "--number-column", "sex"], 1, "'m' is not a number"),
        ([*MIXED, "--drop-column", "years"], 1, "no column 'years'"),
        ([*MIXED, "--number-column", "years"], 1, "kinds names 'years'"),
        (["--kind", "numbers"], 2, "'numbers' is not one of 'categories', 'mixed'"),
    ],
)
def test_bad_usage_is_one_clear_error(arguments, status, message, tmp_path):
    path = write(tmp_path / "x.csv")
    result = invoke(path, *arguments, "--quiet", "--out", tmp_path / "run")
    assert result.exit_code == status, result.stderr
    assert message in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("default:column")
def test_numbers_with_an_odd_cell_are_told_in_one_line(tmp_path):
    path = write(tmp_path / "x.csv", {"age": ["30.5", "31", "62.6%"], "visits": [1, 3, 2]})
    result = invoke(path, "--kind", "mixed", "--out", tmp_path / "run")
    _, said, error = result.stderr.splitlines()
    assert said.startswith("simplex-jax: warning: column 'age' ")
    assert "2 of its 3" in said
    assert "column 'visits'" in error
    assert result.exit_code == 1
