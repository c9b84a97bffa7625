import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.distributions.util import sum_rightmost
from numpyro.infer.reparam import Reparam

from simplex_jax.geometry import gamma_scores
from simplex_jax.numpyro_kernels import sites
from simplex_jax.numpyro_distributions import LogDirichlet


class GammaReference(Reparam):
    def __init__(self, shape, rate=1.0):
        self.shape, self.rate = shape, rate

    def __call__(self, name, fn, obs):
        kind = sites.kind({"fn": fn})
        full = fn.shape()
        normal = dist.Normal(jnp.zeros(full), 1).to_event(fn.event_dim)
        z = numpyro.sample(f"{name}_normal", normal)
        shape = jnp.broadcast_to(jnp.asarray(self.shape, z.dtype), full)
        rate = jnp.broadcast_to(jnp.asarray(self.rate, z.dtype), full)
        r = gamma_scores.log_ratio(z, shape)
        law = sites.base(fn)
        if kind in (sites.SIMPLEX, sites.LOG_SIMPLEX):
            total_shape = shape.sum(axis=-1, keepdims=True)
            m = shape / total_shape
            log_m = jnp.log(shape) - jnp.log(total_shape)
            total = _log_mean(r, m, log_m)
            rho = r - total
            y = log_m + rho
            ref = (gamma_scores.constant(shape) - shape * rho).sum(-1) - gamma_scores.constant(total_shape)[..., 0]
            if isinstance(law, dist.Dirichlet | LogDirichlet):
                alpha = jnp.broadcast_to(law.concentration, full)
                prior = (alpha * y - gammaln(alpha)).sum(-1) + gammaln(alpha.sum(-1))
            value = sites.constrain(kind, y)
            factor = sum_rightmost(prior + ref, fn.event_dim - 1)
        else:
            y = r + jnp.log(shape / rate)
            value = sites.constrain(kind, y)
            a = getattr(law, "concentration", 1.0)
            prior = a * (jnp.log(law.rate) + y) - gammaln(a) - law.rate * jnp.exp(y)
            ref = shape * gamma_scores.excess(r) + gamma_scores.constant(shape)
            factor = sum_rightmost(prior + ref, fn.event_dim)
        numpyro.factor(f"{name}_factor", factor)
        return None, value


def _log_mean(r, m, log_m):
    mean = (m * jnp.expm1(jnp.minimum(r, 1))).sum(axis=-1, keepdims=True)
    close = (jnp.abs(mean) < 0.5) & (r.max(axis=-1, keepdims=True) < 1)
    far = jax.nn.logsumexp(jnp.where(close, 0.0, r) + log_m, axis=-1, keepdims=True)
    return jnp.where(close, jnp.log1p(jnp.where(close, mean, 0)), far)
