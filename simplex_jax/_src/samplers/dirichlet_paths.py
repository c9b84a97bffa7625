"""Paths and forests of probability vectors: Dirichlet steps from one to the next, exact updates."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments, draws
from simplex_jax._src.base import Batch, Kernel, freeze, static
from simplex_jax._src.draws import native, uniform
from simplex_jax._src.draws.bits import key_words
from simplex_jax._src.geometry import simplex
from simplex_jax._src.samplers.seating import seat, stirling

__all__ = ["Info", "State", "build", "init", "update"]

_SMALLEST_SHAPE = 1e-12
_LOWEST = -1 / _SMALLEST_SHAPE
# Concentration and pace are drawn this many times given the tables, which cost nothing.
_ROUNDS = 5
# (exp(-d) - 1 + d) / d^2 for |d| < 1, highest degree first: a Taylor series.
_DIVERGENCE = tuple((-1) ** k / math.factorial(k + 2) for k in reversed(range(12)))
# Lengths of moves of logs: any between these, as each suits some amount of data.
_SHORTEST, _LONGEST = 0.01, 1.5


class State(NamedTuple):
    """State of a forest.

    Attributes:
        position: Log probabilities of the vectors, [..., T, V].
        base: Log probabilities of the base, [..., V].
        concentration: c, [...].
        pace: r, [...].
        step: Number of updates done, int32.
    """

    position: jax.Array
    base: jax.Array
    concentration: jax.Array
    pace: jax.Array
    step: jax.Array


class Info(NamedTuple):
    """Diagnostics of an update.

    Attributes:
        concentration: c, [...].
        pace: r, [...].
        acceptance: Share of accepted moves of c and r given the vectors, [...]; 0 if none was made.
        base_tables: Tables of each category at the base, [..., V]: counts of the base, whole
            numbers.
    """

    concentration: jax.Array
    pace: jax.Array
    acceptance: jax.Array
    base_tables: jax.Array


def init(
    key: jax.Array,
    position: ArrayLike,
    *,
    gaps: jax.Array,
    parents: jax.Array,
    concentration: jax.Array | None,
    pace: jax.Array | None,
    deviation: jax.Array,
    pace_prior: tuple[jax.Array, jax.Array],
    beta: ArrayLike | Callable[[jax.Array], jax.Array] | None = None,
) -> State:
    """Start from probability vectors [..., T, V]; nonnegative weights are normalised.

    The base starts as their mean, and a learned c or r at the median of its prior. `beta`, unless
    it is a function or None, is only checked against the base.

    Raises:
        ValueError: The position has a negative, NaN or infinite entry, an all-zero row, or a number
            of vectors that is not that of `gaps`; or c or r does not broadcast to its paths, or
            beta to their bases.
    """
    del key
    log_p = simplex.log_probabilities(position)
    if log_p.ndim < 2 or log_p.shape[-2] != parents.shape[0]:
        raise ValueError(
            f"position must have shape [..., {parents.shape[0]}, V], a vector for each of gaps; "
            f"its shape is {log_p.shape}"
        )
    # A weight of 0 is as good as the smallest probability that a vector can have.
    log_p = jnp.maximum(log_p, _LOWEST)
    lead, dtype = log_p.shape[:-2], log_p.dtype
    c = deviation**-2 if concentration is None else concentration
    r = jnp.exp(pace_prior[0]) if pace is None else pace

    def spread(name, value):
        if np.broadcast_shapes(jnp.shape(value), lead) != lead:
            raise ValueError(
                f"{name} of shape {jnp.shape(value)} does not broadcast to the paths {lead}"
            )
        return jnp.broadcast_to(jnp.asarray(value, dtype), lead)

    base = jax.nn.logsumexp(log_p, axis=-2) - math.log(log_p.shape[-2])
    if beta is not None and not callable(beta):
        simplex.like("beta", beta, base)
    return State(
        log_p,
        jnp.maximum(simplex.normalise(base), _LOWEST),
        spread("concentration", c),
        spread("pace", r),
        jnp.zeros((), jnp.int32),
    )


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    beta: ArrayLike | Callable[[jax.Array], jax.Array],
    gaps: jax.Array,
    parents: jax.Array,
    concentration: jax.Array | None,
    pace: jax.Array | None,
    deviation: jax.Array,
    pace_prior: tuple[jax.Array, jax.Array],
    moves: int = 10,
) -> tuple[State, Info]:
    """Draw all vectors, the base, and a learned c and r, given counts [..., T, V].

    The batch is the counts: whole numbers from 0 on. Other counts become NaN under ``jit``.

    Raises:
        ValueError: The counts have another shape than the position, or are not whole numbers.
    """
    counts = _whole(state, batch)
    key_given_vectors, key_tables, key_given_tables, key_base, key_vectors = jax.random.split(
        key, 5
    )
    forest = _Forest(gaps.astype(counts.dtype), parents)
    prior = _Prior(concentration is None, pace is None, deviation, pace_prior)
    c, r, acceptance = _move_given_vectors(key_given_vectors, state, counts, forest, prior, moves)
    customers, base_tables, seated = _pass_tables(key_tables, state, counts, c, r, forest)
    c, r = _draw_given_tables(key_given_tables, c, r, seated, forest, prior)
    prior_counts = beta(base_tables) if callable(beta) else beta
    base = draws.log_dirichlet(key_base, jnp.asarray(prior_counts, counts.dtype) + base_tables)
    base = jnp.maximum(base, _LOWEST)
    position = _draw_vectors(key_vectors, customers, base, c, r, forest)
    return State(position, base, c, r, state.step + 1), Info(c, r, acceptance, base_tables)


def _whole(state: State, batch: Batch) -> jax.Array:
    counts = jnp.asarray(batch).astype(state.position.dtype)
    if counts.shape != state.position.shape:
        raise ValueError(
            f"counts must have the shape of the position, {state.position.shape}; "
            f"their shape is {counts.shape}"
        )
    valid = arguments.nonnegative(counts) & (counts == jnp.floor(counts))
    arguments.require("counts", counts, valid, "whole numbers from 0 on")
    return jnp.where(valid, counts, jnp.nan)


class _Forest(NamedTuple):
    """Gaps and parents [T]; vectors without a parent have the parent -1."""

    gaps: jax.Array
    parents: jax.Array

    def times(self, pace: jax.Array) -> jax.Array:
        """Return r gap of each vector, [T, ...]; inf without a parent."""
        gaps = self.gaps.reshape(-1, *(1,) * pace.ndim)
        roots = self.parents.reshape(gaps.shape) < 0
        return jnp.where(roots, jnp.inf, pace * gaps)

    def steps(self, c: jax.Array, pace: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return r gap and c w of each vector, [..., T]."""
        time = jnp.moveaxis(self.times(pace), 0, -1)
        return time, c[..., None] * _precision(time)


class _Prior(NamedTuple):
    learn_concentration: bool
    learn_pace: bool
    deviation: jax.Array
    pace: tuple[jax.Array, jax.Array]

    def numbers(self) -> jax.Array:
        """Return the scale of c^-1/2, and the mean and the standard deviation of log r."""
        return jnp.stack(
            [jnp.asarray(x, self.deviation.dtype) for x in (self.deviation, *self.pace)]
        )


def _log_prior(prior: jax.Array, c: jax.Array, r: jax.Array) -> jax.Array:
    """Return the log prior density of log c and log r, but for a constant."""
    deviation, mean, sd = prior
    half_cauchy = 0.5 * jnp.log(c) - jnp.log(c + deviation**-2)
    return half_cauchy - 0.5 * ((jnp.log(r) - mean) / sd) ** 2


def _precision(time: jax.Array) -> jax.Array:
    """Return w = 1 / (1 - exp(-2 r gap))."""
    return -1 / jnp.expm1(-2 * time)


def _mixture(
    log_base: jax.Array, log_parent: jax.Array, time: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return the log of (1 - e) parent + e base, and the log odds of the parent."""
    from_base = log_base + jnp.log(-jnp.expm1(-time))
    from_parent = log_parent - time
    return jnp.logaddexp(from_base, from_parent), from_parent - from_base


def _vector(position: jax.Array, t: jax.Array) -> jax.Array:
    return lax.dynamic_index_in_dim(position, t, axis=-2, keepdims=False)


def _parent(position: jax.Array, parent: jax.Array) -> jax.Array:
    """Return the vectors of the parent; of the first vector if there is none, with weight 0."""
    return _vector(position, jnp.maximum(parent, 0))


def _move_given_vectors(
    key: jax.Array, state: State, counts: jax.Array, forest: _Forest, prior: _Prior, moves: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Metropolis moves of c and r given the vectors, with the tables summed out.

    Categories that neither a vector nor one of its descendants counts are one category here, the
    rest, of which only the sums matter: sums of categories have the same distribution as
    categories, so c and r are drawn with the rest's composition integrated out. Each uncounted
    category tells c and r otherwise, and with thousands of them no move would be accepted. The
    update does not use the composition before it draws a new one: tables pass to the parent only
    in categories with customers.
    """
    c, r = state.concentration, state.pace
    if not moves or not (prior.learn_concentration or prior.learn_pace):
        return c, r, jnp.zeros_like(c)
    key_length, key_move, key_accept = jax.random.split(key, 3)
    shape, longest = (*c.shape, moves, 2), math.log(_LONGEST / _SHORTEST)
    lengths = _SHORTEST * jnp.exp(longest * jax.random.uniform(key_length, shape, c.dtype))
    both, alone = jnp.moveaxis(lengths * jax.random.normal(key_move, shape, c.dtype), -1, 0)
    # c and r together leave the steps of short gaps as they are, of which r / c is the size.
    log_c = both + alone if prior.learn_concentration and prior.learn_pace else both
    none = jnp.zeros_like(both)
    logs = (log_c if prior.learn_concentration else none, both if prior.learn_pace else none)
    c, r, accepted = native.lowered_paths(
        "move_paths",
        native.move_paths,
        _move_by_xla,
        counts,
        state.position,
        state.base,
        c,
        r,
        jnp.exp(jnp.stack(logs, axis=-1)),
        -jax.random.exponential(key_accept, shape[:-1], c.dtype),
        *forest,
        prior.numbers().astype(c.dtype),
    )
    return c, r, accepted / moves


def _move_by_xla(
    counts: jax.Array,
    position: jax.Array,
    base: jax.Array,
    c: jax.Array,
    r: jax.Array,
    factors: jax.Array,
    limits: jax.Array,
    gaps: jax.Array,
    parents: jax.Array,
    prior: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Multiply c and r by factors [..., moves, 2] where limits [..., moves] are below the ratio."""
    forest = _Forest(gaps, parents)
    kept = _kept(counts, parents)
    number = lax.iota(jnp.int32, parents.shape[0])

    def log_ratio(new, old):
        def of_vector(total, inputs):
            t, parent, *times = inputs
            here = _vector(kept, t)
            vectors = _vector(position, t), base, _parent(position, parent)
            p, from_base, before = (_rest(x, here) for x in vectors)
            has_rest = ~jnp.all(here, axis=-1)
            sums = []
            for (c, _), time, sign in zip((new, old), times, (1, -1), strict=True):
                a = c * _precision(time)
                each = _log_density(*vectors, time[..., None], a[..., None])
                one = _log_density(p, from_base, before, time, a)
                whole = stirling(a) - 0.5 * jnp.log(a) + jnp.where(has_rest, one, 0)
                sums.append((sign * each, sign * whole))
            (each_new, whole_new), (each_old, whole_old) = sums
            each = jnp.sum(jnp.where(here, each_new + each_old, 0), axis=-1)
            return total + each + whole_new + whole_old, None

        times = forest.times(new[1]), forest.times(old[1])
        total = lax.scan(of_vector, jnp.zeros_like(c), (number, parents, *times))[0]
        return total + _log_prior(prior, *new) - _log_prior(prior, *old)

    def move(state, inputs):
        c, r, accepted = state
        factor, limit = inputs
        new_c, new_r = c * factor[..., 0], r * factor[..., 1]
        accept = limit < log_ratio((new_c, new_r), (c, r))
        return (
            jnp.where(accept, new_c, c),
            jnp.where(accept, new_r, r),
            accepted + accept.astype(c.dtype),
        ), None

    moves = jnp.moveaxis(factors, -2, 0), jnp.moveaxis(limits, -1, 0)
    return lax.scan(move, (c, r, jnp.zeros_like(c)), moves)[0]


def _kept(counts: jax.Array, parents: jax.Array) -> jax.Array:
    """Return which categories a vector or one of its descendants counts, [..., T, V]."""

    def of_vector(kept, inputs):
        t, parent = inputs
        above = jnp.maximum(parent, 0)
        both = _vector(kept, above) | (_vector(kept, t) & (parent >= 0))
        return lax.dynamic_update_index_in_dim(kept, both, above, axis=-2), None

    inputs = lax.iota(jnp.int32, parents.shape[0]), parents
    return lax.scan(of_vector, counts != 0, inputs, reverse=True)[0]


def _rest(log_p: jax.Array, kept: jax.Array) -> jax.Array:
    """Return the log of the sum over categories that are not kept; 0 if all are."""
    total = jax.nn.logsumexp(jnp.where(kept, -jnp.inf, log_p), axis=-1)
    return jnp.where(jnp.all(kept, axis=-1), 0, jnp.maximum(total, _LOWEST))


def _log_density(
    log_p: jax.Array, log_base: jax.Array, log_parent: jax.Array, time: jax.Array, total: jax.Array
) -> jax.Array:
    """Return what a category adds to the log density of Dirichlet(total q) at p.

    With a = total q it is (a - 1) log p - log Gamma(a), but for what depends on p alone, and for
    multiples of the sums of q and p, which are 1. In this form, where d = log q - log p, it is of
    the order of 1 however large a is, and float32 has its digits.
    """
    log_q, _ = _mixture(log_base, log_parent, time)
    log_total = jnp.log(total)
    log_q = jnp.maximum(log_q, math.log(_SMALLEST_SHAPE) - log_total)
    a = jnp.exp(log_q + log_total)
    d = log_q - log_p
    near = jnp.abs(d) < 1
    close = jnp.where(near, d, 0)
    divergence = jnp.where(
        near,
        a * (close * close * uniform.polynomial(_DIVERGENCE, close)),
        a * (d - 1) + total * jnp.exp(log_p),
    )
    return 0.5 * jnp.log(a) - stirling(a) - divergence


class _Seated(NamedTuple):
    """Sums over the categories of each vector, [T, ...]."""

    tables: jax.Array
    inherited: jax.Array
    customers: jax.Array


def _pass_tables(
    key: jax.Array, state: State, counts: jax.Array, c: jax.Array, r: jax.Array, forest: _Forest
) -> tuple[jax.Array, jax.Array, _Seated]:
    """Draw the tables of each vector's customers and pass them to its parent or to the base."""
    keys = jax.random.split(key, (forest.parents.shape[0], 3))
    steps = forest.steps(c, r)

    def by_native(keys, *given):
        return native.pass_tables(_words(keys), *given)

    customers, base_tables, sums = native.lowered_paths(
        "pass_tables",
        by_native,
        _pass_by_xla,
        keys,
        counts,
        state.position,
        state.base,
        *steps,
        forest.parents,
    )
    return customers, base_tables, _Seated(*(jnp.moveaxis(sums[..., i], -1, 0) for i in range(3)))


def _words(keys: jax.Array) -> jax.Array:
    """Return the words of some keys, uint32 [..., 2]."""
    return jax.vmap(key_words)(keys.ravel()).reshape(*keys.shape, 2)


def _pass_by_xla(
    keys: jax.Array,
    counts: jax.Array,
    position: jax.Array,
    base: jax.Array,
    time: jax.Array,
    total: jax.Array,
    parents: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return customers, tables at the base, and sums of each vector, [..., T, 3]."""

    def of_vector(carry, inputs):
        customers, base_tables = carry
        keys, t, parent, time, total = inputs
        log_q, log_odds = _mixture(base, _parent(position, parent), time[..., None])
        shapes = jnp.exp(log_q + jnp.log(total)[..., None])
        here = _vector(customers, t)
        tables, inherited = seat(keys, here, jnp.maximum(shapes, _SMALLEST_SHAPE), log_odds)
        above = jnp.maximum(parent, 0)
        customers = lax.dynamic_update_index_in_dim(
            customers, _vector(customers, above) + inherited, above, axis=-2
        )
        sums = jnp.stack([jnp.sum(x, axis=-1) for x in (tables, inherited, here)], axis=-1)
        return (customers, base_tables + tables - inherited), sums

    inputs = keys, *_by_vector(parents, time, total)
    carry = counts, jnp.zeros_like(base)
    (customers, base_tables), sums = lax.scan(of_vector, carry, inputs, reverse=True)
    return customers, base_tables, jnp.moveaxis(sums, 0, -2)


def _by_vector(parents: jax.Array, *steps: jax.Array) -> tuple[jax.Array, ...]:
    """Return index and parent of each vector, and steps [..., T] with T in front."""
    number = lax.iota(jnp.int32, parents.shape[0])
    return number, parents, *(jnp.moveaxis(step, -1, 0) for step in steps)


def _log_ratio_of_paces(
    new: jax.Array, r: jax.Array, c: jax.Array, log_q: jax.Array, seated: _Seated, forest: _Forest
) -> jax.Array:
    """Return the log ratio of the densities of the tables at two paces.

    This is a sum of differences: a difference of sums is lost in the rounding of numbers of the
    size of all tables.
    """
    time = forest.times(r)
    more = jnp.where(jnp.isfinite(time), time * ((new - r) / r), 0)

    def log_change(scale):  # of 1 - exp(-scale r gap)
        less = jnp.exp(-scale * (time + jnp.minimum(more, 0))) * jnp.expm1(-scale * jnp.abs(more))
        return jnp.log1p(jnp.sign(more) * less / jnp.expm1(-scale * time))

    log_e, log_w = log_change(1), -log_change(2)
    terms = (seated.tables - seated.inherited) * log_e - seated.inherited * more
    terms = terms + seated.tables * log_w + c * _precision(time) * log_q * jnp.expm1(log_w)
    return jnp.sum(terms, axis=0)


def _draw_given_tables(
    key: jax.Array, c: jax.Array, r: jax.Array, seated: _Seated, forest: _Forest, prior: _Prior
) -> tuple[jax.Array, jax.Array]:
    """Draw c, conjugate given auxiliary beta variates, and r by Metropolis, given the tables."""
    if not (prior.learn_concentration or prior.learn_pace):
        return c, r
    none = seated.customers == 0
    numbers = prior.numbers().astype(c.dtype)

    def draw(state, key):
        c, r = state
        key_q, key_rate, key_c, key_r = jax.random.split(key, 4)
        w = _precision(forest.times(r))
        # log q, q ~ Beta(c w, customers), without cancellation where it is near 0.
        shapes = jnp.stack([c * w, jnp.where(none, 1, seated.customers)])
        log_x, log_y = draws.loggamma(key_q, shapes)
        log_q = jnp.where(none, 0, -jax.nn.softplus(log_y - log_x))
        if prior.learn_concentration:
            # Half-Cauchy, as a mixture: c ~ Gamma(1/2, rate), rate ~ Gamma(1/2, deviation^-2).
            rate = jax.random.exponential(key_rate, c.shape, c.dtype) / (c + prior.deviation**-2)
            log_g = draws.loggamma(key_c, 0.5 + jnp.sum(seated.tables, axis=0))
            c = jnp.exp(log_g - jnp.log(rate - jnp.sum(w * log_q, axis=0)))
        if prior.learn_pace:
            for key_try in jax.random.split(key_r, 3):
                key_length, key_move, key_accept = jax.random.split(key_try, 3)
                u = jax.random.uniform(key_length, r.shape, r.dtype)
                length = _SHORTEST * jnp.exp(math.log(_LONGEST / _SHORTEST) * u)
                new = r * jnp.exp(length * jax.random.normal(key_move, r.shape, r.dtype))
                ratio = _log_ratio_of_paces(new, r, c, log_q, seated, forest)
                ratio = ratio + _log_prior(numbers, c, new) - _log_prior(numbers, c, r)
                accept = -jax.random.exponential(key_accept, r.shape, r.dtype) < ratio
                r = jnp.where(accept, new, r)
        return (c, r), None

    return lax.scan(draw, (c, r), jax.random.split(key, _ROUNDS))[0]


def _draw_vectors(
    key: jax.Array,
    customers: jax.Array,
    base: jax.Array,
    c: jax.Array,
    r: jax.Array,
    forest: _Forest,
) -> jax.Array:
    """Draw each vector given its parent, the base and its customers."""
    keys = jax.random.split(key, forest.parents.shape[0])

    def by_native(keys, *given):
        return native.draw_vectors(_words(keys), *given)

    given = keys, customers, base, *forest.steps(c, r), forest.parents
    return native.lowered_paths("draw_vectors", by_native, _draw_by_xla, *given)


def _draw_by_xla(
    keys: jax.Array,
    customers: jax.Array,
    base: jax.Array,
    time: jax.Array,
    total: jax.Array,
    parents: jax.Array,
) -> jax.Array:
    def of_vector(position, inputs):
        key, t, parent, time, total = inputs
        log_q, _ = _mixture(base, _parent(position, parent), time[..., None])
        shapes = jnp.exp(log_q + jnp.log(total)[..., None])
        shapes = jnp.maximum(shapes, _SMALLEST_SHAPE) + _vector(customers, t)
        drawn = jnp.maximum(draws.log_dirichlet(key, shapes), _LOWEST)
        return lax.dynamic_update_index_in_dim(position, drawn, t, axis=-2), None

    inputs = keys, *_by_vector(parents, time, total)
    return lax.scan(of_vector, jnp.zeros_like(customers), inputs)[0]


def build(
    beta: ArrayLike | Callable[[jax.Array], jax.Array],
    gaps: ArrayLike,
    *,
    parents: ArrayLike | None = None,
    concentration: ArrayLike | str = "learn",
    pace: ArrayLike | str = "learn",
    deviation: float = 0.2,
    pace_prior: tuple[float, float] | None = None,
    moves: int = 10,
) -> Kernel:
    r"""Sample probability vectors that change from one time, or group, to the next.

    The vectors of a path share a base :math:`p_0`. Each continues its parent, a vector before it,
    across a gap :math:`d_t`, or has no parent:

    .. math::
        p_0 \sim \text{Dirichlet}(\beta), \quad
        p_t \sim \text{Dirichlet}\big(c\, w_t\, [(1 - e_t)\, p_{\text{parent}(t)} + e_t\, p_0]\big)

        e_t = 1 - e^{-r d_t}, \quad w_t = 1 / (1 - e^{-2 r d_t})

    and :math:`p_t \sim \text{Dirichlet}(c\, p_0)` without a parent. Every :math:`p_t` has mean
    :math:`p_0` and, to first order, variance :math:`p_0 / c`, whatever the gaps. With large c all
    are equal, with large r they are independent given the base. Counts at t are multinomial with
    :math:`p_t`.

    An update leaves the posterior invariant. From children to parents it draws the tables of a
    Chinese restaurant, :math:`L_{tv} \sim \text{CRT}(x_{tv}, c\, w_t [\cdot]_v)`, of customers x:
    the counts and what the children passed on. Each table passes to the parent with probability
    :math:`(1 - e_t) p_{\text{parent}(t), v} / [\cdot]_v` and to the base otherwise. Given the
    tables, c has a gamma distribution, with an auxiliary
    :math:`\text{Beta}(c\, w_t, \sum_v x_{tv})`, and r moves by Metropolis. Then
    :math:`p_0 \sim \text{Dirichlet}(\beta + \text{tables at the base})` and, from parents to
    children, :math:`p_t \sim \text{Dirichlet}(c\, w_t [\cdot] + x_t)`: whole paths at once.
    Metropolis moves of c and r given the vectors, with the tables summed out, interweave with those
    given the tables. In these, categories that neither a vector nor its descendants count are
    merged into one. Shapes are at least 1e-12.

    Priors: the relative deviation :math:`c^{-1/2}` is half-Cauchy; log r is normal, by default
    with mean log(3 / T), where T is the time that the longest path covers, and standard deviation
    1.5.

    Args:
        beta: Concentrations of the base, positive, broadcast to [..., V]. Or a function from the
            tables at the base, [..., V], which are counts of the base, to such: to learn beta, let
            it return a draw given the tables. It is called once in an update.
        gaps: Times from each vector's parent, [T], finite and positive. Entries of vectors without
            a parent are not used.
        parents: Index of each vector's parent, [T], below its own, or -1 for none. By default the
            vectors are a chain.
        concentration: c, positive, broadcast to the paths [...], or "learn".
        pace: r, likewise: 1 / r is the time in which a path forgets.
        deviation: Scale of the half-Cauchy prior of c^-1/2.
        pace_prior: Mean and standard deviation of log r.
        moves: Number of Metropolis moves of c and r given the vectors, from 0 on.

    Returns:
        A kernel over log probabilities [..., T, V], whose batches are counts in this shape. Leading
        axes are independent forests of this structure, each with its own base, c and r. Its `init`
        takes probabilities.

    Raises:
        ValueError: An argument is out of range, or shapes do not fit.

    Example: shares of three parties in four elections, the last after a long gap.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax.samplers import dirichlet_paths
        >>> votes = jnp.array([[50, 30, 20], [45, 35, 20], [40, 38, 22], [20, 60, 20]])
        >>> kernel = dirichlet_paths.build(beta=1.0, gaps=[0.0, 4.0, 4.0, 12.0])
        >>> state = kernel.init(jax.random.key(0), jnp.ones((4, 3)))
        >>> update = jax.jit(kernel.update)
        >>> for key in jax.random.split(jax.random.key(1), 100):
        ...     state, info = update(key, state, votes)
        >>> state.position.shape, bool(info.concentration > 0)
        ((4, 3), True)
    """
    shared = hyperparameters(
        gaps,
        parents=parents,
        concentration=concentration,
        pace=pace,
        deviation=deviation,
        pace_prior=pace_prior,
    )
    moves = arguments.at_least("moves", moves, 0)
    if not callable(beta):
        beta = arguments.masked("beta", arguments.as_float("beta", beta))
    return freeze(init, static(update, moves=moves), {**shared, "beta": beta})


def hyperparameters(
    gaps: ArrayLike,
    *,
    parents: ArrayLike | None = None,
    concentration: ArrayLike | str = "learn",
    pace: ArrayLike | str = "learn",
    deviation: float = 0.2,
    pace_prior: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """Return the checked arguments that `init` and `update` share, from those of `build`."""
    gaps = np.atleast_1d(np.asarray(arguments.as_float("gaps", gaps)))
    if gaps.ndim != 1 or not gaps.size:
        raise ValueError(f"gaps must be a vector, one for each time; its shape is {gaps.shape}")
    above = _parents(parents, len(gaps))
    used = jnp.asarray(np.where(above < 0, 1, gaps).astype(gaps.dtype))
    arguments.require("gaps", used, arguments.positive(used), "finite and positive")
    if pace_prior is None:
        time = np.zeros(len(gaps))
        for t in np.flatnonzero(above >= 0):
            time[t] = time[above[t]] + gaps[t]
        pace_prior = (math.log(3 / (time.max() or 1)), 1.5)
    if np.size(pace_prior) != 2:
        raise ValueError(f"pace_prior must be a mean and a deviation; it is {pace_prior!r}")
    mean, sd = arguments.as_float("pace_prior", pace_prior[0]), pace_prior[1]
    arguments.require("pace_prior", mean, jnp.isfinite(mean), "finite")
    return {
        "gaps": used,
        "parents": jnp.asarray(above, jnp.int32),
        "concentration": _learned("concentration", concentration),
        "pace": _learned("pace", pace),
        "deviation": arguments.scalar("deviation", deviation),
        "pace_prior": (mean, arguments.scalar("standard deviation of pace_prior", sd)),
    }


def _parents(parents: ArrayLike | None, number: int) -> np.ndarray:
    if parents is None:
        return np.arange(-1, number - 1)
    above = np.asarray(parents)
    if above.shape != (number,) or not np.issubdtype(above.dtype, np.integer):
        raise ValueError(
            f"parents must be {number} integers, one for each of gaps; "
            f"they are {above.dtype} of shape {above.shape}"
        )
    wrong = np.flatnonzero((above < -1) | (above >= np.arange(number)))
    if wrong.size:
        raise ValueError(
            f"a parent must come before its children: parents[{wrong[0]}] is {above[wrong[0]]}; "
            "order the vectors by time, and use -1 for those without a parent"
        )
    return above


def _learned(name: str, value: ArrayLike | str) -> jax.Array | None:
    if isinstance(value, str):
        arguments.choice(name, value, ["learn"])
        return None
    return arguments.masked(name, arguments.as_float(name, value))
