"""Numbers of tables in a Chinese restaurant process, which link counts to the concentration."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.draws import uniform
from simplex_jax._src.draws.bits import random_words, refused, use_up, zeros
from simplex_jax._src.draws.gamma import log_remainder


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

    The cost is proportional to the fewer of tables, about c log(1 + n / c), and customers without a
    table of their own, in at most some 700 rounds: where their variance is 256 or more, the number
    is a rounded function of a normal variate, at a distance in total variation below 2e-6.

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
        columns = jnp.asarray(columns)
        if columns.shape != shape or not jnp.issubdtype(columns.dtype, jnp.integer):
            raise ValueError(
                f"columns must be integers of shape {shape}; they are {columns.dtype} of shape "
                f"{columns.shape}"
            )
        arguments.require("columns", columns, columns >= 0, "at least 0")
    return _crt(key, jnp.broadcast_to(c, shape), jnp.broadcast_to(n, shape), columns)


@jax.jit
def _crt(key: jax.Array, c: jax.Array, n: jax.Array, columns: jax.Array | None) -> jax.Array:
    shape = c.shape
    c, n = refused(c), refused(n)
    valid = arguments.positive(c) & _whole(n)
    c, n = arguments.flatten(shape, jnp.where(valid, c, 1), jnp.where(valid, n, 0))
    if columns is not None:
        (columns,) = arguments.flatten(shape, columns)
    tables = count_tables(key, c, n, columns)
    return jnp.where(valid, arguments.unflatten(shape, tables), jnp.nan)


def _whole(n: jax.Array) -> jax.Array:
    return arguments.nonnegative(n) & (n == jnp.floor(n))


def count_tables(
    key: jax.Array, c: jax.Array, n: jax.Array, columns: jax.Array | None
) -> jax.Array:
    """Return the sums over i < n of Bernoulli(c / (c + i)), of vectors [N] of c and n.

    If the variance of the sum is large, see `many_tables`. Otherwise up from the first customer to
    the next with a new table; or, where fewer join a table, down from the last to the next who
    joins one, i with probability i / (c + i). Each round jumps to a candidate, geometrically with
    the probability of the customer next to the last one, which bounds those of all further ones;
    it is accepted with its own probability relative to that bound.
    """
    dtype, size = n.dtype, n.shape[0]
    use_up(key)
    # Tables but one number about c log(1 + n / c), which is half of n at n = 2.51 c.
    up = n > 2.5 * c

    word, _ = random_words(key, size, dtype, columns=columns)
    drawn, many = many_tables(uniform.normal(word, dtype), n, c)

    def active(i):
        return jnp.where(up, i < n - 1, i > 1) & ~many

    def jump(state):
        row, i, found = state
        gap, word = random_words(key, size, dtype, row=row, columns=columns)
        going = active(i)
        last = jnp.where(up, i + 1, jnp.maximum(i - 1, 1))
        ratio = jnp.where(up, c / last, last / c)
        steps = jnp.floor(uniform.exponential(gap, dtype) / jnp.log1p(ratio))
        j = jnp.where(up, last + steps, last - steps)
        u = uniform.uniform(word, dtype)
        new = jnp.where(
            up, (u * (c + j) < c + last) & (j < n), (u * last * (c + j) < j * (c + last)) & (j >= 1)
        )
        return row + 1, jnp.where(going, j, i), found + (new & going).astype(dtype)

    none = zeros(key, dtype, c, n, *(() if columns is None else (columns,)))
    state = (jnp.int32(0), none + jnp.where(up, 0, n), none)
    found = lax.while_loop(lambda state: jnp.any(active(state[1])), jump, state)[2]
    return jnp.where(many, drawn, jnp.where(up, found + (n > 0).astype(dtype), n - found))


def many_tables(z: jax.Array, n: jax.Array, a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return numbers of tables, rounded functions of normals z, and where these may be used.

    That is where their variance is at least 256, and n / a does not overflow. The function is the
    expansion of Cornish and Fisher to fourth cumulants, with the variance less that of rounding,
    1/12. The total variation distance to the distribution of the sum of Bernoulli variates is then
    below 2e-6.

    Cumulants are those of sums of Bernoulli variates; sums are integrals and terms at their ends
    (Euler and Maclaurin). With s = n / (a + n) and y = log(1 + n / a), the integrals are functions
    of y - s, which is a series for small s.
    """
    s, y = n / (a + n), jnp.log1p(n / a)
    rest = 1 - s
    series = s * s * (0.5 + s / 3) - log_remainder(jnp.where(s < 0.25, -s, 0))
    excess = jnp.where(s < 0.25, series, y - s)
    up = n > 2.5 * a
    ends = s * (1 + rest) / (12 * a)
    # Of the fewer: tables, or customers without one of their own.
    mean = jnp.where(up, a * y + (0.5 * s + ends), a * (s * s / rest - excess) - (0.5 * s + ends))
    cubes = 1 - rest**3
    variance = a * excess - 0.5 * s * rest + (s * (1 + rest) - 2 * cubes) / (12 * a)
    third = a * (excess - s * s)
    fourth = a * (y - 7 * s + 6 * s * (1 + rest) - 2 * cubes)
    many = (variance >= 256) & jnp.isfinite(n / a)
    square = jnp.where(many, variance - 1 / 12, 1)
    deviation = jnp.sqrt(square)
    skew = jnp.where(up, third, -third) / (square * deviation)
    bent = z + skew * (z * z - 1) / 6
    bent = bent + fourth / (square * square) * z * (z * z - 3) / 24
    bent = bent - skew * skew * z * (2 * z * z - 5) / 36
    drawn = jnp.floor(mean + deviation * bent + 0.5)
    drawn = jnp.clip(drawn, jnp.where(up, 1, 0), jnp.where(up, n, n - 1))
    return jnp.where(up, drawn, n - drawn), many
