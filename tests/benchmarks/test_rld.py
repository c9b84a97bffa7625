"""Langevin dynamics on the simplex: one step in closed form, and exactness after Metropolis.

Where p-values are judged by `statistics_checks.family`, a test fails by chance with a probability
of at most 1e-3 at a fresh seed.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_parameterisations as formulas
from baselines import proposals, rld
from scipy import special
from support import mixture_target as mixture
from support import statistics_checks as checks
from support.marks import slow_but
from test_parameterisations import SPACES

from simplex_jax._src import batches, estimators, gradients
from simplex_jax._src.runtime import driver

# Batches are the counts themselves: one row of data.
GIVEN = estimators.Estimator(
    lambda key: (), lambda key, memory, position, batch: (batch[0], memory)
)
COMBINATIONS = [(name, riemannian) for name in SPACES for riemannian in (True, False)]
ALPHA = np.array([0.5, 0.1, 2.0, 0.3])
COUNTS = np.array([12.0, 0.0, 3.0, 1.0])
OMEGA = np.array([0.5, 0.1, 0.25, 0.15])
TOTAL = 1.7
ROWS = 200_000


def kernel_of(name, riemannian, h, alpha=ALPHA, **options):
    return rld.build(
        GIVEN, alpha, h, parameterisation=SPACES[name], riemannian=riemannian, **options
    )


def moments(name, riemannian, h):
    """Mean change and covariance of one step in coordinates, from matrices written out."""
    space = SPACES[name]
    w = OMEGA * TOTAL if space.expanded else OMEGA
    log_w = jnp.log(w)
    a = ALPHA + COUNTS
    pull = ALPHA + COUNTS - OMEGA * (COUNTS.sum() + (0 if space.expanded else ALPHA.sum()))
    inverse = {
        "reduced mean": np.diag(w) - np.outer(w, w),
        "reduced natural": np.diag(1 / w) + 1 / w[-1],
        "expanded mean": np.diag(w),
        "expanded natural": np.diag(1 / w),
    }[name]
    gradient = {
        "reduced mean": (a - 1) / w - (a[-1] - 1) / w[-1],
        "reduced natural": pull,
        "expanded mean": (a - 1) / w - 1 - COUNTS.sum() / TOTAL,
        "expanded natural": pull - w,
    }[name]
    correction = {
        "reduced mean": 1 - 4 * w,
        "reduced natural": 1 / w[-1] - 1 / w,
        "expanded mean": np.ones(4),
        "expanded natural": -1 / w,
    }[name]
    size = formulas.coordinates(space, log_w).size
    inverse, gradient, correction = inverse[:size, :size], gradient[:size], correction[:size]
    if not riemannian:
        inverse, correction = np.eye(size), np.zeros(size)
    return h * inverse @ gradient, h * correction, 2 * h * inverse


def step_checks(changes, mean, covariance):
    """Mean, variances and covariances of changes of coordinates, [n, D]."""
    p_values = {}
    for j in range(len(mean)):
        var = covariance[j, j]
        p_values["mean", j] = checks.mean_z(changes[:, j], mean[j], var)
        p_values["variance", j] = checks.variance_z(changes[:, j], mean[j], var, 3 * var**2)
        for k in range(j):
            product = (changes[:, j] - mean[j]) * (changes[:, k] - mean[k])
            spread = var * covariance[k, k] + covariance[j, k] ** 2
            p_values["covariance", j, k] = checks.mean_z(product, covariance[j, k], spread)
    return p_values


def step_size(name, riemannian):
    """So small that no coordinate reaches 0."""
    if SPACES[name].mean:
        return 5e-4 if riemannian else 5e-5
    return 0.01


def state_of(log_omega, log_total, dtype=np.float32):
    if log_total is not None:
        log_total = jnp.asarray(log_total, dtype)
    return rld.State(jnp.asarray(log_omega, dtype), jnp.int32(0), (), log_total)


@jax.jit
def one_step(kernel, key, state, batch):
    return kernel.update(key, state, batch)


def moved_rows(getkey, name, riemannian, h):
    """Coordinates of many rows after one step in double precision, and what it tells."""
    space = SPACES[name]
    with jax.enable_x64(True):
        log_total = np.full((ROWS, 1), np.log(TOTAL)) if space.expanded else None
        state = state_of(np.broadcast_to(np.log(OMEGA), (ROWS, 4)), log_total, np.float64)
        batch = jnp.asarray(COUNTS)[None]
        state, info = one_step(kernel_of(name, riemannian, h), getkey(), state, batch)
        log_w = state.position + state.log_total if space.expanded else state.position
        return np.asarray(formulas.coordinates(space, log_w)), info


@pytest.mark.parametrize(("name", "riemannian"), slow_but(COMBINATIONS, *COMBINATIONS[1::2]))
def test_one_step_has_the_mean_and_covariance_of_the_formula(name, riemannian, getkey, seed):
    h = step_size(name, riemannian)
    result, info = moved_rows(getkey, name, riemannian, h)
    assert float(info.acceptance) == 1
    start = np.asarray(
        formulas.coordinates(SPACES[name], np.log(OMEGA * (TOTAL if result.shape[1] == 4 else 1)))
    )
    natural, correction, covariance = moments(name, riemannian, h)
    assert not checks.family(step_checks(result - start, natural + correction, covariance))

    # Mutants, with as many samples.
    xi = (
        np.random.default_rng(seed).standard_normal(result.shape) @ np.linalg.cholesky(covariance).T
    )
    mutants = {
        "none": natural + correction + xi,
        "sign": -natural - correction + xi,
        "no factor 2": natural + correction + xi / np.sqrt(2),
        "noise": natural + correction + 1.02 * xi,
    }
    if riemannian:
        mutants["no curvature"] = natural + xi
    for mutant, changes in mutants.items():
        rejected = checks.family(step_checks(changes, natural + correction, covariance))
        assert bool(rejected) == (mutant != "none"), mutant


def test_expanded_means_are_reflected_at_zero(getkey):
    """As in `samplers.sgrld`: the step of a coordinate near 0 is a folded normal variate."""
    h = 0.05
    theta, _ = moved_rows(getkey, "expanded mean", True, h)
    natural, correction, covariance = moments("expanded mean", True, h)
    mean, sd = OMEGA * TOTAL + natural + correction, np.sqrt(np.diag(covariance))
    folded = sd * np.sqrt(2 / np.pi) * np.exp(-((mean / sd) ** 2) / 2)
    folded += mean * special.erf(mean / sd / np.sqrt(2))
    square = mean**2 + sd**2
    assert (folded > 1.001 * np.abs(mean)).sum() >= 2
    p_values = {}
    for j in range(4):
        p_values["mean", j] = checks.mean_z(theta[:, j], folded[j], square[j] - folded[j] ** 2)
        spread = mean[j] ** 4 + 6 * mean[j] ** 2 * sd[j] ** 2 + 3 * sd[j] ** 4 - square[j] ** 2
        p_values["square", j] = checks.mean_z(theta[:, j] ** 2, square[j], spread)
    assert not checks.family(p_values)


@functools.partial(jax.jit, static_argnums=(0, 1))
def ratios(space, riemannian, h, keys):
    """Log acceptance ratios of proposals, and the same from densities written out in matrices."""
    proposer = proposals.Proposer(space, riemannian)
    alpha, counts = jnp.asarray(formulas.ALPHA), jnp.asarray(formulas.COUNTS)
    log_w = formulas.start(space)

    def log_transition(here, there, sign):
        """From `here`, mirrored by `sign`, to `there`: coordinates [D]."""
        gradient = jax.grad(functools.partial(formulas.log_density, space))(here)
        inverse, correction = jnp.eye(here.size), jnp.zeros(here.size)
        if riemannian:
            inverse = jnp.linalg.inv(formulas.fisher(space, here))
            correction = formulas.divergence(space, here)
        mean = sign * (here + h * (inverse @ gradient + correction))
        return jax.scipy.stats.multivariate_normal.logpdf(there, mean, 2 * h * inverse)

    def both(key):
        proposal = proposals.propose(key, log_w, alpha, counts, h, proposer)
        result = proposals.log_ratio(proposal, alpha, counts, counts, h, proposer, True)
        here, there = (formulas.coordinates(space, y) for y in (log_w, proposal.end))
        sign = jnp.broadcast_to(proposal.sign, log_w.shape)[: here.size]
        wanted = (
            formulas.log_density(space, there)
            + log_transition(there, here, sign)
            - formulas.log_density(space, here)
            - log_transition(here, sign * there, 1)
        )
        return result, wanted, proposal.sign.min(), jnp.abs(proposal.change).max()

    return jax.vmap(both)(keys)


@pytest.mark.parametrize(
    ("name", "riemannian"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] * (case[0] != "expanded mean"))
        for case in COMBINATIONS
    ],
)
def test_the_acceptance_ratio_is_that_of_the_densities(name, riemannian, getkey):
    """No sampling: to ten digits, for short and long steps, and for those that cross 0."""
    with jax.enable_x64(True):
        signs, longest = [], []
        # Long steps of the reduced mean leave the simplex.
        long = {True: 0.005, False: 0.001}[riemannian] if name == "reduced mean" else 0.1
        for h in (1e-5, long):
            keys = jax.random.split(getkey(), 300)
            result, wanted, sign, change = ratios(SPACES[name], riemannian, jnp.asarray(h), keys)
            inside = np.isfinite(result)
            assert inside.sum() > 30
            np.testing.assert_allclose(result[inside], wanted[inside], rtol=1e-9, atol=1e-8)
            signs.append(sign[inside])
            longest.append(change[inside])
        # Both ways to form the difference of logarithms were taken, and reflections.
        assert longest[0].min() < 0.2
        assert longest[1].max() > 1
        assert (signs[1].min() < 0) == (name == "expanded mean")


@pytest.mark.slow
def test_small_steps_without_correction_sample_the_posterior(getkey, seed):
    """Standard errors are 0.01 (of means, over standard deviations) and 0.02 (of variances)."""
    alpha, counts, rows = np.array([1.5, 2.0, 3.0]), np.array([2.0, 5.0, 3.0]), 10_000
    a = alpha + counts
    exact_mean = a / a.sum()
    exact_variance = exact_mean * (1 - exact_mean) / (a.sum() + 1)
    starts = np.random.default_rng(seed).dirichlet(a, rows)
    for name, riemannian, h in (("reduced mean", True, 0.005), ("reduced natural", False, 0.01)):
        kernel = kernel_of(name, riemannian, h, alpha)
        state = state_of(np.log(starts), None)
        stream = batches.full(jnp.asarray(counts, jnp.float32)[None])
        state, _ = driver.run(getkey(), kernel, state, stream, 150, collect=lambda *_: ())
        omega = np.exp(np.asarray(state.position, np.float64))
        error = (omega.mean(axis=0) - exact_mean) / np.sqrt(exact_variance)
        np.testing.assert_allclose(error, 0, atol=0.06, err_msg=name)
        np.testing.assert_allclose(omega.var(axis=0), exact_variance, rtol=0.12, err_msg=name)


def test_a_row_that_leaves_the_simplex_stays(getkey):
    state = state_of(np.broadcast_to(np.log(OMEGA), (50, 4)), None)
    kernel = kernel_of("reduced mean", False, 10.0)
    moved, info = one_step(kernel, getkey(), state, jnp.asarray(COUNTS, jnp.float32)[None])
    assert float(info.acceptance) == 0
    np.testing.assert_array_equal(moved.position, state.position)


def test_rows_of_a_tree_are_accepted_each_by_itself(getkey):
    position = {"a": np.full((40, 3), 1 / 3), "b": np.full(4, 0.25)}
    batch = {"a": jnp.full((1, 40, 3), 2.0), "b": jnp.full((1, 4), 5.0)}
    kernel = rld.build(
        estimators.multinomial(1),
        {"a": 0.5, "b": np.ones(4)},
        0.3,
        parameterisation=SPACES["reduced natural"],
        riemannian=False,
        metropolis=1,
    )
    state = kernel.init(getkey(), position)
    moved, info = one_step(kernel, getkey(), state, batch)
    stayed = (moved.position["a"] == state.position["a"]).all(axis=1)
    assert 0 < stayed.sum() < 40
    assert 0 < float(info.acceptance) < 1


def test_what_metropolis_cannot_correct_is_refused(getkey):
    labels = jnp.array([0, 0, 2, 1])

    def corrected(estimator):
        space = SPACES["reduced natural"]
        return rld.build(estimator, 0.5, 0.1, parameterisation=space, metropolis=4)

    with pytest.raises(ValueError, match=r"^metropolis .*True$"):
        rld.build(estimators.categorical(4), 0.5, 0.1, metropolis=True)
    with pytest.raises(ValueError, match="log_likelihood is for the Metropolis correction"):
        rld.build(estimators.categorical(4), 0.5, 0.1, log_likelihood=mixture.log_likelihood)
    # Where a likelihood jumps its derivatives, here 0, are the same on either side.
    for likelihood in (mixture.log_likelihood, lambda y, batch: jnp.where(y[0] < y[1], 0.0, -9.0)):
        for estimator in (gradients.counts(likelihood, 4), gradients.counts(likelihood, 4, 2.0)):
            with pytest.raises(ValueError, match=r"gradients\.counts"):
                corrected(estimator)
    kernel = corrected(estimators.categorical(4))
    state = kernel.init(getkey(), np.ones(3))
    with pytest.raises(ValueError, match=r"must be all 4 .* 2: use batches\.full"):
        kernel.update(getkey(), state, labels[:2])
    # Counts that depend on the position, without their likelihood; and counts that are NaN.
    derivatives = gradients.counts_of(mixture.log_likelihood)
    own = estimators.subsampled(lambda *given: derivatives(*given), 4)
    for estimator, batch in ((own, labels), (GIVEN, jnp.full((4, 3), jnp.nan))):
        kernel = corrected(estimator)
        moved, info = one_step(kernel, getkey(), state, batch)
        assert np.isnan(moved.position).all()
        assert np.isnan(info.acceptance)


def test_bad_input_is_named(getkey):
    for alpha in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="alpha"):
            rld.build(GIVEN, alpha, 0.1)
    for h in (0.0, np.nan, lambda step: -0.1):
        with pytest.raises(ValueError, match="step_size"):
            rld.build(GIVEN, 0.5, h)
    with pytest.raises(ValueError, match="step_size must be below 2"):
        rld.build(GIVEN, 0.5, 2.0)
    rld.build(GIVEN, 0.5, 2.0, metropolis=1)
    kernel = rld.build(GIVEN, 0.5, 0.1)
    for position in ([0.5, -0.5], [1.0, 0.0], [np.nan, 1.0], []):
        with pytest.raises(ValueError, match="position"):
            kernel.init(getkey(), position)
    with pytest.raises(ValueError, match="alpha of shape"):
        rld.build(GIVEN, [0.1, 0.2, 0.3], 0.1).init(getkey(), [1.0, 1.0])
