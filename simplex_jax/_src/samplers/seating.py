"""Tables of a Chinese restaurant, and how many of them are of the first of two kinds.

Here few of many restaurants have customers; `draws.crt` seats those of each.
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src import arguments
from simplex_jax._src.draws import native, uniform
from simplex_jax._src.draws.bits import key_words, random_words, use_up, zeros
from simplex_jax._src.draws.crt import count_tables
from simplex_jax._src.draws.rejection import ROUNDS, positions

_FEW = 256
# Restaurants with customers are seated this part of all at a time.
_PART = 16
# A binomial number whose mean is below this is the number of waiting times.
_WAITING = 10.0
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def tables(key: jax.Array, customers: jax.Array, concentration: jax.Array) -> jax.Array:
    """Draw numbers of tables, CRT(a, n), of many restaurants, most of them with few customers.

    Args:
        key: A PRNG key.
        customers: n, whole numbers, floats [..., V].
        concentration: a, positive, [V].

    Returns:
        Numbers of tables, floats in the shape of n.
    """
    keys = jax.random.split(key, 3)
    a = jnp.broadcast_to(concentration, customers.shape)

    def by_native(keys: jax.Array, n: jax.Array, a: jax.Array) -> jax.Array:
        # A forest of one vector without a parent, whose tables are all at the base.
        n, rows = n.reshape(-1, 1, n.shape[-1]), n.size // n.shape[-1]
        one = jnp.ones((rows, 1), n.dtype)
        root, words = jnp.full(1, -1, jnp.int32), jax.vmap(key_words)(keys)[None]
        given = words, n, n, jnp.log(a).reshape(rows, -1), jnp.inf * one, one, root
        return native.pass_tables(*given)[1].reshape(a.shape)

    def by_xla(keys: jax.Array, n: jax.Array, a: jax.Array) -> jax.Array:
        # A tuple: outside jit JAX cannot unpack an array of keys within the loop.
        return seat(tuple(keys), n, a, jnp.full_like(a, -jnp.inf))[0]

    return native.lowered_paths("pass_tables", by_native, by_xla, keys, customers, a)


def seat(
    keys: Sequence[jax.Array], customers: jax.Array, concentration: jax.Array, log_odds: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Draw numbers of tables, CRT(n, a), and of those of the first kind, Binomial(tables, p).

    The cost is proportional to the restaurants with customers. They are gathered, a 16th of all at
    a time. Seating takes about as many rounds as the fewer of tables and customers without one of
    their own, but at most some 700.

    Args:
        keys: Three PRNG keys, for tables and for rare and frequent kinds of them.
        customers: n, whole numbers, any shape.
        concentration: a, positive, in the shape of n.
        log_odds: log(p / (1 - p)), in the shape of n, from -inf to inf.

    Returns:
        Both numbers, floats in the shape of n.
    """
    shape, size = customers.shape, math.prod(customers.shape)
    n, a, odds = (value.ravel() for value in (customers, concentration, log_odds))
    if size <= _FEW:
        index = lax.iota(jnp.int32, size)
        tables, first = _seat(keys, n, a, odds, index)
        return tables.reshape(shape), first.reshape(shape)
    part = arguments.pad(max(_FEW, size // _PART))

    def seat_part(state):
        waiting, tables, first = state
        index = positions(waiting, part)
        here, ours = _seat(
            keys,
            jnp.where(index < size, n.at[index].get(mode="clip"), 0),
            a.at[index].get(mode="clip"),
            odds.at[index].get(mode="clip"),
            index,
        )
        return (
            waiting.at[index].set(False, mode="drop"),
            tables.at[index].set(here, mode="drop"),
            first.at[index].set(ours, mode="drop"),
        )

    none = zeros(keys[0], n.dtype, n, a, odds)
    _, tables, first = lax.while_loop(
        lambda state: jnp.any(state[0]), seat_part, (n > none, none, none)
    )
    return tables.reshape(shape), first.reshape(shape)


def _seat(
    keys: Sequence[jax.Array], n: jax.Array, a: jax.Array, odds: jax.Array, columns: jax.Array
) -> tuple[jax.Array, jax.Array]:
    key_tables, key_waiting, key_large = keys
    tables = count_tables(key_tables, a, n, columns)
    rare = jax.nn.sigmoid(-jnp.abs(odds))  # the probability of the rarer kind
    by_waiting = tables * rare < _WAITING
    few = _wait(key_waiting, jnp.where(by_waiting, tables, 0), rare, columns)
    many = _reject(key_large, tables, rare, ~by_waiting, columns)
    drawn = jnp.where(by_waiting, few, many)
    return tables, jnp.where(odds > 0, tables - drawn, drawn)


def _wait(key: jax.Array, trials: jax.Array, p: jax.Array, columns: jax.Array) -> jax.Array:
    """Return Binomial(trials, p) variates, by the times from one success to the next."""
    dtype = trials.dtype
    use_up(key)
    times = -jnp.log1p(-p)

    def success(state):
        row, i, found = state
        word, _ = random_words(key, trials.shape[0], dtype, row=row, columns=columns)
        # Where p is 0, the time is infinite.
        i = i + 1 + jnp.floor(uniform.exponential(word, dtype) / times)
        return row + 1, i, found + (i <= trials).astype(dtype)

    none = zeros(key, dtype, trials, p)
    state = (jnp.int32(0), none, none)
    return lax.while_loop(lambda state: jnp.any(state[1] < trials), success, state)[2]


def _reject(
    key: jax.Array, trials: jax.Array, p: jax.Array, needed: jax.Array, columns: jax.Array
) -> jax.Array:
    """Return Binomial(trials, p) variates of mean 10 or more, p up to 1/2, where needed.

    By transformed rejection, algorithm BTRS of Hoermann (1993). Log probabilities are differences
    from the mean (`_log_binomial`), because float32 has not the digits for those of large counts.
    """
    dtype = trials.dtype
    use_up(key)
    n = jnp.where(needed, trials, 40)
    p = jnp.where(needed, p, 0.5)
    deviation = jnp.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    alpha = (2.83 + 5.1 / b) * deviation
    at_mode = _log_binomial(jnp.floor((n + 1) * p), n, p)

    def propose(state):
        row, drawn = state
        word_u, word_v = random_words(key, n.shape[0], dtype, row=row, columns=columns)
        negative, us = uniform.side_and_magnitude(word_u, dtype)
        u = jnp.where(negative, us - 0.5, 0.5 - us)
        v = uniform.uniform(word_v, dtype)
        k = jnp.floor((2 * a / us + b) * u + n * p + 0.5)
        inside = (k >= 0) & (k <= n)
        ratio = _log_binomial(jnp.where(inside, k, 0), n, p) - at_mode
        below = jnp.log(v * alpha / (a / (us * us) + b)) <= ratio
        accepted = inside & (((us >= 0.07) & (v <= 0.92 - 4.2 / b)) | below)
        return row + 1, jnp.where((drawn < 0) & accepted, k, drawn)

    none = zeros(key, dtype, trials, p)
    drawn = lax.while_loop(
        lambda state: jnp.any(state[1] < 0) & (state[0] < ROUNDS),
        propose,
        (jnp.int32(0), none - needed.astype(dtype)),
    )[1]
    return jnp.where(drawn < 0, jnp.nan, drawn)


def _log_binomial(k: jax.Array, n: jax.Array, p: jax.Array) -> jax.Array:
    """Return the log probability of k successes, in Loader's (2000) form, but for a constant."""

    def excess(k):  # of log k! over k log k - k
        one = jnp.maximum(k, 1)
        return jnp.where(k > 0, _HALF_LOG_TWO_PI + 0.5 * jnp.log(one) + stirling(one), 0)

    def deviance(k, mean):
        t = (k - mean) / mean
        return mean * (jax.scipy.special.xlog1py(1 + t, t) - t)

    return -excess(k) - excess(n - k) - deviance(k, n * p) - deviance(n - k, n * (1 - p))


def stirling(a: jax.Array) -> jax.Array:
    """Return log Gamma(a) - (a - 1/2) log a + a - log(2 pi) / 2, the error of Stirling's formula.

    Absolute error 1e-6 in float32, for a from 1e-12 on; below 4 by the recurrence of Gamma.
    """
    small = a < 4
    z = jnp.where(small, a + 4, a)
    x = 1 / (z * z)
    series = (1 / 12 - x * (1 / 360 - x * (1 / 1260 - x / 1680))) / z
    low = jnp.where(small, a, 1)
    product = jnp.log(low * (low + 1) * (low + 2) * (low + 3))
    moved = (z - 0.5) * jnp.log(z) - z - product - (low - 0.5) * jnp.log(low) + low
    return series + jnp.where(small, moved, 0)
