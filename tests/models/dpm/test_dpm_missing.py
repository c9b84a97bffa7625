"""Missing cells under full covariances: margins and draws in closed form, and the exact posterior.

Unless a test says otherwise its p-values are judged by Holm's procedure at 1e-3: with a fresh seed
a correct library fails a test with a probability of at most 1e-3.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from support import statistics_checks as checks
from support import tiny_dpm

from simplex_jax import dpm
from simplex_jax._src.models.dpm import families
from simplex_jax._src.models.dpm import model as dpm_mixture
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.models.dpm.families.gaussian import Normals
from simplex_jax._src.models.dpm.families.gaussian_prior import prior_of
from simplex_jax._src.runtime.driver import run

P, STRENGTH, FREEDOM = 5, 0.7, 8.0


@functools.cache
def case():
    """A family, rows with cells missing in all patterns, marked and not, and three atoms."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(P, P))
    mean, scale = rng.normal(size=P), root @ root.T + 0.1 * np.eye(P)
    family = families.gaussian(np.float32(mean), np.float32(scale), STRENGTH, FREEDOM)
    x = rng.normal(size=(2**P, P)).astype(np.float32)
    x[np.array(list(itertools.product([False, True], repeat=P)))] = np.nan
    labels = jnp.arange(60) % 3
    total = family.statistics(jnp.asarray(rng.normal(size=(60, P)), jnp.float32), labels, 3)
    atoms = family.draw(jax.random.key(1), total)
    return family, x, family_rows.prepare(family, x), atoms, (mean, scale)


@pytest.mark.slow
def test_likelihoods_are_margins_of_normals():
    family, x, rows, atoms, _ = case()
    found = family.log_likelihood(rows, atoms)
    for k, (mean, covariance) in enumerate(zip(atoms.mean, atoms.covariance, strict=True)):
        for i, row in enumerate(x[:-1]):
            there = ~np.isnan(row)
            part = np.asarray(covariance, np.float64)[np.ix_(there, there)]
            expected = stats.multivariate_normal.logpdf(row[there], mean[there], part)
            np.testing.assert_allclose(found[i, k], expected, rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(found[-1], 0)


@pytest.mark.slow
def test_rows_without_observations_leave_no_nan_among_values():
    """A run took it for a density that is not finite, and ended at its first update."""
    _, _, rows, *_ = case()
    (values,) = family_rows.missing_values(rows, family_rows.fill_means(rows))
    assert np.isfinite(values).all()


def test_predictives_are_margins_of_student_t():
    family, x, rows, _, (mean, scale) = case()
    found = np.asarray(family.log_predictive(rows))
    degrees = FREEDOM - P + 1
    shape = scale * (STRENGTH + 1) / STRENGTH / degrees
    for i, row in enumerate(x[:-1]):
        there = ~np.isnan(row)
        part = shape[np.ix_(there, there)]
        expected = stats.multivariate_t.logpdf(row[there], mean[there], part, degrees)
        np.testing.assert_allclose(found[i], expected, rtol=1e-5, atol=1e-4)
    assert found[-1] == 0


@pytest.mark.slow
def test_patterns_do_not_depend_on_each_other():
    """Rows in blocks of one, in any order, and among rows out of range."""
    family, _, rows, atoms, _ = case()
    found = family.log_likelihood(rows, atoms)
    ids = jnp.array([31, 40, 7, -1, 30, 0], jnp.int32)
    some = family.log_likelihood(family_rows.take(rows, ids), atoms)
    inside = np.isin(ids, np.arange(32))
    np.testing.assert_allclose(some[inside], found[ids[inside]], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(some[~inside], 0)


def draw_p_values(draw_missing):
    """P-values of conditional means and covariances, from the textbook's formula."""
    _, x, rows, atoms, _ = case()
    repeats, n = 3_000, len(x)
    labels = jnp.arange(n) % 3
    keys = jax.random.split(jax.random.key(3), (repeats, n))
    drawn = jax.jit(jax.vmap(lambda key: draw_missing(key, rows, atoms, labels)))(keys)
    drawn = np.asarray(drawn, np.float64)
    p_values = {}
    for i, row in enumerate(x[:-1]):
        there = ~np.isnan(row)
        np.testing.assert_array_equal(drawn[:, i, there], np.tile(row[there], (repeats, 1)))
        if there.all():
            continue
        mean = np.asarray(atoms.mean[i % 3], np.float64)
        s = np.asarray(atoms.covariance[i % 3], np.float64)
        gain = np.linalg.solve(s[np.ix_(there, there)], s[np.ix_(there, ~there)]).T
        off = drawn[:, i, ~there] - mean[~there] - gain @ (row[there] - mean[there])
        left = s[np.ix_(~there, ~there)] - gain @ s[np.ix_(there, ~there)]
        z = np.linalg.solve(np.linalg.cholesky(left), off.T)
        for j, one in enumerate(z):
            p_values[i, j] = checks.mean_z(one, 0.0, 1.0)
            for k in range(j + 1):
                equal = float(j == k)
                p_values[i, j, k] = checks.mean_z(one * z[k], equal, 1.0 + equal)
    np.testing.assert_array_equal(drawn[:, -1], np.nan)
    return checks.family(p_values)


def test_draws_have_conditional_means_and_covariances():
    family = case()[0]
    assert not draw_p_values(family.missing.draw)

    def of_a_wider_normal(keys, rows, atoms, labels):
        wider = Normals(atoms.mean, atoms.root * 0.95, atoms.log_det)
        return family.missing.draw(keys, rows, wider, labels)

    assert draw_p_values(of_a_wider_normal)


# The posterior of five rows of two columns by quadrature over the missing cells.

ALPHA, CHAINS, STEPS = 1.3, 4_000, 25
ROWS = np.array([[-1.0, np.nan], [np.nan, 0.7], [-0.8, -1.1], [1.2, 0.9], [0.9, 1.4]])
GONE = [(0, 1), (1, 0)]
PRIOR = (np.array([0.1, 0.0]), np.array([[0.4, 0.1], [0.1, 0.5]]), 0.3, 3.5)


def log_evidence(x):
    """Log evidence of complete rows [..., n, 2], up to the constant of a column of rows."""
    mean, scale, strength, freedom = PRIOR
    n = x.shape[-2]
    centre = x.mean(axis=-2)
    off = x - centre[..., None, :]
    far = centre - mean
    scatter = np.einsum("...ni,...nj->...ij", off, off)
    outer = far[..., :, None] * far[..., None, :]
    after = scale + scatter + strength * n / (strength + n) * outer
    return (
        special.multigammaln((freedom + n) / 2, 2)
        - special.multigammaln(freedom / 2, 2)
        + freedom / 2 * np.linalg.slogdet(scale)[1]
        - (freedom + n) / 2 * np.linalg.slogdet(after)[1]
        + np.log(strength / (strength + n))
        - n * np.log(np.pi)
    )


@functools.cache
def exact():
    """Probabilities of all partitions, and means of tanh of each missing cell and its square."""
    nodes, weights = np.polynomial.legendre.leggauss(300)
    grid = np.tan(nodes * np.pi / 2 * 0.9999)  # over the whole line: tails are Student's
    log_w = np.log(weights * np.pi / 2 * (1 + grid**2))
    a, b = np.meshgrid(grid, grid, indexing="ij")
    x = np.broadcast_to(ROWS, (300, 300, 5, 2)).copy()
    x[:, :, 0, 1], x[:, :, 1, 0] = a, b
    looks = [np.ones_like(a), np.tanh(a), np.tanh(a) ** 2, np.tanh(b), np.tanh(b) ** 2]

    @functools.cache
    def of_block(block):
        """Integrals of evidence times each look, in log space of the first."""
        axes = [0 in block, 1 in block]
        some = x[: 300 if axes[0] else 1, : 300 if axes[1] else 1][:, :, list(block)]
        log_f = log_evidence(some)
        log_f = log_f + (log_w[:, None] if axes[0] else 0) + (log_w if axes[1] else 0)
        peak = log_f.max()
        each = [
            (np.exp(log_f - peak) * look[: log_f.shape[0], : log_f.shape[1]]).sum()
            for look in looks
        ]
        return peak + np.log(each[0]), np.array(each[1:]) / each[0]

    every = tiny_dpm.partitions(5)
    log_p, means = np.empty(len(every)), np.empty((len(every), 4))
    for i, z in enumerate(every):
        blocks = [tuple(np.flatnonzero(z == k).tolist()) for k in range(z.max() + 1)]
        log_p[i] = sum(np.log(ALPHA) + special.gammaln(len(c)) + of_block(c)[0] for c in blocks)
        for row in (0, 1):
            own = next(c for c in blocks if row in c)
            means[i, 2 * row : 2 * row + 2] = of_block(own)[1][2 * row : 2 * row + 2]
    p = special.softmax(log_p)
    return p, p @ means


def posterior_p_values(key, change=lambda family: family, **options):
    """P-values of partitions and cells of independent chains after some updates.

    They start anywhere; 25 updates leave a total variation distance far below what 4,000 chains
    can see.
    """
    mean, scale, strength, freedom = PRIOR
    family = families.gaussian(np.float32(mean), np.float32(scale), strength, freedom)
    kernel, stream = dpm_mixture.build(
        ROWS.astype(np.float32), change(family), alpha=ALPHA, chains=CHAINS, capacity=32, **options
    )
    key_labels, key_state, key_run = jax.random.split(key, 3)
    labels = dpm_mixture.random_labels(key_labels, ROWS, 3, CHAINS)
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
    p, expected = exact()
    observed = tiny_dpm.counted(np.asarray(state.labels))
    p_values = {"partitions": checks.chi_square(observed, p)}
    cells = np.asarray(state.cells[0], np.float64)[:, :, 0]
    for row in (0, 1):
        seen = np.tanh(cells[:, row])
        mean, square = expected[2 * row : 2 * row + 2]
        p_values["cell", row] = checks.mean_z(seen, mean, square - mean**2)
        p_values["square", row] = checks.mean_z(seen**2, square, (seen**2).var())
    return checks.family(p_values)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"split_merge": 1, "batch_size": 3}])
def test_chains_have_the_posterior_by_quadrature(options, getkey):
    assert not posterior_p_values(getkey(), **options)


def by_means(family):
    """Cells drawn without noise."""

    def draw(keys, rows, atoms, labels):
        tight = Normals(atoms.mean, atoms.root * 1e4, atoms.log_det)
        return family.missing.draw(keys, rows, tight, labels)

    missing = family.missing._replace(draw=jax.tree_util.Partial(draw))
    return family._replace(missing=missing)


def of_other_cells(family):
    """Labels drawn by the density of the complete row at the means of the missing cells."""

    def log_likelihood(rows, atoms):
        return family.log_likelihood(family_rows.fill_means(rows), atoms)

    return family._replace(log_likelihood=jax.tree_util.Partial(log_likelihood))


@pytest.mark.slow
@pytest.mark.parametrize("change", [by_means, of_other_cells])
def test_mutants_are_rejected(change, getkey):
    assert posterior_p_values(getkey(), change)


# Fits.


def clusters(rng, n=240, share=0.15):
    z = rng.integers(3, size=n)
    centres = np.array([[-6, 0, 0, 0], [0, 6, 0, 0], [0, 0, 6, 0]])
    mix = 0.5 * rng.normal(size=(3, 4, 4))
    x = centres[z] + np.einsum("nij,nj->ni", mix[z], rng.normal(size=(n, 4)))
    x[rng.random(x.shape) < share] = np.nan
    return x, z


@pytest.mark.slow
def test_a_fit_of_rows_with_missing_cells():
    x, z = clusters(np.random.default_rng(0))
    x[3:8] = np.nan  # without observations; not all of them are held out
    family = dpm.families.gaussian_of(x)
    options = {"passes": 40, "chains": 2, "holdout": 20, "seed": 0}
    fitted = dpm.fit(x, family, **options)
    assert len(fitted.clusters.sizes) == 3
    kept = ~fitted.held_out
    pairs = np.zeros((3, 4))
    np.add.at(pairs, (z[kept], fitted.clusters.labels), 1)
    assert pairs.max(axis=1).sum() > 0.9 * pairs.sum()
    assert sorted(fitted.partitions) == ["alpha", "labels", "step"]
    # A row without observations gets the prevalences.
    prevalence = fitted.clusters.sizes / fitted.clusters.sizes.sum()
    row = fitted.transform(x[3:4])[0]
    np.testing.assert_allclose(row / row.sum(), prevalence, atol=0.05)
    assert np.isfinite(fitted.score(x))
    again = dpm.fit(x, family, **options)
    np.testing.assert_array_equal(again.proportions, fitted.proportions)


@pytest.mark.slow
def test_groups_of_a_table_may_lack_cells():
    x, z = clusters(np.random.default_rng(1), 150)
    rows = {"x": x.astype(np.float32), "kind": z[:, None].astype(np.int32)}
    rows["kind"][:20] = -1
    groups = {"x": families.gaussian_of(x), "kind": families.categorical([3])}
    fitted = dpm.fit(rows, dpm.families.product(groups), passes=20)
    assert fitted.num_clusters == 3


@pytest.mark.slow
def test_the_prior_of_rows_with_missing_cells_is_near_that_of_complete_ones():
    """The spread within clusters is found, not that of all rows, 10 times as large."""
    x, _ = clusters(np.random.default_rng(2), 400, share=0.0)
    gone = np.random.default_rng(3).random(x.shape) < 0.15
    complete, partial = prior_of(x), prior_of(np.where(gone, np.nan, x))
    assert complete.scale.shape == partial.scale.shape
    spread = [np.diagonal(prior.scale, axis1=-2, axis2=-1).mean() for prior in (complete, partial)]
    assert 0.5 < spread[1] / spread[0] * (complete.freedom - 5) / (partial.freedom - 5) < 2


def test_infinite_cells_are_refused():
    with pytest.raises(ValueError, match=r"rows\[0, 1\] is inf.*NaN"):
        families.gaussian_of(np.array([[1.0, np.inf], [2.0, 3.0], [np.nan, 1.0]]))
