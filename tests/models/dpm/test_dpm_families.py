"""Component families: draws, likelihoods and evidence against closed forms and quadrature.

Each family of checks has a false-alarm rate of 1e-3 with a fresh seed, and mutants are rejected by
the same checks of as many draws.
"""

import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import special, stats
from support import dpm_cells
from support import statistics_checks as checks
from support.marks import slow_but

from simplex_jax._src.draws import von_mises_fisher as directions
from simplex_jax._src.geometry.rising import log_rising
from simplex_jax._src.models.dpm import families
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.models.dpm.families.categorical import variables as by_variable
from simplex_jax._src.models.dpm.families.diagonal_gaussian import ColumnMoments
from simplex_jax._src.models.dpm.families.gaussian import Moments, Normals, cholesky, inverse, solve
from simplex_jax._src.models.dpm.families.von_mises_fisher import Directions, Resultants

SCALE = np.array([[2.0, 0.6], [0.6, 0.5]])
GRID = np.array([0.5, 3.0, 20.0])
WEIGHTS = np.array([0.5, 0.2, 0.3])
NORTH = np.array([0.6, 0.0, 0.8])
SPREAD = np.random.default_rng(0).normal(size=(50, 3))
FREQUENT = families.multinomial_rows(np.tile([0, 2**24], (128, 1)))
NAMES = ("multinomial", "categorical", "gaussian", "von_mises_fisher", *dpm_cells.NAMES)
DRAWS = 20_000

# Compiled once a family: compiling is most of the time of these tests.
draw = jax.jit(lambda family, key, statistics: family.draw(key, statistics))
statistics_of = jax.jit(
    lambda family, rows, labels, num_clusters: family.statistics(rows, labels, num_clusters),
    static_argnums=3,
)
likelihood = jax.jit(lambda family, rows, atoms: family.log_likelihood(rows, atoms))
predictive_of = jax.jit(lambda family, rows: family.log_predictive(rows))


def make(name, **changed):
    """A small family of that name, all of whose hyperparameters matter."""
    if name in dpm_cells.NAMES:
        return dpm_cells.make(name, **changed)
    if name == "multinomial":
        options = {"categories": 4, "concentration": np.array([0.3, 1.0, 2.0, 0.05])} | changed
        return families.multinomial(**options)
    if name == "categorical":
        options = {"categories": [3, 2, 3], "concentration": np.array([0.5, 1.5, 0.8])} | changed
        return families.categorical(**options)
    if name == "gaussian":
        options = {"mean": [1.0, -1.0], "scale": SCALE, "strength": 0.7, "freedom": 3.5} | changed
        return families.gaussian(**{key: jnp.asarray(value) for key, value in options.items()})
    options = {"concentrations": GRID, "weights": WEIGHTS, "mean": NORTH, "strength": 1.2}
    options = {key: jnp.asarray(value) for key, value in (options | changed).items()}
    return families.von_mises_fisher(3, **options)


def data(name, rng, n=7):
    """Rows, of which the last but one has no observations."""
    if name in dpm_cells.NAMES:
        return dpm_cells.data(name, rng, n)
    if name == "multinomial":
        table = rng.poisson(0.8, (n, 4))
        table[-2] = 0
        return families.multinomial_rows(table)
    if name == "categorical":
        values = rng.integers(-1, [3, 2, 3], (n, 3))
        values[-2] = -1
        return jnp.asarray(values)
    values = (
        rng.normal(size=(n, 2 if name == "gaussian" else 3))
        * [1, 0.4, 0.6][: 2 if name == "gaussian" else 3]
    )
    if name == "von_mises_fisher":
        values /= np.linalg.norm(values, axis=1, keepdims=True)
    values[-2] = np.nan
    return jnp.asarray(values, jnp.float32)


def some_atoms(name, rng):
    """Three atoms, in single precision."""
    if name in dpm_cells.NAMES:
        return dpm_cells.some_atoms(name, rng)
    if name == "multinomial":
        atoms = special.log_softmax(rng.normal(size=(3, 4)), axis=-1)
    elif name == "categorical":
        shapes = ((3, 1, 2), (3, 2, 3))
        atoms = tuple(special.log_softmax(rng.normal(size=shape), axis=-1) for shape in shapes)
    elif name == "gaussian":
        root = np.eye(2) + 0.3 * rng.normal(size=(3, 2, 2))
        atoms = Normals(rng.normal(size=(3, 2)), root, np.linalg.slogdet(root)[1])
    else:
        mean = rng.normal(size=(3, 3))
        mean /= np.linalg.norm(mean, axis=1, keepdims=True)
        atoms = Directions(mean, np.array([0.1, 2.0, 30.0]))
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), atoms)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_rows_are_additive_and_empty_ones_say_nothing(name, seed) -> None:
    rng = np.random.default_rng(seed)
    family, rows = make(name), data(name, rng)
    family.check(rows)
    labels = jnp.asarray([0, 2, 2, 0, 3, 1, -1])

    @jax.jit
    def some(family, rows, atoms, ids):
        mine = family_rows.take(rows, ids)
        known = jnp.where((ids >= 0) & (ids < 7), labels[ids], 0)
        log_f = family.log_likelihood(mine, atoms), family.log_predictive(mine)
        return family.statistics(mine, known, 3), *log_f

    def close(a, b):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), a, b)

    atoms = some_atoms(name, rng)
    ids = np.array([[0, 1, 2, 3, 4, 5, 6], [0, 1, -1, -1, -1, -1, -1], [3, 9, 7, 2, 7, 7, 7]])
    (whole, log_f, log_m), first, last = (some(family, rows, atoms, jnp.asarray(i)) for i in ids)
    close(whole, statistics_of(family, rows, labels, 3))
    close(whole, jax.tree.map(jnp.add, first[0], last[0]))
    assert all(leaf.shape[0] == 3 for leaf in jax.tree.leaves(whole))
    # The row without observations counts as none, and so do rows that are not there.
    for number, result, found_m in ((5, log_f, log_m), (1, *last[1:]), (4, *first[1:])):
        assert (result[number] == 0).all()
        assert abs(found_m[number]) < 1e-6
    assert (log_f[jnp.array([0, 1, 2, 3])] != 0).all()
    np.testing.assert_array_equal(last[1][jnp.array([0, 3])], log_f[jnp.array([3, 2])])
    np.testing.assert_array_equal(last[2][0], log_m[3])


@pytest.mark.parametrize("name", slow_but(NAMES, "gaussian", "categorical"))
def test_evidence_is_the_chain_of_predictives(name, seed) -> None:
    """log f(x_1..x_n) = sum_i log f(x_i | x_1..x_{i-1}), and f(x | nothing) is the predictive."""
    family, rows = make(name), data(name, np.random.default_rng(seed))
    n = family_rows.size(rows)

    @jax.jit
    def parts(family, rows):
        each = family.statistics(rows, jnp.arange(n), n)
        first = jax.tree.map(lambda leaf: jnp.cumsum(leaf, axis=0) - leaf, each)
        whole = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0, keepdims=True), each)
        evidence = family.log_evidence
        # A factor of the rows alone may be left out if others are given.
        omitted = evidence(each, jax.tree.map(jnp.zeros_like, each)) - evidence(each)
        chain = evidence(each, first) - omitted
        return evidence(each), chain, evidence(whole), family.log_predictive(rows)

    alone, chain, whole, predictive = parts(family, rows)
    np.testing.assert_allclose(alone, predictive, rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(chain.sum(), whole[0], rtol=1e-5, atol=1e-5)
    assert not np.allclose(chain, alone, atol=1e-3)


def nodes_of(name):
    """(family, atoms, log of prior density times quadrature weight) that integrate over G0."""
    x, w = special.roots_legendre(120)
    half, weight = (x + 1) / 2, w / 2
    if name == "multinomial":
        family = families.multinomial(2, np.array([2.0, 1.5]))
        p = np.stack([half, 1 - half], 1)
        return family, jnp.log(p), np.log(weight) + stats.beta.logpdf(half, 2, 1.5)
    if name == "categorical":
        family = families.categorical([2, 1], np.array([2.0, 1.5]))
        p = np.stack([half, 1 - half], 1)[:, None]
        atoms = (jnp.zeros((120, 1, 1)), jnp.log(p))
        return family, atoms, np.log(weight) + stats.beta.logpdf(half, 2, 2)
    if name == "gaussian":
        family = families.gaussian([1.0], [[0.8]], 0.5, 3.0)
        log_sd = 7 * x
        sd, z = np.exp(log_sd)[:, None], np.linspace(-9, 9, 200)
        mean = 1 + sd / np.sqrt(0.5) * z
        log_prior = stats.invgamma.logpdf(sd**2, 1.5, scale=0.4) + np.log(2) + 2 * np.log(sd)
        log_prior = log_prior + np.log(7 * w)[:, None] + stats.norm.logpdf(z) + np.log(z[1] - z[0])
        mean, sd = mean.ravel(), np.broadcast_to(sd, mean.shape).ravel()
        atoms = Normals(mean[:, None], 1 / sd[:, None, None], -np.log(sd))
        return family, jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), atoms), log_prior.ravel()
    family = families.von_mises_fisher(
        2, GRID, jnp.asarray(WEIGHTS), mean=jnp.array([0.6, 0.8]), strength=1.2
    )
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    mean = np.stack([np.cos(angle), np.sin(angle)], 1)
    log_prior = 1.2 * mean @ [0.6, 0.8] - np.log(special.i0(1.2)) - np.log(400)
    log_prior = log_prior + np.log(WEIGHTS)[:, None]
    atoms = Directions(np.tile(mean, (3, 1)), np.repeat(GRID, 400))
    return family, jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), atoms), log_prior.ravel()


INTEGRALS = NAMES[:-1]  # that of a product is the sum of those of its groups


@pytest.mark.parametrize("name", slow_but(INTEGRALS, "gaussian", "categorical", "poisson"))
def test_predictive_and_evidence_are_integrals_of_the_likelihood(name) -> None:
    if name in dpm_cells.NAMES:
        family, atoms, log_prior, rows = dpm_cells.nodes_of(name)
    else:
        family, atoms, log_prior = nodes_of(name)
        rows = {
            "multinomial": lambda: families.multinomial_rows([[3, 1], [0, 2], [1, 0]]),
            "categorical": lambda: jnp.array([[0, 0], [-1, 0], [1, -1]]),
            "gaussian": lambda: jnp.array([[0.3], [2.5], [-4.0]]),
            "von_mises_fisher": lambda: jnp.array([[1.0, 0.0], [0.6, -0.8], [0.28, 0.96]]),
        }[name]()
    np.testing.assert_allclose(special.logsumexp(log_prior), 0, atol=2e-5)
    if name == "categorical":  # columns by number of categories
        rows = rows.at[:, 1].set(0)
    log_f = np.asarray(likelihood(family, rows, atoms), np.float64)
    exact = special.logsumexp(log_f + log_prior, axis=1)
    np.testing.assert_allclose(predictive_of(family, rows), exact, rtol=2e-5, atol=2e-5)
    together = statistics_of(family, rows, jnp.zeros(3, jnp.int32), 1)
    exact = special.logsumexp(log_f.sum(axis=0) + log_prior)
    evidence = jax.jit(family.log_evidence)(together)
    np.testing.assert_allclose(evidence[0], exact, rtol=2e-5)


@pytest.mark.parametrize("block", [5, 2**22])
def test_only_rounding_that_matters_is_refused(block, monkeypatch) -> None:
    monkeypatch.setattr(family_rows, "_BLOCK", block)
    rows = np.arange(20.0)[:, None] + np.array([0, 0.1, 1e4, 1e9, 0])
    rows[:, 3] = rows[0, 3] + 0.1  # equal numbers stay equal
    rows[:, 4] = np.nan
    rows[3, 2] = np.nan
    family_rows.check_rounding(rows)
    family_rows.check_rounding(1e9 * rows)
    family_rows.check_rounding((rows + 1e6).astype(np.float32))
    if jnp.zeros(0).dtype == jnp.float32:
        with pytest.raises(ValueError, match=r"^column 2 .* deviation 0\.57.*near the mean"):
            family_rows.check_rounding(rows * [1, 1, 0.1, 1, 1] + [0, 0, 1e5, 0, 0])
    # New rows may be as similar as they like.
    family_rows.prepare(families.diagonal_gaussian_of(SPREAD), np.full((2, 3), [1e5 + 0.1, 0, 0]))


def test_likelihoods_are_normalised(seed) -> None:
    """Sums over all rows, or integrals over the space of rows, are 1 for every atom."""
    rng = np.random.default_rng(seed)
    words = np.array(list(itertools.product(range(4), repeat=3)))
    rows = families.multinomial_rows(np.eye(4, dtype=int)[words].sum(axis=1))
    log_f = likelihood(make("multinomial"), rows, some_atoms("multinomial", rng))
    np.testing.assert_allclose(jnp.exp(log_f).sum(axis=0), 1, rtol=1e-5)
    values = jnp.array(list(itertools.product(range(3), range(2), range(3))))
    log_f = likelihood(make("categorical"), values, some_atoms("categorical", rng))
    np.testing.assert_allclose(jnp.exp(log_f).sum(axis=0), 1, rtol=1e-5)
    root = np.array([[[1.5, 0.2], [0.4, 0.8]]])
    normal = Normals(
        jnp.array([[1.0, 2.0]]), jnp.asarray(root, jnp.float32), jnp.log(jnp.array([1.12]))
    )
    x = rng.normal(size=(5, 2)).astype(np.float32)
    covariance = np.linalg.inv(root[0].T @ root[0])
    exact = stats.multivariate_normal.logpdf(x, [1, 2], covariance)
    result = likelihood(make("gaussian"), x, normal)[:, 0]
    np.testing.assert_allclose(result, exact, rtol=1e-5)
    np.testing.assert_allclose(normal.covariance[0], covariance, rtol=1e-5)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x = np.concatenate([x, np.zeros((5, 1), np.float32)], axis=1)
    atoms = Directions(jnp.asarray(NORTH[None], jnp.float32), jnp.array([7.0]))
    exact = stats.vonmises_fisher(NORTH, 7.0).logpdf(x)
    result = likelihood(make("von_mises_fisher"), jnp.asarray(x), atoms)[:, 0]
    np.testing.assert_allclose(result, exact, rtol=1e-5)


def posterior_draws(statistics, family, getkey):
    """Draws given the same statistics, on the host in double precision."""
    repeated = jax.tree.map(
        lambda leaf: jnp.tile(leaf, (DRAWS,) + (1,) * (leaf.ndim - 1)), statistics
    )
    atoms = draw(family, getkey(), repeated)
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), atoms)


def check_dirichlet(log_p, concentration):
    """Marginal laws, on the scale where small probabilities are seen."""
    total = concentration.sum()
    laws = [stats.beta(a, total - a) for a in concentration]
    result = {("sum",): float(np.allclose(np.exp(log_p).sum(axis=-1), 1, atol=1e-5))}
    for k, law in enumerate(laws):
        p = np.exp(log_p[:, k])
        result[k, "law"] = checks.dkwm(p, law.cdf, resolution=1e-7)
        result[k, "mean"] = checks.mean_z(p, law.mean(), law.var())
        fourth = (float(law.stats("k")) + 3) * law.var() ** 2
        result[k, "variance"] = checks.variance_z(p, law.mean(), law.var(), fourth)
    return result


def check_gaussian(atoms, mean, scale, strength, freedom):
    """Both quadratic forms of a Wishart matrix, and the mean given it."""
    p, a = 2, np.array([0.8, -0.6])
    precision = np.swapaxes(atoms.root, 1, 2) @ atoms.root
    determinant = 0.5 * np.linalg.slogdet(precision)[1]
    inside = np.einsum("i,kij,j->k", a, precision, a) / (a @ np.linalg.inv(scale) @ a)
    outside = (a @ scale @ a) / np.einsum("i,kij,j->k", a, np.linalg.inv(precision), a)
    z = np.sqrt(strength) * np.einsum("kij,kj->ki", atoms.root, atoms.mean - mean)
    chi = {"inside": (inside, freedom), "outside": (outside, freedom - p + 1)}
    result = {"log_det": float(np.abs(determinant - atoms.log_det).max() < 1e-3)}
    for name, (values, df) in chi.items():
        result[name, "law"] = checks.dkwm(values, stats.chi2(df).cdf, resolution=1e-4)
        result[name, "mean"] = checks.mean_z(values, df, 2 * df)
    for i in range(p):
        result["z", i] = checks.dkwm(z[:, i], stats.norm.cdf)
        result["z", i, "variance"] = checks.variance_z(z[:, i], 0, 1, 3)
    result["correlation"] = checks.mean_z(z[:, 0] * z[:, 1], 0, 1)
    t = (atoms.mean - mean) @ a
    width = np.sqrt(a @ scale @ a / (strength * (freedom - p + 1)))
    result["t"] = checks.dkwm(t, stats.t(freedom - p + 1, scale=width).cdf)
    return result


def log_c(k):
    """Log normaliser in three dimensions."""
    return np.log(k) - np.log(4 * np.pi) - (k + np.log(-np.expm1(-2 * k)) - np.log(2))


def check_directions(atoms, total, n, weights, strength):
    vectors = GRID[:, None] * total + strength * NORTH
    lengths = np.linalg.norm(vectors, axis=1)
    log_p = np.log(weights) + n * log_c(GRID) - log_c(lengths)
    p = special.softmax(log_p)
    place = np.searchsorted(GRID * 1.01, atoms.concentration)
    assert np.allclose(GRID[place], atoms.concentration)
    k = lengths[place]
    cosine = np.sum(atoms.mean * vectors[place], axis=1) / k
    # The distribution function of the cosine, whose density is exponential on [-1, 1].
    uniform = np.expm1(k * (cosine + 1)) / np.expm1(2 * k)
    across = np.cross(vectors[0], [0.0, 1.0, 0.0])
    return {
        "grid": checks.chi_square(np.bincount(place, minlength=3), p),
        "cosine": checks.dkwm(uniform, stats.uniform.cdf, resolution=1e-4),
        "length": float(np.allclose(np.linalg.norm(atoms.mean, axis=1), 1, atol=1e-6)),
        "cosine, mean": checks.mean_z(uniform, 0.5, 1 / 12),
        "side": checks.mean_z(
            np.sign(np.sum(atoms.mean * np.cross(vectors[place], across), 1)), 0, 1
        ),
    }


def p_values(name, statistics, family, getkey, seen=None, rows=None):
    """Checks of draws of a family, given what it has seen, against those of `make(name)`.

    Of tables with missing cells the posterior is that of `rows`, or of none.
    """
    atoms = posterior_draws(statistics if seen is None else seen, family, getkey)
    if name in dpm_cells.NAMES:
        return dpm_cells.p_values(name, atoms, rows)
    host = jax.tree.map(lambda leaf: np.asarray(leaf[0], np.float64), statistics)
    if name == "multinomial":
        return check_dirichlet(atoms, np.array([0.3, 1.0, 2.0, 0.05]) + host)
    if name == "categorical":
        result = {}
        prior = by_variable([3, 2, 3], make(name).simplex.alpha)
        counts = by_variable([3, 2, 3], host)
        for j, log_p in enumerate(by_variable([3, 2, 3], atoms)):
            concentration = np.asarray(prior[j], np.float64) + counts[j]
            result |= checks.prefixed(j, check_dirichlet(log_p, concentration))
        return result
    if name == "gaussian":
        n, strength = host.number, 0.7 + host.number
        mean = np.array([1.0, -1.0]) + host.total / strength
        scale = SCALE + host.square - np.outer(host.total, host.total) / strength
        return check_gaussian(atoms, mean, scale, strength, 3.5 + n)
    return check_directions(atoms, host.total, host.number, WEIGHTS, 1.2)


@pytest.mark.parametrize("name", NAMES)
def test_draws_follow_the_posterior(name, seed, getkey) -> None:
    family, rows = make(name), data(name, np.random.default_rng(seed))
    some = statistics_of(family, rows, jnp.zeros(7, jnp.int32), 1)
    none = jax.tree.map(jnp.zeros_like, some)
    result = checks.prefixed("prior", p_values(name, none, family, getkey))
    result |= checks.prefixed("posterior", p_values(name, some, family, getkey, rows=rows))
    assert not checks.family(result)


MUTANTS = {
    "multinomial, concentration": ("multinomial", {"concentration": [0.32, 1.0, 2.0, 0.05]}),
    "categorical, concentration": ("categorical", {"concentration": [0.5, 1.6, 0.8]}),
    "gaussian, freedom": ("gaussian", {"freedom": 3.7}),
    "gaussian, strength": ("gaussian", {"strength": 0.74}),
    "gaussian, scale": ("gaussian", {"scale": SCALE * 1.04}),
    "gaussian, mean": ("gaussian", {"mean": [1.05, -1.0]}),
    "diagonal, freedom": ("diagonal_gaussian", {"freedom": [3.5, 2.3]}),
    "diagonal, strength": ("diagonal_gaussian", {"strength": [0.74, 1.3]}),
    "diagonal, scale": ("diagonal_gaussian", {"scale": [2.0, 0.52]}),
    "diagonal, mean": ("diagonal_gaussian", {"mean": [1.07, -1.0]}),
    "poisson, shape": ("poisson", {"shape": [0.8, 2.6]}),
    "poisson, rate": ("poisson", {"rate": [0.55, 0.3]}),
    "product, one group": ("product", {"strength": [0.7, 1.37]}),
    "vMF, weights": ("von_mises_fisher", {"weights": [0.53, 0.2, 0.27]}),
    "vMF, strength": ("von_mises_fisher", {"strength": 1.3}),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_are_rejected(mutant, seed, getkey) -> None:
    """Draws with another prior, given no rows."""
    name, changed = MUTANTS[mutant]
    rows = data(name, np.random.default_rng(seed))
    none = statistics_of(make(name), rows, jnp.full(7, -1), 1)
    changed = {key: np.asarray(value) for key, value in changed.items()}
    assert checks.family(p_values(name, none, make(name, **changed), getkey))


@pytest.mark.parametrize("name", NAMES)
def test_a_row_forgotten_is_rejected(name, seed, getkey) -> None:
    """Draws given all rows but one, against the posterior of all."""
    family, rows = make(name), data(name, np.random.default_rng(seed))
    whole = statistics_of(family, rows, jnp.zeros(7, jnp.int32), 1)
    fewer = statistics_of(family, rows, jnp.array([-1, 0, 0, 0, 0, 0, 0]), 1)
    assert checks.family(p_values(name, whole, family, getkey, seen=fewer, rows=rows))


SOME_SLOW = slow_but(NAMES, NAMES[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", SOME_SLOW)
def test_draws_of_a_block_do_not_depend_on_the_number_of_blocks(name, seed, getkey) -> None:
    """In blocks of 16 with a key each, as mixtures that grow draw them."""
    family, rows = make(name), data(name, np.random.default_rng(seed))
    statistics = statistics_of(family, rows, jnp.arange(7) * 9, 64)
    key = getkey()

    @jax.jit
    def in_blocks(family, statistics):
        blocks = jax.tree.map(lambda leaf: leaf.reshape(-1, 16, *leaf.shape[1:]), statistics)
        count = jax.tree.leaves(blocks)[0].shape[0]
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(count))
        return jax.vmap(family.draw)(keys, blocks)

    few = in_blocks(family, jax.tree.map(lambda leaf: leaf[:32], statistics))
    many = in_blocks(family, statistics)
    chex.assert_trees_all_equal(few, jax.tree.map(lambda leaf: leaf[:2], many))
    chex.assert_tree_all_finite(many)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOME_SLOW)
def test_one_program_for_all_hyperparameters_and_several_chains(name, seed) -> None:
    rng = np.random.default_rng(seed)
    family, rows = make(name), data(name, rng)
    other = jax.tree.map(lambda leaf: leaf * 1.01, family)
    chex.clear_trace_counter()

    @jax.jit
    @chex.assert_max_traces(n=1)
    def chains(family, rows, labels, atoms):
        def one(labels):
            mine = family_rows.take(rows, labels)
            evidence = family.log_evidence(family.statistics(rows, labels, 3))
            return evidence, family.log_predictive(mine), family.log_likelihood(mine, atoms)

        return jax.vmap(one)(labels), one(labels[1])

    labels, atoms = jnp.asarray(rng.integers(0, 3, (2, 7))), some_atoms(name, rng)
    several, single = chains(family, rows, labels, atoms)
    second = jax.tree.map(lambda leaf: leaf[1], several)
    chex.assert_trees_all_close(second, single, rtol=2e-5, atol=1e-5)
    assert not np.allclose(chains(other, rows, labels, atoms)[1][0], single[0], rtol=1e-4)


def exactly(function, *values):
    """The same function in double precision."""
    with jax.enable_x64(True):
        values = jax.tree.map(
            lambda x: np.asarray(x, np.float64 if np.asarray(x).dtype.kind == "f" else None), values
        )
        return jax.tree.map(lambda x: np.asarray(x, np.float64), function(*values))


def test_rising_factorials_keep_their_digits() -> None:
    a, n = np.meshgrid([1e-20, 1e-6, 1e-3, 0.5, 7.9, 8.0, 1e3, 1e7], [0, 1, 3, 200, 1e5, 1e8, 1e10])
    result = log_rising(jnp.asarray(a, jnp.float32), jnp.asarray(n, jnp.float32))
    exact = exactly(log_rising, np.asarray(a, np.float32), n)
    np.testing.assert_allclose(result, exact, rtol=1e-6, atol=2e-6)
    easy = (a < 10) & (n < 1000)
    direct = special.gammaln(a + n) - special.gammaln(a)
    np.testing.assert_allclose(exact[easy], direct[easy], rtol=1e-7, atol=1e-10)


@pytest.mark.slow
def test_counts_at_extreme_scales() -> None:
    table = np.array([[3_000_000, 0, 1], [0, 0, 0], [1, 7, 16_000_000]])
    rows = families.multinomial_rows(table)
    for a in (1e-6, 1.0, 1e6):
        family = families.multinomial(3, np.array([a, 2 * a, 3 * a], np.float32))
        counts = family.statistics(rows, jnp.array([0, 0, 1]), 2)
        assert counts.dtype == jnp.int32
        np.testing.assert_array_equal(counts, [table[0], table[2]])
        weights = np.array([a, 2 * a, 3 * a], np.float32).astype(np.float64)

        def exact(x, weights=weights):
            rising = special.gammaln(weights + x) - special.gammaln(weights)
            total = special.gammaln(weights.sum() + x.sum()) - special.gammaln(weights.sum())
            return rising.sum() - total

        result = family.log_evidence(counts)
        slack = 2e-7 * table.sum(axis=1)[[0, 2]] + 2e-5
        assert (np.abs(result - np.array([exact(table[0]), exact(table[2])])) < slack).all()
        atoms = family.draw(jax.random.key(0), counts)
        assert bool(jnp.isfinite(atoms).all())
        assert bool(jnp.isfinite(family.log_likelihood(rows, atoms)).all())
    # Of three rows more given many, to a small part of one nat.
    family = families.multinomial(3, 0.5)
    more, given = jnp.array([[1, 2, 0]]), jnp.array([[10_000_000, 2_000_000, 0]])
    p = (given[0] + 0.5) / (12_000_000 + 1.5)
    exact = np.log(p[0]) + 2 * np.log(p[1])
    np.testing.assert_allclose(family.log_evidence(more, given)[0], exact, atol=1e-4)


def test_few_rows_given_a_million_normal_ones(seed) -> None:
    """Of 1 and 10 rows in 32 columns, to a small part of a nat in single precision."""
    rng = np.random.default_rng(seed)
    p, many, few = 32, 10**6, np.array([1, 10])
    mean, root = rng.normal(size=p), np.eye(p) + rng.normal(size=(p, p)) / 16
    x = mean + rng.normal(size=(10, p)) @ root.T
    total, square = np.stack([x[:n].sum(0) for n in few]), np.stack([x[:n].T @ x[:n] for n in few])
    given = many * mean[None], many * (root @ root.T + np.outer(mean, mean))[None]
    given, more = (
        [leaf.astype(np.float32) for leaf in leaves] for leaves in (given, (total, square))
    )
    family = families.gaussian(np.zeros(p, np.float32), np.eye(p), strength=0.5)
    result = jax.jit(family.log_evidence)(
        Moments(jnp.asarray(few), *more), Moments(jnp.array([many]), *given)
    )

    def parts(n, total, square):
        total, square = total.astype(np.float64), square.astype(np.float64)
        scale = np.eye(p) + square - np.outer(total, total) / (0.5 + n)
        constant = special.multigammaln((p + 2 + n) / 2, p) - p / 2 * np.log(0.5 + n)
        return constant - (p + 2 + n) / 2 * np.linalg.slogdet(scale)[1] - n * p / 2 * np.log(np.pi)

    before = [leaf[0].astype(np.float64) for leaf in given]
    after = [[a + b for a, b in zip(before, pair, strict=True)] for pair in zip(*more, strict=True)]
    exact = [parts(many + n, *sums) for n, sums in zip(few, after, strict=True)]
    np.testing.assert_allclose(result, np.array(exact) - parts(many, *before), atol=5e-3)


@pytest.mark.slow
def test_few_rows_given_a_million_directions(seed) -> None:
    """Of 1 and 10 concentrated rows, as precisely as their lengths allow."""
    rng = np.random.default_rng(seed)
    mean = np.eye(8)[1]
    rows = mean + rng.normal(size=(2000, 8)) / np.sqrt(3000)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    total = np.stack([rows[0], rows[:10].sum(0)]).astype(np.float32)
    given = 500 * rows.sum(0, keepdims=True).astype(np.float32)

    def evidences(total, given):
        """That of the rows given others, and as a difference, which is exact in double."""
        grid, centre = np.geomspace(100, 20_000, 12).astype(total.dtype), np.eye(8)[0]
        family = families.von_mises_fisher(8, grid, mean=centre, strength=2.0)
        more = Resultants(jnp.array([1, 10]), jnp.asarray(total))
        given = Resultants(jnp.array([10**6]), jnp.asarray(given))
        both = jax.tree.map(jnp.add, more, given)
        difference = family.log_evidence(both) - family.log_evidence(given)
        return family.log_evidence(more, given), difference

    (result, _), (double, exact) = evidences(total, given), exactly(evidences, total, given)
    np.testing.assert_allclose(double, exact, rtol=1e-7)
    np.testing.assert_allclose(result, exact, atol=0.02)


def test_a_word_of_probability_zero_counts_where_it_occurs_only() -> None:
    family = families.multinomial(3)
    rows = families.multinomial_rows([[1, 0, 0], [0, 1, 0]])
    log_f = family.log_likelihood(rows, jnp.log(jnp.array([[0.5, 0.0, 0.5]])))
    np.testing.assert_allclose(log_f[:, 0], [np.log(0.5), -np.inf], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-5, 1.0, 1e5])
def test_gaussian_at_extreme_scales(unit, seed) -> None:
    """Clusters a hundred of their standard deviations from the prior mean."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.normal(100, 1, (300, 3)), rng.normal(-100, 1, (200, 3))]) * unit
    x = x.astype(np.float32)
    labels = np.repeat([0, 1, 0], [300, 100, 100])

    @jax.jit
    def parts(family, x, labels, atoms):
        statistics = family.statistics(x, labels, 2)
        only = family.statistics(x, jnp.where(labels == 1, 1, -1), 2)
        return (
            family.log_evidence(statistics),
            family.log_evidence(only, statistics),
            family.log_predictive(x),
            family.log_likelihood(x, atoms),
        )

    def result(x, labels):
        roots = np.tile(np.eye(3) / unit, (2, 1, 1)), np.full(2, -3 * np.log(unit))
        atoms = Normals(x[:2], *(jnp.asarray(leaf, x.dtype) for leaf in roots))
        return parts(families.gaussian_of(x, strength=0.1), jnp.asarray(x), labels, atoms)

    values = result(jnp.asarray(x), jnp.asarray(labels)), exactly(result, x, labels)
    # 500 rows, p = 3, d = 100; and a prior scale whose condition number is 3e4.
    for single, double, slack in zip(*values, (2, 2, 1e-3, 1e-4), strict=True):
        np.testing.assert_allclose(single, double, rtol=2e-5, atol=slack)


@pytest.mark.parametrize("p", [1, 2, 9])
def test_triangular_matrices_side_by_side(p, seed) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(40, p, p)) + 2 * np.eye(p)
    a, b = root @ np.swapaxes(root, 1, 2), rng.normal(size=(40, p, 3))
    single = jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32)
    factor = cholesky(single[0])
    scale = np.abs(a).max(axis=(1, 2), keepdims=True)
    factor = np.asarray(factor)
    np.testing.assert_allclose(factor @ np.swapaxes(factor, 1, 2) / scale, a / scale, atol=1e-6)
    assert (np.triu(factor, 1) == 0).all()
    low = np.tril(root) + np.sign(np.diagonal(root, axis1=1, axis2=2))[:, :, None] * np.eye(p)
    result = np.asarray(solve(jnp.asarray(low, jnp.float32), single[1]))
    np.testing.assert_allclose(low @ result, b, atol=1e-5 * np.abs(result).max())
    result = low @ np.asarray(inverse(jnp.asarray(low, jnp.float32)))
    np.testing.assert_allclose(result, np.broadcast_to(np.eye(p), result.shape), atol=1e-4)
    with np.errstate(all="ignore"):
        assert np.isnan(cholesky(jnp.array([[1.0, 2.0], [2.0, 1.0]]))[1, 1])


@pytest.mark.slow
def test_normals_are_drawn_by_the_hundred_thousand(getkey) -> None:
    """Under vmap too, where LAPACK took minutes or for ever."""
    family = make("gaussian")
    none = statistics_of(family, jnp.full((1, 2), jnp.nan), jnp.zeros(1, jnp.int32), 48)
    keys = jax.random.split(getkey(), 4_000)
    result = jax.jit(jax.vmap(family.draw, (0, None)))(keys, none)
    assert result.mean.shape == (4_000, 48, 2)
    assert bool(jnp.isfinite(result.log_det).all())


@pytest.mark.slow
@pytest.mark.parametrize("k", [1e-3, 30.0, 1e4, 1e6])
def test_directions_at_extreme_concentrations(k, seed, getkey) -> None:
    x = directions(getkey(), jnp.eye(20)[3], k, shape=(400,))
    labels = np.repeat([0, 1], [399, 1])
    grid = np.geomspace(k / 3, 3 * k, 9).astype(np.float32)

    @jax.jit
    def parts(family, x, labels, atoms):
        statistics = family.statistics(x, labels, 2)
        return family.log_evidence(statistics), family.log_likelihood(x, atoms)

    def result(x, labels):
        concentrations = jnp.asarray(grid, x.dtype)
        family = families.von_mises_fisher(20, concentrations)
        return parts(family, x, labels, Directions(x[:3], concentrations[3:6]))

    exact = np.asarray(x, np.float64)
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    values = result(jnp.asarray(x), jnp.asarray(labels)), exactly(result, exact, labels)
    for single, double, n in zip(*values, ([400, 1], 1), strict=True):
        slack = 3e-7 * (k + 100) * np.asarray(n)
        assert (np.abs(single - double) <= slack + 1e-5 * np.abs(double)).all()


@pytest.mark.slow
def test_many_concentrated_directions_are_drawn_close_to_their_mean(getkey) -> None:
    """A posterior concentration of 1e10, for which the law is normal in the tangent plane."""
    family = families.von_mises_fisher(3, jnp.array([1e5]))
    many = Resultants(jnp.full(2000, 100_000), jnp.tile(jnp.array([[0.0, 0.0, 1e5]]), (2000, 1)))
    off = np.asarray(family.draw(getkey(), many).mean[:, :2], np.float64) * 1e5
    result = {i: checks.dkwm(off[:, i], stats.norm.cdf) for i in range(2)}
    assert not checks.family(result)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int8, np.float64])
def test_categories_of_any_type_are_taken(dtype) -> None:
    family = families.categorical([2, 3])
    rows = jnp.asarray(np.array([[0, 2], [1, 0]], dtype))
    family.check(rows)
    some = family_rows.take(rows, jnp.array([1, 2]))
    np.testing.assert_allclose(family.log_predictive(some), [-np.log(6), 0], rtol=1e-5)
    counts = family.statistics(some, jnp.zeros(2, jnp.int32), 1)
    assert [leaf.tolist() for leaf in counts] == [[[[0, 1]]], [[[1, 0, 0]]]]


def test_missing_values_are_integrated_out(seed) -> None:
    """The likelihood of a row with a value missing is the sum over its values."""
    family, atoms = make("categorical"), some_atoms("categorical", np.random.default_rng(seed))
    full = jnp.array([[2, 0, j] for j in range(3)])
    for missing in (jnp.array([[2, 0, -1]]), jnp.array([[2.0, 0.0, jnp.nan]])):
        total = jax.nn.logsumexp(family.log_likelihood(full, atoms), axis=0)
        np.testing.assert_allclose(family.log_likelihood(missing, atoms)[0], total, rtol=1e-5)
        total = jax.nn.logsumexp(family.log_predictive(full))
        np.testing.assert_allclose(family.log_predictive(missing)[0], total, rtol=1e-5)
        counts = family.statistics(missing, jnp.zeros(1, int), 1)
        assert sum(int(leaf.sum()) for leaf in counts) == 2


@pytest.mark.slow
def test_values_out_of_range_are_not_numbers_under_jit() -> None:
    family = make("categorical")
    rows = jnp.array([[3, 0, 0], [-2, 0, 0], [0, 1, 2]])
    assert jnp.isnan(jax.jit(family.log_predictive)(rows)).tolist() == [True, True, False]
    assert jnp.isnan(family.log_predictive(jnp.array([[0.5, 0, 0]])))[0]
    half = jnp.array([[1.0, jnp.nan], [1.0, 1.0], [jnp.inf, 1.0]])
    family = make("gaussian")
    assert jnp.isnan(family.log_predictive(half)[0])
    assert not jnp.isfinite(family.log_predictive(half)[2])
    spoilt = family.statistics(half, jnp.arange(3), 3).total
    assert jnp.isfinite(spoilt).all(axis=1).tolist() == [False, True, False]


def test_a_category_may_be_frequent_in_rows_that_are_not_selected() -> None:
    make("multinomial").check(family_rows.take(FREQUENT, jnp.arange(1, 128)))


def test_sums_of_numbers_whose_squares_are_hardly_normal() -> None:
    """Rounding errors about the prior mean: squares of 1.4e-36 are on no coarse grid."""
    x = jnp.array([[1.2e-18], [3.0]])
    family = families.diagonal_gaussian(jnp.zeros(1), 1.0)
    for rows, expected in ((x[:1], 0), (x, 9)):
        sums = family.statistics(rows, jnp.zeros(len(rows), jnp.int32), 1)
        np.testing.assert_allclose(sums.square, [[expected]], atol=1e-30)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: families.multinomial(0), "categories"),
        (lambda: families.multinomial(3, -1.0), "concentration"),
        (lambda: families.multinomial(3, np.ones(4)), "concentration"),
        (lambda: families.multinomial_rows(np.zeros((0, 3))), "with rows"),
        (lambda: families.multinomial_rows([[0.5, 1]]), "row 0, column 0"),
        (lambda: families.multinomial_rows([[0, 1], [1, -2]]), "row 1, column 1"),
        (lambda: families.multinomial_rows([[np.nan, 1]]), "row 0, column 0"),
        (lambda: make("multinomial").check(families.multinomial_rows(np.eye(9))), "category 8"),
        (lambda: make("multinomial").check(np.eye(4)), "multinomial_rows"),
        (
            lambda: make("multinomial").check(FREQUENT),
            r"category 1 has 2\.14748e\+09 counts in all",
        ),
        (lambda: families.categorical([]), r"^categories .*one variable"),
        (lambda: families.categorical([2, 0]), r"categories\[1\]"),
        (lambda: families.categorical(3), r"^categories .*3$"),
        (lambda: families.categorical([2, 2**31]), "at most 2,147,483,647 in total"),
        (lambda: families.categorical([2, 3], [1.0, 2.0, 3.0]), "concentration"),
        (lambda: make("categorical").check(np.array([[0, 0, 0], [0, 2, 0]])), r"rows\[1, 1\] is 2"),
        (lambda: make("categorical").check(np.array([[0.5, 0, 0]])), r"rows\[0, 0\]"),
        (lambda: make("categorical").check(np.zeros((2, 2), int)), "shape"),
        (lambda: make("gaussian", freedom=1.0), "freedom"),
        (lambda: make("gaussian", strength=0.0), "strength"),
        (lambda: make("gaussian", scale=np.eye(3)), "scale"),
        (lambda: make("gaussian", scale=np.array([[1.0, 2.0], [2.0, 1.0]])), "positive definite"),
        (lambda: make("gaussian").check(np.array([[1.0, np.inf]])), r"rows\[0, 1\]"),
        (lambda: make("gaussian").check(np.ones((2, 2), int)), "floats"),
        (lambda: families.gaussian_of(np.ones((5, 2))), "does not vary"),
        (lambda: families.gaussian_of(np.full((3, 1), 0.1)), "does not vary"),
        (lambda: families.gaussian_of(np.ones((0, 2))), "n at least 1"),
        (lambda: make("gaussian").check(np.array([[1.0, 1e300]])), r"rows\[0, 1\] is 1e\+300"),
        (lambda: families.gaussian_of(1e-30 * SPREAD), r"column 0 of rows .*float32"),
        (
            lambda: families.gaussian_of(1e30 * SPREAD),
            r"rows\[0, 0\] is .* within 6e\+15 in float32",
        ),
        (
            lambda: families.gaussian_of(SPREAD @ np.array([[1, 0, 2], [0, 1, 1], [0, 0, 0]])),
            r"singular \(50 rows, 3 columns\): ",
        ),
        (lambda: make("von_mises_fisher", strength=-1.0), "strength"),
        (lambda: make("von_mises_fisher", mean=np.ones(3)), "length of mean"),
        (lambda: make("von_mises_fisher", weights=np.ones(2)), "shape"),
        (lambda: families.von_mises_fisher(3, strength=2.0), "no mean"),
        (lambda: make("von_mises_fisher").check(np.ones((2, 3))), r"rows\[0\] has length 1.73205"),
        (lambda: family_rows.size({"a": np.ones(2), "b": np.ones(3)}), "one length"),
        (lambda: family_rows.prepare(make("gaussian"), [[0.0, 1.0], [2.0]]), "number of columns"),
    ],
)
def test_bad_input_is_named(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("name", ["gaussian", "diagonal_gaussian"])
def test_draws_that_overflow_have_density_0(name) -> None:
    """Of a prior with few degrees of freedom, a few percent are beyond float32."""
    if name == "gaussian":
        family = families.gaussian(jnp.zeros(1), jnp.eye(1), freedom=0.04)
    else:
        family = families.diagonal_gaussian(jnp.zeros(1), 1.0, freedom=0.04)
    rows = jnp.array([[-3.0], [2.0], [jnp.nan]])
    none = statistics_of(family, rows, jnp.full(3, -1), 4096)
    log_f = likelihood(family, rows, draw(family, jax.random.key(0), none))
    assert not jnp.isnan(log_f).any()
    assert 0.005 < jnp.isinf(log_f[0]).mean() < 0.1
    np.testing.assert_array_equal(log_f[2], 0)


def test_draws_of_several_dimensions_that_overflow_are_no_errors() -> None:
    """A root with zeros on its diagonal makes inf - inf; a covariance that is NaN stays so."""
    family = families.gaussian(jnp.zeros(3), jnp.eye(3), 1.0, 2.05)
    rows = jnp.array([[-3.0, 0.0, 1.0], [2.0, 2.0, 2.0]])
    none = statistics_of(family, rows, jnp.full(2, -1), 1024)
    atoms = draw(family, jax.random.key(0), none)
    assert not jnp.isnan(atoms.mean).any()
    assert 0 < jnp.isinf(atoms.mean).any(axis=1).sum() < 100
    assert not jnp.isnan(likelihood(family, rows, atoms)).any()
    broken = none._replace(square=none.square.at[0].set(jnp.nan), number=none.number.at[0].set(1))
    assert jnp.isnan(draw(family, jax.random.key(0), broken).mean[0]).all()


def test_a_column_may_be_constant_in_the_complete_rows() -> None:
    rows = [[0, 1, 5], [0, 2, 3], [0, 3.5, 4], [0, 9, 1], [1, np.nan, 2], [2, np.nan, 7]]
    assert families.gaussian_of(rows).log_evidence is not None


def test_nested_lists_are_a_table() -> None:
    rows = family_rows.prepare(make("gaussian"), [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    assert family_rows.size(rows) == 3
    np.testing.assert_array_equal(rows, [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    for given in ((row for row in ([0, 1], [2, 0])), map(np.array, ([0, 1], [2, 0]))):
        family = families.categorical([3, 2])
        rows = family_rows.prepare(family, [*given])
        np.testing.assert_array_equal(rows, [[0, 1], [2, 0]])
    parts = {"size": make("gaussian"), "colour": make("categorical")}
    lists = {"size": [[0.0, 1.0], [2.0, 3.0]], "colour": [[2, 1, 0], [0, 0, 1]]}
    assert family_rows.size(family_rows.prepare(families.product(parts), lists)) == 2
    with pytest.raises(ValueError, match="number of columns"):
        family_rows.prepare(make("gaussian"), [[0.0, 1.0], [2.0]])
    with pytest.raises(ValueError, match="masked"):
        family_rows.prepare(make("gaussian"), [np.ma.array([0.0, 1.0], mask=[False, True])])


def test_a_row_of_a_component_without_precision_is_finite() -> None:
    """With few degrees of freedom the smallest numbers of a root are rounded to 0."""
    root = jnp.array([[[0.0, 0.0], [1.0, 1e-42]]])
    atoms = Normals(jnp.zeros((1, 2)), root, jnp.zeros(1))
    row = make("gaussian").simulate(jax.random.key(0), atoms, None)
    assert np.isfinite(row).all()


@pytest.mark.parametrize("dimension", [10_000, 20_000])
def test_directions_of_many_dimensions_have_a_prior(dimension) -> None:
    grid = families.von_mises_fisher(dimension).draw.args[0].grid
    assert grid[0] == pytest.approx(dimension / 10)
    assert grid[-1] == pytest.approx(1e7)


def test_an_infinite_half_is_no_number() -> None:
    with pytest.raises(ValueError, match=r"^rows\[0, 1\] is inf"):
        family_rows.check_numbers(np.array([[1.0, np.inf]], np.float16), 2, np.float32)


@pytest.mark.parametrize("rows", [60, 3_000, 10**7])
def test_the_spread_of_a_deviation_keeps_its_digits(rows) -> None:
    family = families.diagonal_gaussian([0.0], [1.0], strength=1.0, freedom=3.0)
    moments = ColumnMoments(jnp.full((1, 1), rows), jnp.zeros((1, 1)), jnp.full((1, 1), 1.0 * rows))
    _, variance = family.profile(moments, family.draw(jax.random.key(0), moments))
    freedom, scale = 3.0 + rows, 1.0 + rows
    log_ratio = special.gammaln((freedom - 1) / 2) - special.gammaln(freedom / 2)
    exact = scale / (freedom - 2) - scale / 2 * np.exp(2 * log_ratio)
    if rows == 10**7:  # doubles have few digits left
        exact = scale / ((freedom - 2) * (2 * freedom - 3))
    np.testing.assert_allclose(variance.sd, exact, rtol=1e-3)


@pytest.mark.slow
def test_a_gaussian_of_nearly_dependent_columns_can_be_drawn():
    """Just above what `gaussian_of` refuses, of many more rows than it has digits for otherwise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 3))
    x[:, 2] = x[:, 0] + x[:, 1] + 1.5e-3 * x[:, 2]
    x = x.astype(np.float32)
    family = families.gaussian_of(x)
    statistics = statistics_of(family, jnp.asarray(x), jnp.zeros(len(x), jnp.int32), 1)
    drawn = draw(family, jax.random.key(0), statistics)
    assert np.isfinite(likelihood(family, jnp.asarray(x), drawn)).all()
    x[:, 2] = x[:, 0] + x[:, 1]
    with pytest.raises(ValueError, match="singular"):
        families.gaussian_of(x)


def test_rows_are_taken_over_in_their_order(seed) -> None:
    rng = np.random.default_rng(seed)
    table = sp.csr_array(rng.poisson(0.3, (40, 30)))
    kept = table.copy()
    rows = families.multinomial_rows(table)
    assert family_rows.size(rows) == 40
    family = families.multinomial(30)
    np.testing.assert_array_equal(family.statistics(rows, jnp.arange(40), 40), table.toarray())
    assert (table != kept).nnz == 0
    ids = rng.permutation(40)[:11]
    some = family_rows.take(rows, jnp.asarray(ids))
    np.testing.assert_array_equal(family.statistics(some, jnp.arange(11), 11), table.toarray()[ids])
