"""Steps whose signs follow the gradient, shared by `barker` and `sgbd`."""

import jax
import jax.numpy as jnp

from simplex_jax._src.base import Position, PyTree
from simplex_jax._src.geometry import simplex
from simplex_jax._src.samplers import euler

_PROBIT = 1.702  # the logistic function is nearly the normal distribution function of x / 1.702


def step(
    key: jax.Array,
    x: Position,
    slope: Position,
    h: jax.Array,
    preconditioner: PyTree,
    noise: PyTree = None,
) -> Position:
    """Return x + b z: z ~ N(0, 2 h M), and b = 1 with probability 1 / (1 + exp(-z slope)), else -1.

    `noise` is None or the variance of the slope, a tree like x, which corrects the probability as
    in `sgbd`. The preconditioner M is an array or a tree that broadcasts to x.
    """
    key_size, key_sign = jax.random.split(key)
    leaves, structure = jax.tree.flatten(x)
    scales = simplex.like("preconditioner", preconditioner, x)
    variances = [None] * len(leaves) if noise is None else simplex.like("noise_estimate", noise, x)
    sizes = jax.tree.leaves(euler.normal_like(key_size, x))
    moved = []
    for k, leaf, g, m, variance, xi in zip(
        jax.random.split(key_sign, len(leaves)),
        *(leaves, jax.tree.leaves(slope), scales, variances, sizes),
        strict=True,
    ):
        z = jnp.sqrt(2 * h.astype(leaf.dtype) * m) * xi
        pull = z * g
        if variance is not None:
            remainder = 1 - z**2 * variance / _PROBIT**2
            pull /= jnp.sqrt(jnp.maximum(remainder, jnp.finfo(leaf.dtype).eps))
        flip = jax.random.logistic(k, leaf.shape, leaf.dtype) > pull
        end = leaf + jnp.where(flip, -z, z)
        moved.append(jnp.where(jnp.isnan(pull), jnp.nan, end))
    return jax.tree.unflatten(structure, moved)
