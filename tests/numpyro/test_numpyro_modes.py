"""The numpyro kernels under JAX's checks for NaN and leaks and in double precision; retracing."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer import MCMC, NUTS
from support import numpyro_cases as cases

from simplex_jax._src.numpyro.distributions import LogDirichlet
from simplex_jax._src.numpyro.reference import GammaReference
from simplex_jax._src.numpyro.scir import SCIR
from simplex_jax._src.numpyro.sgmcmc import SGMCMC
from simplex_jax._src.samplers import barker, scir, sgld, sgnht, sgrld

pytestmark = pytest.mark.slow


def means(x, subsample_size=None):
    """A mixture of which a centre is unknown."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.full(2, 0.3)))
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", len(x), subsample_size=subsample_size) as rows:
        parts = dist.Normal(jnp.stack([mu, jnp.full_like(mu, 3.0)]), 1.0)
        numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(w), parts), obs=x[rows])


SCORES = handlers.reparam(cases.mixture, config={"w": GammaReference(np.array([0.3, 2.0, 9.0]))})
BOTH = {"w": partial(sgrld.build, step_size=1e-3), None: partial(sgnht.build, step_size=1e-3)}
KERNELS = {
    "SCIR": (SCIR(cases.mixture), ()),
    "SCIR, conjugate": (SCIR(cases.categorical), ()),
    "SCIR, minibatches": (SCIR(cases.mixture), (5,)),
    "SGMCMC, minibatches": (SGMCMC(means, BOTH), (5,)),
    "SGMCMC, counts": (SGMCMC(cases.mixture, partial(scir.build, step_size=1e-3)), (5,)),
    "barker": (SGMCMC(means, partial(barker.build, step_size=0.01)), ()),
    "scores": (NUTS(SCORES), ()),
}
X = jnp.asarray(cases.POINTS, jnp.float32)


def run(name: str, x: jax.Array = X) -> MCMC:
    kernel, batch = KERNELS[name]
    data = cases.LABELS if name == "SCIR, conjugate" else x
    mcmc = MCMC(kernel, num_warmup=8, num_samples=8, progress_bar=False)
    mcmc.run(jax.random.key(0), data, *batch)
    return mcmc


@pytest.mark.parametrize("mode", [lambda: jax.debug_nans(True), jax.checking_leaks])
@pytest.mark.parametrize("name", KERNELS)
def test_no_nan_and_no_leak(name, mode) -> None:
    with mode():
        samples = run(name).get_samples()
    assert all(np.isfinite(value).all() for value in samples.values())


KEPT = []


class Leaking(SCIR):
    """JAX's message says who refers to what was kept, and knows names of modules only."""

    def _step(self, key, state, target):
        KEPT.append(state.i)
        return super()._step(key, state, target)


def test_the_checks_see_what_they_are_for() -> None:
    """A model whose density is no number, and a kernel that keeps what it was traced with."""

    def broken(x):
        w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
        numpyro.factor("x", jnp.log(w[0] - 2.0))

    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        MCMC(SCIR(broken), num_warmup=1, num_samples=1, progress_bar=False).run(
            jax.random.key(0), X
        )

    mcmc = MCMC(Leaking(cases.categorical), num_warmup=1, num_samples=1, progress_bar=False)
    with jax.checking_leaks(), pytest.raises(Exception, match=r"[Ll]eak"):
        mcmc.run(jax.random.key(0), cases.LABELS)
    KEPT.clear()


@pytest.mark.parametrize("name", KERNELS)
def test_double_precision(name) -> None:
    """All that moves is in double precision, and what moves is there to it."""
    with jax.enable_x64(True):
        mcmc = run(name, jnp.asarray(cases.POINTS))
        samples = mcmc.get_samples()
        assert all(value.dtype == jnp.float64 for value in samples.values())
        if "w" in samples:
            np.testing.assert_allclose(samples["w"].sum(axis=-1), 1, rtol=1e-12)
    assert all(np.isfinite(value).all() for value in samples.values())


def logs(x):
    """A site in single precision, and a likelihood in double."""
    with numpyro.plate("rows", len(x)):
        y = numpyro.sample("y", LogDirichlet(jnp.ones(3, jnp.float32)))
        numpyro.factor("x", x * y[:, 0] - jnp.exp(2 * y).sum(axis=1))


def test_a_site_in_single_precision_beside_double() -> None:
    """It stays there, and so does all that is learned about it."""
    x = np.array([1.0, 4.0])
    with jax.enable_x64(True):
        kernel = SCIR(logs)
        state = kernel.init(jax.random.key(0), 8, None, (x,), {})
        moved = jax.eval_shape(lambda state: kernel.sample(state, (x,), {}), state)
    assert state.z["y"].dtype == jnp.float32
    chex.assert_trees_all_equal_dtypes(state, moved)


@pytest.mark.filterwarnings("ignore:with minibatches of 5 of 30 rows")
@pytest.mark.parametrize(
    ("build", "batch"),
    [
        (lambda model, h: SCIR(model, h, metropolis=False), None),
        (SCIR, 5),
        (lambda model, h: SGMCMC(model, partial(sgld.build, step_size=h)), 5),
        (lambda model, h: SGMCMC(model, partial(scir.build, step_size=h)), 5),
    ],
    ids=["uncorrected", "SCIR", "sgld", "scir"],
)
def test_another_step_size_is_not_compiled_again(build, batch) -> None:
    """Where it is an argument of the function that is compiled."""
    traced = []

    def model(x, subsample_size):
        traced.append(True)
        cases.mixture(x, subsample_size)

    @jax.jit
    def moved(step_size, key):
        kernel = build(model, step_size)
        state = kernel.init(key, 0, None, (X, batch), {})
        state = jax.lax.fori_loop(0, 3, lambda _, s: kernel.sample(s, (X, batch), {}), state)
        return kernel.get_constrain_fn((X, batch), {})(state.z)["w"]

    one = moved(0.01, jax.random.key(0))
    number = len(traced)
    assert number
    other = moved(0.02, jax.random.key(0))
    assert len(traced) == number
    assert (one != other).any()
    # As one that is compiled for it.
    alone = jax.jit(lambda key: moved.__wrapped__(0.02, key))(jax.random.key(0))
    np.testing.assert_allclose(other, alone, rtol=1e-3, atol=1e-6)
