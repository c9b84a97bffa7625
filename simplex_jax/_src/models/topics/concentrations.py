"""Learning the concentrations of Dirichlet-multinomial counts, by auxiliary variables.

Let counts n_1..n_m of n categories each have their own Dirichlet(c) probabilities, integrated out.
Their likelihood is prod_j Gamma(C) / Gamma(C + N_j) prod_i Gamma(c_i + n_ij) / Gamma(c_i), C = sum
c. Given tables t_ij ~ CRT(c_i, n_ij) and x_j ~ Beta(C, N_j) it is a product of powers of c, and a
Gamma prior is conjugate: c_i ~ Gamma(shape + sum_j t_ij, rate - sum_j log x_j) (Escobar and West
1995; Teh et al. 2006). Given the counts this is an exact Gibbs step.
"""

import functools
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src import arguments, draws
from simplex_jax._src.samplers import seating
from simplex_jax._src.sharded_rows import sums

LEARN = ("learn", "learn-asymmetric")

LEAST = 1e-12
"""Smallest learned concentration."""


class Evidence(NamedTuple):
    """Sufficient statistics of concentrations, drawn given counts."""

    tables: jax.Array  # number of tables of each category, float [n]
    log_x: jax.Array  # sum of the logs of the Beta variables, at most 0


GammaPrior: TypeAlias = tuple[float, ArrayLike] | None
"""Shape and rate of the Gamma prior of a learned concentration."""


class Prior(NamedTuple):
    """A Gamma prior of every concentration; the default is exponential."""

    mean: ArrayLike  # its mean; all entries are equal for a common concentration
    shape: float = 1.0  # its shape


def positive(name: str, value: ArrayLike, shape: tuple[int, ...]) -> jax.Array:
    """Return positive concentrations broadcast to a shape, or raise a ValueError naming them."""
    value = arguments.as_float(name, value)
    arguments.require(name, value, arguments.positive(value), "finite and positive")
    if value.shape not in ((), shape[-1:], shape):
        raise ValueError(f"{name} of shape {value.shape} is not a scalar and does not fit {shape}")
    return jnp.broadcast_to(value, shape)


def initial_concentration(
    name: str,
    value: ArrayLike | str,
    prior: GammaPrior,
    default: float,
    shape: tuple[int, ...],
) -> tuple[jax.Array, str | None, float]:
    """Return first values, how they are learned, and the shape of the prior that has them as mean.

    The words are those of `LEARN`, and None for fixed concentrations. Without a `prior`, that of
    learned ones is exponential with the `default` as its mean.
    """
    if not isinstance(value, str):
        if prior is not None:
            raise ValueError(f"{name}_prior cannot be combined with a fixed {name}")
        if np.ndim(value) == 1 and np.size(value) != shape[-1]:
            raise ValueError(
                f"{name} must be one number or {shape[-1]} of them; there are {np.size(value)}"
            )
        return positive(name, value, shape), None, 1.0
    if prior is None:
        return positive(f"{name}_prior", default, shape), value, 1.0
    if not isinstance(prior, tuple | list) or len(prior) != 2:
        raise ValueError(f"{name}_prior must be a shape and a rate; it is {prior!r}")
    positive(f"{name}_prior", prior[0], ())
    prior_shape, rate = float(prior[0]), positive(f"{name}_prior", prior[1], np.shape(prior[1]))
    if value == "learn" and rate.ndim:
        raise ValueError(f"{name}_prior must be two numbers if one common {name} is learned")
    return positive(f"{name}_prior", prior_shape / rate, shape), value, prior_shape


def no_evidence(categories: int, dtype: jnp.dtype) -> Evidence:
    """Return the evidence of no counts."""
    return Evidence(jnp.zeros(categories, dtype), jnp.zeros((), dtype))


def evidence(key: jax.Array, concentration: jax.Array, counts: jax.Array) -> Evidence:
    """Draw the auxiliary variables of counts [n, m], given the concentrations [n]."""
    key_tables, key_x = jax.random.split(key)
    counts = counts.astype(concentration.dtype)
    tables = seating.tables(key_tables, counts.T, concentration)
    log_x = log_beta(key_x, sums(concentration)[0], counts.sum(axis=0))
    return Evidence(tables.sum(axis=0), jnp.sum(log_x))


def auxiliary(
    key: jax.Array, concentration: jax.Array, counts: jax.Array, numbers: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Draw the tables [n, m] and the logs of the Beta variables [m] of counts [n, m].

    The random numbers of column j depend only on the key and on `numbers[j]`. A column without
    counts has no tables and the log 0.
    """
    key_tables, key_x = jax.random.split(key)
    counts = counts.astype(concentration.dtype)

    def sit(key: jax.Array, concentration: jax.Array, counts: jax.Array) -> jax.Array:
        return draws.crt(key, concentration, counts, columns=numbers)

    tables = jax.vmap(sit)(jax.random.split(key_tables, len(concentration)), concentration, counts)
    return tables, log_beta(key_x, sums(concentration)[0], counts.sum(axis=0), numbers)


def log_beta(
    key: jax.Array,
    concentration: jax.Array,
    totals: jax.Array,
    numbers: jax.Array | None = None,
) -> jax.Array:
    """Draw the logs of the Beta variables [m] of totals [m], given the sum of the concentrations.

    The random numbers of each depend on the key and on its number, or by default, which is much
    faster, on its place. The log is 0 for a total of 0.
    """
    key_x, key_y = jax.random.split(key)
    nonempty = totals > 0
    drawn = draws.loggamma if numbers is None else functools.partial(_loggamma, numbers=numbers)
    log_x = drawn(key_x, jnp.broadcast_to(concentration, totals.shape))
    log_y = drawn(key_y, jnp.where(nonempty, totals, 1).astype(concentration.dtype))
    return jnp.where(nonempty, -jax.nn.softplus(log_y - log_x), 0)  # precise near 0 too


def _loggamma(key: jax.Array, shape_parameter: jax.Array, *, numbers: jax.Array) -> jax.Array:
    """Draw log gamma variates, each with random numbers keyed by its number."""
    keys = jax.vmap(lambda number: jax.random.fold_in(key, number))(numbers)
    return jax.vmap(draws.loggamma)(keys, shape_parameter)


def move(
    key: jax.Array,
    concentration: jax.Array,
    evidence: Evidence,
    prior: Prior,
    learn: str,
    step_size: jax.Array | None = None,
) -> jax.Array:
    """Draw new concentrations [n] given the evidence, in a mode of `LEARN`.

    Without a step size this draws from the conditional. With one, for estimated evidence, it is an
    exact step of the CIR process whose stationary distribution is the conditional: short steps
    average out the noise of the estimates, as in SCIR.
    """
    size = concentration.shape[0]
    tables, log_x = evidence.tables, evidence.log_x
    mean = jnp.broadcast_to(prior.mean, (size,))
    if learn == "learn":
        tables, log_x = tables.sum(keepdims=True), size * log_x
        concentration, mean = concentration[:1], mean[:1]
    rate = prior.shape / mean - log_x
    shape = prior.shape + tables
    if step_size is None:
        log_gamma = draws.loggamma(key, shape)
    else:
        log_gamma = draws.cir(key, jnp.log(concentration * rate), shape, step_size)
    # A concentration must not underflow to zero.
    new = jnp.maximum(jnp.exp(log_gamma - jnp.log(rate)), LEAST).astype(concentration.dtype)
    return jnp.broadcast_to(new, (size,))
