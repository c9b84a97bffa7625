"""Every sampler that claims a stationary distribution leaves exact draws of it exact.

Chains that start from exact draws have the same law after some updates, whatever the step size. The
law of each coordinate is compared with its distribution function (DKW) and its mean, variance and
third moment (z-values of the draws), at a false-alarm rate of 1e-3 for each sampler.
"""

import inspect
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from baselines import rld
from scipy import special, stats
from support import statistics_checks as checks

from simplex_jax._src import base, estimators, samplers
from simplex_jax._src.geometry import manifolds, mirror
from simplex_jax._src.samplers import (
    barker,
    cir,
    dirichlet_paths,
    euler,
    gbm,
    gmc,
    mamla,
    mapla,
    scir,
)
from simplex_jax._src.samplers.positive import Evidence, LogEvidence

# Their bias is stated in their `build` or in docs/which_sampler.md, and tested in files of their
# own.
BIASED = {
    *("gsgnht", "mld", "recipe", "sgbd", "sggmc", "sghmc"),
    *("sgld", "sgnht", "sgrhmc", "sgrld", "smld"),
}

CHAINS, UPDATES = 8_000, 8


class Target(NamedTuple):
    """A kernel, and the law [d] of what `coordinates` returns of its position."""

    kernel: base.Kernel
    batch: object
    draw: Callable[[np.random.Generator, int], np.ndarray]  # what `init` takes, [n, d]
    coordinates: Callable[[np.ndarray], np.ndarray]
    cdfs: tuple[Callable[[np.ndarray], np.ndarray], ...]


# Asymmetric, as a symmetric target hides errors of sign.
CONCENTRATIONS = np.array([0.7, 2.0, 4.0])
LABELS = jnp.array([0] * 1 + [1] * 3 + [2] * 6)
POSTERIOR = np.array([1.5, 3.5, 6.5])
SHAPES = np.array([0.8, 2.0, 5.0])
NOTHING = jnp.zeros(1)


def same(x):
    return x


def simplex_target(kernel, concentrations, batch, coordinates=same):
    total = concentrations.sum()
    return Target(
        kernel,
        batch,
        lambda rng, n: rng.dirichlet(concentrations, n),
        coordinates,
        tuple(stats.beta(a, total - a).cdf for a in concentrations),
    )


def log_gamma_target(kernel):
    """Logs of Gamma(a, 1) variates, of density a x - exp(x)."""
    cdfs = tuple(lambda x, a=a: special.gammainc(a, np.exp(x)) for a in SHAPES)
    return Target(
        kernel, NOTHING, lambda rng, n: np.log(rng.gamma(SHAPES, size=(n, 3))), same, cdfs
    )


def log_gamma(x):
    return jnp.sum(jnp.asarray(SHAPES, x.dtype) * x - jnp.exp(x))


def dirichlet(x):
    return jnp.sum(jnp.asarray(CONCENTRATIONS - 1, x.dtype) * jnp.log(x))


def betas(x):
    """Beta(2, 4) in each coordinate."""
    return jnp.sum(jnp.log(x) + 3 * jnp.log1p(-x))


def log_multinomial(log_omega, batch):
    return log_omega[batch].sum()


def events(key, log_theta, batch):
    return Evidence(jnp.asarray(SHAPES - 0.5, jnp.float32), jnp.ones(3))


def logs(key, log_theta, batch):
    return LogEvidence(jnp.array([2.0, -1.0, 0.5]), jnp.array([1.0, 2.0, 3.0]))


def gamma_rates():
    kernel = cir.build(estimators.subsampled(events, 1), 0.5, 1.0, 0.4)
    cdfs = tuple(lambda x, a=a: special.gammainc(a, 2 * np.exp(x)) for a in SHAPES)
    return Target(kernel, NOTHING, lambda rng, n: rng.gamma(SHAPES, 0.5, size=(n, 3)), same, cdfs)


def lognormals():
    kernel = gbm.build(estimators.subsampled(logs, 1), 0.0, 1.0, 0.4)
    precision = 1 + np.array([1.0, 2.0, 3.0])
    law = stats.norm(np.array([2.0, -1.0, 0.5]) / precision, precision**-0.5)
    cdfs = tuple(lambda x, i=i: law.cdf(x[:, None])[:, i] for i in range(3))
    return Target(
        kernel, NOTHING, lambda rng, n: np.exp(law.rvs(size=(n, 3), random_state=rng)), same, cdfs
    )


def cube(kernel):
    cdf = stats.beta(2, 4).cdf
    return Target(kernel, NOTHING, lambda rng, n: rng.beta(2, 4, size=(n, 2)), same, (cdf, cdf))


def metric(x):
    return jnp.diag(1 + x**2)


def one_vector_for_all():
    """At a concentration of 1e7 the vectors of a path are equal, and Dirichlet."""
    kernel = dirichlet_paths.build(0.5, [0.0, 1.0], concentration=1e7, pace=0.3)
    counts = jnp.array([[1, 1, 2], [0, 2, 4]])
    target = simplex_target(kernel, POSTERIOR, counts, lambda x: np.exp(x[:, 1]))
    return target._replace(
        draw=lambda rng, n: np.repeat(rng.dirichlet(POSTERIOR, n)[:, None], 2, axis=1)
    )


COUNTED = estimators.categorical(len(LABELS))
STATIONARY: dict[str, Callable[[], Target]] = {
    "scir": lambda: simplex_target(scir.build(COUNTED, 0.5, 0.4), POSTERIOR, LABELS, np.exp),
    "rld": lambda: simplex_target(
        rld.build(COUNTED, 0.5, 0.02, metropolis=len(LABELS)), POSTERIOR, LABELS, np.exp
    ),
    "cir": gamma_rates,
    "dirichlet_paths": one_vector_for_all,
    "gbm": lognormals,
    "barker": lambda: log_gamma_target(barker.build(log_gamma, 1.0)),
    "mapla": lambda: log_gamma_target(mapla.build(log_gamma, metric, 0.2)),
    "mamla": lambda: cube(mamla.build(betas, mirror.hypercube(0.0, 1.0), 0.05)),
    "gmc": lambda: simplex_target(
        gmc.build(dirichlet, manifolds.simplex_flat(), 0.1, num_steps=3), CONCENTRATIONS, NOTHING
    ),
}


def failures(target, key, seed):
    """The checks that chains from exact draws fail after some updates."""
    starts = target.draw(np.random.default_rng(seed), CHAINS).astype(np.float32)
    kernel = base.chains(target.kernel, CHAINS, position_axis=0)
    key_init, key_run = jax.random.split(key)
    state = kernel.init(key_init, jnp.asarray(starts))

    @jax.jit
    def moved(keys, state):
        return jax.lax.scan(lambda s, k: (kernel.update(k, s, target.batch)[0], None), state, keys)[
            0
        ]

    state = moved(jax.random.split(key_run, UPDATES), state)
    x = target.coordinates(np.asarray(state.position, np.float64))
    result: dict = {}
    for i, cdf in enumerate(target.cdfs):
        u = cdf(x[:, i])
        assert np.isfinite(u).all()
        result[i, "cdf"] = stats.kstest(u, "uniform").pvalue
        for name, power, mean, variance in (
            ("mean", 1, 0, 1 / 12),
            ("variance", 2, 1 / 12, 1 / 180),
            ("third moment", 3, 0, 1 / 448),
        ):
            result[i, name] = checks.mean_z((u - 0.5) ** power, mean, variance)
    return checks.family(result)


def test_every_sampler_is_exact_or_said_to_be_biased():
    known = STATIONARY.keys() | BIASED
    missing = set(samplers.__all__) - known
    assert not missing, "add each to STATIONARY, with exact draws, or to BIASED"
    assert known == set(samplers.__all__) | {"rld"}
    for name in BIASED:
        parameters = inspect.signature(getattr(samplers, name).build).parameters
        assert "log_density" not in parameters, f"{name} claims to be exact: add it to STATIONARY"


@pytest.mark.parametrize("name", STATIONARY)
def test_exact_draws_stay_exact(name, getkey, seed):
    assert failures(STATIONARY[name](), getkey(), seed) == {}


def metropolis(sign):
    """A random walk with a Metropolis test, whose log acceptance ratio has this sign."""

    def init(key, position):
        del key
        return euler.State(position, jnp.zeros((), jnp.int32), ())

    def update(key, state, batch):
        del batch
        key_step, key_accept = jax.random.split(key)
        x = state.position
        end = x + jax.random.normal(key_step, x.shape, x.dtype)
        ratio = sign * (log_gamma(end) - log_gamma(x))
        accepted = -jax.random.exponential(key_accept) < ratio
        return euler.State(jnp.where(accepted, end, x), state.step + 1, ()), ratio

    return base.Kernel(init, update)


@pytest.mark.parametrize("sign", [1, -1], ids=["right", "reversed"])
def test_a_reversed_acceptance_ratio_is_seen(sign, getkey, seed):
    """The mutant is of the size of the real ones: the right kernel passes the same check."""
    assert bool(failures(log_gamma_target(metropolis(sign)), getkey(), seed)) == (sign < 0)


def test_a_wrong_count_is_seen(getkey, seed):
    """SCIR at a concentration 0.1 too large, on ten data."""
    right = STATIONARY["scir"]()
    wrong = right._replace(kernel=scir.build(COUNTED, 0.6, 0.4))
    assert failures(wrong, getkey(), seed) != {}
