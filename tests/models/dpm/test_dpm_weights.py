"""Rows that stand for several equal ones, each with a label of its own."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from scipy import special
from support import statistics_checks as checks
from support import tiny_dpm
from support.marks import slow_but

from simplex_jax import dpm
from simplex_jax._src.cli import main
from simplex_jax._src.corpus import from_counts
from simplex_jax._src.evaluate.partitions import PointPartition
from simplex_jax._src.models import pipeline
from simplex_jax._src.models.dpm import MODEL, families, fitting, report, totals
from simplex_jax._src.models.dpm import data as dpm_data
from simplex_jax._src.models.dpm import model as dpm_mixture
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.models.dpm.families.family import Selected
from simplex_jax._src.models.dpm.options import Arguments
from simplex_jax._src.runtime.driver import run
from simplex_jax.sklearn import DirichletProcessMixture

WEIGHTS = np.array([3, 2])
ROWS = np.array([[-0.8], [0.9]])
ALPHA, CHAINS, STEPS = 1.3, 4_000, 25
FAMILY = families.gaussian([0.2], [[0.5]], 0.3, 2.5)


def partition_p_value(key, rows):
    """P-value of the partitions of chains, against the enumeration of those of five rows."""
    every, repeated = (
        tiny_dpm.partitions(5),
        jnp.asarray(np.repeat(ROWS, WEIGHTS, axis=0), jnp.float32),
    )

    def score(labels):
        sizes = jnp.zeros(5).at[labels].add(1)
        log_f = FAMILY.log_evidence(FAMILY.statistics(repeated, labels, 5))
        each = jnp.log(ALPHA) + jax.scipy.special.gammaln(jnp.maximum(sizes, 1)) + log_f
        return jnp.sum(jnp.where(sizes > 0, each, 0))

    p = special.softmax(np.asarray(jax.lax.map(score, jnp.asarray(every, jnp.int32)), np.float64))
    kernel, stream = dpm_mixture.build(
        rows, FAMILY, alpha=ALPHA, chains=CHAINS, capacity=32, split_merge=1
    )
    key_labels, key_state, key_run = jax.random.split(key, 3)
    labels = jax.random.randint(key_labels, (CHAINS, 5), 0, 3, jnp.int32)
    state, _ = run(
        key_run,
        kernel,
        kernel.init(key_state, labels),
        stream,
        STEPS,
        collect=lambda state, info: (),
        grow=dpm_mixture.State.grown,
        chunk=STEPS,
    )
    return checks.chi_square(tiny_dpm.counted(np.asarray(state.labels)), p)


def selected(weights):
    return Selected(jnp.asarray(ROWS, jnp.float32), jnp.asarray(np.repeat([0, 1], weights)))


@pytest.mark.slow
def test_equal_rows_have_the_posterior_of_repeated_ones(getkey):
    """By enumeration, at a false-alarm rate of 1e-3; other weights are rejected."""
    assert selected(WEIGHTS).repeat
    assert partition_p_value(getkey(), selected(WEIGHTS)) > 1e-3
    assert partition_p_value(getkey(), selected(WEIGHTS[::-1])) < 1e-6


@pytest.mark.parametrize("size", slow_but([1, 7, 40], 7))
def test_likelihoods_are_those_of_each_row(size, seed):
    rng = np.random.default_rng(seed)
    rows = Selected(
        jnp.asarray(rng.normal(size=(5, 1)), jnp.float32), jnp.asarray(rng.integers(5, size=60))
    )
    ids = jnp.asarray(rng.integers(60, size=size), jnp.int32)
    some = family_rows.take(rows, ids)
    atoms = FAMILY.draw(jax.random.key(seed), FAMILY.statistics(some, jnp.arange(size) % 3, 3))
    found = totals.likelihoods_of(FAMILY, rows, ids, some)(atoms)
    np.testing.assert_allclose(found, FAMILY.log_likelihood(some, atoms), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.01, 1.0])
def test_only_rows_that_moved_change_the_sums(share, seed):
    rng = np.random.default_rng(seed)
    n = 700
    rows = jnp.asarray(rng.normal(size=(n, 1)), jnp.float32)
    old, new = (jnp.asarray(rng.integers(4, size=n), jnp.int32) for _ in range(2))
    moved = jnp.asarray(rng.random(n) < share)
    before, after = jnp.where(moved, old, 4), jnp.where(moved, new, 4)
    start = totals.no_loss(FAMILY.statistics(rows, old, 4))
    found = totals.add_moves(FAMILY, start, (rows, before), (rows, after), moved)
    other = totals.add_moves(FAMILY, start, (rows + 1, before), (rows, after), moved)
    expected = FAMILY.statistics(rows, jnp.where(moved, new, old), 4)
    np.testing.assert_array_equal(found.values.number, expected.number)
    both = jax.tree.map(jnp.add, *found)
    np.testing.assert_allclose(both.square, expected.square, rtol=1e-5, atol=1e-3)
    differ = np.abs(jax.tree.map(jnp.add, *other).total - expected.total).max() > 0.5
    assert differ == (share > 0)


def table(n=60):
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=n)
    weights = rng.integers(1, 5, size=n)
    columns = {
        "size": rng.normal(5 * z, 1),
        "kind": np.where(rng.random(n) < 0.2 + 0.6 * z, "a", "b"),
        "visits": rng.poisson(1 + 8 * z),
    }
    return columns, weights, z


@pytest.mark.slow
def test_a_fit_is_that_of_repeated_rows():
    """Bit for bit, since the same random numbers are used and columns are summed one by one."""
    columns, weights, z = table()
    options = {"kinds": {"visits": "count"}, "passes": 30, "seed": 1}
    fitted = dpm.fit(columns, weights=weights, **options)
    repeated = {name: np.repeat(column, weights) for name, column in columns.items()}
    other = dpm.fit(repeated, **options)
    np.testing.assert_array_equal(fitted.partitions["labels"], other.partitions["labels"])
    assert fitted.alpha == other.alpha
    np.testing.assert_allclose(fitted.clusters.sizes, other.clusters.sizes)
    np.testing.assert_allclose(
        fitted.clusters.profiles["number"].mean[:2],
        other.clusters.profiles["number"].mean[:2],
        rtol=1e-5,
    )
    # What is reported of a row is that of its equals.
    assert fitted.proportions.shape[0] == len(fitted.names) == len(z)
    firsts = np.cumsum(weights) - weights
    means = np.add.reduceat(other.proportions, firsts, axis=0) / weights[:, None]
    np.testing.assert_allclose(fitted.proportions, means, atol=1e-6)
    assert fitted.point.labels.shape == z.shape
    assert (fitted.point.labels == other.point.labels[firsts]).mean() > 0.9
    assert fitted.corpus["weighted"] == weights.sum()


@pytest.mark.slow
def test_held_out_rows_count_by_their_weights(tmp_path):
    columns, weights, _ = table()
    fitted = dpm.fit(
        columns, weights=weights, kinds={"visits": "count"}, passes=10, holdout=10, chains=2
    )
    held = fitted.held_out
    assert held.sum() == 10
    assert fitted.clusters.proportions.shape[0] == 50
    total = weights[~held].sum()
    assert fitted.partitions["labels"].shape[2] == total
    part = {name: column[held] for name, column in columns.items()}
    np.testing.assert_allclose(fitted.transform(part), fitted.proportions[held], atol=1e-5)
    fitted.save(tmp_path / "run")
    again = dpm.Fit.load(tmp_path / "run")
    np.testing.assert_array_equal(again.point.labels, fitted.point.labels)


@pytest.mark.slow
def test_the_estimator_takes_weights():
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], [25, 15])
    codes = (rng.random((40, 5)) < np.where(group, 0.9, 0.1)[:, None]).astype(int)
    weights = rng.integers(1, 4, size=40)
    model = DirichletProcessMixture("categorical", random_state=0, passes=20)
    model.fit(codes, sample_weight=weights)
    every = DirichletProcessMixture("categorical", random_state=0, passes=20)
    every.fit(np.repeat(codes, weights, axis=0))
    np.testing.assert_array_equal(model.samples_["labels"], every.samples_["labels"])
    assert model.labels_.shape == (40,)
    assert model.score(codes) == pytest.approx(every.score(codes))
    np.testing.assert_allclose(sum(model.weights_), sum(every.weights_), rtol=1e-3)


def test_what_a_row_reports_of_its_equals():
    data = dpm_data.as_data(dpm_data.Given({"a": ["x", "y", "x"]}, None, None, [2, 1, 3]))
    assert data.size == 6
    np.testing.assert_allclose(data.means(np.arange(6.0)[:, None])[:, 0], [0.5, 2, 4])
    assert data.labels(np.array([3, 0, 1, 1, 1, 0])).tolist() == [0, 1, 1]
    one = data.select(np.array([2]))
    assert one.size == 3
    assert one.names == ("2",)


def test_the_report_of_a_point_partition_counts_rows_by_their_weights():
    columns, weights, _ = table()
    given = dpm_data.Given(columns, None, {"visits": "count"}, weights)
    plan = pipeline.plan(MODEL, given, Arguments(holdout=10))
    facts = fitting.describe(plan)
    assert facts["weighted_train"] == plan.train.weights.sum() < facts["weighted"] == weights.sum()
    point = PointPartition(np.zeros(50, int), 0.0, 100, 1, "draw")
    assert report.partitioned_rows(SimpleNamespace(corpus=facts, point=point)) > 100
    assert report.partitioned_rows(SimpleNamespace(corpus={"rows": 60}, point=point)) == 50


def test_a_digest_knows_the_weights():
    given = {"a": ["x", "y", "x"]}
    digests = {
        dpm_data.digest(dpm_data.as_data(dpm_data.Given(given, None, None, weights)))
        for weights in (None, [1, 1, 1], [2, 1, 1], [1, 2, 1])
    }
    assert len(digests) == 4


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], r"weights .* \[3\]"),
        ([1, 0, 2], r"weight of row '1' \(index 1\) is 0"),
        ([1, -2, 2], r"row '1' \(index 1\) is -2"),
        ([1, 1, 1.5], r"row '2' \(index 2\) is 1.5: weights are whole"),
        ([1, np.nan, 1], r"row '1' .* is nan"),
        (["a", "b", "c"], r"^weights .*<U1$"),
        ([2**30, 2**30, 1], "rows in all"),
    ],
)
def test_bad_weights_are_named(weights, message):
    with pytest.raises(ValueError, match=message):
        dpm.fit({"a": ["x", "y", "x"]}, weights=weights)


def test_counts_that_overflow_by_their_weights_are_refused():
    corpus = from_counts([[2**20, 1], [1, 2**20]], ["a", "b"])
    with pytest.raises(ValueError, match=r"counts in all.*smaller weights"):
        dpm.fit(corpus, weights=[3000, 1])
    rows = np.array([[2**20], [3]])
    with pytest.raises(ValueError, match="counts in all"):
        dpm.fit(rows, families.poisson([1.0], 1.0), weights=[3000, 1])


CSV = "colour,size,n\n" + "red,small,5\nblue,large,3\nred,small,2\nblue,large,1\n" * 4


@pytest.mark.slow
def test_the_command_takes_a_column(tmp_path):
    (tmp_path / "t.csv").write_text(CSV)
    out = tmp_path / "run"
    arguments = [
        "dpm",
        str(tmp_path / "t.csv"),
        "--weights",
        "n",
        "--passes",
        "10",
        "--holdout",
        "0",
    ]
    result = CliRunner().invoke(main, [*arguments, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "44 by their weights" in result.output
    fitted = dpm.Fit.load(out)
    assert fitted.variables.columns == ("colour", "size")
    assert len(fitted.names) == 16
    assert fitted.clusters.sizes.sum() == pytest.approx(44, abs=1)


@pytest.mark.parametrize(
    ("column", "cell", "message"),
    [("m", "5", "there is no column 'm'"), ("n", "0", "weight of row"), ("n", "1.5", "is 1.5")],
)
def test_a_bad_column_is_named(tmp_path, column, cell, message):
    (tmp_path / "t.csv").write_text(CSV.replace(",5\n", f",{cell}\n"))
    arguments = ["dpm", str(tmp_path / "t.csv"), "--weights", column, "--out", str(tmp_path / "r")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code != 0
    assert message in result.output
