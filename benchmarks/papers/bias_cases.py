"""The chains of `bias`: every kernel on every target that it can sample."""

import functools
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import bias_targets
import jax
import jax.numpy as jnp
import numpy as np
from bias_targets import DENSE, MIXTURE, SPARSE, Posterior, Statistics

from simplex_jax import batches, draws, estimators, gradients
from simplex_jax.base import Kernel, PyTree
from simplex_jax.batches import Stream
from simplex_jax.estimators import Estimator
from simplex_jax.geometry import convex, mirror
from simplex_jax.samplers import (
    cir,
    gbm,
    mld,
    myula,
    plmc,
    recipe,
    reflected_cir,
    rld,
    scir,
    sghmc,
    sgld,
    sgnht,
    sgrhmc,
    sgrld,
    smld,
)
from simplex_jax.samplers.positive import Evidence, LogEvidence

MINIBATCH = 2


class Case(NamedTuple):
    """Chains of one kernel on one target.

    Attributes:
        build: `(step_size) -> Kernel` of one chain.
        stream: Batches of one chain.
        start: Positions to start from, [chains, ...], by exact draws.
        read: `(position) -> point`, of which the moments are taken.
        truth: Exact moments.
        largest: The largest step size; the others are halves, quarters and so on of it.
        relaxation: About how long the chain remembers, in units of the step size.
    """

    build: Callable[[float], Kernel]
    stream: Stream
    start: np.ndarray
    read: Callable[[PyTree], jax.Array]
    truth: Statistics
    largest: float
    relaxation: float


class Scale(NamedTuple):
    """Largest step size and relaxation time of a kernel."""

    largest: float
    relaxation: float


def log_softmax_with_reference(y: jax.Array) -> jax.Array:
    """Return log omega of y_j = log(omega_j / omega_K), j < K."""
    return jax.nn.log_softmax(jnp.append(y, 0))


def softmax_with_reference(y: jax.Array) -> jax.Array:
    """Return omega of y_j = log(omega_j / omega_K), j < K."""
    return jnp.exp(log_softmax_with_reference(y))


def itself(x: jax.Array) -> jax.Array:
    """Return a position that is a point already."""
    return x


def stretched(z: tuple, v: tuple) -> tuple:
    """Return D(z) v for D = diag(1 / (1 + y^2)), a diffusion that needs a correction."""
    return (v[0] / (1 + z[0] ** 2),)


# Kernels of counts.
SIMPLEX = {
    "SCIR": (scir.build, Scale(2.0, 1.0)),
    "reflected Euler": (reflected_cir.build, Scale(0.4, 1.0)),
    "SGRLD": (sgrld.build, Scale(0.1, 1.0)),
    "SGRHMC": (sgrhmc.build, Scale(2.4, 2.0)),
    "SMLD": (smld.build, Scale(0.3, 0.5)),
}
# Kernels of gradients, on the log ratios.
EUCLIDEAN = {
    "SGLD": (sgld.build, Scale(0.3, 0.5)),
    "recipe": (
        functools.partial(recipe.build, diffusion=stretched, coordinatewise=True),
        Scale(0.3, 1.0),
    ),
    "SGHMC": (functools.partial(sghmc.build, friction=3.0), Scale(0.4, 1.0)),
    "SGNHT": (functools.partial(sgnht.build, friction=3.0), Scale(0.1, 1.0)),
}
CORRECTED = Scale(0.1, 1.0)


def simplex_cases(
    target: Posterior,
    chains: int,
    generator: np.random.Generator,
    batch_size: int | None = None,
    only: Collection[str] | None = None,
) -> dict[str, Case]:
    """Return the cases of a posterior of category weights, of full data or of batches.

    Args:
        target: The posterior.
        chains: Number of chains.
        generator: Draws where they start.
        batch_size: None for full data.
        only: Names of the cases to return; None for all.
    """
    conjugate = len(target.weights) == 1
    likelihood = bias_targets.log_likelihood_observed if conjugate else bias_targets.log_likelihood
    rows, alpha = jnp.asarray(target.rows, jnp.float32), jnp.asarray(target.alpha, jnp.float32)
    size = len(rows)
    stream = batches.uniform(rows, batch_size) if batch_size else batches.full(rows)
    truth = bias_targets.statistics_of(target)
    log_omega = target.draws(generator, chains)
    ratios = log_omega[:, :-1] - log_omega[:, -1:]
    # The kernels of counts start from probabilities, which must not underflow.
    omega = np.exp(np.maximum(log_omega, -80))
    # Weights of a sparse posterior wander over many powers of ten.
    slow = 1 / min(1.0, 10 * target.shapes.min() / 2.5)

    def case(build: Callable, start: np.ndarray, read: Callable, scale: Scale) -> Case:
        return Case(build, stream, start, read, truth, scale.largest, scale.relaxation * slow)

    cases = {}
    counts = gradients.counts(likelihood, size)
    for name, (build, scale) in SIMPLEX.items():
        label = name if conjugate or name != "SCIR" else "SCIR, expected counts"
        bound = functools.partial(_of_counts, build, counts, alpha)
        cases[label] = case(bound, omega, jnp.exp, scale)
    cases["SGRLD with Metropolis"] = case(
        functools.partial(
            _corrected,
            counts,
            alpha,
            metropolis=size,
            log_likelihood=None if conjugate else likelihood,
        ),
        omega,
        jnp.exp,
        CORRECTED,
    )
    if not conjugate:
        cases |= _latent(target, case, omega)
    cases["MLD"] = case(
        functools.partial(_mld, _posterior_of(jnp.log, likelihood, alpha - 1, size)),
        omega,
        itself,
        SIMPLEX["SMLD"][1],
    )
    natural = _posterior_of(log_softmax_with_reference, likelihood, alpha, size)
    for name, (build, scale) in EUCLIDEAN.items():
        bound = functools.partial(build, natural)
        cases[name] = case(bound, ratios, softmax_with_reference, scale)
    return {name: case for name, case in cases.items() if only is None or name in only}


def _of_counts(build: Callable, counts: Estimator, alpha: jax.Array, h: float) -> Kernel:
    return build(counts, alpha, h)


def _corrected(counts: Estimator, alpha: jax.Array, h: float, **options: Any) -> Kernel:
    return rld.build(counts, alpha, h, **options)


def _mld(gradient: Estimator, h: float) -> Kernel:
    return mld.build(gradient, mirror.simplex(), h)


def _posterior_of(
    log_omega_of: Callable, likelihood: Callable, power: jax.Array, size: int
) -> Estimator:
    """Return gradients of the density omega^power times the likelihood."""
    return gradients.posterior(
        lambda position: (power * log_omega_of(position)).sum(),
        lambda position, rows: likelihood(log_omega_of(position), rows),
        size,
    )


def _latent(target: Posterior, case: Callable, omega: np.ndarray) -> dict[str, Case]:
    """Return SCIR with drawn assignments and a refreshed total: of all data, and memoised."""
    rows, alpha = jnp.asarray(target.rows, jnp.float32), jnp.asarray(target.alpha, jnp.float32)
    categories = len(alpha)

    def count(assignments: jax.Array, data: jax.Array) -> jax.Array:
        return jax.nn.one_hot(assignments, categories).sum(axis=0)

    def assign(
        key: jax.Array, log_omega: jax.Array, data: jax.Array, previous: jax.Array
    ) -> jax.Array:
        return draws.categorical(key, jnp.exp(log_omega) * data)

    def counts_of(key: jax.Array, log_omega: jax.Array, data: jax.Array) -> jax.Array:
        return count(assign(key, log_omega, data, data), data)

    first = jnp.argmax(rows, axis=-1)
    drawn = estimators.subsampled(counts_of, len(rows))
    memoised = estimators.memoised(assign, count, first, count(first, rows))
    scale = SIMPLEX["SCIR"][1]
    refreshed = functools.partial(scir.build, total="refreshed")
    cases = {
        "SCIR, drawn counts": case(
            functools.partial(_of_counts, refreshed, drawn, alpha), omega, jnp.exp, scale
        ),
        "SCIR, memoised batches": case(
            functools.partial(_of_counts, refreshed, memoised, alpha),
            omega,
            jnp.exp,
            scale._replace(relaxation=3 * scale.relaxation),  # a third of the data in a batch
        )._replace(stream=batches.uniform(batches.indexed(rows), MINIBATCH, replace=False)),
    }
    return cases


def box_cases(chains: int, generator: np.random.Generator) -> dict[str, Case]:
    """Return the cases of the exponential laws on the unit square."""
    start = bias_targets.draws_box(generator, chains)
    gradient = gradients.density(bias_targets.log_density_box)
    square = convex.box(0.0, 1.0)
    builds = {
        "MLD": lambda h: mld.build(gradient, mirror.hypercube(0.0, 1.0), h),
        "PLMC": lambda h: plmc.build(gradient, square, h),
        "MYULA": lambda h: myula.build(gradient, square, h, smoothing=h),
    }
    scales = {"MLD": Scale(0.2, 1.0), "PLMC": Scale(0.02, 0.2), "MYULA": Scale(0.02, 0.2)}
    truth = bias_targets.statistics_of_box()
    stream = batches.full(jnp.zeros(1))
    return {
        name: Case(build, stream, start, itself, truth, *scales[name])
        for name, build in builds.items()
    }


def positive_cases(chains: int, generator: np.random.Generator) -> dict[str, Case]:
    """Return the cases of gamma and lognormal laws: half of each is prior, the other half data."""
    shapes, means = bias_targets.SHAPES, bias_targets.LOG_MEANS
    rate, precision = bias_targets.RATE, bias_targets.LOG_PRECISION
    seen = Evidence(jnp.asarray(shapes / 2), jnp.asarray(rate / 2))
    logs_seen = LogEvidence(jnp.asarray(means * precision / 2), jnp.asarray(precision / 2))
    # exp(-40) is nothing to a mean, and does not underflow.
    theta = np.maximum(generator.gamma(shapes, 1 / rate, (chains, 2)), np.exp(-40))
    log_theta = means + generator.normal(size=(chains, 2)) / np.sqrt(precision)
    stream = batches.full(jnp.zeros(1))
    return {
        "CIR": Case(
            lambda h: cir.build(_known(seen), shapes / 2, rate / 2, h),
            stream,
            theta,
            jnp.exp,
            bias_targets.statistics_of_gamma(),
            *Scale(1.0, 0.5),
        ),
        "geometric Brownian motion": Case(
            lambda h: gbm.build(_known(logs_seen), means, precision / 2, h),
            stream,
            np.exp(log_theta),
            itself,
            bias_targets.statistics_of_lognormal(),
            *Scale(1.0, 0.25),
        ),
    }


def _known(evidence: Evidence | LogEvidence) -> Estimator:
    return estimators.subsampled(lambda key, log_theta, batch: evidence, 1)


TARGETS: dict[str, Callable[[int, np.random.Generator], dict[str, Case]]] = {
    "dense Dirichlet": functools.partial(simplex_cases, DENSE),
    "sparse Dirichlet": functools.partial(
        simplex_cases, SPARSE, only=("SCIR", "reflected Euler", "SGRLD", "SGRHMC", "SMLD")
    ),
    "dense Dirichlet, batches": functools.partial(
        simplex_cases,
        DENSE,
        batch_size=MINIBATCH,
        only=("SCIR", "reflected Euler", "SGRLD", "SMLD", "SGHMC", "SGNHT"),
    ),
    "mixture, not conjugate": functools.partial(simplex_cases, MIXTURE),
    "exponential on a square": box_cases,
    "positive numbers": positive_cases,
}
