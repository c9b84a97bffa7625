"""The local step of the spherical admixture model: topic proportions given the topics."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src import arguments, draws
from simplex_jax._src.draws.keys import by_native_code
from simplex_jax._src.models.sam import laplace, sparse
from simplex_jax._src.models.sam.concentrations import Evidence
from simplex_jax._src.models.sam.joint import Hyperparameters
from simplex_jax._src.models.sam.laplace import Scales, Target
from simplex_jax._src.models.sam.sparse import UnitDocuments

METHODS = ("hmc", "laplace")


class Local(NamedTuple):
    """Draws of the proportions of documents.

    Attributes:
        method: "hmc", Hamiltonian Monte Carlo in log-ratios, for alpha below 1 with an exchange of
            two proportions after each step; or "laplace", independence Metropolis with proposals
            from Laplace's approximation, good for alpha of 3 or more.
        samples: Samples per document for the update of the topics, N.
        burn_in: Metropolis steps before the first sample.
        num_steps: Leapfrog steps per Metropolis step, by default 6; not for "laplace".
        step_size: Maximum leapfrog step size, relative to the shortest scale of each document's
            posterior at its mode, by default 0.9; every step uses a random share of at least a
            half. Not for "laplace".
    """

    method: str = "hmc"
    samples: int = 1
    burn_in: int = 4
    num_steps: int | None = None
    step_size: float | None = None

    def check(self) -> None:
        """Raise a ValueError unless all settings are in range and used by the method."""
        arguments.choice("method", self.method, METHODS)
        for name, least in (("samples", 1), ("burn_in", 0)):
            arguments.at_least(name, getattr(self, name), least)
        for name in ("num_steps", "step_size") if self.method == "laplace" else ():
            if getattr(self, name) is not None:
                raise ValueError(f"{name} is not used by method 'laplace'; omit it")
        if self.num_steps is not None:
            arguments.at_least("num_steps", self.num_steps, 1)
        if self.step_size is not None and not 0 < self.step_size < math.inf:
            raise ValueError(f"step_size must be finite and positive; it is {self.step_size}")

    def draw(
        self, key: jax.Array, law: Target, start: "Start | None" = None
    ) -> tuple[jax.Array, jax.Array]:
        """Draw the proportions of B documents.

        Every step leaves p(theta | topics, document) invariant, even if mode and curvature are
        inaccurate; a new chain is biased by its start only as far as `burn_in` is too short. Chains
        continue from `start`, or start near the mode if it is None. Return centred log-ratios
        [B, N, K] and the acceptance rate of each document, [B].
        """
        return {"laplace": _laplace, "hmc": _hmc}[self.method](key, law, self, start)


class Start(NamedTuple):
    """The present state of the chains of documents."""

    ratios: jax.Array  # centred log-ratios, [B, K]
    # Whether chains are new and start near the mode, bool: from equal shares, far in a tail, all
    # moves of a document with few topics would be rejected.
    fresh: jax.Array | bool = False


class Drawn(NamedTuple):
    """Proportions of B documents."""

    ratios: jax.Array  # centred log-ratios, [B, N, K]
    acceptance: jax.Array  # acceptance rate, a scalar
    evidence: Evidence  # statistics for learning the concentrations


def draw_all(
    key: jax.Array,
    documents: UnitDocuments,
    topics: jax.Array,
    ids: jax.Array,
    hyper: Hyperparameters,
    local_step: Local,
    start: Start | None = None,
) -> Drawn:
    """Draw the proportions of documents `ids`, int32 [B], block by block; see `Local.draw`."""
    size, vocabulary = sparse.size(documents), topics.shape[1]
    length = sparse.block_size(ids.shape[0], vocabulary)
    blocked = sparse.blocks(ids, length, size)
    begin = None if start is None else sparse.blocks(start.ratios, length, 0)

    def block(inputs: tuple) -> tuple:
        number, places, ratios = inputs
        begin = None if start is None else start._replace(ratios=ratios)
        rows = sparse.rows(documents, places, vocabulary)
        law = laplace.target(topics, rows, hyper.alpha, hyper.kappa1)
        ratios, acceptance = local_step.draw(jax.random.fold_in(key, number), law, begin)
        log_theta = jax.nn.log_softmax(ratios)
        fit = laplace.cosine(law, jnp.exp(jnp.moveaxis(log_theta, 1, 0)))
        measured = acceptance, jnp.mean(fit, axis=0), jnp.mean(log_theta, axis=(1, 2))
        return ratios, tuple(jnp.sum(jnp.where(places < size, x, 0)) for x in measured)

    numbers = lax.iota(jnp.uint32, blocked.shape[0])
    ratios, measured = lax.map(block, (numbers, blocked, begin))
    acceptance, fit, log_theta = (jnp.sum(x) / ids.shape[0] for x in measured)
    ratios = ratios.reshape(-1, *ratios.shape[2:])[: ids.shape[0]]
    return Drawn(ratios, acceptance, Evidence(fit, log_theta))


def _initial(start: Start | None, near_mode: jax.Array) -> jax.Array:
    """Return the initial log-ratios of chains, [B, K]."""
    return near_mode if start is None else jnp.where(start.fresh, near_mode, start.ratios)


class _Proposal(NamedTuple):
    """One of the proposals of each document."""

    number: jax.Array  # its index, int32
    weight: jax.Array  # log of its importance weight


def _laplace(
    key: jax.Array, law: Target, local_step: Local, start: Start | None
) -> tuple[jax.Array, jax.Array]:
    """Run independence Metropolis, with all proposals and weights computed in advance."""
    key_draw, key_accept = jax.random.split(key)
    fitted = laplace.approximate(law)
    steps = local_step.burn_in + local_step.samples
    proposals = laplace.draw(key_draw, fitted, (steps + 1,))
    proposals = proposals.at[0].set(_initial(start, proposals[0]))
    weights = laplace.log_weights(law, fitted, proposals)
    log_u = -jax.random.exponential(key_accept, (steps, *weights.shape[1:]), weights.dtype)

    def step(
        old: _Proposal, turn: tuple[_Proposal, jax.Array]
    ) -> tuple[_Proposal, tuple[jax.Array, jax.Array]]:
        new, u = turn
        # From a start with a NaN weight every proposal is accepted.
        accept = ~(u >= new.weight - old.weight) & ~jnp.isnan(new.weight)
        chosen = jax.tree.map(partial(jnp.where, accept), new, old)
        return chosen, (chosen.number, accept)

    first = _Proposal(jnp.zeros(weights.shape[1:], jnp.int32), weights[0])
    later = _Proposal(lax.iota(jnp.int32, steps) + 1, weights[1:])
    _, (numbers, accepted) = lax.scan(step, first, (later, log_u))
    draws = jnp.take_along_axis(proposals, numbers[local_step.burn_in :, :, None], axis=0)
    return jnp.moveaxis(draws, 0, 1), jnp.mean(accepted, axis=0, dtype=weights.dtype)


def _hmc(
    key: jax.Array, law: Target, local_step: Local, start: Start | None
) -> tuple[jax.Array, jax.Array]:
    """Run HMC in log-ratios, with their curvatures at the mode as masses."""
    key_start, key = jax.random.split(key)
    scales = laplace.scales(law)
    noise = jax.random.normal(key_start, scales.mode.shape, scales.mode.dtype)
    ratios = scales.mode + noise * lax.rsqrt(scales.mass)
    begin, step = _trajectories(law, scales, local_step, _initial(start, ratios))
    keys = jax.random.split(key, local_step.burn_in + local_step.samples)
    _, (trace, accepted) = lax.scan(step, begin, keys)
    draws = jnp.moveaxis(trace[local_step.burn_in :], 0, 1)
    draws = draws - jnp.mean(draws, axis=-1, keepdims=True)
    return draws, jnp.mean(accepted, axis=0, dtype=ratios.dtype)


def mean_shares(
    key: jax.Array, law: Target, burn_in: int | jax.Array, samples: int | jax.Array
) -> jax.Array:
    """Return the mean proportions over `samples` draws of "hmc" after `burn_in` steps, [B, K].

    Chains start at the mode, because from a start far in a tail all first moves may be rejected.
    `burn_in` and `samples` may be traced, so that one program serves all values.
    """
    key = by_native_code(key)
    scales = laplace.scales(law)
    begin, step = _trajectories(law, scales, Local(), scales.mode)

    def turn(i: jax.Array, loop: tuple[_Point, jax.Array]) -> tuple[_Point, jax.Array]:
        point, total = loop
        point, _ = step(point, jax.random.fold_in(key, i))
        return point, total + jnp.where(i < burn_in, 0, jax.nn.softmax(point.position))

    start = begin, jnp.zeros_like(begin.position)
    return lax.fori_loop(0, burn_in + samples, turn, start)[1] / samples


class _Point(NamedTuple):
    """Positions of the chains of B documents."""

    position: jax.Array  # log-ratios, or proportions, [B, K]
    value: jax.Array  # log density there, [B]
    slope: jax.Array  # its gradient, [B, K]


class _Moving(NamedTuple):
    """Chains on a trajectory."""

    point: _Point
    velocity: jax.Array  # or momentum, [B, K]


class _Turn(NamedTuple):
    """A step of the chains."""

    position: jax.Array  # positions after the step, [B, K]
    accepted: jax.Array  # whether it was accepted, bool [B]


_Step: TypeAlias = Callable[[_Point, jax.Array], tuple[_Point, _Turn]]
"""`(point, key) -> (point, turn)`."""


def _trajectories(
    law: Target, scales: Scales, local_step: Local, ratios: jax.Array
) -> tuple[_Point, _Step]:
    """Return the initial points of "hmc" chains, and their step function.

    The log density is constant along the vector of ones; this component of the position is removed
    in the end.
    """
    mass, rate = scales.mass, scales.rate
    longest = 0.9 if local_step.step_size is None else local_step.step_size
    log_density = partial(laplace.log_density, law)

    def leap(_: int, moving: _Moving, h: jax.Array) -> _Moving:
        momentum = moving.velocity + h / 2 * moving.point.slope
        new = _point(log_density, moving.point.position + h * momentum / mass)
        return _Moving(new, momentum + h / 2 * new.slope)

    def step(old: _Point, key: jax.Array) -> tuple[_Point, _Turn]:
        key_momentum, key_length, key_accept, key_exchange = jax.random.split(key, 4)
        # Random, because fixed trajectories are multiples of half a period in some documents.
        h = longest * jax.random.uniform(key_length, rate.shape, rate.dtype, 0.5, 1)
        h *= lax.rsqrt(rate)
        momentum = jnp.sqrt(mass) * jax.random.normal(key_momentum, mass.shape, mass.dtype)
        new, last = lax.fori_loop(
            0, local_step.num_steps or 6, partial(leap, h=h), _Moving(old, momentum)
        )
        gain = new.value - old.value + jnp.sum((momentum**2 - last**2) / mass, axis=-1) / 2
        point, turn = _choose(key_accept, gain, new, old)
        exchange = partial(_exchange, key_exchange, log_density)
        point = lax.cond(law.alpha < 1, exchange, lambda point: point, point)
        return point, turn._replace(position=point.position)

    return _point(log_density, ratios), step


def _point(log_density: Callable[[jax.Array], jax.Array], x: jax.Array) -> _Point:
    """Return positions x [B, K] with log densities and their gradients."""

    def value(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        each = log_density(x)
        return jnp.sum(each), each

    slope, each = jax.grad(value, has_aux=True)(x)
    return _Point(x, each, slope)


def _choose(key: jax.Array, gain: jax.Array, new: _Point, old: _Point) -> tuple[_Point, _Turn]:
    """Do the Metropolis test with the gain in log density; NaN is rejected."""
    log_u = -jax.random.exponential(key, gain.shape, gain.dtype)
    accept = (log_u < gain) & jnp.isfinite(gain)
    chosen = jax.tree.map(
        lambda a, b: jnp.where(accept if a.ndim == 1 else accept[:, None], a, b), new, old
    )
    return chosen, _Turn(chosen.position, accept)


def _exchange(key: jax.Array, log_density: Callable[[jax.Array], jax.Array], old: _Point) -> _Point:
    """Exchange two proportions of each document, with a Metropolis test.

    If few proportions are large, trajectories hardly change which ones. One proportion is chosen by
    its size and the other uniformly, which makes the proposal symmetric.
    """
    x = old.position
    if x.shape[1] == 1:
        return old
    key_one, key_other, key_accept = jax.random.split(key, 3)
    one = draws.categorical(key_one, jax.nn.softmax(x))
    other = (one + jax.random.randint(key_other, one.shape, 1, x.shape[1])) % x.shape[1]
    row = jnp.arange(x.shape[0])
    moved = x.at[row, one].set(x[row, other]).at[row, other].set(x[row, one])
    new = _point(log_density, moved)
    return _choose(key_accept, new.value - old.value, new, old)[0]
