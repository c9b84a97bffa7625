"""Numbers of tables in a Chinese restaurant process, which link counts to the concentration."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.draws import uniform
from simplex_jax._src.draws.bits import random_words, refused, use_up, zeros


def crt(
    key: jax.Array,
    concentration: ArrayLike,
    customers: ArrayLike,
    shape: Sequence[int] | None = None,
    *,
    columns: ArrayLike | None = None,
) -> jax.Array:
    """Draw the number of occupied tables, sum over i < n of Bernoulli(c / (c + i)).

    Given this number, the factor Gamma(c + n) / Gamma(c) of a Dirichlet-multinomial likelihood is
    a power of c, which makes a Gamma prior on c conjugate (Escobar and West 1995; Teh et al. 2006;
    "CRT" in Zhou and Carin 2015).

    The cost is proportional to the tables: about c log n rounds and at most n. Each round jumps to
    the next candidate for a new table, geometrically with the next customer's probability, which
    bounds all later ones; it is accepted with its own probability relative to that bound.

    Args:
        key: A PRNG key, threefry or rbg.
        concentration: c, finite and positive.
        customers: n, nonnegative whole numbers, exact in the floating dtype.
        shape: Shape of the result; by default that of the broadcast arguments.
        columns: Numbers of the draws, distinct nonnegative integers in the shape of the result. A
            draw depends on its number, not on its position. By default the two are the same.

    Returns:
        Numbers of tables as floats; NaN if arguments are invalid and cannot be checked (under
        ``jit``).

    Raises:
        ValueError: An argument is out of range or the shapes do not fit.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import draws
        >>> tables = draws.crt(jax.random.key(0), 2.0, jnp.array([0, 1, 1000]))
        >>> tables[:2].tolist(), bool(tables[2] < 40)
        ([0.0, 1.0], True)
    """
    c, n = arguments.promote(concentration=concentration, customers=customers)
    shape = arguments.common_shape(shape, concentration=c, customers=n)
    arguments.require("concentration", c, arguments.positive(c), "finite and positive")
    arguments.require("customers", n, _whole(n), "whole numbers from 0 on")
    if columns is not None:
        columns = jnp.broadcast_to(jnp.asarray(columns), shape)
    return _crt(key, jnp.broadcast_to(c, shape), jnp.broadcast_to(n, shape), columns)


@jax.jit
def _crt(key: jax.Array, c: jax.Array, n: jax.Array, columns: jax.Array | None) -> jax.Array:
    shape, dtype = c.shape, c.dtype
    c, n = refused(c), refused(n)
    valid = arguments.positive(c) & _whole(n)
    c, n = arguments.flatten(shape, jnp.where(valid, c, 1), jnp.where(valid, n, 0))
    size = c.shape[0]
    if columns is not None:
        (columns,) = arguments.flatten(shape, columns)
    use_up(key)

    def jump(state):
        """Continue from customer i, of 0..n-1, who is seated."""
        row, i, tables = state
        gap, word = random_words(key, size, dtype, row=row, columns=columns)
        # A geometric number of at least 1, with success probability c / (c + i + 1).
        j = i + 1 + jnp.floor(uniform.exponential(gap, dtype) / jnp.log1p(c / (i + 1)))
        new = (uniform.uniform(word, dtype) * (c + j) < c + i + 1) & (j < n)
        return row + 1, j, tables + new.astype(dtype)

    none = zeros(key, dtype, c, n, *(() if columns is None else (columns,)))
    state = (jnp.int32(0), none, none + (n > 0).astype(dtype))
    tables = lax.while_loop(lambda state: jnp.any(state[1] < n - 1), jump, state)[2]
    return jnp.where(valid, arguments.unflatten(shape, tables), jnp.nan)


def _whole(n: jax.Array) -> jax.Array:
    return arguments.nonnegative(n) & (n == jnp.floor(n))
