"""Models that a kernel cannot take, each with one error that says why; and starts that can."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.handlers import reparam

from simplex_jax._src.numpyro.chooser import recommend
from simplex_jax._src.numpyro.lda_gibbs import LDAGibbs
from simplex_jax._src.numpyro.reference import GammaReference, learn_reference
from simplex_jax._src.numpyro.scir import SCIR
from simplex_jax._src.numpyro.sgmcmc import SGMCMC
from simplex_jax._src.samplers import barker


def first(model, *args, kernel=None):
    return (kernel or SCIR(model)).init(jax.random.key(0), 5, None, args, {})


def test_what_is_no_model_is_named():
    kernel = SCIR(first)
    key = jax.random.key(0)
    for make in (
        SCIR,
        lambda model: SGMCMC(model, barker.build),
        lambda model: LDAGibbs(model, jnp.ones((2, 2)), documents="n", words="m"),
        lambda model: recommend(key, model),
        lambda model: learn_reference(key, model),
    ):
        for given, name in ((kernel, "a SCIR"), (dist.Normal(), "a Normal"), (dist.Normal, "the")):
            with pytest.raises(ValueError, match=rf"^model .*it is {name}"):
                make(given)


def test_a_model_without_latent_sites_is_named():
    for kernel in (SCIR(jnp.zeros), SGMCMC(jnp.zeros, partial(barker.build, step_size=0.1))):
        with pytest.raises(ValueError, match="no latent site"):
            first(None, 3, kernel=kernel)


def test_scir_refuses_a_log_density_that_is_random():
    """A stored density with lucky noise would be kept for ever."""

    def model(noise):
        rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
        numpyro.factor("y", jnp.log(rate) * jax.random.normal(numpyro.prng_key()) * noise)

    with pytest.raises(ValueError, match=r"random itself, .* use SGMCMC"):
        first(model, jnp.ones(()))


def test_a_prior_that_depends_on_an_enumerated_site_is_named():
    pytest.importorskip("funsor")

    def model():
        z = numpyro.sample("z", dist.Categorical(jnp.ones(2) / 2), infer={"enumerate": "parallel"})
        numpyro.sample("p", dist.Dirichlet(jnp.array([[1.0, 1.0], [5.0, 1.0]])[z]))

    with pytest.raises(ValueError, match=r"'p' .*MixtureSameFamily"):
        first(model)


def test_missing_values_by_obs_mask_are_named_as_in_the_model():
    def model():
        p = jnp.ones(3) / 3
        with numpyro.plate("rows", 2):
            mask = jnp.array([True, False])
            numpyro.sample("z", dist.Dirichlet(p), obs=jnp.tile(p, (2, 1)), obs_mask=mask)

    scores = reparam(model, config={"z_unobserved": GammaReference(1.0)})
    for refused in (model, scores):
        with pytest.raises(ValueError, match="site 'z' has obs_mask"):
            first(refused)
    with pytest.raises(ValueError, match="site 'z' has obs_mask"):
        first(model, kernel=SGMCMC(model, partial(barker.build, step_size=0.1)))


def test_a_log_density_in_half_precision_is_named():
    """Rounded by several nats, it would accept moves wrongly; kernels of gradients may use it."""

    def model():
        rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
        numpyro.factor("y", (jnp.log(rate) - 1000).astype(jnp.bfloat16))

    exact = SGMCMC(model, partial(barker.build, step_size=0.1))
    for kernel in (SCIR(model), exact):
        with pytest.raises(ValueError, match="site 'y' is bfloat16"):
            first(model, kernel=kernel)


def test_a_site_without_numbers_is_named():
    def model():
        numpyro.sample("rate", dist.Gamma(1.0, 1.0).expand([0]))
        numpyro.sample("p", dist.Dirichlet(jnp.ones(3)))

    with pytest.raises(ValueError, match="'rate' has no numbers"):
        first(model)


def test_a_kernel_may_start_again_with_minibatches():
    def model(shown=None):
        with numpyro.plate("columns", 3, dim=-1):
            rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
            with numpyro.plate("rows", 4, subsample_size=shown, dim=-2) as rows:
                numpyro.sample("x", dist.Poisson(rate**2 + 0.1), obs=jnp.ones((4, 3))[rows])

    kernel = SCIR(model)
    first(model, kernel=kernel)
    state = first(model, 2, kernel=kernel)
    after = jax.eval_shape(lambda state: kernel.sample(state, (2,), {}), state)
    chex.assert_trees_all_equal_shapes(state, after)
