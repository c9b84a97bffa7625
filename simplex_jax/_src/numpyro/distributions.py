"""Distributions for numpyro models (``pip install numpyro``)."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.nn import logsumexp
from jax.scipy.special import digamma, polygamma
from jax.typing import ArrayLike
from numpyro.distributions import biject_to, constraints
from numpyro.distributions.kl import kl_divergence
from numpyro.distributions.transforms import ParameterFreeTransform, ZeroSumTransform
from numpyro.distributions.util import promote_shapes, validate_sample
from numpyro.infer.reparam import Reparam

from simplex_jax._src import draws
from simplex_jax._src.geometry import gamma_scores, von_mises_fisher


class VonMisesFisher(dist.Distribution):
    """The von Mises-Fisher distribution of unit vectors, density prop. to exp(k mean_direction.x).

    It is accurate in float32 for p from 2 to 1e5 and k from 0 (the uniform distribution) to 1e8.
    The density is with respect to area on the sphere. numpyro's ``kl_divergence`` supports it.

    numpyro has no map from R^n onto a sphere. For a latent site under HMC, NUTS or an autoguide,
    use ``reparam(config={"name of the site": VonMisesFisherReparam()})``. Observed sites need no
    change. A guide of your own cannot learn its parameters: draws have no derivative.

    Args:
        mean_direction: Unit vectors, shape [..., p] with p at least 2.
        concentration: k, finite and at least 0, shape [...].
        validate_args: Whether to check values, as everywhere in numpyro.

    Raises:
        ValueError: The shapes do not fit.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax.numpyro import VonMisesFisher
        >>> vmf = VonMisesFisher(jnp.array([0.0, 0.0, 1.0]), jnp.array([0.0, 2.0]))
        >>> vmf.sample(jax.random.key(0), (5,)).shape, round(float(vmf.mean[1, 2]), 4)
        ((5, 2, 3), 0.5373)
    """

    arg_constraints = {  # noqa: RUF012 (numpyro's protocol)
        "mean_direction": constraints.sphere,
        "concentration": constraints.nonnegative,
    }
    support = constraints.sphere
    reparametrized_params: list[str] = []  # noqa: RUF012

    def __init__(
        self,
        mean_direction: ArrayLike,
        concentration: ArrayLike,
        *,
        validate_args: bool | None = None,
    ) -> None:
        mean_shape, shape = jnp.shape(mean_direction), jnp.shape(concentration)
        if not mean_shape or mean_shape[-1] < 2:
            raise ValueError(
                f"mean_direction must have a last axis of length p >= 2; its shape is {mean_shape}"
            )
        try:
            batch_shape = jnp.broadcast_shapes(mean_shape[:-1], shape)
        except ValueError:
            raise ValueError(
                f"the shapes of mean_direction {mean_shape}, less its last axis, and concentration "
                f"{shape} do not broadcast"
            ) from None
        # All batch axes in both: numpyro's scan stacks each along a new first axis.
        (mean_direction,) = promote_shapes(mean_direction, shape=(*batch_shape, mean_shape[-1]))
        (concentration,) = promote_shapes(concentration, shape=batch_shape)
        self.mean_direction, self.concentration = (
            x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(float)
            for x in map(jnp.asarray, (mean_direction, concentration))
        )
        super().__init__(batch_shape, mean_shape[-1:], validate_args=validate_args)

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        """Return exact draws, shape [*sample_shape, *batch_shape, p]."""
        shape = (*sample_shape, *self.batch_shape)
        return draws.von_mises_fisher(key, self.mean_direction, self.concentration, shape)

    @validate_sample
    def log_prob(self, value: ArrayLike) -> jax.Array:
        """Return the log density with respect to area."""
        return von_mises_fisher.log_density(value, self.mean_direction, self.concentration)

    @property
    def mean(self) -> jax.Array:
        """The expectation, A(k) mean_direction, which lies inside the sphere."""
        length = von_mises_fisher.mean_length(self.event_shape[0], self.concentration)
        return jnp.broadcast_to(length[..., None] * self.mean_direction, self.shape())

    @property
    def mode(self) -> jax.Array:
        """The mean direction."""
        return jnp.broadcast_to(self.mean_direction, self.shape())

    @property
    def variance(self) -> jax.Array:
        """The variance of every coordinate."""
        along, across = von_mises_fisher.variances(self.event_shape[0], self.concentration)
        share = self.mean_direction**2
        variance = along[..., None] * share + across[..., None] * (1 - share)
        return jnp.broadcast_to(variance, self.shape())

    def entropy(self) -> jax.Array:
        """Return the differential entropy with respect to area."""
        entropy = von_mises_fisher.entropy(self.event_shape[0], self.concentration)
        return jnp.broadcast_to(entropy, self.batch_shape)

    @classmethod
    def infer_shapes(
        cls, mean_direction: tuple[int, ...], concentration: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return batch and event shapes for arguments of these shapes."""
        batch_shape = jnp.broadcast_shapes(mean_direction[:-1], concentration)
        return batch_shape, mean_direction[-1:]


@kl_divergence.register(VonMisesFisher, VonMisesFisher)
def _kl_von_mises_fisher(p: VonMisesFisher, q: VonMisesFisher) -> jax.Array:
    return von_mises_fisher.kl(p.mean_direction, p.concentration, q.mean_direction, q.concentration)


class VonMisesFisherReparam(Reparam):
    """Write a latent ``VonMisesFisher`` site as y / |y|, with y standard normal in R^p.

    y / |y| is then uniform on the sphere, and a factor adds the density relative to that. The
    sampled site is ``<site>_normal``; the site becomes deterministic. This is exact for every
    concentration; samplers work best at concentrations up to a few thousand.

    Example:
        >>> import jax, jax.numpy as jnp, numpyro
        >>> from numpyro.handlers import reparam, seed, trace
        >>> from simplex_jax.numpyro import VonMisesFisher, VonMisesFisherReparam
        >>> def model():
        ...     numpyro.sample("direction", VonMisesFisher(jnp.array([0.0, 1.0]), 3.0))
        >>> model = reparam(model, config={"direction": VonMisesFisherReparam()})
        >>> sorted(trace(seed(model, jax.random.key(0))).get_trace())
        ['direction', 'direction_factor', 'direction_normal']
    """

    def __call__(self, name: str, fn: dist.Distribution, obs: Any) -> tuple[None, jax.Array]:
        """Return the value of the site as a function of a normal one.

        Raises:
            ValueError: The site is observed or has another distribution.
        """
        distribution, _, _ = self._unwrap(fn)
        if obs is not None or not isinstance(distribution, VonMisesFisher):
            raise ValueError(
                f"VonMisesFisherReparam is for latent VonMisesFisher sites; {name!r} is "
                + ("observed" if obs is not None else type(distribution).__name__)
            )
        normal = dist.Normal(jnp.zeros(fn.shape()), 1).to_event(fn.event_dim)
        y = numpyro.sample(f"{name}_normal", normal)
        # 0 has no direction, but init_to_mean and init_to_feasible start there.
        is_zero = (y == 0).all(axis=-1, keepdims=True)
        y = y + (is_zero & (jnp.arange(y.shape[-1]) == 0))
        value = y / jnp.sqrt(jnp.sum(y**2, axis=-1, keepdims=True))
        uniform = von_mises_fisher.log_uniform(value.shape[-1]) * math.prod(fn.event_shape[:-1])
        numpyro.factor(f"{name}_factor", fn.log_prob(value) - uniform)
        return None, value


class LogSimplex(constraints.ParameterFreeConstraint):
    """Log-probabilities: arrays [..., K] whose exponentials sum to one, up to 1e-4 for float32."""

    event_dim = 1

    def __call__(self, x: ArrayLike) -> jax.Array:
        """Return where rows are log-probabilities."""
        return jnp.abs(logsumexp(x, axis=-1)) < 1e-4

    def feasible_like(self, prototype: jax.Array) -> jax.Array:
        """Return equal log-probabilities in that shape."""
        return jnp.full_like(prototype, -math.log(prototype.shape[-1]))


log_simplex = LogSimplex()


class LogRatioTransform(ParameterFreeTransform):
    """The map from R^(K-1) to K log-probabilities whose log ratios are isometric to it.

    It is the log-softmax of a point of the zero-sum plane, in orthonormal coordinates of that plane
    (Egozcue et al. 2003, the inverse of the isometric log-ratio transform).
    """

    domain = constraints.real_vector
    codomain = log_simplex

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return log-probabilities, [..., K]."""
        return jax.nn.log_softmax(ZeroSumTransform(1)(x), axis=-1)

    def _inverse(self, y: jax.Array) -> jax.Array:
        return ZeroSumTransform(1).inv(y - y.mean(axis=-1, keepdims=True))

    def log_abs_det_jacobian(self, x: jax.Array, y: jax.Array, intermediates: Any = None) -> Any:
        """Return log sqrt(K): volumes on the codomain are those of log(p_j / p_K), j < K."""
        return jnp.full(jnp.shape(y)[:-1], 0.5 * math.log(jnp.shape(y)[-1]), y.dtype)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of values for unconstrained ones of this shape."""
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of unconstrained values for values of this shape."""
        return (*shape[:-1], shape[-1] - 1)


@biject_to.register(LogSimplex)
def _to_log_simplex(constraint: LogSimplex) -> LogRatioTransform:
    return LogRatioTransform()


class LogDirichlet(dist.Distribution):
    r"""The distribution of the log of a Dirichlet variate, where the variate may underflow.

    A draw from Dirichlet(0.01) has entries below the smallest float32. ``dist.Dirichlet`` raises
    them to it, so a density evaluated there, or a concentration learned from it, belongs to another
    point. Here values are log-probabilities y, finite for every concentration from 1e-6, and

    .. math::
        \log p(y) = \sum_j \alpha_j y_j - \log B(\alpha)

    is the density with respect to the log ratios :math:`y_j - y_K`, j < K, symmetric in all
    categories. It is of the order of K, while the density of the probabilities has terms as large
    as the :math:`y_j`. Use y as ``dist.Categorical(logits=y)``, or ``jnp.exp(y)`` for
    probabilities; the model is the same as with ``dist.Dirichlet``. HMC, NUTS and autoguides work
    (``biject_to`` uses the isometric log-ratio transform), and so do the kernels of
    `simplex_jax.numpyro`. A guide of your own cannot learn its concentrations: draws have
    no derivative.

    Args:
        concentration: Concentrations, shape [..., K], positive.
        validate_args: Whether to check values, as everywhere in numpyro.

    Raises:
        ValueError: `concentration` has no last axis.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax.numpyro import LogDirichlet
        >>> sparse = LogDirichlet(jnp.full(100_000, 1e-4))
        >>> y = sparse.sample(jax.random.key(0))
        >>> bool(jnp.isfinite(y).all() & jnp.isfinite(sparse.log_prob(y)))
        True
        >>> round(float(jnp.exp(y).sum()), 3)
        1.0
    """

    arg_constraints = {  # noqa: RUF012 (numpyro's protocol)
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = log_simplex
    reparametrized_params: list[str] = []  # noqa: RUF012

    def __init__(self, concentration: ArrayLike, *, validate_args: bool | None = None) -> None:
        shape = jnp.shape(concentration)
        if not shape or shape[-1] < 1:
            raise ValueError(
                f"concentration must have a last axis of length K > 0; its shape is {shape}"
            )
        self.concentration = jnp.asarray(concentration)
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        """Return exact draws of log-probabilities, shape [*sample_shape, *batch_shape, K]."""
        return draws.log_dirichlet(key, self.concentration, (*sample_shape, *self.batch_shape))

    @validate_sample
    def log_prob(self, value: ArrayLike) -> jax.Array:
        """Return the log density with respect to the log ratios."""
        return self._log_density(value)

    def _log_density(self, value: ArrayLike) -> jax.Array:
        alpha = self.concentration
        total = alpha.sum(axis=-1, keepdims=True)
        # Values minus those at the mean, and gamma functions minus their leading terms, which in
        # float32 would leave an error of 1 at concentrations of 1e4.
        share = alpha / total
        share = jnp.maximum(share, jnp.finfo(share.dtype).tiny)  # smaller ones have weight 0
        fit = (alpha * (value - jnp.log(share))).sum(axis=-1)
        constant = gamma_scores.constant
        return fit + constant(total[..., 0]) - constant(alpha).sum(axis=-1)

    def entropy(self) -> jax.Array:
        """Return the entropy with respect to the log ratios, in which the log density is linear."""
        return -self._log_density(self.mean)

    @property
    def mean(self) -> jax.Array:
        """The expectation of the log-probabilities."""
        total = self.concentration.sum(axis=-1, keepdims=True)
        return digamma(self.concentration) - digamma(total)

    @property
    def variance(self) -> jax.Array:
        """The variance of the log-probabilities."""
        total = self.concentration.sum(axis=-1, keepdims=True)
        return polygamma(1, self.concentration) - polygamma(1, total)

    @staticmethod
    def infer_shapes(concentration: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return batch and event shapes for arguments of these shapes."""
        return concentration[:-1], concentration[-1:]


@kl_divergence.register(LogDirichlet, LogDirichlet)
def _kl_log_dirichlet(p: LogDirichlet, q: LogDirichlet) -> jax.Array:
    return kl_divergence(dist.Dirichlet(p.concentration), dist.Dirichlet(q.concentration))
