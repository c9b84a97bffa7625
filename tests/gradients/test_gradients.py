"""Gradients and generalised counts: unbiased, of the variance they promise, right in the kernels.

Averages over all subsets of the data are exact and never fail by chance; the other tolerances are
stated with their standard errors.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import mixture_target as mixture

from simplex_jax._src import batches, estimators, gradient_noise, gradients
from simplex_jax._src.runtime import driver
from simplex_jax._src.samplers import scir, sgld, sgrld, smld

# Logistic regression with an intercept: 30 data.
_RNG = np.random.default_rng(3)
X = jnp.asarray(_RNG.standard_normal((30, 2)), jnp.float32)
Y = jnp.asarray(_RNG.random(30) < 1 / (1 + np.exp(-X @ np.array([1.0, -2.0]) - 0.5)), jnp.float32)
POSITION = {"slope": jnp.array([0.8, -1.5]), "intercept": jnp.array(0.2)}
MODE = {"slope": jnp.array([0.9, -1.4]), "intercept": jnp.array(0.3)}  # near it


def log_prior(position):
    return -((position["slope"] ** 2).sum() + position["intercept"] ** 2) / 8


def log_likelihood(position, batch):
    x, y = batch
    logit = x @ position["slope"] + position["intercept"]
    return -jnp.logaddexp(0.0, jnp.where(y > 0, -logit, logit)).sum()


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def exact(position=POSITION):
    def log_posterior(p):
        return log_prior(p) + log_likelihood(p, (X, Y))

    return flat(jax.grad(log_posterior)(position))


def reference_gradient():
    return gradients.full_gradient(log_likelihood, MODE, (X, Y), block_size=7)


def euclidean():
    size = len(Y)
    return {
        "posterior": gradients.posterior(log_prior, log_likelihood, size),
        "control variate": gradients.control_variate(
            log_prior, log_likelihood, size, MODE, reference_gradient()
        ),
        "running": gradients.running(log_prior, log_likelihood, (X, Y), MODE, block_size=7),
    }


def over_all_batches(estimator, position, data, n, wrap=lambda batch: batch):
    """The estimates from all subsets of n data: flat, [subsets, entries]."""
    size = len(jax.tree.leaves(data)[0])
    rows = jnp.array(list(itertools.combinations(range(size), n)))
    memory = estimator.init(jax.random.key(0))

    def estimate(index):
        batch = jax.tree.map(lambda leaf: leaf[index], data)
        return estimator.estimate(jax.random.key(0), memory, position, wrap(batch))[0]

    result = jax.jit(jax.vmap(estimate))(rows)
    return np.concatenate(
        [np.reshape(leaf, (len(rows), -1)) for leaf in jax.tree.leaves(result)], 1
    )


def test_estimates_are_unbiased_and_variates_vary_less():
    """Exact averages over all pairs of data; near the mode a variate has 1/20 of the variance."""
    spread = {}
    for name, estimator in euclidean().items():
        wrap = (lambda b: batches.Visit(b, False)) if name == "running" else (lambda b: b)
        result = over_all_batches(estimator, POSITION, (X, Y), 2, wrap)
        np.testing.assert_allclose(result.mean(axis=0), exact(), rtol=2e-4)
        spread[name] = result.var(axis=0).sum()
    assert spread["control variate"] < spread["posterior"] / 20
    assert spread["running"] == pytest.approx(spread["control variate"], rel=1e-3)


def test_the_variance_of_a_variate_falls_with_the_squared_distance():
    variate = euclidean()["control variate"]
    at = [
        jax.tree.map(lambda m, p, s=share: m + s * (p - m), MODE, POSITION) for share in (1, 0.1, 0)
    ]
    far, near, there = (over_all_batches(variate, p, (X, Y), 2).var(axis=0).sum() for p in at)
    assert 70 < far / near < 140
    assert there < 1e-6 * near


def test_full_gradient_is_that_of_all_data():
    np.testing.assert_allclose(
        flat(reference_gradient()),
        flat(jax.grad(log_likelihood)(MODE, (X, Y))),
        rtol=1e-5,
    )
    whole = gradients.full_gradient(log_likelihood, MODE, (X, Y), block_size=10)
    np.testing.assert_allclose(flat(whole), flat(reference_gradient()), rtol=1e-5)
    with pytest.raises(ValueError, match=r"^data .*int32"):  # else taken modulo 2^32
        gradients.full_gradient(lambda m, x: m * x.sum(), jnp.array(1.0), np.array([2**40, 1]))


def test_running_moves_its_reference_when_it_is_due(getkey):
    estimator = euclidean()["running"]
    memory = estimator.init(getkey())
    np.testing.assert_allclose(flat(memory.gradient), flat(reference_gradient()), rtol=1e-5)
    estimate = jax.jit(estimator.estimate)
    batch = (X[:3], Y[:3])
    _, same = estimate(getkey(), memory, POSITION, batches.Visit(batch, jnp.array(False)))
    np.testing.assert_array_equal(flat(same.position), flat(MODE))
    result, memory = estimate(getkey(), memory, POSITION, batches.Visit(batch, jnp.array(True)))
    np.testing.assert_array_equal(flat(memory.position), flat(POSITION))
    np.testing.assert_allclose(flat(result), exact(), rtol=1e-4)
    with pytest.raises(ValueError, match=r"batches\.Visit"):
        estimator.estimate(getkey(), memory, POSITION, batch)


def test_density_is_the_gradient(getkey):
    estimator = gradients.density(lambda p: log_prior(p) + log_likelihood(p, (X, Y)))
    result, _ = estimator.estimate(getkey(), (), POSITION, None)
    np.testing.assert_allclose(flat(result), exact(), rtol=1e-5)
    estimator = gradients.density(
        lambda p, batch: log_prior(p) + log_likelihood(p, batch), needs_batch=True
    )
    result, _ = estimator.estimate(getkey(), (), POSITION, (X, Y))
    np.testing.assert_allclose(flat(result), exact(), rtol=1e-5)


@pytest.mark.slow
def test_measured_variance(getkey):
    """Of counts it is known, N^2 p (1 - p) / n; the standard error is 2% with 10,000 repeats."""
    labels, n = jnp.array([0] * 5 + [1] * 3 + [2] * 2), 4
    p = np.array([0.5, 0.3, 0.2])
    estimator = estimators.categorical(10)
    stream = batches.uniform(labels, n)
    result = gradient_noise.variance(estimator, getkey(), jnp.zeros(3), stream, 10_000)
    np.testing.assert_allclose(result, 100 * p * (1 - p) / n, rtol=0.1)
    spread = {}
    for name, estimator in euclidean().items():
        stream = batches.uniform((X, Y), 3)
        if name == "running":
            stream = batches.visits(stream, 1, first=1000)
        spread[name] = flat(
            gradient_noise.variance(estimator, getkey(), POSITION, stream, 1000)
        ).sum()
    assert spread["control variate"] < spread["posterior"] / 20
    assert spread["running"] < spread["posterior"] / 20


def test_fisher_as_a_matrix_is_the_covariance_of_a_batch():
    """The mean over all pairs of data, drawn with replacement, is the covariance of an estimate."""
    pairs = jnp.array(list(itertools.product(range(6), repeat=2)))
    data = (X[:6], Y[:6])
    position = {"slope": POSITION["slope"], "intercept": jnp.array([0.2])}

    def likelihood(p, batch):
        return log_likelihood({"slope": p["slope"], "intercept": p["intercept"][0]}, batch)

    variance = gradient_noise.fisher(likelihood, 6, matrix=True)
    estimator = gradients.posterior(lambda p: jnp.zeros(()), likelihood, 6)

    def both(index):
        batch = jax.tree.map(lambda leaf: leaf[index], data)
        result = estimator.estimate(jax.random.key(0), (), position, batch)[0]
        return variance(position, batch), result

    matrices, result = jax.vmap(both)(pairs)
    diagonal = gradient_noise.fisher(likelihood, 6)
    for name, size in (("slope", 2), ("intercept", 1)):
        wanted = np.cov(np.asarray(result[name]).T, bias=True).reshape(size, size)
        np.testing.assert_allclose(matrices[name].mean(axis=0), wanted, rtol=1e-3, atol=1e-5)
        entries = diagonal(position, data)[name]
        whole = variance(position, data)[name]
        np.testing.assert_allclose(jnp.diagonal(whole), entries, rtol=1e-5)
        np.testing.assert_allclose(whole, whole.T)
    with pytest.raises(ValueError, match=r"^matrix=True .*\(\)$"):
        gradient_noise.fisher(log_likelihood, 6, matrix=True)(POSITION, data)


@pytest.mark.parametrize(
    "size", [100_000, 3_000_000_000, np.int64(3_000_000_000), np.int32(100_000), jnp.array(100_000)]
)
def test_large_numbers_of_data_are_no_int32(size):
    """Traced, an integer would be one: the square of 100,000 overflowed without a word."""
    batch, at = jnp.array([1.0, 3.0]), jnp.array(0.0)

    def likelihood(mean, x):
        return -jnp.sum((x - mean) ** 2) / 2

    variance = gradient_noise.fisher(likelihood, size)
    posterior = gradients.posterior(lambda mean: 0.0 * mean, likelihood, size)
    apply = jax.jit(lambda function, *arguments: function(*arguments))
    np.testing.assert_allclose(apply(variance, at, batch), float(size) ** 2, rtol=1e-6)
    gradient = apply(posterior.estimate, jax.random.key(0), (), at, batch)[0]
    np.testing.assert_allclose(gradient, 2.0 * size, rtol=1e-6)


def counts_estimators():
    counts_of = gradients.counts_of(mixture.log_likelihood)
    reference = jnp.log(jnp.array([0.55, 0.27, 0.18]))
    size = len(mixture.DATA)
    known = counts_of(jax.random.key(0), reference, mixture.DATA)
    variate = estimators.control_variate(counts_of, size, reference, known)
    return {
        "plain": gradients.counts(mixture.log_likelihood, size),
        "variate": variate,
        "plain with total": gradients.counts(mixture.log_likelihood, size, total=20.0),
        "variate with total": gradients.with_total(variate, 20.0),
    }


def test_generalised_counts_are_unbiased_and_variates_vary_less():
    log_omega = jnp.log(jnp.array([0.5, 0.3, 0.2]))
    omega = np.exp(np.asarray(log_omega, np.float64))
    # Those of a mixture are the expected counts of its components.
    share = omega * mixture.COMPONENTS[mixture.DATA]
    expected = (share / share.sum(axis=1, keepdims=True)).sum(axis=0)
    with_total = expected + omega * (20.0 - len(mixture.DATA))
    spread = {}
    for name, estimator in counts_estimators().items():
        result = over_all_batches(estimator, log_omega, jnp.asarray(mixture.DATA), 2)
        wanted = with_total if "total" in name else expected
        np.testing.assert_allclose(result.mean(axis=0), wanted, rtol=1e-4)
        if "total" in name:
            np.testing.assert_allclose(result.sum(axis=1), 20.0, rtol=1e-5)
        spread[name] = result.var(axis=0).sum()
    assert spread["variate"] < spread["plain"] / 20
    assert spread["variate with total"] < spread["plain with total"] / 20


def test_counts_of_multinomial_data_are_the_counts(getkey):
    labels = {"a": jnp.array([0, 2, 2, 1]), "b": jnp.array([1, 1, 0, 1])}

    def log_likelihood(log_omega, batch):
        return sum(log_omega[name][batch[name]].sum() for name in ("a", "b"))

    position = {"a": jnp.log(jnp.array([0.2, 0.3, 0.5])), "b": jnp.log(jnp.array([0.4, 0.6]))}
    estimator = gradients.counts(log_likelihood, size=8)
    result, _ = estimator.estimate(getkey(), (), position, labels)
    wanted, _ = estimators.categorical(8).estimate(getkey(), (), position, labels)
    for name in position:
        np.testing.assert_array_equal(result[name], wanted[name])
    # A total of N gives them back, and what is above it is added in proportion.
    for total, above in ((8.0, 0.0), ({"a": 10.0, "b": jnp.array([10.0])}, 2.0)):
        result, _ = gradients.with_total(estimator, total).estimate(getkey(), (), position, labels)
        for name in position:
            np.testing.assert_allclose(
                result[name], wanted[name] + above * jnp.exp(position[name]), rtol=1e-5
            )


def test_counts_do_not_depend_on_how_the_likelihood_goes_on_off_the_simplex(getkey):
    def extended(log_omega, batch):
        total = jax.nn.logsumexp(log_omega, axis=-1).sum()
        return mixture.log_likelihood(log_omega, batch) + 3.0 * total + total**2

    log_omega = jnp.log(jnp.array([0.5, 0.3, 0.2]))
    result = [
        gradients.counts(f, 14, total=14.0).estimate(getkey(), (), log_omega, mixture.DATA)[0]
        for f in (mixture.log_likelihood, extended)
    ]
    np.testing.assert_allclose(result[0], result[1], rtol=1e-5)


ROWS = 10_000


def nothing(state, info):
    """What the driver collects; one function, so that it compiles once."""
    return ()


def relative_moments(getkey, law, seed, build, h, steps, total=None):
    """Errors of mean and variance of small-step runs from exact draws, in units of the truth.

    Standard errors are 0.01 (of means, over standard deviations) and 0.015 (of variances).
    """
    # The gradient of the sum over rows is that of each.
    estimator = gradients.counts(mixture.log_likelihood, len(mixture.DATA), total)
    kernel = build(estimator, mixture.ALPHA, h)
    state = kernel.init(getkey(), jnp.asarray(law.draw(seed, ROWS), jnp.float32))
    stream = batches.full(jnp.asarray(mixture.DATA))
    state, _ = driver.run(getkey(), kernel, state, stream, steps, collect=nothing)
    omega = np.exp(np.asarray(state.position, np.float64))
    mean = (omega.mean(axis=0) - law.mean) / np.sqrt(law.variance)
    return mean, omega.var(axis=0) / law.variance - 1


@pytest.fixture(scope="module")
def law():
    return mixture.law()


@pytest.mark.slow
@pytest.mark.parametrize(("sampler", "h", "steps"), [(sgrld, 0.01, 100), (smld, 0.01, 100)])
def test_first_order_kernels_sample_a_target_that_is_no_dirichlet(
    sampler, h, steps, law, getkey, seed
):
    mean, variance = relative_moments(getkey, law, seed, sampler.build, h, steps)
    assert np.abs(mean).max() < 0.05
    assert np.abs(variance).max() < 0.08

    def half(estimator, alpha, h):
        return sampler.build(gradients.counts(mixture.log_likelihood, 7), alpha, h)

    mean, _ = relative_moments(getkey, law, seed, half, h, steps)
    assert np.abs(mean).max() > 0.08


@pytest.mark.slow
def test_scir_with_a_total_is_of_first_order_on_a_target_that_is_no_dirichlet(law, getkey, seed):
    """Variances are off by -0.20, -0.12, -0.065 at h = 1, 0.5, 0.25; means hardly."""
    bias = {}
    for h in (1.0, 0.25):
        mean, variance = relative_moments(
            getkey, law, seed, scir.build, h, int(6 / h), total=float(len(mixture.DATA))
        )
        assert np.abs(mean).max() < 0.05
        bias[h] = -variance.mean()
    assert bias[0.25] < 0.1
    assert 2.0 < bias[1.0] / bias[0.25] < 5.0


def test_bad_input_is_named(getkey):
    for size in (0, -1, np.nan, np.inf):
        with pytest.raises(ValueError, match="size"):
            gradients.posterior(log_prior, log_likelihood, size)
        with pytest.raises(ValueError, match="size"):
            gradients.control_variate(log_prior, log_likelihood, size, MODE, MODE)
        with pytest.raises(ValueError, match="size"):
            gradients.counts(mixture.log_likelihood, size)
    for total in (0.0, -1.0, np.nan, np.array([1.0, 2.0]), {"a": 0.0}):
        with pytest.raises(ValueError, match="total"):
            gradients.counts(mixture.log_likelihood, 14, total)
    with pytest.raises(ValueError, match="block_size"):
        gradients.running(log_prior, log_likelihood, (X, Y), MODE, block_size=0)
    with pytest.raises(ValueError, match="data"):
        gradients.running(log_prior, log_likelihood, (X, Y[:3]), MODE)
    with pytest.raises(ValueError, match="repeats"):
        gradient_noise.variance(estimators.categorical(3), getkey(), jnp.zeros(3), None, 1)
    unsummed = gradients.posterior(log_prior, lambda p, batch: batch[1] * p["intercept"], 30)
    with pytest.raises(ValueError, match=r"log_likelihood .*\(30,\)"):
        unsummed.estimate(getkey(), (), POSITION, (X, Y))
    variate = gradients.control_variate(log_prior, log_likelihood, 30, MODE, jnp.zeros(3))
    with pytest.raises(ValueError, match=r"reference gradient .*PyTreeDef"):
        variate.estimate(getkey(), (), POSITION, (X, Y))


@pytest.mark.slow
def test_a_start_where_the_density_is_not_finite_is_refused(getkey):
    estimator = gradients.density(lambda p: jnp.log(p["x"]).sum() - p["x"].sum())
    good = gradients.start(estimator, {"x": np.array([1, 2])})
    assert good["x"].dtype == jnp.float32
    for bad in (-1.0, 0.0):
        with pytest.raises(ValueError, match=r"^the log density .*finite"):
            gradients.start(estimator, {"x": jnp.array([1.0, bad])})
    root = gradients.density(lambda p: -jnp.sqrt(jnp.abs(p)).sum())
    with pytest.raises(ValueError, match=r"^the gradient of .*log density"):
        gradients.start(root, jnp.array([1.0, 0.0]))
    for bad in (np.nan, np.inf, "one", 1j):
        with pytest.raises(ValueError, match=r"position\['x'\]"):
            gradients.start(estimator, {"x": bad})
    with pytest.raises(ValueError, match="one leaf"):
        gradients.start(estimator, {})
    # One that needs a batch cannot tell, and neither can a traced position.
    gradients.start(gradients.posterior(log_prior, log_likelihood, 30), POSITION)
    jax.jit(lambda x: gradients.start(estimator, {"x": x}))(jnp.array([-1.0]))
    with pytest.raises(ValueError, match="the log density"):
        sgld.build(estimator, 0.1).init(getkey(), {"x": jnp.array([-1.0])})
