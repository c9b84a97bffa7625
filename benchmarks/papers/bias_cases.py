"""The chains of `bias`: every kernel on every target that it can sample."""

import functools
from collections.abc import Callable, Collection
from typing import NamedTuple

import bias_charts
import bias_targets
import jax
import jax.numpy as jnp
import numpy as np
from baselines import myula, parameterisations, plmc, reflected_cir, rld
from bias_charts import Chart
from bias_targets import Law, Posterior, Statistics

from simplex_jax._src import batches, draws, estimators, gradient_noise, gradients
from simplex_jax._src.base import Kernel, PyTree
from simplex_jax._src.batches import Stream
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.samplers import (
    barker,
    cir,
    gmc,
    gsgnht,
    mamla,
    mapla,
    mld,
    recipe,
    scir,
    sgbd,
    sggmc,
    sghmc,
    sgld,
    sgnht,
    sgrhmc,
    sgrld,
    smld,
)
from simplex_jax._src.samplers.positive import Evidence

MINIBATCH = 2
LEAPFROG_STEPS = 5


class Case(NamedTuple):
    """Chains of one kernel on one target.

    Attributes:
        build: `(step_size) -> Kernel` of one chain.
        stream: Batches of one chain.
        start: Starting positions, exact draws, [chains, ...].
        read: `(position) -> point`, whose moments are taken.
        truth: Exact moments.
        largest: The largest step size; the others are a half, a quarter and so on of it.
        relaxation: Approximate relaxation time, in units of the step size.
        exact: Whether it samples the target exactly at every step size.
    """

    build: Callable[[float], Kernel]
    stream: Stream
    start: np.ndarray
    read: Callable[[PyTree], jax.Array]
    truth: Statistics
    largest: float
    relaxation: float
    exact: bool = False


class Way(NamedTuple):
    """How a kernel samples a chart, or a posterior of counts.

    Attributes:
        build: `(chart, step_size) -> Kernel`, or of counts as `Weights` has them.
        largest: Largest step size, in units of the width to the `power`.
        relaxation: Relaxation time, likewise.
        power: 2 for diffusions, 1 for dynamics with velocities, 0 where widths do not matter.
        exact: Whether it is exact with all data in a batch.
    """

    build: Callable[..., Kernel]
    largest: float
    relaxation: float
    power: int
    exact: bool = False


def stretched(z: tuple, v: tuple) -> tuple:
    """Return D(z) v for D = diag(1 / (1 + y^2)), a diffusion that needs a correction."""
    return (v[0] / (1 + z[0] ** 2),)


REAL = {
    "sgld": Way(lambda chart, h: sgld.build(chart.gradient(), h), 0.6, 1.0, 2),
    "recipe": Way(
        lambda chart, h: recipe.build(
            chart.gradient(), h, diffusion=stretched, coordinatewise=True
        ),
        *(0.6, 2.0, 2),
    ),
    "sghmc": Way(
        lambda chart, h: sghmc.build(chart.gradient(), h, friction=2 / chart.width), 0.5, 1.5, 1
    ),
    "sgnht": Way(
        lambda chart, h: sgnht.build(chart.gradient(), h, friction=2 / chart.width), 0.12, 1.5, 1
    ),
    "sgbd": Way(lambda chart, h: sgbd.build(chart.gradient(), h), 0.3, 1.0, 2),
    "barker": Way(
        lambda chart, h: barker.build(chart.log_density(), h, needs_batch=True), 1.5, 2.5, 2, True
    ),
}
CORRECTED = Way(  # for the noise of batches
    lambda chart, h: sgbd.build(
        chart.gradient(), h, noise_estimate=gradient_noise.fisher(chart.log_likelihood, chart.size)
    ),
    *(0.3, 1.0, 2),
)
SET = {
    "mld": Way(lambda chart, h: mld.build(chart.gradient(), chart.space, h), 0.6, 1.0, 2),
    "mamla": Way(
        lambda chart, h: mamla.build(chart.log_density(), chart.space, h, needs_batch=True),
        *(0.25, 1.0, 2, True),
    ),
}
BODY = {
    "mapla": Way(
        lambda chart, h: mapla.build(chart.log_density(), chart.space, h, needs_batch=True),
        *(0.8, 2.0, 2, True),
    ),
}
PROJECTED = {
    "plmc": Way(lambda chart, h: plmc.build(chart.gradient(), chart.projection, h), 0.2, 1.0, 2),
    "myula": Way(
        lambda chart, h: myula.build(chart.gradient(), chart.projection, h, smoothing=h),
        *(0.2, 1.0, 2),
    ),
}
MANIFOLD = {
    "sggmc": Way(
        lambda chart, h: sggmc.build(chart.gradient(), chart.space, h, friction=1 / chart.width),
        *(0.8, 2.5, 1),
    ),
    "gsgnht": Way(
        lambda chart, h: gsgnht.build(chart.gradient(), chart.space, h, friction=1 / chart.width),
        *(0.8, 2.5, 1),
    ),
    "gmc": Way(
        lambda chart, h: gmc.build(
            chart.log_density(), chart.space, h, num_steps=LEAPFROG_STEPS, needs_batch=True
        ),
        *(0.8, 1.5, 1, True),
    ),
}
KINDS = {"real": REAL, "set": SET, "body": BODY, "manifold": MANIFOLD}


def of_chart(
    ways: dict[str, Way], chart: Chart, stream: Stream, truth: Statistics
) -> dict[str, Case]:
    """Return the cases of some kernels on a chart."""
    return {
        name: Case(
            functools.partial(way.build, chart),
            stream,
            chart.start,
            chart.read,
            truth,
            way.largest * chart.width**way.power,
            way.relaxation * chart.width**way.power * chart.slowness,
            way.exact,
        )
        for name, way in ways.items()
    }


class Weights(NamedTuple):
    """Inputs of count kernels: the counts, the prior, and the likelihood of all data."""

    counts: Estimator
    alpha: jax.Array
    log_likelihood: Callable
    size: int


def _corrected(weights: Weights, h: float, natural: bool) -> Kernel:
    coordinates = parameterisations.REDUCED_NATURAL if natural else parameterisations.EXPANDED_MEAN
    return rld.build(
        weights.counts,
        weights.alpha,
        h,
        parameterisation=coordinates,
        metropolis=weights.size,
        log_likelihood=weights.log_likelihood,
    )


COUNTS = {
    "scir": Way(lambda w, h: scir.build(w.counts, w.alpha, h), 2.0, 1.0, 0, True),
    "reflected_cir": Way(lambda w, h: reflected_cir.build(w.counts, w.alpha, h), 0.4, 1.0, 0),
    "sgrld": Way(lambda w, h: sgrld.build(w.counts, w.alpha, h), 0.1, 1.0, 0),
    "sgrhmc": Way(lambda w, h: sgrhmc.build(w.counts, w.alpha, h), 2.4, 2.0, 0),
    "smld": Way(lambda w, h: smld.build(w.counts, w.alpha, h), 0.3, 0.5, 0),
    "rld, mean, Metropolis": Way(
        functools.partial(_corrected, natural=False), *(0.1, 1.0, 0, True)
    ),
    "rld, natural, Metropolis": Way(
        functools.partial(_corrected, natural=True), *(0.2, 0.5, 0, True)
    ),
}
DIFFUSIONS_OF_LOGS = ("smld", "rld, natural, Metropolis")


def weights_cases(
    target: Posterior,
    chains: int,
    generator: np.random.Generator,
    batch_size: int | None = None,
    slowness: float = 1.0,
    without: Collection[str] = (),
) -> dict[str, Case]:
    """Return the cases of a posterior of category weights, of full data or of batches.

    Args:
        target: The posterior.
        chains: Number of chains.
        generator: Draws the starting positions.
        batch_size: None for full data; otherwise kernels that need all data are left out.
        slowness: Relaxation time of diffusions of logarithms, relative to a dense posterior.
        without: Names of kernels that cannot sample it.
    """
    conjugate = len(target.weights) == 1
    likelihood = bias_targets.log_likelihood_observed if conjugate else bias_targets.log_likelihood
    rows, alpha = jnp.asarray(target.rows, jnp.float32), jnp.asarray(target.alpha, jnp.float32)
    stream = batches.uniform(rows, batch_size) if batch_size else batches.full(rows)
    truth = target.statistics()
    # Values below exp(-80) would underflow, and do not affect a mean.
    log_omega = np.maximum(target.draws(generator, chains), -80)
    weights = Weights(gradients.counts(likelihood, len(rows)), alpha, likelihood, len(rows))

    def of_counts(way: Way, remember: float = 1.0) -> Case:
        build = functools.partial(way.build, weights)
        start = np.exp(log_omega)
        relaxation = way.relaxation * remember
        return Case(build, stream, start, jnp.exp, truth, way.largest, relaxation, way.exact)

    cases = {
        name: of_counts(way, slowness if name in DIFFUSIONS_OF_LOGS else min(slowness, 2.5))
        for name, way in COUNTS.items()
    }
    if conjugate:
        cases["cir"] = _gammas(target, cases["scir"], generator)
    else:
        cases["scir"] = cases["scir"]._replace(exact=False)  # its counts are expected counts
    charts = bias_charts.of_weights(target, log_omega, slowness)
    for kind, chart in charts.items():
        cases |= of_chart(KINDS[kind], chart, stream, truth)
    if batch_size:
        cases = {name: case for name, case in cases.items() if not case.exact}
        cases |= of_chart({"sgbd, corrected": CORRECTED}, charts["real"], stream, truth)
    if not conjugate:
        cases |= _latent(target, cases["scir"], batch_size)
    return {name: case for name, case in cases.items() if name not in without}


def _gammas(target: Posterior, like: Case, generator: np.random.Generator) -> Case:
    """Return independent gamma variates that normalise to the weights."""
    counts = jnp.asarray(target.rows.sum(axis=0), jnp.float32)
    alpha = jnp.asarray(target.alpha, jnp.float32)
    evidence = estimators.subsampled(lambda key, log_theta, batch: Evidence(counts, 0.0), 1)
    totals = generator.gamma(target.shapes.sum(), size=(len(like.start), 1))
    return like._replace(
        build=lambda h: cir.build(evidence, alpha, 1.0, h),
        stream=batches.full(jnp.zeros(1)),
        start=like.start * totals,
        read=jax.nn.softmax,
    )


def _latent(target: Posterior, like: Case, batch_size: int | None) -> dict[str, Case]:
    """Return SCIR with other counts: of drawn labels, and for batches two with less noise."""
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

    def with_labels(estimator: Estimator, h: float) -> Kernel:
        return scir.build(estimator, alpha, h, total="refreshed")

    drawn = estimators.subsampled(counts_of, len(rows))
    labels = like._replace(build=functools.partial(with_labels, drawn), exact=batch_size is None)
    if batch_size is None:
        return {"scir, labels": labels}
    first = jnp.argmax(rows, axis=-1)
    memoised = estimators.memoised(assign, count, first, count(first, rows))
    expected = gradients.counts_of(bias_targets.log_likelihood)
    reference = jnp.log(jnp.asarray(target.moment(1), jnp.float32))
    near_mean = estimators.control_variate(
        expected, len(rows), reference, expected(jax.random.key(0), reference, rows)
    )
    return {
        "scir, labels": labels,
        "scir, control variate": like._replace(build=lambda h: scir.build(near_mean, alpha, h)),
        "scir, memoised": labels._replace(
            build=functools.partial(with_labels, memoised),
            exact=True,
            # Labels persist for some batches, whatever the step, and do not start at draws.
            largest=like.largest / 2,
            relaxation=2 * len(rows) / batch_size * like.relaxation,
            stream=batches.uniform(batches.indexed(rows), batch_size, replace=False),
        ),
    }


def square_cases(chains: int, generator: np.random.Generator) -> dict[str, Case]:
    """Return the cases of the normal distribution on the unit square."""
    return _of_law(
        bias_targets.TRUNCATED_NORMAL, bias_targets.CENTRE, bias_charts.of_square, chains, generator
    )


def sphere_cases(chains: int, generator: np.random.Generator) -> dict[str, Case]:
    """Return the cases of the von Mises-Fisher distribution."""
    return _of_law(
        bias_targets.VON_MISES_FISHER, bias_targets.PULL, bias_charts.of_sphere, chains, generator
    )


def _of_law(
    law: Law,
    row: np.ndarray,
    charts_of: Callable[[np.ndarray], dict[str, Chart]],
    chains: int,
    generator: np.random.Generator,
) -> dict[str, Case]:
    stream, truth = batches.full(jnp.asarray(row[None], jnp.float32)), law.statistics()
    cases = {}
    for kind, chart in charts_of(law.draws(generator, chains)).items():
        cases |= of_chart(KINDS[kind], chart, stream, truth)
        if chart.projection is not None:
            cases |= of_chart(PROJECTED, chart, stream, truth)
    return cases


TARGETS: dict[str, Callable[[int, np.random.Generator], dict[str, Case]]] = {
    "dense Dirichlet": functools.partial(weights_cases, bias_targets.DENSE),
    "sparse Dirichlet": lambda chains, generator: weights_cases(
        bias_targets.SPARSE,
        chains // 4,  # they relax 60 times as slowly
        generator,
        slowness=60.0,
        without=("mld", "mamla", "mapla"),  # whose points are probabilities, which underflow
    ),
    "mixture": functools.partial(weights_cases, bias_targets.MIXTURE),
    "truncated normal": square_cases,
    "von Mises-Fisher": sphere_cases,
    "mixture, batches": functools.partial(
        weights_cases, bias_targets.MIXTURE, batch_size=MINIBATCH
    ),
}
