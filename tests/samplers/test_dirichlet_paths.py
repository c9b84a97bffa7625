"""Paths and forests of probability vectors: joint tests, limits, quadrature, and extremes.

Each statistical test fails by chance with a probability of at most 1e-3 at a fresh seed.
"""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from support import native_code
from support import statistics_checks as checks
from support.marks import slow_but

from simplex_jax._src.draws import native
from simplex_jax._src.native.library import NativeCodeWarning
from simplex_jax._src.samplers import dirichlet_paths, seating

# A chain; two chains, of which one branches; groups.
FORESTS = {
    "chain": ((-1, 0, 1, 2), (0.0, 0.4, 1.3, 1.0), (5, 0, 9, 4)),
    "forest": ((-1, 0, 0, -1, 1, 3), (0.0, 0.2, 1.0, 0.0, 0.5, 2.0), (3, 0, 6, 2, 10, 1)),
    "groups": ((-1, -1, -1), (0.0, 0.0, 0.0), (5, 1, 9)),
}
V, DEVIATION, PACE = 4, 0.6, (0.0, 1.0)
BETA = np.array([0.3, 0.6, 1.0, 0.5])


def log_dirichlet(rng, a):
    """Logs of Dirichlet draws, with the boost of small shapes."""
    log_g = np.log(rng.gamma(a + 1)) + np.log(rng.random(a.shape)) / a
    return log_g - special.logsumexp(log_g, axis=-1, keepdims=True)


def prior(rng, forest, number, concentration=None, pace=None):
    """Exact draws: log vectors [number, T, V], log base, c and r."""
    parents, gaps, _ = forest
    base = log_dirichlet(rng, np.broadcast_to(BETA, (number, V)))
    c = (DEVIATION * np.abs(rng.standard_cauchy(number))) ** -2
    r = np.exp(PACE[0] + PACE[1] * rng.normal(size=number))
    c = c if concentration is None else np.full(number, concentration)
    r = r if pace is None else np.full(number, pace)
    vectors = np.empty((number, len(parents), V))
    for t, parent in enumerate(parents):
        if parent < 0:
            mean, w = np.exp(base), np.ones(number)
        else:
            e = -np.expm1(-r * gaps[t])[:, None]
            w = -1 / np.expm1(-2 * r * gaps[t])
            mean = (1 - e) * np.exp(vectors[:, parent]) + e * np.exp(base)
        vectors[:, t] = log_dirichlet(rng, np.maximum((c * w)[:, None] * mean, 1e-12))
    return vectors, base, c, r


def statistics(forest, vectors, base, c, r):
    p, b = np.exp(vectors), np.exp(base)
    log_c, log_r = np.log(c), np.log(r)
    values = {"log c": log_c, "log c^2": log_c**2, "log r": log_r, "log r^2": log_r**2}
    values |= {"c r": log_c * log_r, "base": b[:, 0], "base^2": (b**2).sum(1)}
    values |= {"base c": log_c * b.max(1), "base third": b[:, 2] ** 3}
    for t, parent in enumerate(forest[0]):
        near = (p[:, t] * (b if parent < 0 else p[:, parent])).sum(1)
        values |= {
            f"mean {t}": p[:, t, 1],
            f"square {t}": (p[:, t] ** 2).sum(1),
            f"base {t}": (p[:, t] * b).sum(1),
            f"parent {t}": near,
            f"c {t}": near * log_c,
            f"r {t}": near * log_r,
            f"log {t}": np.maximum(vectors[:, t, 3], -20),
        }
    return values


def build(forest, **options):
    parents, gaps, _ = forest
    options = {"deviation": DEVIATION, "pace_prior": PACE, "beta": BETA} | options
    return dirichlet_paths.build(gaps=gaps, parents=parents, **options)


def state_of(vectors, base, c, r):
    arrays = (jnp.asarray(x, jnp.float32) for x in (vectors, base, c, r))
    return dirichlet_paths.State(*arrays, jnp.zeros((), jnp.int32))


def joint(name, key, seed, number=20_000, steps=6, **options):
    """P-values: updates alternate with fresh counts from exact draws, which must stay exact."""
    forest = FORESTS[name]
    fixed = {name: options.get(name) for name in ("concentration", "pace")}
    rng = np.random.default_rng(seed)
    reference, start = (prior(rng, forest, number, **fixed) for _ in range(2))
    state, update = state_of(*start), jax.jit(build(forest, **options).update)
    for key_update in jax.random.split(key, steps):
        p = np.exp(np.asarray(state.position, np.float64))
        p /= p.sum(axis=-1, keepdims=True)
        counts = rng.multinomial(np.array(forest[2]), p)
        state, _ = update(key_update, state, jnp.asarray(counts))
    end = [np.asarray(x, np.float64) for x in state[:4]]
    before, after = statistics(forest, *reference), statistics(forest, *end)
    result = {}
    for statistic, x in before.items():
        y = after[statistic]
        if np.ptp(x) == 0:
            np.testing.assert_allclose(y, x, rtol=1e-5)
            continue
        z = (y.mean() - x.mean()) / np.sqrt((x.var() + y.var()) / number)
        result[statistic] = 2 * stats.norm.sf(abs(z))
    return checks.family(result)


def use_xla(monkeypatch):
    monkeypatch.setattr(native, "lowered_paths", lambda call, native, xla, *given: xla(*given))


@pytest.fixture(params=slow_but(["native", "xla"], "native"))
def lowering(request, monkeypatch):
    """Run a test on native code and on XLA."""
    if request.param == "native":
        native_code.needs(native.PATHS)
    else:
        use_xla(monkeypatch)
    return request.param


@pytest.mark.usefixtures("lowering")
@pytest.mark.parametrize("name", slow_but(FORESTS, "forest"))
def test_the_joint_distribution_is_kept(name, getkey, seed):
    assert joint(name, getkey(), seed) == {}


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"moves": 0}, {"pace": 0.7}, {"concentration": 5.0}])
@pytest.mark.parametrize("name", FORESTS)
def test_the_joint_distribution_is_kept_for_longer(name, options, getkey, seed):
    assert joint(name, getkey(), seed, number=100_000, steps=12, **options) == {}


def not_passed_on(monkeypatch):
    right = dirichlet_paths._pass_tables

    def wrong(key, state, counts, *rest):
        return counts, *right(key, state, counts, *rest)[1:]

    monkeypatch.setattr(dirichlet_paths, "_pass_tables", wrong)


def base_forgotten(monkeypatch):
    right = dirichlet_paths._pass_tables

    def wrong(*given):
        customers, base_tables, seated = right(*given)
        return customers, 0 * base_tables, seated

    monkeypatch.setattr(dirichlet_paths, "_pass_tables", wrong)


def wrong_precision(monkeypatch):
    """1 / (1 - exp(-r gap)), in the update only: the test's prior has the right one."""
    monkeypatch.setattr(dirichlet_paths, "_precision", lambda time: -1 / jnp.expm1(-time))


def root_like_others(monkeypatch):
    """A vector without a parent has the precision of one with a parent at a gap of 1."""

    def times(self, pace):
        gaps = jnp.where(self.parents < 0, 1.0, self.gaps)
        return pace * gaps.reshape(-1, *(1,) * pace.ndim)

    monkeypatch.setattr(dirichlet_paths._Forest, "times", times)


def all_inherited(monkeypatch):
    """All tables of a vector with a parent pass to it, none to the base."""
    right = dirichlet_paths._mixture

    def wrong(log_base, log_parent, time):
        log_q, odds = right(log_base, log_parent, time)
        return log_q, jnp.where(jnp.isfinite(odds), jnp.inf, odds)

    monkeypatch.setattr(dirichlet_paths, "_mixture", wrong)


def rest_forgotten(monkeypatch):
    """The moves given the vectors take the uncounted categories for one of half their size."""
    right = dirichlet_paths._rest
    monkeypatch.setattr(dirichlet_paths, "_rest", lambda *given: right(*given) - 0.7)


def prior_forgotten(monkeypatch):
    """A prior of c^-1/2 that is flat."""
    right = dirichlet_paths._log_prior

    def wrong(prior, c, r):
        return right(prior, c, r) - 0.5 * jnp.log(c)

    monkeypatch.setattr(dirichlet_paths, "_log_prior", wrong)


FIXED = {"concentration": 5.0, "pace": 1.0}
MUTANTS = {
    not_passed_on: {},
    base_forgotten: {},
    wrong_precision: FIXED,
    root_like_others: {},
    all_inherited: {},
    rest_forgotten: {},
    prior_forgotten: {"number": 20_000},
}


@pytest.mark.parametrize("mutant", slow_but(MUTANTS, not_passed_on))
def test_mutants_are_seen(mutant, monkeypatch, getkey, seed):
    use_xla(monkeypatch)
    mutant(monkeypatch)
    assert joint("forest", getkey(), seed, **{"number": 8_000, "moves": 2} | MUTANTS[mutant]) != {}


def test_the_setting_of_a_mutant_passes_without_it(getkey, seed):
    assert joint("forest", getkey(), seed, **FIXED) == {}


@pytest.mark.usefixtures("lowering")
def test_without_counts_vectors_have_the_stated_moments(getkey, seed):
    """Mean p_0 and, to first order in 1 / c, variance p_0 / c, across any gaps."""
    number, c = 20_000, 100.0
    gaps, base = (0.0, 1e-3, 0.5, 1e3), np.array([0.2, 0.5, 0.3])
    kernel = dirichlet_paths.build(1e6 * base, gaps, concentration=c, pace=1.0)
    state = kernel.init(getkey(), jnp.broadcast_to(jnp.asarray(base), (number, 4, 3)))
    state, _ = jax.jit(kernel.update)(getkey(), state, jnp.zeros((number, 4, 3)))
    p = np.exp(np.asarray(state.position, np.float64))
    np.testing.assert_allclose(p.mean(axis=0), np.tile(base, (4, 1)), atol=0.002)
    first_order = base * (1 - base) / c
    np.testing.assert_allclose(p.var(axis=0), np.tile(first_order, (4, 1)), rtol=0.06)
    kernel = dirichlet_paths.build(1.0, gaps, deviation=DEVIATION, pace_prior=PACE)
    counts = jnp.zeros((4_000, 4, 3))
    state = kernel.init(getkey(), counts + 1)
    update = jax.jit(kernel.update)
    for key in jax.random.split(getkey(), 40):
        state, _ = update(key, state, counts)
    relative = np.asarray(state.concentration, np.float64) ** -0.5
    p_values = {
        "c": checks.dkwm(relative, stats.halfcauchy(scale=DEVIATION).cdf),
        "r": checks.dkwm(np.log(np.asarray(state.pace, np.float64)), stats.norm(*PACE).cdf),
    }
    assert checks.family(p_values) == {}


def posterior_moments(kernel, counts, key, number, steps):
    """Means and squares of vectors [T, V] of many chains after some updates, and their errors."""
    counts = jnp.broadcast_to(jnp.asarray(counts, jnp.float32), (number, *np.shape(counts)))
    state = kernel.init(key, jnp.ones(counts.shape))
    update = jax.jit(kernel.update)
    for key_update in jax.random.split(key, steps):
        state, _ = update(key_update, state, counts)
    return np.exp(np.asarray(state.position, np.float64))


def moment_checks(p, mean, square):
    """P-values of means and mean squares of draws [n, T, V] against exact ones."""
    result = {}
    for index in itertools.product(*(range(side) for side in p.shape[1:])):
        x = p[(slice(None), *index)]
        result[index, "mean"] = checks.mean_z(x, mean[index], x.var())
        result[index, "square"] = checks.mean_z(x**2, square[index], (x**2).var())
    return checks.family(result)


@pytest.mark.usefixtures("lowering")
@pytest.mark.parametrize("times", [1, 3])
def test_a_large_concentration_is_one_vector_for_all(times, getkey):
    """It has the distribution of a topic of LDA."""
    counts = np.array([[3, 0, 1], [0, 2, 2], [4, 0, 0]])[:times]
    kernel = dirichlet_paths.build(0.5, [0.0, 0.1, 2.0][:times], concentration=1e7, pace=1.0)
    p = posterior_moments(kernel, counts, getkey(), 20_000, 20)
    a = 0.5 + counts.sum(axis=0)
    total = a.sum()
    mean, square = (np.tile(x, (times, 1)) for x in (a / total, a * (a + 1) / total / (total + 1)))
    assert moment_checks(p, mean, square) == {}


@pytest.mark.usefixtures("lowering")
def test_a_large_pace_is_independent_vectors_given_the_base(getkey):
    counts, base, c = np.array([[3, 0, 1], [0, 2, 2], [4, 0, 0]]), np.array([0.5, 0.2, 0.3]), 6.0
    kernel = dirichlet_paths.build(1e7 * base, [0.0, 0.1, 2.0], concentration=c, pace=1e3)
    p = posterior_moments(kernel, counts, getkey(), 20_000, 3)
    a = c * base + counts
    total = a.sum(axis=1, keepdims=True)
    assert moment_checks(p, a / total, a * (a + 1) / total / (total + 1)) == {}


@functools.cache
def two_vectors(counts, base, c, e, w, nodes=220):
    """Exact moments for T = 2 and V = 3, given the base, by quadrature over the first vector.

    Gauss-Jacobi rules in stick-breaking coordinates take the density of the first vector; the
    second is Dirichlet given the first.
    """
    n, base = np.array(counts), np.array(base)
    a = c * base + n[0]
    grids = []
    for shape, rest in ((a[0], a[1] + a[2]), (a[1], a[2])):
        x, weight = special.roots_jacobi(nodes, rest - 1, shape - 1)
        grids.append(((x + 1) / 2, weight / weight.sum()))
    (x, wx), (y, wy) = grids
    x, y = x[:, None], y[None]
    p = np.stack([x + 0 * y, (1 - x) * y, (1 - x) * (1 - y)], axis=-1)
    shapes = c * w * ((1 - e) * p + e * base)
    total, after = shapes.sum(-1), shapes.sum(-1) + n[1].sum()
    log_evidence = special.gammaln(total) - special.gammaln(after)
    log_evidence += (special.gammaln(shapes + n[1]) - special.gammaln(shapes)).sum(-1)
    weight = wx[:, None] * wy * np.exp(log_evidence)
    weight = (weight / weight.sum())[..., None]
    b, after = shapes + n[1], after[..., None]
    second, square = b / after, b * (b + 1) / after / (after + 1)
    moments = [(weight * value).sum((0, 1)) for value in (p, second, p**2, square)]
    return np.stack(moments[:2]), np.stack(moments[2:])


@pytest.mark.usefixtures("lowering")
@pytest.mark.parametrize("gap", slow_but([0.05, 0.5], 0.5))
def test_two_vectors_against_quadrature(gap, getkey):
    counts, base, c = ((3, 0, 1), (0, 2, 9)), (0.5, 0.2, 0.3), 6.0
    e, w = -np.expm1(-gap), -1 / np.expm1(-2 * gap)
    mean, square = two_vectors(counts, base, c, e, w)
    kernel = dirichlet_paths.build(1e7 * np.array(base), [0.0, gap], concentration=c, pace=1.0)
    p = posterior_moments(kernel, counts, getkey(), 30_000, 25)
    assert moment_checks(p, mean, square) == {}
    wrong = mean.copy()
    wrong[0] += [0.01, -0.01, 0]
    assert moment_checks(p, wrong, square) != {}


SEATS = [(1, 0.3, 0.4), (5, 2.0, 0.9), (40, 100.0, 0.3), (300, 1e5, 0.5), (3000, 100.0, 0.15)]


@pytest.mark.parametrize(("n", "a", "p"), SEATS)
def test_tables_and_their_kinds(n, a, p, getkey):
    """The exact distribution of tables by convolution, and of the first kind among them."""
    size = 20_000
    given = (jnp.full(size, value) for value in (float(n), a, np.log(p / (1 - p))))
    keys = jax.random.split(getkey(), 3)
    tables, first = (np.asarray(x, int) for x in jax.jit(seating.seat)(keys, *given))
    law = np.ones(1)
    for i in range(n):
        q = a / (a + i)
        law = np.convolve(law, [1 - q, q])
    assert (first <= tables).all()
    thinned = sum(
        probability * stats.binom.pmf(np.arange(n + 1), k, p)
        for k, probability in enumerate(law)
        if probability > 1e-12
    )
    assert np.isclose(law.sum(), 1)
    result = {
        "tables": checks.chi_square(np.bincount(tables, minlength=n + 1), law),
        "first": checks.chi_square(np.bincount(first, minlength=n + 1), thinned),
    }
    assert checks.family(result) == {}


@pytest.mark.usefixtures("lowering")
def test_tables_of_many_restaurants(getkey):
    """Moments of sums of Bernoulli variables, in an array of which most is empty."""
    n, a = np.array([0, 1, 2, 40, 3000]), np.array([0.05, 0.3, 3.0, 0.05, 2.0])
    customers = np.zeros((20_000, 50))
    customers[:, ::10] = n
    concentration = np.ones(50)
    concentration[::10] = a
    given = jnp.asarray(customers, jnp.float32), jnp.asarray(concentration, jnp.float32)
    key = getkey()
    drawn = np.asarray(jax.jit(seating.tables)(key, *given), float)
    assert not drawn[customers == 0].any()
    some = given[0][:10], given[1]
    np.testing.assert_array_equal(seating.tables(key, *some), drawn[:10])  # without jit
    result = {}
    for place in (1, 2, 3, 4):
        p = a[place] / (a[place] + np.arange(n[place]))
        variance = (p * (1 - p)).sum()
        of_place = drawn[:, 10 * place]
        if not variance:
            assert (of_place == 1).all()
            continue
        result["mean", place] = checks.mean_z(of_place, p.sum(), variance)
        square = (of_place - p.sum()) ** 2
        fourth = (p * (1 - p) * (1 - 6 * p * (1 - p))).sum() + 3 * variance**2
        result["variance", place] = checks.mean_z(square, variance, fourth - variance**2)
    assert checks.family(result) == {}


def test_the_error_of_stirlings_formula():
    a = np.array([1e-12, 1e-6, 0.01, 0.5, 1, 2, 3.9, 4, 10, 1e3, 1e8])
    exact = special.gammaln(a) - ((a - 0.5) * np.log(a) - a + 0.5 * np.log(2 * np.pi))
    found = seating.stirling(jnp.asarray(a, jnp.float32))
    np.testing.assert_allclose(found, exact, atol=2e-6)


@pytest.mark.parametrize("tables", [1e3, 1e7, 1e9])
def test_ratios_given_tables_have_the_digits_of_float32(tables, seed):
    """Near the mode, where moves are accepted; sums of logs are wrong by 1 at 1e7 tables."""
    rng = np.random.default_rng(seed)
    parents, gaps = np.arange(-1, 9), np.full(10, 0.5)
    c, r = tables * rng.uniform(0.3, 3), rng.uniform(0.1, 2)
    h = np.append(np.inf, r * gaps[1:])
    w = -1 / np.expm1(-2 * h)
    seated = np.full(10, tables)
    inherited = np.round(seated * rng.uniform(0.3, 0.9, 10) * (parents >= 0))
    log_q = -seated / (c * w) * rng.uniform(0.5, 1, 10)
    new = r * (1 + rng.normal(size=200) / np.sqrt(tables))

    def ratios(dtype):
        def cast(x, shape=()):
            return jnp.broadcast_to(
                jnp.asarray(np.float32(x), dtype).reshape(-1, *shape), (10, 200)
            )

        forest = dirichlet_paths._Forest(jnp.asarray(gaps, dtype), jnp.asarray(parents))
        told = dirichlet_paths._Seated(*(cast(x, (1,)) for x in (seated, inherited, seated)))
        some = jnp.asarray(np.float32(new), dtype)
        one = jnp.ones(200, dtype)
        return np.asarray(
            dirichlet_paths._log_ratio_of_paces(
                some,
                one * jnp.asarray(np.float32(r), dtype),
                one * jnp.asarray(np.float32(c), dtype),
                cast(log_q, (1,)),
                told,
                forest,
            ),
            np.float64,
        )

    found = ratios(jnp.float32)
    with jax.enable_x64(True):
        exact = ratios(jnp.float64)
    assert np.ptp(exact) > 1
    np.testing.assert_allclose(found, exact, rtol=1e-3, atol=5e-3)


def moved(counts, vectors, c, dtype, lowering):
    """Return c and r after moves given vectors."""
    position, base = (jnp.asarray(x, dtype) for x in vectors)
    rng = np.random.default_rng(0)
    count = 60
    lengths = 0.3 * 10 ** -rng.uniform(0, 4, (count, 2))
    factors = jnp.asarray(np.float32(np.exp(lengths * rng.normal(size=(count, 2)))), dtype)
    limits = jnp.asarray(np.float32(-rng.exponential(size=count)), dtype)
    forest = (
        jnp.asarray(np.float32([0, 0.2, 1.0, 0.05]), dtype),
        jnp.asarray([-1, 0, 1, 1], jnp.int32),
    )
    given = [jnp.asarray(counts, dtype), position, base, *(jnp.asarray(x, dtype) for x in (c, 0.7))]
    prior = jnp.asarray(np.float32([0.2, 0.0, 1.5]), dtype)
    move = native.move_paths if lowering == "native" else dirichlet_paths._move_by_xla
    return [float(x) for x in jax.jit(move)(*given, factors, limits, *forest, prior)]


@pytest.mark.parametrize("c", [1.0, 1e3, 1e7])
def test_moves_given_vectors_have_the_digits_of_float32(c, lowering, seed):
    """The same moves are accepted as in float64."""
    rng = np.random.default_rng(seed)
    base = log_dirichlet(rng, np.full(300, 0.5))
    position = np.zeros((4, 300))
    for t, (parent, h) in enumerate([(-1, np.inf), (0, 0.14), (1, 0.7), (1, 0.035)]):
        e, w = -np.expm1(-h), -1 / np.expm1(-2 * h)
        mean = e * np.exp(base) + (1 - e) * np.exp(position[max(parent, 0)]) * (parent >= 0)
        position[t] = log_dirichlet(rng, np.maximum(c * w * mean, 1e-12))
    vectors = [np.float32(np.maximum(x, -1e12)) for x in (position, base)]
    counts = rng.poisson(0.3, (4, 300))
    found = moved(counts, vectors, c, jnp.float32, lowering)
    with jax.enable_x64(True):
        exact = moved(counts, vectors, c, jnp.float64, "xla")
    assert exact[2] > 3
    np.testing.assert_allclose(found, exact, rtol=1e-5)


def both_lowerings(name, position, counts, key, c, r, monkeypatch):
    """Return tables and vectors of native code and of XLA, from the same keys."""
    parents, gaps, _ = FORESTS[name]
    forest = dirichlet_paths._Forest(jnp.asarray(gaps), jnp.asarray(parents, jnp.int32))
    base = jnp.log(jnp.mean(jnp.exp(position), axis=-2))
    state = dirichlet_paths.State(position, base, c, r, jnp.zeros((), jnp.int32))

    def draw(state, counts):
        customers, base_tables, sums = dirichlet_paths._pass_tables(
            key, state, counts, c, r, forest
        )
        vectors = dirichlet_paths._draw_vectors(key, customers, base, c, r, forest)
        return customers, base_tables, sums, vectors

    by_native = jax.jit(lambda *given: draw(*given))(state, counts)
    use_xla(monkeypatch)
    return by_native, jax.jit(lambda *given: draw(*given))(state, counts)


@pytest.mark.parametrize("scale", slow_but([0.05, 3.0, 1e4], 0.05))
@pytest.mark.parametrize("name", FORESTS)
def test_native_code_draws_what_xla_draws(name, scale, monkeypatch, getkey, seed):
    """Up to rounding, which changes a table in some 1e5."""
    native_code.needs(native.PATHS)
    rng = np.random.default_rng(seed)
    shape = (3, len(FORESTS[name][0]), 700)
    counts = jnp.asarray(rng.poisson(scale * rng.gamma(0.2, 5, shape)), jnp.float32)
    position = jnp.asarray(log_dirichlet(rng, np.full(shape, 0.1)), jnp.float32)
    c, r = jnp.asarray([0.5, 300.0, 1e6]), jnp.asarray([0.3, 1e-3, 20.0])
    found, expected = both_lowerings(name, position, counts, getkey(), c, r, monkeypatch)
    for x, y in zip(jax.tree.leaves(found[:3]), jax.tree.leaves(expected[:3]), strict=True):
        assert (np.asarray(x) != np.asarray(y)).mean() < 3e-3
        np.testing.assert_allclose(x.sum(), y.sum(), rtol=1e-3)
    far = abs(np.asarray(found[3]) - expected[3]) > 1e-4 * np.maximum(
        1, abs(np.asarray(expected[3]))
    )
    assert far.mean() < 3e-3


def test_native_code_does_not_depend_on_threads_nor_on_the_width_of_vectors(getkey, seed):
    native_code.needs(native.PATHS)
    rng = np.random.default_rng(seed)
    shape = (4, 5, 2_000)
    counts = jnp.asarray(rng.poisson(rng.gamma(0.2, 5, shape)), jnp.float32)
    position = jnp.asarray(log_dirichlet(rng, np.full(shape, 0.5)), jnp.float32)
    base, time = position[:, 0], jnp.asarray([np.inf, 0.3, 1e-3, np.inf, 2.0]) * jnp.ones((4, 1))
    total = jnp.asarray([1.0, 50.0, 1e3, 1e5])[:, None] * jnp.ones(5)
    parents = jnp.asarray([-1, 0, 1, -1, 3], jnp.int32)
    keys = jax.random.bits(getkey(), (5, 3, 2))
    factors, limits = jnp.exp(0.1 * jax.random.normal(getkey(), (4, 9, 2))), jnp.full((4, 9), -1.0)
    prior = jnp.asarray([0.2, 0.0, 1.0])

    def calls(width=16, part=slice(None)):
        here = [x[part] for x in (counts, position, base, time, total)]
        tables = native.pass_tables(keys, *here, parents, width=width)
        again = here[0], *here[2:]
        vectors = native.draw_vectors(keys[:, 0], *again, parents, width=width)
        c_r = total[part, 0], time[part, 1]
        moves = factors[part], limits[part], jnp.ones(5), parents, prior
        return tables, vectors, native.move_paths(*here[:3], *c_r, *moves, width=width)

    whole = jax.jit(calls)()
    for width in (4, 8):
        for x, y in zip(jax.tree.leaves(calls(width)), jax.tree.leaves(whole), strict=True):
            np.testing.assert_array_equal(x, y)
    # One path is work for one thread, with the words that it has among others.
    for x, y in zip(jax.tree.leaves(calls(part=slice(1))), jax.tree.leaves(whole), strict=True):
        np.testing.assert_array_equal(x, y[:1])


@pytest.mark.slow
def test_a_mutant_of_native_code_does_not_draw_what_xla_draws(tmp_path, monkeypatch, getkey, seed):
    """Customers of a vector without its children's tables."""
    native_code.needs(native.PATHS)
    wrong = native_code.mutated(
        native.PATHS, tmp_path, "paths.inl", "above[places[j]] += inherited[j]", "(void)above"
    )
    monkeypatch.setattr(native, "pass_tables", functools.partial(native.pass_tables, prefix=wrong))
    with pytest.raises(AssertionError):
        test_native_code_draws_what_xla_draws("chain", 3.0, monkeypatch, getkey, seed)


def test_a_library_of_another_version_is_named(monkeypatch, getkey):
    """And XLA does its work."""
    native_code.needs(native.PATHS)
    old = dataclasses.replace(native.PATHS, calls=(("pass_tables", "SimplexOfNoVersion"),))
    monkeypatch.setattr(native, "PATHS", old)
    kernel = dirichlet_paths.build(0.5, [0.0, 1.0])
    state = kernel.init(getkey(), jnp.ones((2, 3)))
    with pytest.warns(NativeCodeWarning, match=r"_library\.so is of"):
        state, _ = kernel.update(getkey(), state, jnp.ones((2, 3)))
    assert np.isfinite(state.position).all()


def check_finite(kernel, counts, key, steps=3):
    counts = jnp.asarray(counts)
    state = kernel.init(key, jnp.ones(counts.shape))
    update = jax.jit(kernel.update)
    for key_update in jax.random.split(key, steps):
        state, info = update(key_update, state, counts)
        for leaf in jax.tree.leaves((state, info)):
            assert np.isfinite(leaf).all()
    sums = np.exp(np.asarray(state.position, np.float64)).sum(axis=-1)
    np.testing.assert_allclose(sums, 1, rtol=1e-4)
    return state


GAPS = (0.0, 1e-3, 1.0, 1e3, 1e-3)
MILLIONS = np.zeros((5, 6))
MILLIONS[:, 0], MILLIONS[1, 1], MILLIONS[3, 2] = 1e7, 1e7, 5


@pytest.mark.usefixtures("lowering")
def test_counts_of_millions_and_gaps_from_thousandths_to_thousands(getkey):
    kernel = dirichlet_paths.build(1e-3, GAPS, concentration=1.0, pace=5.0)
    state = check_finite(kernel, MILLIONS, getkey())
    expected = MILLIONS / MILLIONS.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(state.position), expected, atol=2e-3)


@pytest.mark.usefixtures("lowering")
def test_concentrations_of_millions(getkey):
    """Millions of tables."""
    check_finite(dirichlet_paths.build(1e-3, GAPS), MILLIONS, getkey())
    kernel = dirichlet_paths.build(0.1, GAPS, concentration=1e7, pace=1e-3)
    check_finite(kernel, MILLIONS, getkey(), steps=1)


@pytest.mark.usefixtures("lowering")
def test_shapes_down_to_the_smallest(getkey):
    kernel = dirichlet_paths.build(1e-4, np.ones(8), concentration=1e-3, pace=1.0)
    check_finite(kernel, np.zeros((5, 8, 100)), getkey())


@pytest.mark.usefixtures("lowering")
@pytest.mark.parametrize("shape", [(500, 1000), (3, 100_000)])
def test_many_categories_and_times(shape, getkey, seed):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.02, shape) * rng.integers(1, 50, shape)
    check_finite(dirichlet_paths.build(0.05, np.ones(shape[0])), counts, getkey())


def test_beta_may_be_drawn_given_the_tables(getkey):
    counts = np.array([[5, 0, 1], [2, 0, 9]])
    by_function = dirichlet_paths.build(lambda tables: 0 * tables + 0.5, [0.0, 1.0])
    ends = [
        kernel.update(jax.random.key(1), kernel.init(getkey(), jnp.ones((2, 3))), counts)[0]
        for kernel in (by_function, dirichlet_paths.build(0.5, [0.0, 1.0]))
    ]
    np.testing.assert_array_equal(ends[0].position, ends[1].position)


@pytest.mark.parametrize("options", [{}, {"concentration": 5.0, "pace": 0.3}])
def test_the_position_keeps_its_precision_in_a_program_of_64_bits(options, getkey):
    counts = np.array([[1, 2, 0], [0, 3, 1], [4, 0, 0]])
    with jax.enable_x64(True):
        kernel = dirichlet_paths.build(1.0, [0.0, 4.0, 4.0], **options)
        state = kernel.init(getkey(), jnp.ones((3, 3), jnp.float32))
        state = jax.jit(kernel.update)(getkey(), state, counts)[0]
    assert {leaf.dtype.name for leaf in state[:4]} == {"float32"}


def test_an_update_continues_within_scan_and_vmap(getkey):
    kernel = dirichlet_paths.build(0.5, [0.0, 1.0, 0.0], parents=[-1, 0, -1])
    counts = jnp.array([[5, 0, 1], [2, 0, 9], [0, 1, 0]])
    state = kernel.init(getkey(), jnp.ones((2, 3, 3)))

    def update(state, key):
        return kernel.update(key, state, jnp.stack([counts, counts]))

    state, info = jax.jit(lambda s, k: jax.lax.scan(update, s, k))(
        state, jax.random.split(getkey(), 5)
    )
    assert state.position.shape == (2, 3, 3)
    assert int(state.step) == 5
    assert info.concentration.shape == (5, 2)
    assert info.base_tables.shape == (5, 2, 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gaps": [0.0, -1.0]}, r"^gaps .*1"),
        ({"gaps": [0.0, np.nan]}, r"^gaps .*1"),
        ({"gaps": []}, r"^gaps .*\(0,\)$"),
        ({"parents": [-1, 1]}, r"parents\[1\] is 1; "),
        ({"parents": [-1, 0.0]}, "parents must be 2 integers"),
        ({"parents": [-1]}, "parents must be 2 integers"),
        ({"concentration": -1.0}, r"^concentration .*-1\.0$"),
        ({"pace": "slow"}, r"^pace .*'slow'$"),
        ({"deviation": 0.0}, r"^deviation .*0\.0$"),
        ({"pace_prior": (0.0, -1.0)}, "standard deviation of pace_prior"),
        ({"pace_prior": (np.inf, 1.0)}, "pace_prior must be finite"),
        ({"pace_prior": 0.5}, r"^pace_prior .*0\.5$"),
        ({"moves": -1}, r"moves .* 0"),
        ({"beta": 0.0}, r"^beta .*0\.0$"),
    ],
)
def test_bad_arguments_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        dirichlet_paths.build(**({"beta": 1.0, "gaps": [0.0, 1.0]} | options))


@pytest.mark.slow
def test_bad_positions_and_counts_are_named(getkey):
    kernel = dirichlet_paths.build(1.0, [0.0, 1.0])
    with pytest.raises(ValueError, match=r"position .* \[..., 2, V\]"):
        kernel.init(getkey(), jnp.ones((3, 4)))
    with pytest.raises(ValueError, match="concentration of shape"):
        dirichlet_paths.build(1.0, [0.0, 1.0], concentration=[1.0, 2.0]).init(
            getkey(), jnp.ones((2, 4))
        )
    with pytest.raises(ValueError, match=r"beta of shape \(3,\)"):
        dirichlet_paths.build(jnp.ones(3), [0.0, 1.0]).init(getkey(), jnp.ones((2, 4)))
    state = kernel.init(getkey(), jnp.ones((2, 4)))
    with pytest.raises(ValueError, match=r"^counts .*3\)$"):
        kernel.update(getkey(), state, jnp.ones((2, 3)))
    for wrong in (-1.0, 0.5, np.nan):
        counts = jnp.ones((2, 4)).at[1, 2].set(wrong)
        with pytest.raises(ValueError, match=r"^counts .*2\)$"):
            kernel.update(getkey(), state, counts)
        assert np.isnan(jax.jit(kernel.update)(getkey(), state, counts)[0].position).any()
