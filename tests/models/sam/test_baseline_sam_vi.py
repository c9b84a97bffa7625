"""Variational inference for SAM: its bound, its ascents, and the evidence of a tiny problem."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import special, stats
from support import tiny_lda

from simplex_jax._src.geometry import von_mises_fisher as vmf
from simplex_jax._src.models.sam import joint, variational
from simplex_jax._src.models.sam import variational as sam_bound
from simplex_jax._src.runtime.driver import run

K, V = 3, 6
STEEP = 3e-3  # of logarithms of weights, which end within 1e-3 of their maximum
PRIOR = {"alpha": 1.5, "sigma": 15.0, "kappa0": 8.0, "kappa1": 60.0}


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def corpus(rng, size=30, words=V, topics=None):
    """Documents about mixtures of two orthogonal directions of words, some words left out."""
    if topics is None:
        topics = unit(np.repeat(np.eye(2), words // 2, axis=1))
    vectors = rng.dirichlet([0.3, 0.3], size) @ topics + 0.1 * rng.normal(size=(size, words))
    vectors[rng.random(vectors.shape) < 0.2] = 0
    return unit(vectors[np.abs(vectors).sum(axis=1) > 0])


def hyper_of(vectors, **changes):
    mean = unit(vectors.sum(axis=0) + 0.3 * np.arange(vectors.shape[1]))  # not the corpus mean
    return joint.hyperparameters(jnp.asarray(mean), **{**PRIOR, **changes})


def log_c(dimension, k):
    nu = dimension / 2 - 1
    return nu * np.log(k) - dimension / 2 * np.log(2 * np.pi) - np.log(special.ive(nu, k)) - k


def mean_length(dimension, k):
    return special.ive(dimension / 2, k) / special.ive(dimension / 2 - 1, k)


def reference_bound(vectors, h, x, weights, xi, mu):
    """The bound of every factor written out, given the natural parameter of q(mu), [V]."""
    alpha, sigma, kappa0, kappa1, mean = (np.asarray(leaf, float) for leaf in h)
    dimension, a = vectors.shape[1], mean_length(vectors.shape[1], xi)
    size_mu = np.linalg.norm(mu)
    mean_mu = mean_length(dimension, size_mu) * mu / size_mu
    bound = log_c(dimension, kappa0) + kappa0 * mean @ mean_mu
    bound -= log_c(dimension, size_mu) + mu @ mean_mu
    for direction in x:
        bound += log_c(dimension, sigma) + sigma * a * direction @ mean_mu
        bound -= log_c(dimension, xi) + xi * a
    for v, w in zip(vectors, weights, strict=True):
        law = stats.dirichlet(w)
        logs = special.digamma(w) - special.digamma(w.sum())
        bound += law.entropy() + (alpha - 1) * logs.sum()
        bound += special.gammaln(alpha * len(w)) - len(w) * special.gammaln(alpha)
        second = law.cov() + np.outer(law.mean(), law.mean())
        products = a**2 * x @ x.T
        np.fill_diagonal(products, 1)
        rho = a * law.mean() @ (x @ v) / np.sqrt(np.sum(second * products))
        bound += log_c(dimension, kappa1) + kappa1 * rho
    return bound


@pytest.mark.slow
def test_bound_is_that_of_its_factors_with_the_best_corpus_mean(seed):
    with jax.enable_x64(True):
        rng = np.random.default_rng(seed)
        vectors = corpus(rng)
        h, xi = hyper_of(vectors), 40.0
        x, weights = unit(rng.normal(size=(K, V))), rng.gamma(2.0, size=(len(vectors), K))
        a = mean_length(V, xi)
        terms = sam_bound.documents(h, weights, vectors @ x.T, x @ x.T, a)
        result = sam_bound.total(h, jnp.mean(terms), len(vectors), x, xi, a) * len(vectors)
        mu = np.asarray(h.kappa0 * h.mean) + float(h.sigma) * a * x.sum(axis=0)
        assert float(result) == pytest.approx(reference_bound(vectors, h, x, weights, xi, mu))
        # Any other corpus mean gives less, that of the published code too.
        published = mu / np.linalg.norm(mu) * float(h.kappa0)
        for other in (published, 1.05 * mu, mu + 0.3 * rng.normal(size=V)):
            assert reference_bound(vectors, h, x, weights, xi, other) < float(result) - 1e-4


@pytest.mark.slow
def test_natural_gradient_is_the_gradient_over_the_fisher_information(seed):
    with jax.enable_x64(True):
        rng = np.random.default_rng(seed)
        vectors, x = corpus(rng), unit(rng.normal(size=(K, V)))
        h, weights = hyper_of(vectors), rng.gamma(2.0, size=(len(vectors), K))
        of = (vectors @ x.T, x @ x.T, 0.8)
        natural = sam_bound.natural_gradient(h, weights, *of)
        plain = jax.grad(lambda w: jnp.sum(sam_bound.documents(h, w, *of)))(weights)
        fisher = np.apply_along_axis(np.diag, 1, special.polygamma(1, weights))
        fisher -= special.polygamma(1, weights.sum(axis=1))[:, None, None]
        np.testing.assert_allclose(np.einsum("dkl,dl->dk", fisher, natural), plain, rtol=1e-6)


@pytest.mark.parametrize("block", [7 * V, 1 << 20])
def test_words_in_blocks_are_the_words(seed, block, monkeypatch):
    monkeypatch.setattr(joint, "_BLOCK", block)
    rng = np.random.default_rng(seed)
    vectors = corpus(rng)
    documents = joint.to_device(sp.csr_array(vectors))
    ids = jnp.asarray(rng.permutation(len(vectors))[:20], jnp.int32)
    words = sam_bound.words_of(documents, ids, K, V)
    rows = vectors[np.asarray(documents.corpus.order)[ids]]
    x, c = rng.normal(size=(K, V)), rng.normal(size=(20, K))
    np.testing.assert_allclose(words.cosines(jnp.asarray(x, jnp.float32)), rows @ x.T, atol=1e-5)
    np.testing.assert_allclose(words.collect(jnp.asarray(c, jnp.float32)), c.T @ rows, atol=1e-5)


class Problem(NamedTuple):
    """A start, and the documents as a dense table."""

    table: np.ndarray
    hyper: joint.Hyperparameters
    x: jax.Array
    weights: jax.Array


def problem(seed):
    rng = np.random.default_rng(seed)
    vectors = corpus(rng)
    # Topics so far off that a lower concentration is always better would not show mutants of it.
    x = unit(vectors[:K] + 0.2 * rng.normal(size=(K, V)))
    weights = rng.gamma(2.0, size=(len(vectors), K))
    return Problem(vectors, hyper_of(vectors), jnp.asarray(x), jnp.asarray(weights))


def climbed(module, given, ascent, xi=15.0):
    """What an ascent of the module gains of the bound, and how steep the bound is where it ends."""
    steps, h = 40, given.hyper
    words = module.Words(lambda x: given.table @ x.T, lambda c: c.T @ given.table)
    topics = module.Topics(h, given.weights, 1.0, jnp.asarray(1e-6))

    @jax.jit
    def climb(x, weights, xi):
        a, cosines, missed = vmf.mean_length(V, xi), words.cosines(x), 0.0
        if ascent == "weights":
            weights, _ = module.climb_weights(h, weights, cosines, x @ x.T, a, steps)
        elif ascent == "topics":
            x, near, _ = module.climb_topics(topics, words, x, cosines, a, steps)
            missed = near - given.table @ x.T
        else:
            again = functools.partial(module.climb_concentration, topics, x, cosines)
            xi = jax.lax.fori_loop(0, steps, lambda _, xi: again(xi), xi)
        return (x, weights, xi), missed

    def bound(x, weights, xi):
        a = vmf.mean_length(V, xi)
        terms = sam_bound.documents(h, weights, given.table @ x.T, x @ x.T, a)
        return sam_bound.total(h, jnp.mean(terms), len(given.table), x, xi, a)

    start = given.x, given.weights, jnp.asarray(xi)
    end, missed = climb(*start)
    if np.abs(missed).max() > 1e-9:
        return -np.inf, np.inf  # the cosines are not those of the topics
    number = {"topics": 0, "weights": 1, "xi": 2}[ascent]
    value, slope = jax.jit(jax.value_and_grad(bound, number))(*end)
    if ascent == "topics":
        slope = slope - end[0] * jnp.sum(slope * end[0], axis=1, keepdims=True)
    return float(value - bound(*start)), float(jnp.abs(slope * end[number]).max())


MUTANTS = {
    "weights go down": ("weights", "weights * jnp.exp(ascent)", "weights * jnp.exp(-ascent)"),
    "no rollback": ("topics", "& ~(gain > 0)", "& (rate < 0)"),
    "no Gram matrix": ("topics", "words.collect(by_cosine) + by_topic", "words.collect(by_cosine)"),
    "not of all topics": ("xi", "x, length) / num_topics", "x, length)"),
}


@pytest.mark.slow
def test_ascents_reach_a_maximum_and_mutants_do_not(seed):
    with jax.enable_x64(True):
        given, gain = problem(seed), {}
        for ascent in ("weights", "topics", "xi"):
            gain[ascent], slope = climbed(sam_bound, given, ascent)
            assert gain[ascent] > 0.01, ascent
            assert slope < STEEP, ascent
        for name, (ascent, old, new) in MUTANTS.items():
            result, slope = climbed(tiny_lda.mutated(sam_bound, old, new), given, ascent)
            right = result > 0.98 * gain[ascent] and slope < STEEP
            assert not right, (name, result, slope, gain[ascent])


def fitted(vectors, getkey, hyper, topics=K, steps=25, **options):
    """The bounds over a run, per document, and its last state."""
    documents = joint.to_device(sp.csr_array(vectors))
    shape = (topics, vectors.shape[1])
    kernel, stream = variational.build(documents, shape, hyper=hyper, **options)
    state = kernel.init(getkey(), jax.random.normal(getkey(), shape))
    state, result = run(
        getkey(), kernel, state, stream, steps, collect=lambda state, info: info.bound
    )
    return result, state


@pytest.mark.slow
@pytest.mark.parametrize("learn", [False, True])
def test_bound_never_falls(seed, getkey, learn):
    vectors = corpus(np.random.default_rng(seed), size=60)
    result, state = fitted(vectors, getkey, hyper_of(vectors), learn_concentration=learn)
    assert np.diff(result).min() > -1e-5 * np.ptp(result)
    assert result[-1] > result[0] + 1
    np.testing.assert_allclose(np.linalg.norm(state.position, axis=1), 1, atol=1e-6)
    assert (float(state.concentration) != PRIOR["sigma"]) == learn


def log_evidence(vectors, h, points=120):
    """Log p(v) of documents on the circle and two topics, by quadrature; mu is integrated out."""
    alpha, sigma, kappa0, kappa1, mean = (np.asarray(leaf, float) for leaf in h)
    angle = 2 * np.pi * np.arange(points) / points
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    first, second = circle[:, None, None, :], circle[None, :, None, :]
    nodes, weights = np.polynomial.legendre.leggauss(60)
    theta = (nodes + 1) / 2
    mixed = theta[:, None] * first + (1 - theta[:, None]) * second
    mixed /= np.maximum(np.linalg.norm(mixed, axis=-1, keepdims=True), 1e-12)
    log_theta = stats.beta(alpha, alpha).logpdf(theta) + np.log(weights / 2)
    pull = np.linalg.norm(kappa0 * mean + sigma * (first + second)[:, :, 0], axis=-1)
    log_p = log_c(2, kappa0) + 2 * log_c(2, sigma) - log_c(2, np.maximum(pull, 1e-9))
    for v in vectors:
        log_p += special.logsumexp(log_theta + log_c(2, kappa1) + kappa1 * mixed @ v, axis=-1)
    return special.logsumexp(log_p) + 2 * np.log(2 * np.pi / points)


@pytest.mark.slow
def test_bound_is_near_the_log_evidence_and_below(seed, getkey):
    """By no more than what the factors, and two labellings of the topics, can cost."""
    angle = np.array([0.1, 0.3, 1.2, 1.5, 0.8, 0.2])
    vectors = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    h = hyper_of(vectors, alpha=1.2, sigma=6.0, kappa0=4.0, kappa1=40.0)
    exact = log_evidence(vectors, h)
    result, _ = fitted(vectors, getkey, h, topics=2, steps=60, learn_concentration=True)
    gap = exact - 6 * result[-1]
    assert 0 < gap < 6


@pytest.mark.slow
def test_batches_find_what_all_documents_find(seed, getkey):
    vectors = corpus(np.random.default_rng(seed), size=60)
    h = hyper_of(vectors)
    best, _ = fitted(vectors, getkey, h)
    noisy, _ = fitted(vectors, getkey, h, batch_size=20, steps=150)
    assert abs(noisy[-50:].mean() - best[-1]) < 0.1 * np.ptp(best)


BAD = {
    "shape must be": ({"shape": (3,)}, {}),
    r"^shape\[0\] .*0$": ({"shape": (0, V)}, {}),
    "at most 6 topics": ({"shape": (7, V)}, {}),
    "have word 5": ({"shape": (3, 4)}, {}),
    "mean": ({}, {}),
    "batch_size": ({}, {"batch_size": 0}),
    "step_size": ({}, {"step_size": 1.5}),
    "tolerance": ({}, {"tolerance": -1.0}),
}


@pytest.mark.parametrize("message", BAD)
def test_what_is_wrong_is_named(seed, message):
    vectors = corpus(np.random.default_rng(seed))
    given, options = BAD[message]
    hyper = hyper_of(vectors[:, :5] + 0.1 if message == "mean" else vectors)
    with pytest.raises(ValueError, match=message):
        variational.build(
            joint.to_device(sp.csr_array(vectors)),
            given.get("shape", (K, V)),
            hyper=hyper,
            **options,
        )


def test_starts_are_checked(seed, getkey):
    vectors = corpus(np.random.default_rng(seed))
    documents = joint.to_device(sp.csr_array(vectors))
    kernel, _ = variational.build(documents, (K, V), hyper=hyper_of(vectors))
    with pytest.raises(ValueError, match="shape"):
        kernel.init(getkey(), jnp.ones((V, K)))
    with pytest.raises(ValueError, match="not 0"):
        kernel.init(getkey(), jnp.zeros((K, V)))
