"""Probabilities that underflow while another kernel learns from them are counted, and told."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS
from scipy import stats
from support import numpyro_cases as cases

from simplex_jax._src.numpyro import monitors, sites
from simplex_jax._src.numpyro.density import Target
from simplex_jax._src.numpyro.distributions import LogDirichlet
from simplex_jax._src.numpyro.scir import SCIR
from simplex_jax._src.numpyro.sgmcmc import SGMCMC
from simplex_jax._src.samplers import scir, sgld, sgnht, smld

gibbs = pytest.importorskip(
    "numpyro.infer.gibbs", reason="the composable Gibbs kernel came with numpyro 0.22"
)

LABELS = jnp.array([0] * 15 + [4] * 3)
PRIOR = -3.0, 1.0


def learned(x, law=dist.Dirichlet):
    """A sparse vector with a concentration that is learned."""
    a = numpyro.sample("a", dist.LogNormal(*PRIOR))
    p = numpyro.sample("p", law(jnp.full(6, 1.0) * a))
    numpyro.sample("q", dist.Dirichlet(jnp.full(6, 0.01)))
    with numpyro.plate("rows", len(x)):
        logs = p if law is LogDirichlet else jnp.log(p)
        numpyro.sample("x", dist.Categorical(logits=logs), obs=x)


def watched(law, names, others) -> set[str]:
    """The sites that are counted where a kernel moves some, and siblings in Gibbs the others."""
    kind = sites.SIMPLEX if law is dist.Dirichlet else sites.LOG_SIMPLEX
    kinds = {"a": sites.OTHER, "p": kind, "q": sites.SIMPLEX}
    shares = jnp.full(6, 1 / 6)
    start = {"a": jnp.asarray(0.1), "p": shares, "q": shares}
    kwargs = {"law": law, "_gibbs_sites": {name: start[name] for name in others}}
    layout = sites.Layout({name: kinds[name] for name in names}, None, {}, (), {})
    target = Target(gibbs.conditioned(learned), layout, (LABELS,), kwargs, jax.random.key(0))
    return monitors.initialize_raised(target, {name: start[name] for name in names}, names).keys()


def test_sites_that_others_learn_from_are_watched() -> None:
    """Not those of fixed concentrations, of logarithms, or of kernels that see the logarithms."""
    assert watched(dist.Dirichlet, ("p", "q"), ("a",)) == {"p"}
    assert watched(dist.Dirichlet, ("a", "p", "q"), ()) == set()
    assert watched(LogDirichlet, ("p", "q"), ("a",)) == set()


def test_what_is_raised_is_counted() -> None:
    grid = jnp.linspace(-110.0, -80.0, 61)
    assert (sites.underflows(grid) == (sites.SIMPLEX.constrain(grid) > jnp.exp(grid))).all()
    y = jnp.log(jnp.array([0.5, 0.5, 1e-30, 1.0]))
    low = y.at[3].set(-90.0)
    raised = {"p": jnp.zeros(())}
    for i, logs in enumerate((y, low, low, y)):
        raised = monitors.update_raised(raised, {"p": logs}, jnp.asarray(i))
    assert raised["p"] == 0.125
    assert monitors.raised_str(raised, "p") == ", raised 12.5%"
    assert monitors.raised_str(raised, "q") == ""
    (doubt,) = monitors.raised_warnings(raised)
    assert "'p' underflow" in doubt
    assert "LogDirichlet" in doubt
    assert not monitors.raised_warnings({"p": jnp.asarray(1e-4)})


def learned_error(law) -> tuple[float, str]:
    """By how many standard errors the learned concentration is off, and what the run says."""
    kernel = gibbs.Gibbs([(SCIR(learned), ["p", "q"]), (NUTS(learned), None)])
    mcmc = MCMC(kernel, num_warmup=500, num_samples=20_000, progress_bar=False)
    mcmc.run(jax.random.key(0), LABELS, law)
    a = np.asarray(mcmc.get_samples()["a"], np.float64)
    counts = np.bincount(LABELS, minlength=6)
    prior = stats.lognorm(PRIOR[1], scale=np.exp(PRIOR[0]))
    u = cases.learned_uniform(a, counts, prior).reshape(20, -1).mean(axis=1)
    error = float((u.mean() - 0.5) / (u.std(ddof=1) / 20**0.5))
    return error, mcmc.sampler.get_diagnostics_str(mcmc.last_state)


@pytest.mark.slow
def test_a_concentration_that_is_learned_from_raised_numbers() -> None:
    """It is off by many standard errors, and that is told; without, by 4 once in a thousand."""
    error, shown = learned_error(LogDirichlet)
    assert abs(error) < 4
    assert "raised" not in shown
    with pytest.warns(UserWarning, match="'p' underflow"):
        error, shown = learned_error(dist.Dirichlet)
    assert abs(error) > 4
    assert ", raised " in shown


@pytest.mark.slow
def test_kernels_that_take_turns_are_told_as_well() -> None:
    kernels = dict.fromkeys(("p", "q"), partial(scir.build, step_size=0.5, total="refreshed"))
    kernel = SGMCMC(learned, kernels | {None: partial(sgld.build, step_size=1e-3)})
    params = {"a": jnp.asarray(0.01)}
    mcmc = MCMC(kernel, num_warmup=0, num_samples=1000, progress_bar=False)
    mcmc.run(jax.random.key(0), LABELS, init_params=params)
    with pytest.warns(UserWarning, match="'p' underflow"):
        shown = mcmc.sampler.get_diagnostics_str(mcmc.last_state)
    assert "p, raised " in shown
    assert "q, raised " not in shown


def one_part():
    numpyro.sample("w", dist.Dirichlet(jnp.ones(1)))
    m = numpyro.sample("m", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", 4, 2):
        numpyro.sample("x", dist.Normal(m, 1.0), obs=jnp.zeros(2))


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_a_simplex_of_one_point_is_not_said_to_stand_still():
    kernel = SGMCMC(one_part, partial(sgnht.build, step_size=1e-2))
    for one in (kernel, SCIR(lambda: numpyro.sample("w", dist.Dirichlet(jnp.ones(1))))):
        mcmc = MCMC(one, num_warmup=5, num_samples=150, progress_bar=False)
        mcmc.run(jax.random.key(0))
        assert "nan" not in one.get_diagnostics_str(mcmc.last_state)


def test_a_start_below_the_smallest_number_moves():
    """Its probability underflows: as 0, its logarithm would stay minus infinity."""

    def model():
        y = numpyro.sample("y", LogDirichlet(jnp.full(3, 0.5)))
        numpyro.factor("f", 2 * y[0])

    kernel = SGMCMC(model, partial(smld.build, step_size=1e-2))
    start = {"y": jnp.array([-300.0, -0.6931472, -0.6931472])}
    state = kernel.init(jax.random.key(0), 0, start, (), {})
    moved = kernel.sample(state, (), {})
    assert jnp.isfinite(moved.z["y"]).all()
    assert not jnp.array_equal(moved.z["y"], state.z["y"])
