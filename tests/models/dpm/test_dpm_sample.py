"""New rows of a mixture, against the predictive density that the fit itself states.

Tests of distributions are judged by Holm's procedure at 1e-3: with a fresh seed a correct library
fails one with a probability of at most 1e-3.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from support import statistics_checks as checks
from support.marks import slow_but

from simplex_jax import dpm
from simplex_jax._src.corpus import Corpus
from simplex_jax._src.models.dpm import clusters, families
from simplex_jax._src.models.dpm.clusters import Samples, assign
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.models.dpm.families.family import counts_of
from simplex_jax._src.models.dpm.model import Mixture
from simplex_jax.sklearn import DirichletProcessMixture

COUNT = 20_000
LENGTH = 3
# Two samples of three components, whose last is empty, and what is left for new clusters.
WEIGHTS = np.array([[0.5, 0.3, 0.0], [0.2, 0.6, 0.0]])
# The second component of the first sample is in no cluster; the first of the second is shared.
MEMBERSHIP = np.array([[[1, 0, 0], [0, 0, 0]], [[0.25, 1, 0], [0.5, 0, 0]]], np.float32)

ONE = families.gaussian([0.5], [[2.0]], 0.5, 6.0)
FAMILIES = {
    "categorical": families.categorical([3, 2], 0.7),
    "multinomial": families.multinomial(3, 0.6),
    "poisson": families.poisson([2.0, 1.0], 1.0),
    "product": families.product(
        {"kind": families.categorical([2], 0.7), "count": families.poisson([2.0], 1.0)}
    ),
    "diagonal_gaussian": families.diagonal_gaussian([0.5], [2.0], 0.5, 6.0),
    "gaussian": families.gaussian([0.5, 0.0], [[2.0, 1.2], [1.2, 1.5]], 0.5, 7.0),
    "one_of": families.one_of([ONE, families.gaussian([0.5], [[0.2]], 0.5, 6.0)]),
    "von_mises_fisher": families.von_mises_fisher(2, [0.5, 4.0], mean=[1.0, 0.0], strength=1.0),
}
DISCRETE = ("categorical", "multinomial", "poisson", "product")


def rows_of(name):
    """All rows of discrete families, or a fine grid, and the log of what densities leave out."""
    if name == "categorical":
        rows = np.array(list(itertools.product(range(3), range(2))))
        return jnp.asarray(rows), np.zeros(6)
    if name == "multinomial":
        table = [x for x in itertools.product(range(4), repeat=3) if sum(x) == LENGTH]
        log_ways = [
            special.gammaln(LENGTH + 1) - special.gammaln(np.add(x, 1)).sum() for x in table
        ]
        return families.multinomial_rows(table), np.array(log_ways)
    many = np.arange(40)
    if name == "poisson":
        rows = np.array(list(itertools.product(many, many)))
        return jnp.asarray(rows), stats.poisson.logpmf(rows, [2.0, 1.0]).sum(axis=1)
    if name == "product":
        kind, count = np.array(list(itertools.product(range(2), many))).T
        rows = {"kind": jnp.asarray(kind[:, None]), "count": jnp.asarray(count[:, None])}
        return rows, stats.poisson.logpmf(count, 2.0)
    if name == "von_mises_fisher":
        angle = np.linspace(-np.pi, np.pi, 4000, endpoint=False) + np.pi / 4000
        rows = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        return jnp.asarray(rows, jnp.float32), np.full(4000, np.log(np.pi / 2000))
    # Midpoints of a grid that is fine in the middle and reaches far.
    ends = np.sinh(np.linspace(-6, 6, 361 if name == "gaussian" else 4001))
    middle, width = (ends[1:] + ends[:-1]) / 2, np.diff(ends)
    if name != "gaussian":
        return jnp.asarray(middle[:, None], jnp.float32), np.log(width)
    rows = np.stack(np.meshgrid(middle, middle, indexing="ij"), axis=-1).reshape(-1, 2)
    return jnp.asarray(rows, jnp.float32), np.log(np.outer(width, width).ravel())


def bins_of(name, rows):
    """A bin of each row, from 0 on."""
    if name == "multinomial":
        dense = counts_of(rows, 3).toarray()
        return dense @ [16, 4, 1]
    if name == "product":
        kind, count = (np.asarray(rows[key])[:, 0] for key in ("kind", "count"))
        return kind * 40 + np.minimum(count, 39)
    values = np.asarray(rows)
    if name == "categorical":
        return values @ [2, 1]
    if name == "poisson":
        return np.minimum(values, 39) @ [40, 1]
    if name == "von_mises_fisher":
        angle = np.arctan2(values[:, 1], values[:, 0])
        return ((angle + np.pi) / np.pi * 20).astype(int) % 40
    inside = np.searchsorted([-4, -2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 5], values)
    return inside @ ([12, 1] if name == "gaussian" else [1])


def samples_of(name):
    family = FAMILIES[name]
    rows, _ = rows_of(name)
    # Components as of a few rows each, far from each other.
    some = family_rows.take(rows, jnp.array([0, 1, -1, -1, 4, 5]))
    statistics = family.statistics(some, jnp.array([0, 0, 1, 1, 2, 2]), 3)
    keys = jax.random.split(jax.random.key(5), 2)
    if name not in DISCRETE:
        statistics = jax.tree.map(jnp.zeros_like, statistics)
    atoms = jax.tree.map(lambda *x: jnp.stack(x), *(family.draw(key, statistics) for key in keys))
    log_weights = np.log(
        np.maximum(WEIGHTS, 1e-30), where=WEIGHTS > 0, out=np.full((2, 3), -np.inf)
    )
    rest = np.log(1 - WEIGHTS.sum(axis=1))
    return Samples(Mixture(jnp.asarray(log_weights), jnp.asarray(rest), atoms), MEMBERSHIP)


def rejected(name, family=None, draw=None, seed=0):
    """The joint distribution of bins and labels, expected by the densities of each sample."""
    samples, (rows, log_base) = samples_of(name), rows_of(name)
    size = int(bins_of(name, rows).max()) + 1
    expected = np.zeros((size, 3))
    for s in range(2) if draw is None else [draw]:
        one = jax.tree.map(lambda leaf, s=s: leaf[s : s + 1], samples.mixtures)
        assigned = assign(Samples(one, MEMBERSHIP[s : s + 1]), FAMILIES[name], rows)
        p = np.exp(assigned.log_densities[0] + log_base)
        shares = assigned.proportions.astype(np.float64)
        joint = p[:, None] * np.append(shares, 1 - shares.sum(axis=1, keepdims=True), axis=1)
        np.add.at(expected, bins_of(name, rows), joint)
    expected /= 2 if draw is None else 1
    assert abs(expected.sum() - 1) < 2e-3  # the densities of all rows; the grid's error
    lengths = LENGTH if name == "multinomial" else None
    drawn, labels = clusters.sample(
        seed, samples, family or FAMILIES[name], COUNT, draw=draw, lengths=lengths
    )
    found = np.zeros((size, 3))
    np.add.at(found, (bins_of(name, drawn), np.where(labels < 0, 2, labels)), 1)
    p_values = {"rows": checks.chi_square(found.sum(axis=1), expected.sum(axis=1))}
    p_values["labels"] = checks.chi_square(found.sum(axis=0), expected.sum(axis=0))
    p_values["both"] = checks.chi_square(found.ravel(), expected.ravel())
    return checks.family(p_values)


@pytest.mark.parametrize("name", slow_but(FAMILIES, "diagonal_gaussian"))
def test_rows_and_labels_have_the_predictive_density(name):
    assert not rejected(name)


@pytest.mark.slow
def test_rows_of_one_sample_have_its_density():
    assert not rejected("categorical", draw=1)
    assert rejected("multinomial", family=FAMILIES["multinomial"], draw=1) == {}


def of_wider_normals(key, atoms, lengths):
    del lengths
    return atoms.mean + 1.05 * atoms.sd * jax.random.normal(key, atoms.sd.shape)


def of_transposed_roots(key, atoms, lengths):
    turned = atoms._replace(root=jnp.swapaxes(atoms.root, 1, 2))
    return FAMILIES["gaussian"].simulate(key, turned, lengths)


@pytest.mark.parametrize(
    ("name", "simulate"),
    slow_but(
        [("diagonal_gaussian", of_wider_normals), ("gaussian", of_transposed_roots)],
        ("diagonal_gaussian", of_wider_normals),
    ),
)
def test_other_rows_are_rejected(name, simulate):
    assert rejected(name, FAMILIES[name]._replace(simulate=simulate))


@pytest.mark.parametrize(
    "name", slow_but(["categorical", "diagonal_gaussian"], "diagonal_gaussian")
)
def test_no_new_clusters_are_rejected(name, monkeypatch):
    monkeypatch.setattr(clusters, "where", lambda condition, yes, no: no)
    assert rejected(name)


def test_pieces_of_sparse_rows_go_together(monkeypatch):
    monkeypatch.setattr(clusters, "_DRAWN", 7)
    samples = samples_of("multinomial")
    rows, labels = clusters.sample(
        0, samples, FAMILIES["multinomial"], 20, lengths=np.arange(20) % 4
    )
    assert counts_of(rows, 3).sum(axis=1).tolist() == (np.arange(20) % 4).tolist()
    assert labels.shape == (20,)


def test_rows_with_large_atoms_are_drawn_in_smaller_pieces(monkeypatch):
    found = []
    for name, most in (("_DRAWN", 7), ("_PARAMETERS", 7 * 3)):  # the atoms have three parameters
        with monkeypatch.context() as patch:
            patch.setattr(clusters, name, most)
            rows = clusters.sample(
                0, samples_of("multinomial"), FAMILIES["multinomial"], 20, lengths=LENGTH
            )
        found.append((counts_of(rows[0], 3).toarray(), rows[1]))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, r"rows .* 1; "),
        ({"draw": 2}, r"draw .*, 2; it is 2"),
        ({"draw": -1}, "draw"),
        ({"lengths": None}, "give lengths"),
        ({"lengths": [1, 2]}, r"^lengths .*int64 \[2\]$"),
        ({"lengths": -1}, r"^lengths .* 0 to 2\^24"),
        ({"lengths": 1.5}, r"^lengths .*float64 \[\]$"),
    ],
)
def test_bad_arguments_are_named(options, message):
    given = {"count": 5, "lengths": 3} | options
    count = given.pop("count")
    with pytest.raises(ValueError, match=message):
        clusters.sample(0, samples_of("multinomial"), FAMILIES["multinomial"], count, **given)


def test_lengths_of_rows_without_counts_are_refused():
    with pytest.raises(ValueError, match=r"lengths .* omit"):
        clusters.sample(0, samples_of("poisson"), FAMILIES["poisson"], 3, lengths=2)


def test_a_family_that_cannot_draw_rows_is_told():
    family = FAMILIES["poisson"]._replace(simulate=None)
    with pytest.raises(ValueError, match="cannot be drawn"):
        clusters.sample(0, samples_of("poisson"), family, 3)


# Rows of fits, in the units and order of the data.

TABLE = {
    "size": np.repeat([1000.0, 3000.0], 25) + np.linspace(0, 90, 50),
    "kind": ["cat"] * 25 + ["dog"] * 25,
    "visits": [1] * 25 + [30] * 25,
}


@pytest.mark.slow
def test_a_table_has_its_columns(tmp_path):
    fitted = dpm.fit(TABLE, kinds={"visits": "count"}, passes=60)
    rows, labels = fitted.sample(400, seed=3)
    assert list(rows) == ["size", "kind", "visits"]
    dog = rows["kind"] == "dog"
    assert set(rows["kind"]) == {"cat", "dog"}
    near = np.abs(rows["size"] - np.where(dog, 3000, 1000)) < 500
    assert near.mean() > 0.85
    assert rows["visits"].dtype == np.int64
    both = labels >= 0
    assert both.mean() > 0.9
    found = fitted.transform(rows).argmax(axis=1)
    assert (found == labels)[both].mean() > 0.9
    again = dpm.Fit.load(_saved(fitted, tmp_path)).sample(400, seed=3)
    np.testing.assert_array_equal(again[0]["visits"], rows["visits"])
    np.testing.assert_allclose(again[0]["size"], rows["size"], rtol=1e-6)
    assert not np.array_equal(fitted.sample(400, seed=4)[0]["size"], rows["size"])


def _saved(fitted, folder):
    fitted.save(folder / "run")
    return folder / "run"


@pytest.mark.slow
def test_texts_have_their_words():
    fitted = dpm.fit(["apple pear apple"] * 10 + ["bolt nut nut bolt"] * 10, passes=30)
    with pytest.raises(ValueError, match="give lengths"):
        fitted.sample(3)
    rows, _ = fitted.sample(30, lengths=5)
    assert isinstance(rows, Corpus)
    assert rows.vocabulary == fitted.variables.vocabulary
    assert rows.counts.sum(axis=1).tolist() == [5] * 30
    assert np.isfinite(fitted.score(rows))


@pytest.mark.slow
def test_the_estimator_draws_what_it_takes():
    rng = np.random.default_rng(0)
    x = 1000 + rng.normal(size=(80, 2)) + np.repeat([[-9.0, 0.0], [9.0, 0.0]], 40, axis=0)
    model = DirichletProcessMixture(random_state=0, passes=30).fit(x)
    rows, labels = model.sample(300)
    assert rows.shape == (300, 2)
    assert abs(rows.mean() - 1000) < 3
    assert (model.predict(rows) == labels).mean() > 0.9
    np.testing.assert_array_equal(model.sample(300)[0], rows)
    assert not np.array_equal(model.sample(300, random_state=1)[0], rows)
    counts = rng.poisson(np.repeat([[4, 0.1, 1], [0.1, 4, 1]], 20, axis=0))
    of_counts = DirichletProcessMixture("multinomial", random_state=0, passes=30).fit(counts)
    table, _ = of_counts.sample(10, lengths=6)
    assert table.shape == (10, 3)
    assert table.sum(axis=1).tolist() == [6] * 10
    mixed = np.array([TABLE["size"].tolist(), TABLE["kind"]], object).T
    of_columns = DirichletProcessMixture("mixed", random_state=0, passes=30).fit(mixed)
    drawn, _ = of_columns.sample(10)
    assert drawn.shape == (10, 2)
    assert np.isfinite(of_columns.score(drawn))
