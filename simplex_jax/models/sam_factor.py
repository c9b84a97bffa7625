"""Cholesky factors of many small matrices side by side, in plain JAX.

`jnp.linalg` hands them one by one to LAPACK on the CPU. Its threads and those of the compiled
program then wait for each other: a step within a loop was seen to take forty times as long, or not
to end at all, unless BLAS was kept to one thread.
"""

import jax
import jax.numpy as jnp
from jax import lax


def cholesky(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the lower Cholesky factors of matrices [B, K, K], and the inverses of the factors.

    Both have NaN where a matrix is not positive definite. The columns follow each other; a column
    is found in all matrices at once.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax.models import sam_factor
        >>> factor, inverse = sam_factor.cholesky(jnp.array([[[4.0, 2.0], [2.0, 5.0]]]))
        >>> factor.tolist(), inverse.tolist()
        ([[[2.0, 0.0], [1.0, 2.0]]], [[[0.5, 0.0], [-0.25, 0.5]]])
    """
    size = matrix.shape[-1]
    places = jnp.arange(size)

    def column(j: jax.Array, both: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        factor, inverse = both
        row = factor[:, j]  # as yet only what is left of the diagonal
        # Sums of broadcast products in place of these two come out wrong in jaxlib 0.10.2 on the
        # CPU, for batches of thousands.
        left = matrix[:, :, j] - _einsum("bik,bk->bi", factor, row)
        pivot = jnp.sqrt(left[:, j])[:, None]
        unit = (places == j).astype(matrix.dtype)
        below = (unit - _einsum("bk,bkl->bl", row, inverse)) / pivot
        factor = factor.at[:, :, j].set(jnp.where(places >= j, left / pivot, 0))
        return factor, inverse.at[:, j].set(below)

    return lax.fori_loop(0, size, column, (jnp.zeros_like(matrix), jnp.zeros_like(matrix)))


def _einsum(subscripts: str, *arrays: jax.Array) -> jax.Array:
    return jnp.einsum(subscripts, *arrays, precision=lax.Precision.HIGHEST)
