"""The local step of the spherical admixture model: topic proportions given the topics."""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax.draws import arguments
from simplex_jax.geometry import manifolds
from simplex_jax.models import sam_documents, sam_laplace
from simplex_jax.models.sam_concentrations import Evidence
from simplex_jax.models.sam_documents import UnitDocuments
from simplex_jax.models.sam_joint import Hyperparameters
from simplex_jax.models.sam_laplace import Target

METHODS = ("hmc", "laplace", "gmc")

_einsum = partial(jnp.einsum, precision=lax.Precision.HIGHEST)

_FLAT = manifolds.simplex_flat()


class Local(NamedTuple):
    """How proportions are drawn.

    Attributes:
        method: "hmc", Hamiltonian Monte Carlo in log-ratios; "laplace", independence
            Metropolis with proposals from Laplace's approximation, good where alpha is 3 or more;
            or "gmc", geodesic Monte Carlo on the flat simplex, as in the paper, for alpha of 1 or
            more: below, the density has no bound at the faces, and near them moves are refused.
        samples: Samples of each document that the topics see, N.
        burn_in: Metropolis steps before the first of them.
        num_steps: Leapfrog steps of a step, by default 6 of "hmc" and 20 of "gmc"; "laplace" has
            none.
        step_size: Their greatest length, of which every step takes a random share of a half or
            more: of "hmc" relative to the shortest scale of the law of each document at its mode,
            by default 0.9; of "gmc" on the simplex, by default half the shortest scale of a
            proportion of each document, theta_k / sqrt(mass_k) at the mode.
        floor: Least proportion where a chain of "gmc" starts, which is near the mode, by default
            3e-3. Near a face the force of the prior is (alpha - 1) / theta, and from too near every
            move is refused.
    """

    method: str = "hmc"
    samples: int = 1
    burn_in: int = 4
    num_steps: int | None = None
    step_size: float | None = None
    floor: float | None = None


def check(how: Local) -> Local:
    """Raise a ValueError unless all settings are in range and about the method."""
    if how.method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; it is {how.method!r}")
    for name, least in (("samples", 1), ("burn_in", 0)):
        arguments.at_least(name, getattr(how, name), least)
    if how.num_steps is not None:
        arguments.at_least("num_steps", how.num_steps, 1)
    if how.step_size is not None and not 0 < how.step_size < math.inf:
        raise ValueError(f"step_size must be finite and positive; it is {how.step_size}")
    if how.floor is not None and not 0 < how.floor < 1:
        raise ValueError(f"floor must be above 0 and below 1; it is {how.floor}")
    foreign = {"gmc": (), "hmc": ("floor",), "laplace": ("floor", "num_steps", "step_size")}
    for name in foreign[how.method]:
        if getattr(how, name) is not None:
            raise ValueError(f"{name} does nothing with method {how.method!r}: leave it out")
    return how


class Drawn(NamedTuple):
    """Proportions of B documents.

    Attributes:
        ratios: Centred log-ratios, [B, N, K].
        acceptance: Share of accepted moves, a scalar.
        evidence: What they say about concentrations.
    """

    ratios: jax.Array
    acceptance: jax.Array
    evidence: Evidence


def draw_all(
    key: jax.Array,
    documents: UnitDocuments,
    topics: jax.Array,
    ids: jax.Array,
    hyper: Hyperparameters,
    how: Local,
    start: jax.Array | None = None,
) -> Drawn:
    """Draw the proportions of documents, block by block.

    Args:
        key: A PRNG key.
        documents: The documents.
        topics: Unit rows [K, V].
        ids: Places of B documents, int32 [B].
        hyper: The hyperparameters.
        how: The settings.
        start: As for `draw`.
    """
    size, vocabulary = sam_documents.size(documents), topics.shape[1]
    length = sam_documents.block_size(ids.shape[0], vocabulary)
    blocked = sam_documents.blocks(ids, length, size)
    begin = None if start is None else sam_documents.blocks(start, length, 0)

    def block(inputs: tuple) -> tuple:
        number, places, begin = inputs
        rows = sam_documents.rows(documents, places, vocabulary)
        law = sam_laplace.target(topics, rows, hyper.alpha, hyper.kappa1)
        ratios, acceptance = draw(jax.random.fold_in(key, number), law, how, begin)
        log_theta = jax.nn.log_softmax(ratios)
        fit = sam_laplace.cosine(law, jnp.exp(jnp.moveaxis(log_theta, 1, 0)))
        told = acceptance, jnp.mean(fit, axis=0), jnp.mean(log_theta, axis=(1, 2))
        return ratios, tuple(jnp.sum(jnp.where(places < size, x, 0)) for x in told)

    numbers = lax.iota(jnp.uint32, blocked.shape[0])
    ratios, told = lax.map(block, (numbers, blocked, begin))
    acceptance, fit, log_theta = (jnp.sum(x) / ids.shape[0] for x in told)
    ratios = ratios.reshape(-1, *ratios.shape[2:])[: ids.shape[0]]
    return Drawn(ratios, acceptance, Evidence(fit, log_theta))


def draw(
    key: jax.Array, law: Target, how: Local, start: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """Draw the proportions of B documents.

    Every step leaves p(theta | topics, document) invariant, whatever the mode and the curvature
    there are worth; a new chain is exact up to what `burn_in` steps have not forgotten.

    Args:
        key: A PRNG key.
        law: What is known of the documents.
        how: The settings.
        start: Centred log-ratios [B, K] that chains go on from; None starts new ones.

    Returns:
        Centred log-ratios [B, N, K], and the share of accepted moves of each document, [B].
    """
    return {"laplace": _laplace, "hmc": _hmc, "gmc": _gmc}[how.method](key, law, how, start)


def _laplace(
    key: jax.Array, law: Target, how: Local, start: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    """Go through proposals that were drawn, and weighed, all at once."""
    key_draw, key_accept = jax.random.split(key)
    fitted = sam_laplace.approximate(law)
    steps = how.burn_in + how.samples
    proposals = sam_laplace.draw(key_draw, fitted, (steps + (start is None),))
    if start is not None:
        proposals = jnp.concatenate([start[None], proposals])
    weights = sam_laplace.log_weights(law, fitted, proposals)
    log_u = -jax.random.exponential(key_accept, (steps, *weights.shape[1:]), weights.dtype)

    def step(at: tuple, turn: tuple) -> tuple[tuple, tuple]:
        place, weight = at
        number, new, u = turn
        # From a start whose weight is not a number every proposal is welcome.
        accept = ~(u >= new - weight) & ~jnp.isnan(new)
        at = jnp.where(accept, number, place), jnp.where(accept, new, weight)
        return at, (at[0], accept)

    first = jnp.zeros(weights.shape[1:], jnp.int32), weights[0]
    turns = lax.iota(jnp.int32, steps) + 1, weights[1:], log_u
    _, (places, accepted) = lax.scan(step, first, turns)
    kept = jnp.take_along_axis(proposals, places[how.burn_in :, :, None], axis=0)
    return jnp.moveaxis(kept, 0, 1), jnp.mean(accepted, axis=0, dtype=weights.dtype)


def _hmc(
    key: jax.Array, law: Target, how: Local, start: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    """Move in log-ratios, with the curvature of each at the mode as its mass.

    The log density does not change along the vector of ones; where along it a chain is does not
    matter, and is forgotten in the end.
    """
    key_start, key = jax.random.split(key)
    mode, mass, rate = sam_laplace.scales(law)
    ratios = mode + jax.random.normal(key_start, mode.shape, mode.dtype) * lax.rsqrt(mass)
    if start is not None:
        ratios = start
    longest = 0.9 if how.step_size is None else how.step_size

    def leap(_: int, at: tuple, h: jax.Array) -> tuple:
        y, p, _, slope = at
        p = p + h / 2 * slope
        y = y + h * p / mass
        value, slope = _value_and_slope(law, y)
        return y, p + h / 2 * slope, value, slope

    def step(at: tuple, key: jax.Array) -> tuple[tuple, tuple]:
        key_momentum, key_length, key_accept = jax.random.split(key, 3)
        # Trajectories of one length are multiples of half a period in some documents.
        share = jax.random.uniform(key_length, rate.shape, rate.dtype, 0.5, 1)
        h = longest * share * lax.rsqrt(rate)
        momentum = jnp.sqrt(mass) * jax.random.normal(key_momentum, mass.shape, mass.dtype)
        y, p, value, slope = lax.fori_loop(
            0, how.num_steps or 6, partial(leap, h=h), (at[0], momentum, *at[1:])
        )
        gain = value - at[1] + jnp.sum((momentum**2 - p**2) / mass, axis=-1) / 2
        return _choose(key_accept, gain, (y, value, slope), at)

    keys = jax.random.split(key, how.burn_in + how.samples)
    _, (trace, accepted) = lax.scan(step, (ratios, *_value_and_slope(law, ratios)), keys)
    kept = jnp.moveaxis(trace[how.burn_in :], 0, 1)
    kept = kept - jnp.mean(kept, axis=-1, keepdims=True)
    return kept, jnp.mean(accepted, axis=0, dtype=ratios.dtype)


def _value_and_slope(law: Target, ratios: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the log density of log-ratios, [B], and its gradient, [B, K]."""

    def value(ratios: jax.Array) -> tuple[jax.Array, jax.Array]:
        each = sam_laplace.log_density(law, ratios)
        return jnp.sum(each), each

    slope, each = jax.grad(value, has_aux=True)(ratios)
    return each, slope


def _choose(key: jax.Array, gain: jax.Array, new: tuple, old: tuple) -> tuple[tuple, tuple]:
    """Accept where the log density of position and velocity allows it; NaN is refused."""
    log_u = -jax.random.exponential(key, gain.shape, gain.dtype)
    accept = (log_u < gain) & jnp.isfinite(gain)
    at = jax.tree.map(
        lambda a, b: jnp.where(accept if a.ndim == 1 else accept[:, None], a, b), new, old
    )
    return at, (at[0], accept)


def _gmc(
    key: jax.Array, law: Target, how: Local, start: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    """Move by straight lines that faces of the simplex reflect (Byrne and Girolami 2013)."""
    mode, mass, _ = sam_laplace.scales(law)
    likely = jax.nn.softmax(mode)
    if start is None:
        theta = jnp.maximum(likely, 3e-3 if how.floor is None else how.floor)
        theta = theta / jnp.sum(theta, axis=-1, keepdims=True)
    else:
        theta = jax.nn.softmax(start)
    if how.step_size is None:
        longest = 0.5 * jnp.min(likely * lax.rsqrt(mass), axis=-1, keepdims=True)
    else:
        longest = jnp.full_like(theta[:, :1], how.step_size)

    def leap(_: int, at: tuple, h: jax.Array) -> tuple:
        x, v, _, force = at
        x, v = _FLAT.flow(x, v + h / 2 * _FLAT.project(x, force), h)
        value, force = _value_and_force(law, x)
        return x, v + h / 2 * _FLAT.project(x, force), value, force

    def step(at: tuple, key: jax.Array) -> tuple[tuple, tuple]:
        key_velocity, key_length, key_accept = jax.random.split(key, 3)
        h = longest * jax.random.uniform(key_length, longest.shape, longest.dtype, 0.5, 1)
        drawn = jax.random.normal(key_velocity, at[0].shape, at[0].dtype)
        velocity = _FLAT.project(at[0], drawn)
        x, v, value, force = lax.fori_loop(
            0, how.num_steps or 20, partial(leap, h=h), (at[0], velocity, *at[1:])
        )
        gain = value - at[1] + (jnp.sum(velocity**2, -1) - jnp.sum(v**2, -1)) / 2
        return _choose(key_accept, gain, (x, value, force), at)

    keys = jax.random.split(key, how.burn_in + how.samples)
    _, (trace, accepted) = lax.scan(step, (theta, *_value_and_force(law, theta)), keys)
    kept = jnp.log(trace[how.burn_in :])
    kept = kept - jnp.mean(kept, axis=-1, keepdims=True)
    return jnp.moveaxis(kept, 0, 1), jnp.mean(accepted, axis=0, dtype=theta.dtype)


def _value_and_force(law: Target, theta: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the log density on the flat simplex, [B], and its gradient, [B, K]."""

    def value(theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        fit = law.kappa * sam_laplace.cosine(law, theta)
        each = fit + (law.alpha - 1) * jnp.sum(jnp.log(theta), axis=-1)
        return jnp.sum(each), each

    force, each = jax.grad(value, has_aux=True)(theta)
    return each, force
