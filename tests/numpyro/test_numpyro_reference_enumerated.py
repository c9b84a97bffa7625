"""Normal scores of sites whose prior depends on a discrete site that is summed out."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.handlers import reparam, seed
from numpyro.infer.util import log_density
from support.marks import slow_but

from simplex_jax._src.numpyro.reference import GammaReference

funsor = pytest.importorskip("numpyro.contrib.funsor")

SHARES = jnp.array([0.7, 0.3])
SHAPES = jnp.array([[1.0, 1.0, 4.0], [9.0, 0.5, 1.0]])
ON_SIMPLEX, POSITIVE = GammaReference(np.array([4.0, 1.0, 2.0])), GammaReference(3.0, 0.5)
# Laws of a site given shapes [..., 3], and the reference of its scores.
LAWS = {
    "Dirichlet": (dist.Dirichlet, ON_SIMPLEX),
    "Dirichlet rows": (
        lambda a: dist.Dirichlet(a[..., None, :]).expand([*a.shape[:-1], 2]).to_event(1),
        ON_SIMPLEX,
    ),
    "Gamma": (lambda a: dist.Gamma(a[..., 0], 1.0), POSITIVE),
    "LogNormal": (lambda a: dist.LogNormal(a[..., 1], 0.5), POSITIVE),
}


@pytest.mark.parametrize("name", slow_but(LAWS, "Dirichlet", "LogNormal"))
def test_the_density_is_the_sum_over_the_discrete_site(name) -> None:
    """Of the densities given each of its values, at the same scores."""
    law, reference = LAWS[name]
    scores = {"x_normal": jax.random.normal(jax.random.key(0), law(SHAPES[0]).shape())}

    def given(z):
        numpyro.sample("x", law(SHAPES[z]))

    def model():
        given(numpyro.sample("z", dist.Categorical(SHARES), infer={"enumerate": "parallel"}))

    def scored(model):
        return reparam(model, config={"x": reference})

    @jax.jit
    def densities(scores):
        each = [log_density(scored(given), (z,), {}, scores)[0] for z in (0, 1)]
        summed = seed(funsor.enum(funsor.config_enumerate(scored(model)), -1), 0)
        return jnp.stack(each), funsor.log_density(summed, (), {}, scores)[0]

    each, result = densities(scores)
    np.testing.assert_allclose(result, jax.nn.logsumexp(each + jnp.log(SHARES)), rtol=1e-5)
