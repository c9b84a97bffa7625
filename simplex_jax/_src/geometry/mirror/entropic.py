"""The entropic mirror map of the probability simplex."""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp

from simplex_jax._src import arguments
from simplex_jax._src.geometry.mirror.maps import MirrorMap, of_methods


def simplex(reference: int = -1) -> MirrorMap:
    r"""Return the entropic mirror map of probability vectors [..., K], K > 1.

    :math:`h(x) = \sum_j x_j \log x_j`, with the category r = `reference` eliminated, so the dual
    variable is :math:`y_j = \log(x_j / x_r)` for the K - 1 others (equation 3.4). Gradients may
    come from any function of all K coordinates that equals the target on the simplex; densities are
    with respect to the volume of the K - 1:

    .. math::
        (\nabla^2 h^{-1} v)_j = x_j \Big( v_j - \sum_k x_k v_k \Big), \qquad
        \log \det \nabla^2 h = -\sum_k \log x_k, \qquad
        -\nabla^2 h^{-1} \nabla \log \det \nabla^2 h = 1 - K x_j .

    In float32, probabilities are at least 4e-29; y and the drift of a Dirichlet stay accurate where
    they would be smaller. For log-probabilities, use `samplers.smld`.

    Args:
        reference: The category left out of y, preferably one of large probability.

    Raises:
        ValueError: The reference is not an integer; when used, it is not a category.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax.geometry import mirror
        >>> entropic = mirror.simplex()
        >>> y = entropic.dual(jnp.array([0.5, 0.25, 0.25]))
        >>> print(y.round(2), entropic.primal(y, None))
        [0.69 0.  ] [0.5  0.25 0.25]
    """
    return of_methods(_Entropic(arguments.integer("reference", reference)))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Entropic:
    reference: int = field(metadata={"static": True})

    def dual(self, x: jax.Array) -> jax.Array:
        if x.ndim == 0 or x.shape[-1] < 2:
            raise ValueError(f"a simplex has at least 2 categories; the shape of x is {x.shape}")
        if not -x.shape[-1] <= self.reference < x.shape[-1]:
            raise ValueError(f"reference {self.reference} is not one of {x.shape[-1]} categories")
        log_x = jnp.log(x)
        return self._others(log_x - jnp.take(log_x, jnp.array([self.reference]), axis=-1))

    def primal(self, y: jax.Array, near: jax.Array) -> jax.Array:
        del near
        # The floor leaves room for the gradient of a Dirichlet density, a count over x.
        floor = float(jnp.finfo(y.dtype).tiny) ** 0.75
        return jnp.maximum(jax.nn.softmax(self._logits(y), axis=-1), floor)

    def inverse_hessian(self, x: jax.Array, y: jax.Array, v: jax.Array) -> jax.Array:
        del y
        return self._others(x * (v - jnp.sum(x * v, axis=-1, keepdims=True)))

    def log_det(self, x: jax.Array, y: jax.Array) -> jax.Array:
        del x
        return -jax.nn.log_softmax(self._logits(y), axis=-1).sum(axis=-1)

    def correction(self, x: jax.Array, y: jax.Array) -> jax.Array:
        del y
        return 1 - x.shape[-1] * self._others(x)

    def inside(self, x: jax.Array) -> jax.Array:
        return arguments.positive(x).all(axis=-1)

    def hessian(self, x: jax.Array, y: jax.Array, u: jax.Array) -> jax.Array:
        del y
        reference = jnp.take(x, jnp.array([self.reference]), axis=-1)
        return u / self._others(x) + u.sum(axis=-1, keepdims=True) / reference

    def noise(self, x: jax.Array, y: jax.Array, xi: jax.Array) -> jax.Array:
        del y
        z = jnp.sqrt(x) * xi
        return self._others(z - x * z.sum(axis=-1, keepdims=True))

    def square(self, x: jax.Array, y: jax.Array, w: jax.Array) -> jax.Array:
        del y
        full = self._logits(w)
        return jnp.sum(x * (full - jnp.sum(x * full, axis=-1, keepdims=True)) ** 2, axis=-1)

    def _logits(self, y: jax.Array) -> jax.Array:
        return jnp.insert(y, self.reference % (y.shape[-1] + 1), 0, axis=-1)

    def _others(self, full: jax.Array) -> jax.Array:
        return jnp.delete(full, self.reference % full.shape[-1], axis=-1)
