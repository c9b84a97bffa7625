"""SCIR on numpyro models: posteriors against exact ones, by chains that end independently."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC
from scipy import special, stats
from support import numpyro_cases as cases
from support.statistics_checks import dkwm, family, mean_z, variance_z

from simplex_jax._src.numpyro import gamma_moves, simplex_moves, tuning
from simplex_jax._src.numpyro.scir import SCIR

X = jnp.asarray(cases.POINTS, jnp.float32)
Y = np.array([3, 0])
SPARSE = jnp.array([0] * 15 + [4] * 3)


def uniform(name: str, p_of: np.ndarray) -> dict[object, float]:
    """P-values of a sample that should be uniform; false alarms at their level."""
    u = np.clip(p_of, 0, 1)
    return {
        (name, "dkwm"): dkwm(u, lambda x: np.clip(x, 0, 1)),
        (name, "mean"): mean_z(u, 0.5, 1 / 12),
        (name, "variance"): variance_z(u, 0.5, 1 / 12, 1 / 80),
    }


def test_conjugate_sites_are_drawn_exactly(getkey) -> None:
    """At the first step already, whatever the start: p_j is a beta variate."""
    last, mcmc = cases.ends(SCIR(cases.categorical), getkey(), cases.LABELS, num_warmup=0)
    assert mcmc.last_state.tuning["p"].exact.all()
    p = last["p"]
    checks: dict[object, float] = {}
    mutant: dict[object, float] = {}
    for j, count in enumerate((12, 5, 1)):
        checks |= uniform(f"p{j}", stats.beta(0.5 + count, 19 - count).cdf(p[:, j]))
        mutant |= uniform(f"p{j}", stats.beta(1 + count, 20 - count).cdf(p[:, j]))
    assert not family(checks)
    assert family(mutant)


def rare(shape, scale):
    r = numpyro.sample("r", dist.Gamma(shape, 1.0))
    numpyro.sample("x", dist.Poisson(scale * r), obs=0.0)


def precision(shape, scale):
    r = numpyro.sample("r", dist.Gamma(shape, 1.0))
    numpyro.sample("x", dist.Normal(0.0, 1 / jnp.sqrt(r)).expand([3]), obs=jnp.full(3, scale))


@pytest.mark.parametrize(
    ("model", "shape", "scale"),
    [(rare, 0.01, 1.0), (rare, 0.001, 1e-3), (rare, 0.1, 1e4), (precision, 0.001, 1.0)],
)
def test_conjugate_gamma_sites_are_drawn_exactly(getkey, model, shape, scale) -> None:
    """By all chains, where values span hundreds of orders of magnitude, and at any scale.

    The steps are enough for atypical values, of which rounding used to make a jump of the density.
    """
    options = {"num_warmup": 0, "num_samples": 400, "num_chains": 64, "progress_bar": False}
    mcmc = MCMC(SCIR(model), chain_method="vectorized", **options)
    mcmc.run(getkey(), shape, scale)
    assert mcmc.last_state.tuning["r"].exact.all()
    assert (mcmc.last_state.tuning["r"].bound < 0.01).all()
    a, b = (shape, 1 + scale) if model is rare else (shape + 1.5, 1 + 1.5 * scale**2)
    y = np.asarray(mcmc.last_state.z["r"], np.float64)
    moments = special.digamma(a) - np.log(b), special.polygamma(1, a)
    assert not family({"mean": mean_z(y, *moments)})
    assert family({"another": mean_z(y, moments[0] + moments[1] ** 0.5, moments[1])})


@pytest.mark.slow
def test_a_mixture_is_sampled_exactly(getkey) -> None:
    """Its weights are not conjugate: the Metropolis rule makes up for it."""
    last, mcmc = cases.ends(SCIR(cases.mixture), getkey(), X)
    known = mcmc.last_state.tuning["w"]
    assert not known.exact.any()
    assert known.accepted.mean() > 0.4
    np.testing.assert_allclose(last["largest"], last["w"].max(axis=1))
    checks: dict[object, float] = {}
    for part in range(3):
        checks |= uniform(f"w{part}", cases.mixture_uniform(last["w"], part))
    assert not family(checks)


def far_parts(getkey, monkeypatch) -> dict[object, float]:
    """P-values of the weights of empty parts, whose law is known, with totals far too small.

    With them, many shapes are not positive and have to be raised.
    """
    monkeypatch.setattr(tuning, "fit_total", lambda *inputs: jnp.full((1,), 2.0))
    last, mcmc = cases.ends(SCIR(cases.empties), getkey(), X)
    assert mcmc.last_state.tuning["w"].clamped.mean() > 0.05
    law = stats.beta(0.1, 0.7 + len(X))
    checks: dict[object, float] = {}
    for j in range(2, 8):
        checks |= uniform(f"w{j}", law.cdf(last["w"][:, j]))
    return checks


@pytest.mark.slow
def test_shapes_that_had_to_be_raised_do_no_harm(getkey, monkeypatch) -> None:
    assert not family(far_parts(getkey, monkeypatch))


@pytest.mark.slow
def test_a_forgotten_scale_is_seen(getkey, monkeypatch) -> None:
    """The term that matters only where shapes were raised."""
    right = simplex_moves.log_ratio

    def wrong(move, alpha, total, a, a_there, step):
        scale = (a_there - a) * jnp.log1p(1 / jnp.expm1(step))
        return right(move, alpha, total, a, a_there, step) - scale.sum()

    monkeypatch.setattr(simplex_moves, "log_ratio", wrong)
    assert family(far_parts(getkey, monkeypatch))


@pytest.mark.slow
@pytest.mark.parametrize("mutant", ["no ratio", "no gammas"])
def test_a_wrong_ratio_is_seen(getkey, monkeypatch, mutant) -> None:
    right = simplex_moves.log_ratio

    def wrong(move, alpha, total, a, a_there, step):
        if mutant == "no ratio":
            return jnp.asarray(jnp.inf)
        counts = jax.scipy.special.gammaln(a + move.counts)
        there = jax.scipy.special.gammaln(a_there + move.counts)
        return right(move, alpha, total, a, a_there, step) - (counts - there).sum()

    monkeypatch.setattr(simplex_moves, "log_ratio", wrong)
    last, _ = cases.ends(SCIR(cases.mixture), getkey(), X)
    assert family(uniform("w", cases.mixture_uniform(last["w"])))


TILT = np.array([1.0, 0.0, 4.0]), np.array([30.0, 300.0, 1.0])


def tilted(getkey) -> dict[object, float]:
    """P-values of probabilities whose counts fall at rates of their own."""
    last, mcmc = cases.ends(SCIR(cases.tilted), getkey(), *map(jnp.asarray, TILT))
    assert mcmc.last_state.tuning["p"].log_step.mean() > np.log(0.1)
    checks: dict[object, float] = {}
    for part in range(3):
        checks |= uniform(f"p{part}", cases.tilted_uniform(last["p"], part, *TILT))
    return checks


@pytest.mark.slow
def test_counts_that_fall_at_rates_of_their_own(getkey) -> None:
    assert not family(tilted(getkey))


@pytest.mark.slow
@pytest.mark.parametrize("mutant", ["no weight", "no rate"])
def test_a_wrong_ratio_of_rates_is_seen(getkey, monkeypatch, mutant) -> None:
    right = simplex_moves.log_ratio

    def wrong(move, alpha, total, a, a_there, step):
        weight = (move.rate - 1) * (jnp.exp(move.after) - jnp.exp(move.before))
        scale = (a_there - a) * jnp.log(move.rate)
        left_out = weight if mutant == "no weight" else scale
        return right(move, alpha, total, a, a_there, step) - left_out.sum()

    monkeypatch.setattr(simplex_moves, "log_ratio", wrong)
    assert family(tilted(getkey))


@pytest.mark.slow
def test_gamma_sites(getkey) -> None:
    """Rates of sums are not conjugate, and are sampled exactly as well."""
    last, mcmc = cases.ends(SCIR(cases.sums), getkey(), jnp.asarray(Y))
    assert not mcmc.last_state.tuning["r"].exact.any()
    assert not family(uniform("r", cases.sums_uniform(last["r"], Y)))


@pytest.mark.slow
def test_a_wrong_gamma_ratio_is_seen(getkey, monkeypatch) -> None:
    monkeypatch.setattr(gamma_moves, "log_ratio", lambda *inputs: jnp.asarray(jnp.inf))
    last, _ = cases.ends(SCIR(cases.sums), getkey(), jnp.asarray(Y))
    assert family(uniform("r", cases.sums_uniform(last["r"], Y)))


@pytest.mark.slow
def test_a_learned_concentration(getkey) -> None:
    """One kernel moves a sparse vector and its concentration, whose law is known."""
    last, mcmc = cases.ends(SCIR(cases.learned), getkey(), SPARSE)
    assert mcmc.last_state.tuning["p"].exact.all()
    counts = np.bincount(SPARSE, minlength=6)
    assert not family(uniform("a", cases.learned_uniform(last["a"], counts)))
    wrong = np.array([15, 1, 0, 0, 3, 0])
    assert family(uniform("mutant", cases.learned_uniform(last["a"], wrong)))


@pytest.mark.slow
def test_minibatches(getkey) -> None:
    """The mean is right, and the variance is inflated as the paper says, by h and the noise."""
    h = 0.1
    kernel = SCIR(cases.categorical, h)
    last, mcmc = cases.ends(kernel, getkey(), cases.LABELS, 6, num_warmup=0, num_samples=80)
    assert mcmc.last_state.tuning["p"].exact.all()
    a = np.array([12.5, 5.5, 1.5])
    mean = a / a.sum()
    counts = a - 0.5
    share = counts / 18
    # Counts of 6 of 18 rows without replacement, scaled by 3.
    noise = 9 * 6 * share * (1 - share) * (12 / 17)
    exact = mean * (1 - mean) / (a.sum() + 1)
    inflated = exact + noise * np.tanh(h / 2) / a.sum() ** 2
    p = last["p"]
    assert not family({j: mean_z(p[:, j], mean[j], p[:, j].var(), 0.002) for j in range(3)})
    np.testing.assert_allclose(p.var(axis=0), inflated, rtol=0.15)
    assert (p.var(axis=0)[:2] > exact[:2]).all()


@pytest.mark.slow
def test_uncorrected_moves(getkey) -> None:
    """Their bias is small at a small step."""
    kernel = SCIR(cases.mixture, 0.02, metropolis=False)
    last, mcmc = cases.ends(kernel, getkey(), X, num_chains=1000, num_warmup=2500, num_samples=1)
    for part in range(3):
        u = cases.mixture_uniform(last["w"], part)
        assert abs(u.mean() - 0.5) < 0.05
        assert abs(u.var() - 1 / 12) < 0.015
    assert "w uncorrected, clamped" in mcmc.sampler.get_diagnostics_str(mcmc.last_state)


def classes(x, y):
    """Labels x in classes y, of which the last is rare."""
    with numpyro.plate("classes", 3):
        p = numpyro.sample("p", dist.Dirichlet(jnp.full(2, 0.5)))
    with numpyro.plate("rows", len(x), subsample_size=5) as rows:
        numpyro.sample("x", dist.Categorical(p[y[rows]]), obs=x[rows])


@pytest.mark.slow
def test_rows_that_the_first_minibatch_does_not_show(getkey) -> None:
    """They are taken to be conjugate as well: nothing is ever clamped."""
    x, y = jnp.arange(100) % 2, jnp.where(jnp.arange(100) < 98, jnp.arange(100) // 2 % 2, 2)
    last, mcmc = cases.ends(SCIR(classes, 0.02), getkey(), x, y, num_chains=500)
    known = mcmc.last_state.tuning["p"]
    assert known.exact.all()
    assert known.clamped.max() == 0
    p = last["p"][:, 2, 0]
    assert not family({"mean": mean_z(p, 0.5, p.var(), 0.01)})


def enumerated(x):
    """The mixture again, with assignments that are summed out by enumeration."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.full(3, cases.ALPHA)))
    with numpyro.plate("rows", len(x)):
        z = numpyro.sample("z", dist.Categorical(w), infer={"enumerate": "parallel"})
        numpyro.deterministic("chosen", cases.CENTRES[z])
        numpyro.sample("x", dist.Normal(cases.CENTRES[z], 1.0), obs=x)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:samples will not have")
def test_enumerated_sites() -> None:
    """The density and counts are those of the sum."""
    pytest.importorskip("funsor")
    key = jax.random.key(0)
    result = []
    for model in (enumerated, cases.mixture):
        kernel = SCIR(model)
        params = {"w": jnp.array([0.2, 0.3, 0.5])}
        result.append(kernel.init(key, 0, params, (X,), {}).density)
    np.testing.assert_allclose(result[0].others, result[1].others, rtol=1e-5)
    # One likelihood is normalised in the weights and one is not: only that part differs.
    pull = [d.counts["w"] - params["w"] * d.counts["w"].sum() for d in result]
    np.testing.assert_allclose(pull[0], pull[1], rtol=1e-4, atol=1e-4)


def test_what_is_made_of_enumerated_sites_is_left_out() -> None:
    """A replay would draw them from their prior."""
    pytest.importorskip("funsor")
    kernel = SCIR(enumerated)
    with pytest.warns(UserWarning, match=r"\['chosen'\]"):
        state = kernel.init(jax.random.key(0), 0, None, (X,), {})
    assert kernel.postprocess_fn((X,), {})(state.z).keys() == {"w"}
