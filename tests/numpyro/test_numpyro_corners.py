"""SCIR where a density rises to a corner of the simplex, and sites that do not move."""

import warnings
from functools import partial

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.infer import MCMC
from scipy import integrate, special
from support import numpyro_cases as cases
from support.statistics_checks import family, mean_z

from simplex_jax._src.numpyro import chooser, reference, simplex_moves
from simplex_jax._src.numpyro.reference import GammaReference, learn_reference
from simplex_jax._src.numpyro.scir import SCIR
from simplex_jax._src.numpyro.sgmcmc import SGMCMC
from simplex_jax._src.samplers import barker, scir

SEEN = jnp.array([2.0, 1.0, 0.0])
PARTS = np.array([[0.5, 1.0, 2.0], [4.0, 1.0, 0.3]])
NEAR_ONE = np.array([[0.9, 0.9, 0.9], [3.0, 1.0, 0.9]])


def mixed(parts=PARTS):
    return dist.MixtureSameFamily(dist.Categorical(jnp.ones(2) / 2), dist.Dirichlet(parts))


def see(w):
    numpyro.sample("x", dist.Multinomial(3, w), obs=jnp.broadcast_to(SEEN, w.shape))


def law():
    see(numpyro.sample("w", mixed()))


def law_near_one():
    see(numpyro.sample("w", mixed(NEAR_ONE)))


def flat():
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    numpyro.factor("law", mixed().log_prob(w))
    see(w)


def improper():
    w = numpyro.sample("w", dist.ImproperUniform(constraints.simplex, (), (3,)))
    numpyro.factor("law", mixed().log_prob(w))
    see(w)


def rows():
    with numpyro.plate("rows", 2):
        see(numpyro.sample("w", mixed()))


def expanded():
    w = numpyro.sample("w", mixed().expand([2]).to_event(1))
    numpyro.sample("x", dist.Multinomial(3, w).to_event(1), obs=jnp.tile(SEEN, (2, 1)))


def scaled():
    w = numpyro.sample("w", mixed())
    with handlers.scale(scale=0.5):
        numpyro.factor("x", 2 * SEEN @ jnp.log(w))


def masked():
    w = numpyro.sample("w", mixed())
    with numpyro.plate("rows", 2), handlers.mask(mask=jnp.array([True, False])):
        see(jnp.tile(w, (2, 1)))


MODELS = [law, law_near_one, flat, improper, rows, expanded, scaled, masked]


def moments(parts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of w: the posterior is a mixture of Dirichlet laws."""
    after = parts + np.asarray(SEEN)
    log_beta = [
        special.gammaln(a).sum(axis=1) - special.gammaln(a.sum(axis=1)) for a in (after, parts)
    ]
    weights = special.softmax(log_beta[0] - log_beta[1])
    total = after.sum(axis=1, keepdims=True)
    mean = weights @ (after / total)
    second = weights @ (after * (after + 1) / (total * (total + 1)))
    return mean, second - mean**2


def p_values(model, key, *, kernel=SCIR):
    """p-values of the means of independent chains, with a warm-up."""
    draws, mcmc = cases.ends(kernel(model), key, num_chains=800, num_warmup=400, num_samples=100)
    w = draws["w"]
    mean, variance = moments(NEAR_ONE if model is law_near_one else PARTS)
    w = w if w.ndim == 2 else w[:, 1]
    return {j: mean_z(w[:, j], mean[j], variance[j]) for j in range(3)}, mcmc


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_posteriors_are_the_closed_forms(model, getkey):
    """False alarms: at most 1e-3 for each model, up to the Edgeworth terms of `mean_z`."""
    found, mcmc = p_values(model, getkey())
    assert not family(found)
    assert mcmc.last_state.tuning["w"].total.value.max() < 100


@pytest.mark.slow
def test_counts_at_the_corner_must_not_enter_the_total(getkey, monkeypatch):
    """As it was: totals of 1e37 in the warm-up, and chains that stand still in a corner."""
    monkeypatch.setattr(simplex_moves, "_at_zero", lambda y, counts: jnp.zeros_like(y[0]))
    found, mcmc = p_values(law, getkey())
    assert family(found)
    assert mcmc.last_state.tuning["w"].total.value.max() > 1e4


@pytest.mark.slow
@pytest.mark.parametrize("floor", [None, 0.5])
def test_a_gamma_site_that_a_factor_draws_to_zero(getkey, monkeypatch, floor):
    """False alarms: 1e-3; with the floor that was, chains hardly leave 0, and the test fails."""

    def model():
        r = numpyro.sample("r", dist.Gamma(1.0, 1.0))
        numpyro.factor("tilt", -0.9 * jnp.log(r) - r**2 / 2)

    if floor is not None:
        monkeypatch.setattr(simplex_moves, "least", lambda shape, slope: shape * floor)
    powers = [
        integrate.quad(
            lambda y, k=k: np.exp((k + 0.1) * y - np.exp(y) - np.exp(2 * y) / 2), -150, 4, limit=400
        )[0]
        for k in range(3)
    ]
    mean, second = powers[1] / powers[0], powers[2] / powers[0]
    draws, _ = cases.ends(SCIR(model), getkey(), num_chains=3000, num_warmup=200, num_samples=100)
    rejected = family({"r": mean_z(draws["r"], mean, second - mean**2)})
    assert bool(rejected) == (floor is not None)


@pytest.mark.slow
def test_kernels_on_counts_have_the_exponents_of_other_laws(getkey):
    """Uncorrected, with a short step; negative counts were set to 0, as if the law were flat."""
    kernel = partial(SGMCMC, kernel=partial(scir.build, step_size=0.05))
    _found, mcmc = p_values(law, getkey(), kernel=kernel)
    w = np.asarray(mcmc.get_samples()["w"], np.float64).mean(axis=0)
    np.testing.assert_allclose(w, moments(PARTS)[0], atol=0.03)


def stuck(at):
    """Only one value has a positive density."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    numpyro.factor("only", jnp.where(jnp.abs(w[0] - at) < 1e-6, 0.0, -jnp.inf))


def doubts(mcmc):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        mcmc.sampler.get_diagnostics_str(mcmc.last_state)
    return [str(warning.message) for warning in said]


def run(kernel, key, *data, num_samples=150, **options):
    mcmc = MCMC(kernel, num_warmup=40, num_samples=num_samples, progress_bar=False)
    mcmc.run(key, *data, **options)
    return mcmc


@pytest.mark.slow
def test_sites_that_do_not_move_are_named(getkey):
    start = {"w": jnp.array([0.3, 0.5, 0.2])}
    mcmc = run(SCIR(stuck), getkey(), 0.3, init_params=start)
    (said,) = doubts(mcmc)
    assert "'w' has not moved" in said
    assert not doubts(run(SCIR(stuck), getkey(), 0.3, init_params=start, num_samples=50))
    assert not doubts(run(SCIR(law), getkey()))


@pytest.mark.slow
def test_sites_that_do_not_move_are_named_by_other_kernels(getkey):
    def model():
        numpyro.sample("mu", dist.Normal(0.0, 1.0))

    for step, still in ((1e-30, True), (0.5, False)):
        said = doubts(run(SGMCMC(model, partial(barker.build, step_size=step)), getkey()))
        assert any("'mu' has not moved" in text for text in said) == still


def test_pilots_that_do_not_move_are_named(getkey, monkeypatch):
    def model():
        numpyro.sample("r", dist.Gamma(2.0, 1.0))

    still = SGMCMC(model, partial(barker.build, step_size=1e-30))
    monkeypatch.setattr(reference, "pilot", lambda *_: still)
    with pytest.warns(UserWarning, match=r"'r' .*num_warmup"):
        learn_reference(getkey(), model, num_warmup=20, num_samples=100)
    with pytest.raises(RuntimeError, match="no number moved"):
        chooser._choose({"a": still}, {"a": chooser.Chain(np.ones((100, 2)), 1.0)})


@pytest.mark.parametrize("bound", [0.5, 160.0])
def test_jumps_that_rounding_hides_are_told(getkey, bound):
    """The number was in the text alone, after the word exact."""

    def model():
        r = numpyro.sample("r", dist.Gamma(1.0, 1.0))
        numpyro.sample("y", dist.Poisson(r), obs=jnp.array(3))

    mcmc = run(SCIR(model), getkey())
    tuning = mcmc.last_state.tuning["r"]._replace(bound=jnp.float32(bound))
    state = mcmc.last_state._replace(tuning={"r": tuning})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        shown = mcmc.sampler.get_diagnostics_str(state)
    if bound < 1:
        assert (shown, said) == ("r exact within 0.5 nats", [])
        return
    assert shown == "r conjugate, jumps up to 1.6e+02 nats not seen"
    assert "up to 1.6e+02 nats" in str(said[0].message)
    assert "jax_enable_x64" in str(said[0].message)


@pytest.mark.slow
def test_kernels_have_a_readable_repr():
    def model():
        pass

    assert repr(SCIR(model)) == "SCIR(model)"
    changed = SCIR(model, 0.1, metropolis=False, init_strategy=numpyro.infer.init_to_median)
    options = "step_size=0.1, metropolis=False, init_strategy=init_to_median"
    assert repr(changed) == f"SCIR(model, {options})"
    kernel = partial(barker.build, step_size=0.1)
    assert repr(SGMCMC(model, kernel)) == "SGMCMC(model, barker.build)"
    each = "SGMCMC(model, {'w': scir.build, None: barker.build})"
    assert repr(SGMCMC(model, {"w": partial(scir.build, step_size=0.1), None: kernel})) == each
    assert repr(GammaReference(2.0)) == "GammaReference(shape=2)"
    assert repr(GammaReference(jnp.ones(3), 2.0)) == "GammaReference(shape=<array of (3,)>, rate=2)"
