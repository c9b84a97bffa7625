"""Coordinates for NUTS on the simplex that other programs have, for `numpyro_ess.py`.

numpyro breaks sticks. Recent versions of Stan have isometric log ratios (ILR; Egozcue et al. 2003):
orthonormal coordinates of the plane of zero sum, a point of which has the value as its softmax. The
softmax of K - 1 numbers and 0, the log ratios to the last category, is what people write by hand.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.infer.reparam import Reparam

from simplex_jax.numpyro_distributions import LogDirichlet
from simplex_jax.numpyro_kernels import sites


def isometric(name: str, law: dist.Distribution) -> jax.Array:
    """Sample log-probabilities, which numpyro moves in isometric log ratios."""
    return numpyro.sample(f"{name}_log", law)


def softmax(name: str, law: dist.Distribution) -> jax.Array:
    """Sample log ratios to the last category."""
    *batch, size = law.shape()
    flat = dist.ImproperUniform(constraints.real_vector, tuple(batch), (size - 1,))
    ratios = numpyro.sample(f"{name}_ratios", flat.to_event(law.event_dim - 1))
    y = jax.nn.log_softmax(jnp.pad(ratios, [(0, 0)] * len(batch) + [(0, 1)]), axis=-1)
    # Its density is that of the log ratios.
    numpyro.factor(f"{name}_factor", law.log_prob(y))
    return y


COORDINATES: dict[str, Callable[[str, dist.Distribution], jax.Array]] = {
    "ILR": isometric,
    "softmax": softmax,
}


class _LogRatios(Reparam):
    """Write a Dirichlet site in log ratios."""

    def __init__(self, coordinates: Callable[[str, dist.Distribution], jax.Array]) -> None:
        self.coordinates = coordinates

    def __call__(self, name: str, fn: dist.Distribution, obs: Any) -> tuple[None, jax.Array]:
        concentration = jnp.broadcast_to(sites.base(fn).concentration, fn.shape())
        y = self.coordinates(name, LogDirichlet(concentration).to_event(fn.event_dim - 1))
        return None, sites.constrain(sites.SIMPLEX, y)


def _is_dirichlet(site: dict[str, Any]) -> bool:
    latent = site["type"] == "sample" and not site["is_observed"]
    return latent and isinstance(sites.base(site["fn"]), dist.Dirichlet)


def in_log_ratios(
    model: Callable, coordinates: Callable[[str, dist.Distribution], jax.Array]
) -> Callable:
    """Write the Dirichlet sites of a model in log ratios."""

    def strategy(site: dict[str, Any]) -> Reparam | None:
        return _LogRatios(coordinates) if _is_dirichlet(site) else None

    return handlers.reparam(model, config=strategy)


def has_dirichlet(model: Callable, args: tuple) -> bool:
    """Return whether a model has latent Dirichlet sites."""
    trace = handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace(*args)
    return any(_is_dirichlet(site) for site in trace.values())
