"""Coordinates of other programs for NUTS on the simplex, for `numpyro_ess.py`.

numpyro breaks sticks. Recent versions of Stan have isometric log ratios (ILR; Egozcue et al. 2003):
orthonormal coordinates of the zero-sum plane; the value is the softmax of a point of it. Other
models use the softmax of K - 1 numbers and 0, the log ratios to the last category, or independent
gamma variates, one per category, divided by their sum.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.distributions.util import sum_rightmost
from numpyro.infer.reparam import Reparam

from simplex_jax._src.numpyro import sites
from simplex_jax._src.numpyro.distributions import LogDirichlet


def isometric(name: str, law: dist.Distribution) -> jax.Array:
    """Sample log-probabilities, which numpyro moves in isometric log ratios."""
    return numpyro.sample(f"{name}_log", law)


def softmax(name: str, law: dist.Distribution) -> jax.Array:
    """Sample log ratios to the last category."""
    *batch, size = law.shape()
    ratios = _real(f"{name}_ratios", law, size - 1)
    y = jax.nn.log_softmax(jnp.pad(ratios, [(0, 0)] * len(batch) + [(0, 1)]), axis=-1)
    # Its density is that of the log ratios.
    numpyro.factor(f"{name}_factor", law.log_prob(y))
    return y


def gammas(name: str, law: dist.Distribution) -> jax.Array:
    """Sample the logarithms of independent gamma variates, whose shares are the probabilities.

    Logarithms, because a variate of small shape underflows.
    """
    alpha = sites.base(law).concentration
    logs = _real(f"{name}_gammas", law, law.shape()[-1])
    density = (alpha * logs - jnp.exp(logs) - gammaln(alpha)).sum(axis=-1)
    numpyro.factor(f"{name}_factor", sum_rightmost(density, law.event_dim - 1))
    return jax.nn.log_softmax(logs, axis=-1)


def _real(name: str, law: dist.Distribution, size: int) -> jax.Array:
    """Sample vectors of real numbers with a flat density, in a distribution's batch shape."""
    batch = law.shape()[:-1]
    flat = dist.ImproperUniform(constraints.real_vector, batch, (size,))
    return numpyro.sample(name, flat.to_event(law.event_dim - 1))


COORDINATES: dict[str, Callable[[str, dist.Distribution], jax.Array]] = {
    "ILR": isometric,
    "softmax": softmax,
    "gammas": gammas,
}


class _Coordinates(Reparam):
    """Write a Dirichlet or LogDirichlet site in other coordinates."""

    def __init__(self, coordinates: Callable[[str, dist.Distribution], jax.Array]) -> None:
        self.coordinates = coordinates

    def __call__(self, name: str, fn: dist.Distribution, obs: Any) -> tuple[None, jax.Array]:
        concentration = jnp.broadcast_to(sites.base(fn).concentration, fn.shape())
        y = self.coordinates(name, LogDirichlet(concentration).to_event(fn.event_dim - 1))
        return None, sites.kind({"fn": fn}).constrain(y)


def _is_dirichlet(site: dict[str, Any]) -> bool:
    latent = site["type"] == "sample" and not site["is_observed"]
    return latent and isinstance(sites.base(site["fn"]), dist.Dirichlet | LogDirichlet)


def in_coordinates(
    model: Callable, coordinates: Callable[[str, dist.Distribution], jax.Array]
) -> Callable:
    """Write the Dirichlet and LogDirichlet sites of a model in other coordinates."""

    def strategy(site: dict[str, Any]) -> Reparam | None:
        if not _is_dirichlet(site):
            return None
        # numpyro moves log-probabilities in isometric log ratios as they are.
        done = coordinates is isometric and isinstance(sites.base(site["fn"]), LogDirichlet)
        return None if done else _Coordinates(coordinates)

    return handlers.reparam(model, config=strategy)


def has_dirichlet(model: Callable, args: tuple) -> bool:
    """Return whether a model has latent Dirichlet or LogDirichlet sites."""
    trace = handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace(*args)
    return any(_is_dirichlet(site) for site in trace.values())
