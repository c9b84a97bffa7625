"""Batched operations on many small triangular matrices.

On CPUs XLA passes matrices to LAPACK one by one, from threads that wait for the result: a few
hundred thousand 2 x 2 matrices take minutes, and two solvers in one program can deadlock. Here each
step processes one row of all matrices.
"""

import jax
import jax.numpy as jnp
from jax import lax


def cholesky(matrices: jax.Array) -> jax.Array:
    """Return lower triangular C with C C' = a for matrices a [..., p, p].

    NaN from the first row on at which a matrix is not positive definite.
    """
    p = matrices.shape[-1]
    place = jnp.arange(p)

    def one(j: jax.Array, upper: jax.Array) -> jax.Array:
        # Fill in C': sums over the second-to-last axis vectorise.
        row = lax.dynamic_index_in_dim(matrices, j, -2, keepdims=False)
        column = lax.dynamic_index_in_dim(upper, j, -1)
        rest = row - jnp.sum(column * upper, axis=-2)
        pivot = lax.dynamic_index_in_dim(rest, j, -1)
        new = jnp.where(place >= j, rest / jnp.sqrt(pivot), 0)
        return lax.dynamic_update_index_in_dim(upper, new, j, -2)

    return jnp.swapaxes(lax.fori_loop(0, p, one, jnp.zeros_like(matrices)), -1, -2)


def solve(lower: jax.Array, right: jax.Array) -> jax.Array:
    """Return x with L x = b for lower triangular L [..., p, p] and b [..., p, m]."""
    p = lower.shape[-1]

    def one(j: jax.Array, x: jax.Array) -> jax.Array:
        row = lax.dynamic_index_in_dim(lower, j, -2, keepdims=False)
        solved = jnp.sum(row[..., None] * x, axis=-2)
        rest = lax.dynamic_index_in_dim(right, j, -2, keepdims=False) - solved
        new = rest / lax.dynamic_index_in_dim(row, j, -1)
        return lax.dynamic_update_index_in_dim(x, new, j, -2)

    start = jnp.zeros(jnp.broadcast_shapes(lower.shape[:-2], right.shape[:-2]) + right.shape[-2:])
    return lax.fori_loop(0, p, one, start.astype(right.dtype))


def inverse(lower: jax.Array) -> jax.Array:
    """Return the inverses of lower triangular matrices [..., p, p]."""
    return solve(lower, jnp.broadcast_to(jnp.eye(lower.shape[-1], dtype=lower.dtype), lower.shape))
