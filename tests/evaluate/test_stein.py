"""Kernel Stein discrepancies: their kernels by automatic differentiation, and what they see.

Every judgement of a law is one p-value of a discrepancy. Correct samplers are judged by
`statistics_checks.family` at 1e-3; as p-values are those of large n, they may fail with a fresh
seed somewhat more often than that, at most 1 in 200.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from support import statistics_checks as checks
from support.marks import slow_but

from simplex_jax._src import draws, estimators, gradients
from simplex_jax._src.evaluate import stein
from simplex_jax._src.samplers import scir

LAWS = {
    "sparse": np.full(10, 0.1),
    "very sparse": np.full(10, 0.01),
    "the paper's": np.array([800.1, 100.1, 100.1] + [0.1] * 7),
    "dense": np.array([1.0, 2.0, 3.0]),
}


def log_dirichlet(rng, a, n):
    """Draws right where they underflow: Gamma(a) = Gamma(a + 1) U^(1/a)."""
    log_gamma = np.log(rng.gamma(a + 1, size=(n, len(a)))) + np.log(rng.random((n, len(a)))) / a
    return special.log_softmax(log_gamma, axis=-1)


def p_of(log_p, a):
    return stein.stein_simplex(log_p, a).p_value


# --- The kernels are what the docstrings say.


def test_kernel_on_the_simplex_is_the_operator_applied_twice(seed):
    """Against derivatives of the multiquadric by JAX, in float64, and features by hand."""
    rng = np.random.default_rng(seed)
    a, log_p = np.array([0.5, 2.0, 0.1]), np.log(rng.dirichlet([1.0, 1.0, 1.0], size=5))
    data = stein._log_ratios(log_p, a, a)
    local = np.asarray(stein._log_ratio_kernel(data, data) - data.fields @ data.fields.T)

    precision = 1 / special.polygamma(1, a)
    metric = np.diag(precision) - np.outer(precision, precision) / precision.sum()
    score = a - a.sum() * np.exp(log_p)
    speed = np.diag(1 / (score**2).mean(axis=0))

    def kernel(one, two):
        return (1 + (one - two) @ metric @ (one - two) / 2) ** -0.5

    def pair(i, j):
        at = (jnp.asarray(log_p[i]), jnp.asarray(log_p[j]))
        by_one, by_two = jax.grad(kernel)(*at), jax.grad(kernel, 1)(*at)
        both = jax.jacobian(jax.grad(kernel), 1)(*at)
        s, t = score[i], score[j]
        return (
            kernel(*at) * (s @ speed @ t)
            + s @ speed @ by_two
            + t @ speed @ by_one
            + jnp.trace(speed @ both)
        )

    with jax.enable_x64(True):
        table = np.array([[pair(i, j) for j in range(5)] for i in range(5)])
    np.testing.assert_allclose(local, table / np.diag(table).mean(), atol=3e-6)

    # d/dlog x_j of log x_j, the others following, is 1 - x_j.
    along = score * (log_p - stein._centre(a)) + 1 - np.exp(log_p)
    for fields, ours in ((score, data.fields[:, :3]), (along, data.fields[:, 3:])):
        np.testing.assert_allclose(
            ours, fields / np.sqrt((fields**2).mean(axis=0) * 6), rtol=1e-5, atol=1e-6
        )


@pytest.mark.slow
def test_kernel_on_the_sphere_is_the_operator_applied_twice(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(4, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    gradient = rng.normal(size=(4, 3))
    data = stein._directions(x, gradient, np.zeros(3))
    width = float(data.width[0])

    def project(z, vector):
        return vector - z * (z @ vector) / (z @ z)

    def operate(field, z, s):
        def projected(y):
            return project(y, field(y / jnp.sqrt(y @ y)))

        return jnp.trace(jax.jacobian(projected)(z)) + s @ projected(z)

    def multiquadric(y, z):
        return 1 / jnp.sqrt(1 + (y - z) @ (y - z) / width)

    def table_of(kernel):
        def pair(one, two, s, t):
            def applied(y, direction):
                return operate(lambda z: direction * kernel(y, z), two, t)

            return sum(operate(lambda y, e=e: applied(y, e) * e, one, s) for e in jnp.eye(3))

        several = jax.vmap(jax.vmap(pair, (None, 0, None, 0)), (0, None, 0, None))
        table = np.asarray(jax.jit(several)(x, x, tangential, tangential))
        return table / np.diag(table).mean()

    with jax.enable_x64(True):
        tangential = np.array([project(one, g) for one, g in zip(x, gradient, strict=True)])
        expected = table_of(multiquadric) + table_of(lambda y, z: 1 + y @ z)
    ours = stein._spherical_kernel(data, data)
    np.testing.assert_allclose(ours, expected, atol=5e-6)


def test_centre_makes_the_two_fields_uncorrelated(seed):
    a = np.array([0.1, 0.5, 4.0])
    log_p = log_dirichlet(np.random.default_rng(seed), a, 200_000)
    score = a - a.sum() * np.exp(log_p)
    along = score * (log_p - stein._centre(a)) - np.expm1(log_p)
    for j in range(3):
        product = score[:, j] * along[:, j]
        assert checks.mean_z(product, 0.0, product.var()) > 1e-4


def test_sums_over_blocks_are_those_of_the_whole_table(seed):
    """600 samples: two whole blocks, and one that overlaps."""
    data = stein._log_ratios(
        log_dirichlet(np.random.default_rng(seed), np.ones(3), 600), *[np.ones(3)] * 2
    )
    table = np.asarray(stein.table_of(data, data, kernel=stein._log_ratio_kernel))
    sums, own = stein.row_sums(data, kernel=stein._log_ratio_kernel)
    np.testing.assert_allclose(sums, table.sum(axis=1), rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(own, np.diag(table), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "weights", slow_but([[1.0], [1.0, 0.5, 0.25], [1.0, *[0.1] * 30]], [1.0, 0.5, 0.25])
)
def test_null_law_of_known_eigenvalues(weights, seed):
    """A kernel of some features of normal variates: both tails of its null law, by simulation."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(1000, len(weights)))
    z = z @ np.linalg.inv(np.linalg.cholesky(z.T @ z / 1000)).T  # of covariance 1, exactly
    squares = rng.normal(size=(100_000, len(weights))) ** 2
    simulated = (squares - 1) @ weights
    for level in (0.9, 0.5, 0.1, 0.01, 0.001):
        at = np.quantile(simulated, 1 - level)
        result = stein.upper_tail(at, (z * weights) @ z.T)
        assert result == pytest.approx(level, rel=0.3 if level < 0.005 else 0.12)


def test_statistics_near_their_mean_have_a_p_value():
    """The solver took more than 100 iterations for about 1 in 100 of these, and raised an error."""
    angle = 2.4 * np.arange(20)
    apart = angle[:, None] - angle
    table = np.cos(apart) + 0.7 * np.cos(2 * apart) + 0.1 * np.cos(3 * apart)
    sizes = np.logspace(-14, -4, 300)
    result = [stein.upper_tail(at, table) for at in (*-sizes, *sizes)]
    np.testing.assert_allclose(result, result[0], atol=1e-4)


def test_statistics_beyond_all_others_have_the_p_value_0_or_1():
    """The root is at the end of the interval then, where no sign changes."""
    for at, expected in ((1e30, 0), (-1e30, 1)):
        assert stein.upper_tail(at, np.diag(np.ones(9), 1) + np.diag(np.ones(9), -1)) == expected


# --- What they see on the simplex.


@pytest.mark.parametrize("name", slow_but(LAWS, "dense", "sparse"))
def test_exact_draws_pass(name, seed):
    rng = np.random.default_rng(seed)
    a = LAWS[name]
    assert not checks.family({i: p_of(log_dirichlet(rng, a, 2000), a) for i in range(5)})


def stop_at(floor):
    return lambda log_p, rng: special.log_softmax(np.maximum(log_p, floor), axis=-1)


def some_far_away(log_p, rng):
    far = np.zeros(log_p.shape)
    far[: len(log_p) // 20, -1] = -1e5
    return special.log_softmax(log_p + far, axis=-1)


MUTANTS = {
    "sparse": stop_at(-20.0),
    "very sparse": stop_at(-200.0),
    "the paper's": some_far_away,
    "dense": lambda log_p, rng: special.log_softmax(1.1 * log_p, axis=-1),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_draws_are_seen(name, seed):
    """Of the same size as those that pass."""
    rng = np.random.default_rng(seed)
    log_p = MUTANTS[name](log_dirichlet(rng, LAWS[name], 2000), rng)
    assert p_of(log_p, LAWS[name]) < 1e-3


@pytest.mark.slow
def test_a_shape_two_per_cent_off_is_seen(seed):
    """Twenty categories at 0.1, 10,000 draws; no test of so many could tell one of three."""
    rng, a = np.random.default_rng(seed), np.full(20, 0.1)
    assert p_of(log_dirichlet(rng, a, 10_000), a) > 1e-3
    assert p_of(log_dirichlet(rng, 1.02 * a, 10_000), a) < 1e-3


exact_cir = draws.cir


def too_noisy(key, log_theta, a, h, **_):
    mean = jnp.exp(log_theta - h) - jnp.expm1(-h) * a
    theta = jnp.exp(exact_cir(key, log_theta, a, h))
    return jnp.log(jnp.maximum(jnp.abs(mean + 1.1 * (theta - mean)), 1e-38))


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [None, too_noisy])
def test_chains_of_scir(mutant, getkey, monkeypatch):
    """The ends of 4,000 chains, exact and with 10 % more noise in every step."""
    if mutant is not None:
        monkeypatch.setattr(scir.draws, "cir", mutant)
    a = np.array([3.5, 1.5, 0.5, 0.1], np.float32)
    given = estimators.Estimator(
        lambda key: (), lambda key, memory, position, batch: (batch, memory)
    )
    kernel = scir.build(given, 0.1, 0.5)
    update = functools.partial(scir.update, estimator=given, alpha=0.1, step_size=0.5)
    state = kernel.init(getkey(), jnp.broadcast_to(a, (4000, 4)))

    @jax.jit
    def run(key, state):
        keys = jax.random.split(key, 20)
        return jax.lax.scan(lambda s, k: (update(k, s, a - 0.1)[0], None), state, keys)[0]

    p = p_of(run(getkey(), state).position, a)
    assert p > 1e-3 if mutant is None else p < 1e-3


@pytest.mark.slow
def test_a_posterior_by_its_local_concentrations(seed):
    """A mixture of two Dirichlet laws, as the posterior of a factor (x_0 + 3 x_1)^2."""
    rng = np.random.default_rng(seed)
    alpha = np.array([0.3, 0.4, 2.0])

    def log_likelihood(log_p, batch):
        return 2 * jnp.log(jnp.exp(log_p[0]) + 3 * jnp.exp(log_p[1]))

    # (x_0 + 3 x_1)^2 = x_0^2 + 6 x_0 x_1 + 9 x_1^2, three Dirichlet laws.
    added = np.array([[2, 0, 0], [1, 1, 0], [0, 2, 0]])
    log_mass = special.gammaln(alpha + added).sum(axis=1) + np.log([1, 6, 9])
    which = rng.choice(3, p=special.softmax(log_mass), size=3000)
    log_p = np.concatenate(
        [log_dirichlet(rng, alpha + added[k], int((which == k).sum())) for k in range(3)]
    )
    counts_of = gradients.counts_of(log_likelihood)
    counts = jax.jit(jax.vmap(lambda x: counts_of(None, x, None)))(jnp.asarray(log_p))
    assert stein.stein_simplex(log_p, alpha + np.asarray(counts)).p_value > 1e-3
    assert stein.stein_simplex(log_p, alpha + 0.8 * np.asarray(counts)).p_value < 1e-3
    assert (
        stein.stein_simplex(log_p, alpha + np.asarray(counts), reference=[1.0, 2.0, 2.0]).p_value
        > 1e-3
    )


# --- What they see on the sphere.


def fisher(rng, mean, k, n):
    """Draws of the von Mises-Fisher law in three dimensions, by inversion."""
    u = rng.random(n)
    along = 1 + np.log(u + (1 - u) * np.exp(-2 * k)) / k
    normals = rng.normal(size=(n, 3))
    across = normals - (normals @ mean)[:, None] * mean
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    return along[:, None] * mean + np.sqrt(1 - along**2)[:, None] * across


MEAN = np.array([0.36, 0.48, 0.8])


@pytest.mark.slow
@pytest.mark.parametrize("k", [1e-3, 2.0, 50.0, 1e4])
def test_directions(k, seed):
    """Exact draws pass; a concentration half as large again, and a mean off by a fifth, do not."""
    rng = np.random.default_rng(seed)
    samples = [fisher(rng, MEAN, k, 2000) for _ in range(5)]
    assert not checks.family(
        {i: stein.stein_sphere(x, k * MEAN).p_value for i, x in enumerate(samples)}
    )
    if k >= 1:
        assert stein.stein_sphere(fisher(rng, MEAN, 1.5 * k, 2000), k * MEAN).p_value < 1e-3
    turned = MEAN + 0.3 / np.sqrt(max(k, 1)) * np.array([0.8, -0.6, 0.0])
    wrong = fisher(rng, turned / np.linalg.norm(turned), max(k, 2.0), 2000)
    assert stein.stein_sphere(wrong, k * MEAN).p_value < 1e-3


@pytest.mark.slow
def test_a_concentration_two_per_cent_off_is_seen(getkey):
    """In twenty dimensions, 10,000 draws of the von Mises-Fisher law."""
    mean = np.zeros(20)
    mean[3] = 1.0
    for factor in (1.0, 1.02):
        x = draws.von_mises_fisher(getkey(), mean, 300.0 * factor, shape=(10_000,))
        p = stein.stein_sphere(x, 300.0 * mean).p_value
        assert p > 1e-3 if factor == 1 else p < 1e-3


@pytest.mark.slow
def test_a_law_with_a_score_that_changes(seed):
    """Bingham's exp(-3 z^2), by rejection; the score of each sample is given."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(20_000, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    kept = x[rng.random(len(x)) < np.exp(-3 * x[:, 2] ** 2)][:3000]
    assert stein.stein_sphere(kept, -6 * kept * [0, 0, 1]).p_value > 1e-3
    assert stein.stein_sphere(kept, -4 * kept * [0, 0, 1]).p_value < 1e-3
    assert stein.stein_sphere(kept, -6 * kept * [0, 0, 1], reference=[0, 0, 1]).p_value > 1e-3


# --- Calibration, at length.


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_p_values_are_uniform(name, seed):
    """200 of them: DKWM at 1e-4, which allows distances of 0.16, and few below 0.01."""
    rng = np.random.default_rng(seed)
    p = np.array([p_of(log_dirichlet(rng, LAWS[name], 1500), LAWS[name]) for _ in range(200)])
    assert checks.dkwm(p, stats.uniform.cdf) > 1e-4
    assert (p < 0.01).sum() <= 10


@pytest.mark.slow
@pytest.mark.parametrize(("p", "k"), [(2, 3.0), (3, 1e-2), (3, 20.0), (50, 200.0)])
def test_p_values_on_the_sphere_are_uniform(p, k, getkey):
    mean = np.zeros(p)
    mean[-1] = 1.0
    x = np.asarray(draws.von_mises_fisher(getkey(), mean, k, shape=(200, 1000)))
    result = np.array([stein.stein_sphere(row, k * mean).p_value for row in x])
    assert checks.dkwm(result, stats.uniform.cdf) > 1e-4
    assert (result < 0.01).sum() <= 8


@pytest.mark.slow
def test_the_papers_shape_two_per_cent_off_is_seen(seed):
    """Of 40,000 draws: its three large categories and seven rare ones."""
    rng, a = np.random.default_rng(seed), LAWS["the paper's"]
    assert p_of(log_dirichlet(rng, a, 40_000), a) > 1e-3
    assert p_of(log_dirichlet(rng, 1.02 * a, 40_000), a) < 1e-3


# --- Errors.

SOME = np.log(np.linspace([0.1, 0.9], [0.9, 0.1], 9))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(3), np.ones(3)), "n, K"),
        ((np.log(np.full((9, 2), 0.4)), np.ones(2)), "log-probabilities"),
        ((np.full((9, 2), -np.inf), np.ones(2)), "finite"),
        ((np.log(np.full((9, 2), 0.5)), np.ones(2)), "all the same"),
        ((SOME, np.ones(3)), "concentration"),
        ((SOME, np.array([1.0, 0.0])), "positive"),
        ((SOME, np.full((9, 2), -1.0)), "reference"),
    ],
)
def test_bad_input_of_the_simplex(arguments, message):
    with pytest.raises(ValueError, match=message):
        stein.stein_simplex(*arguments)


@pytest.mark.parametrize(
    ("x", "score", "message"),
    [
        (np.ones((9, 3)), np.ones(3), "unit"),
        (np.eye(3)[[0, 1, 2, 0]], np.ones(2), "score"),
        (np.eye(3)[[0, 1, 2, 0]], np.full(3, np.nan), "score"),
        (np.eye(3)[:2], np.ones(3), "n at least 4"),
        (np.eye(3)[[0] * 5], np.ones(3), "all the same"),
    ],
)
def test_bad_input_of_the_sphere(x, score, message):
    with pytest.raises(ValueError, match=message):
        stein.stein_sphere(x, score)
