"""Normal scores as coordinates: the density to rounding, the law of chains, use, and mistakes."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.distributions import constraints
from numpyro.infer import HMC, MCMC, NUTS, Predictive
from numpyro.infer.util import log_density
from scipy import special, stats
from support import numpyro_cases as cases
from support import statistics_checks as checks
from support.marks import slow_but

from simplex_jax._src.numpyro import reference, sites
from simplex_jax._src.numpyro.distributions import LogDirichlet, VonMisesFisher
from simplex_jax._src.numpyro.reference import GammaReference, learn_reference
from simplex_jax._src.numpyro.scir import SCIR

COUNTS = np.array([3, 0, 0, 1, 0])
SPARSE = 0.01


def multinomial(counts):
    p = numpyro.sample("p", dist.Dirichlet(jnp.full(3, 0.5)))
    numpyro.sample("x", dist.Multinomial(int(counts.sum()), p), obs=counts)


def sparse(counts):
    y = numpyro.sample("y", LogDirichlet(jnp.full(len(counts), SPARSE)))
    numpyro.factor("x", counts @ y)


def poisson(x):
    with numpyro.plate("rows", len(x)):
        rate = numpyro.sample("rate", dist.Gamma(jnp.array([0.5, 2.0, 0.05]), 1.0))
        numpyro.sample("x", dist.Poisson(4.0 * rate), obs=x)


# References that are near the posteriors, Dirichlet(12.5, 5.5, 1.5), Dirichlet(counts + 0.01) and
# Gamma(shape + x, 5), but are not these.
MODELS = {
    "multinomial": (multinomial, np.array([12, 5, 1]), {"p": GammaReference([8.0, 7.0, 1.0])}),
    "sparse": (sparse, COUNTS, {"y": GammaReference([2.0, 0.02, 0.005, 1.5, 0.01])}),
    "poisson": (poisson, np.array([7, 0, 1]), {"rate": GammaReference([5.0, 3.0, 0.7], 4.0)}),
}


def beta_uniform(log_x, a, b):
    """The distribution function of Beta(a, b) at exp(log_x), which may underflow."""
    small = log_x < -80
    first = np.exp(a * np.minimum(log_x, -80) - np.log(a) - special.betaln(a, b))
    return np.where(small, first, stats.beta.cdf(np.exp(np.maximum(log_x, -80)), a, b))


def p_values(seed: int, names=tuple(MODELS)) -> dict:
    """Checks of all coordinates of the ends of 2,000 independent chains of each model."""
    result = {}
    for name in names:
        model, data, config = MODELS[name]
        kernel = HMC(
            handlers.reparam(model, config=config),
            step_size=0.25,
            trajectory_length=1.5,
            adapt_step_size=False,
            adapt_mass_matrix=False,
        )
        key = jax.random.fold_in(jax.random.key(seed), len(result))
        last, _ = cases.ends(kernel, key, data, num_chains=2000, num_warmup=0, num_samples=60)
        for k in range(len(data)):
            if name == "poisson":
                shape = np.array([0.5, 2.0, 0.05])[k] + data[k]
                u = special.gammainc(shape, 5 * last["rate"][:, k])
            else:
                site, alpha = ("p", 0.5) if name == "multinomial" else ("y", SPARSE)
                a = alpha + data
                logs = last[site][:, k]
                u = beta_uniform(np.log(logs) if site == "p" else logs, a[k], a.sum() - a[k])
            # Uniform numbers have moments; 1e-4 is for rounding of values in float32.
            result[name, k, "law"] = checks.dkwm(u, lambda v: np.clip(v, 0, 1), resolution=1e-4)
            result[name, k, "mean"] = checks.mean_z(u, 0.5, 1 / 12, resolution=1e-4)
            result[name, k, "variance"] = checks.variance_z(u, 0.5, 1 / 12, 1 / 80, resolution=1e-4)
    return result


@pytest.mark.slow
def test_chains_have_the_law_of_the_model(request):
    """All at once at a false-alarm rate of 1e-3, by Holm's procedure."""
    rejected = checks.family(p_values(request.config.getoption("--seed")))
    assert not rejected, rejected


factor, log_prior = numpyro.factor, reference._log_prior_of_positive
log_prior_on_simplex = reference._log_prior_on_simplex
MUTANTS = {
    "no Jacobian": (
        reference.numpyro,
        "factor",
        lambda name, value: factor(name, 0 * value if name.endswith("_factor") else value),
        ("multinomial", "sparse", "poisson"),
    ),
    "the density of x for that of log x": (
        reference,
        "_log_prior_of_positive",
        lambda fn, kind, r, centre: log_prior(fn, kind, r, centre) - r,
        ("poisson",),
    ),
    # The law of the total alone would change nothing: it is independent of the shares.
    "the density of x for that of its log ratios": (
        reference,
        "_log_prior_on_simplex",
        lambda fn, kind, rho, centre: (
            log_prior_on_simplex(fn, kind, rho, centre) - 0.3 * (centre + rho).sum(axis=-1)
        ),
        ("multinomial", "sparse"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_seen(mutant, request, monkeypatch):
    module, name, wrong, models = MUTANTS[mutant]
    monkeypatch.setattr(module, name, wrong)
    result = p_values(request.config.getoption("--seed"), models)
    assert {model for model, *_ in checks.family(result)} == set(models)


PRIORS = {
    "Dirichlet": (dist.Dirichlet(jnp.array([0.5, 2.0, 0.1])), True),
    "LogDirichlet": (LogDirichlet(jnp.array([0.5, 2.0, 0.1])), True),
    "two rows": (dist.Dirichlet(jnp.array([0.5, 2.0, 0.1])).expand([2]).to_event(1), True),
    "Gamma": (dist.Gamma(jnp.array([0.5, 3.0, 40.0]), 2.0).to_event(1), False),
    "Exponential": (dist.Exponential(2.0).expand([3]), False),
    "HalfNormal": (dist.HalfNormal(jnp.array([1.0, 2.0, 0.5])), False),
    "LogNormal": (dist.LogNormal(0.5, 1.0).expand([3]).to_event(1), False),
    "InverseGamma": (dist.InverseGamma(3.0, 2.0).expand([3]), False),
}


@pytest.mark.parametrize("prior", slow_but(PRIORS, "Gamma"))
def test_the_density_is_that_of_the_prior_and_the_jacobian(prior):
    """In double precision, by the determinant of the map that automatic differentiation sees."""
    with jax.enable_x64(True):
        law, on_simplex = PRIORS[prior]
        law = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), law)
        shape = np.array([0.7, 30.0, 0.02])

        def model():
            numpyro.sample("x", law)

        config = {"x": GammaReference(shape, None if on_simplex else 1.7)}
        scores = handlers.reparam(model, config=config)
        for is_beyond in (False, True):
            z = 1.5 * jax.random.normal(jax.random.key(int(is_beyond)), law.shape())
            if is_beyond:  # the table
                z = z.at[..., 0].set(-14.0)
            result, trace = log_density(scores, (), {}, {"x_normal": z})
            value = trace["x"]["value"]

            def full(z):
                """Log ratios and the logarithm of the total, of a row; or log values."""
                r = config["x"]._moved(z, jnp.asarray(shape))[0]
                y = r + jnp.log(jnp.asarray(shape) / (1 if on_simplex else 1.7))
                if not on_simplex:
                    return y
                return jnp.append(y[:-1] - y[-1], jax.nn.logsumexp(y))

            total = shape.sum()
            expected = law.log_prob(value).sum()
            for row in z.reshape(-1, 3):
                moved = full(row)
                expected += jnp.linalg.slogdet(jax.jacobian(full)(row))[1]
                if on_simplex:
                    expected += stats.loggamma(total).logpdf(moved[-1])
                else:
                    expected += moved.sum()
            if on_simplex and prior != "LogDirichlet":
                expected += jnp.log(value).sum()
            assert abs(result - expected) < 1e-6 * max(1, abs(expected)), is_beyond


@pytest.mark.slow
def test_it_is_finite_in_float32_at_the_ends_of_its_range():
    for shape in (1e-6, 1e-3, 1.0, 1e3, 1e6):
        for law in (dist.Dirichlet(jnp.full(4, shape)), dist.Gamma(shape, 1.0).expand([4])):

            def model(law=law):
                numpyro.sample("x", law)

            scores = handlers.reparam(model, config={"x": GammaReference(shape)})

            def density(z, scores=scores):
                return log_density(scores, (), {}, {"x_normal": z})[0]

            for z in (jnp.zeros(4), jnp.array([-9.0, 9.0, 1.0, -1.0]), jnp.array([5.0, -3, -7, 0])):
                value, gradient = jax.value_and_grad(density)(z)
                # The reference is the prior: nothing but the normal law is left.
                exact = stats.norm.logpdf(z).sum()
                assert abs(value - exact) < 1e-3 * max(1, abs(exact)), (shape, law)
                np.testing.assert_allclose(gradient, -z, atol=2e-2)


def network(y):
    """Mixed memberships with a real number beside them."""
    with numpyro.plate("nodes", 6):
        pi = numpyro.sample("pi", dist.Dirichlet(jnp.full(2, 0.3)))
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    shift = numpyro.sample("shift", dist.Normal(0.0, 1.0))
    mean = 0.1 + rate * jnp.exp(0.1 * shift) * (pi @ pi.T)
    numpyro.sample("y", dist.Poisson(mean).to_event(2), obs=y)


LINKS = jnp.kron(jnp.eye(2), jnp.ones((3, 3)))


def test_a_pilot_of_two_kernels_needs_a_newer_numpyro(monkeypatch):
    monkeypatch.delattr(numpyro.infer, "Gibbs", raising=False)
    with pytest.raises(RuntimeError, match=r"numpyro 0\.22"):
        learn_reference(jax.random.key(0), network, model_args=(LINKS,))


@pytest.mark.slow
def test_learned_references_with_nuts_and_gibbs():
    """Means agree with those of plain NUTS, to seven standard errors of six chains."""
    from numpyro.infer import Gibbs

    config = learn_reference(jax.random.key(0), network, model_args=(LINKS,), num_samples=500)
    assert set(config) == {"pi", "rate"}
    assert config["pi"].shape.shape == (6, 2)
    model = handlers.reparam(network, config=config)
    shares = handlers.reparam(network, config={"pi": config["pi"]})
    result = {}
    kernels = {
        "plain": (NUTS(network), "vectorized"),
        "scores": (NUTS(model), "vectorized"),
        "block": (
            Gibbs([(SCIR(shares), ["rate"]), (NUTS(shares), None)]),
            "sequential",
        ),
    }
    for name, (kernel, method) in kernels.items():
        mcmc = MCMC(
            kernel,
            num_warmup=150,
            num_samples=200,
            num_chains=6,
            chain_method=method,
            progress_bar=False,
        )
        mcmc.run(jax.random.key(1), LINKS)
        samples = mcmc.get_samples(group_by_chain=True)
        pi = samples["pi"]
        together = (pi[:, :, :1] * pi).sum(axis=-1).mean(axis=1)
        result[name] = np.concatenate([together, samples["rate"].mean(axis=1)[:, None]], axis=1)
    mean, error = result["plain"].mean(axis=0), result["plain"].std(axis=0) / 5**0.5
    for name, values in result.items():
        errors = np.hypot(error, values.std(axis=0) / 5**0.5)
        assert (np.abs(values.mean(axis=0) - mean) < 7 * errors).all(), name
    predicted = Predictive(shares, mcmc.get_samples())(jax.random.key(2), LINKS)
    assert predicted["pi"].shape == (1200, 6, 2)


def test_the_fitted_law_is_that_of_the_samples():
    """Draws of gamma and Dirichlet laws give their parameters back, to 5 %."""
    key = jax.random.key(0)
    shape, rate = np.array([0.05, 1.0, 200.0]), np.array([3.0, 0.1, 7.0])
    fitted = reference._fit(sites.GAMMA, dist.Gamma(shape, rate).sample(key, (20_000,)))
    np.testing.assert_allclose(fitted.shape, shape, rtol=0.05)
    np.testing.assert_allclose(fitted.rate, rate, rtol=0.06)
    alpha = np.array([0.05, 1.0, 20.0])
    fitted = reference._fit(sites.SIMPLEX, dist.Dirichlet(alpha).sample(key, (20_000,)))
    np.testing.assert_allclose(fitted.shape, alpha, rtol=0.05)
    fitted = reference._fit(sites.LOG_SIMPLEX, LogDirichlet(alpha).sample(key, (20_000,)))
    np.testing.assert_allclose(fitted.shape, alpha, rtol=0.05)
    still = reference._fit(sites.GAMMA, jnp.ones((100, 2)))
    assert (still.shape == 1e6).all()


def traced(law, config, scale=None, obs=None):
    def model():
        numpyro.sample("x", law, obs=obs)

    model = handlers.scale(model, scale=scale) if scale else model
    handlers.seed(handlers.reparam(model, config={"x": config}), jax.random.key(0))()


def test_the_ends_of_the_range_in_single_precision():
    assert GammaReference(jnp.array([1e-6, 1e6])).shape.shape == (2,)
    with pytest.raises(ValueError, match=r"shape .* 1e-06 and 1e\+06"):
        GammaReference(np.float32(9.9e-7))


def test_mistakes_are_errors():
    simplex, positive = dist.Dirichlet(jnp.ones(3)), dist.Gamma(1.0, 1.0)
    with pytest.raises(ValueError, match=r"^shape .*1e-06"):
        GammaReference(0.0)
    with pytest.raises(ValueError, match=r"^shape .*1e-06"):
        GammaReference([1.0, np.nan])
    with pytest.raises(ValueError, match=r"^rate .*-1\.0$"):
        GammaReference(1.0, -1.0)
    with pytest.raises(ValueError, match="'x' is Normal"):
        traced(dist.Normal(0.0, 1.0), GammaReference(1.0))
    with pytest.raises(ValueError, match="'x' is VonMisesFisher"):
        traced(VonMisesFisher(jnp.array([1.0, 0.0]), 1.0), GammaReference(1.0))
    with pytest.raises(ValueError, match="'x' is observed"):
        traced(positive, GammaReference(1.0), obs=2.0)
    with pytest.raises(ValueError, match="has no rate"):
        traced(simplex, GammaReference(1.0, 1.0))
    with pytest.raises(ValueError, match="does not broadcast"):
        traced(simplex, GammaReference(np.ones(4)))
    with pytest.raises(ValueError, match="scaled or masked"):
        traced(simplex, GammaReference(1.0), scale=2.0)
    with pytest.raises(ValueError, match="scaled or masked"):
        traced(positive.mask(False), GammaReference(1.0))
    half = handlers.mask(
        handlers.reparam(lambda: numpyro.sample("x", positive), config={"x": GammaReference(1.0)}),
        mask=jnp.array(True),
    )
    with pytest.raises(ValueError, match="scaled or masked"):
        handlers.seed(half, jax.random.key(0))()
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="at least 100"):
        learn_reference(key, poisson, model_args=(COUNTS,), num_samples=10)
    with pytest.raises(ValueError, match="minibatches"):
        learn_reference(key, cases.categorical, model_args=(cases.LABELS, 5))
    with pytest.raises(ValueError, match=r"no latent site .*simplex$"):
        learn_reference(key, lambda: numpyro.sample("x", dist.Normal(0.0, 1.0)))
    with pytest.raises(ValueError, match=r"scan and cond, .*\['r'\]"):
        learn_reference(key, wandering, model_args=(COUNTS,))

    def repeated():
        numpyro.sample("p", simplex, sample_shape=(5,))

    with pytest.raises(ValueError, match=r"'p' has sample_shape=\(5,\), .*expand\(\[5\]\)"):
        learn_reference(key, repeated)
    outside = handlers.reparam(wandering, config={"r": GammaReference(1.0)})
    with pytest.raises(ValueError, match=r"'r' is .* scan or cond"):
        handlers.seed(outside, key)(COUNTS)


def wandering(x, inside=None):
    """A rate within scan, whose first value is known or a site."""

    def step(last, x):
        with handlers.reparam(config=inside or {}):
            r = numpyro.sample("r", dist.Gamma(2.0, 2.0 / last))
        numpyro.sample("x", dist.Poisson(r), obs=x)
        return r, None

    scan(step, 1.0, x)


@pytest.mark.slow
def test_sites_within_scan_are_left_out():
    """In the body of the scan they can be reparametrised."""

    def model(x):
        numpyro.sample("p", dist.Dirichlet(jnp.ones(2)))
        wandering(x)

    key = jax.random.key(0)
    config = learn_reference(key, model, model_args=(COUNTS,), num_warmup=10, num_samples=100)
    assert set(config) == {"p"}
    layout, _ = sites.inspect(model, key, (COUNTS,), {}, None)
    assert reference.scored_sites(model, key, (COUNTS,), {}, layout) == (
        {"p": sites.SIMPLEX},
        ["r"],
    )
    z = jnp.array([0.5, -1.0, 0.0, 2.0, 1.0])
    moved = handlers.substitute(wandering, data={"r_normal": z})
    trace = handlers.trace(handlers.seed(moved, key)).get_trace(
        COUNTS, {"r": GammaReference(2.0, 2.0)}
    )
    np.testing.assert_allclose(
        trace["r"]["value"], stats.gamma.ppf(stats.norm.cdf(z), 2.0, scale=0.5), rtol=1e-5
    )


@pytest.mark.parametrize("support", ["simplex", "positive"])
def test_rows_of_one_constraint(support):
    """`ImproperUniform` wraps its constraint, and its axes are of one event."""
    constraint = getattr(constraints, support)
    reference = GammaReference([2.0, 0.5, 1.0])
    scores = jax.random.normal(jax.random.key(0), (4, 3))
    result = []
    for law in (
        dist.ImproperUniform(constraint, (), (4, 3)),
        dist.ImproperUniform(constraint, (4,), (3,)).to_event(1),
        dist.Dirichlet(jnp.ones(3)).expand([4]).to_event(1),
    )[: 3 if support == "simplex" else 2]:
        config = {"p": reference}
        model = handlers.reparam(lambda law=law: numpyro.sample("p", law), config=config)
        result.append(log_density(model, (), {}, {"p_normal": scores})[0])
    np.testing.assert_allclose(result[1], result[0], rtol=1e-5)
    if support == "simplex":
        np.testing.assert_allclose(result[2], result[0] + 4 * np.log(2), rtol=1e-5)


def test_scopes_that_rename_sites():
    """Within a scope, and around one, where numpyro gives the prefix to the scores twice."""

    def model():
        numpyro.sample("p", dist.Dirichlet(jnp.full(3, 0.5)))

    reference, scores = GammaReference([2.0, 0.5, 1.0]), jnp.array([0.3, -1.0, 0.8])
    alone = handlers.reparam(model, config={"p": reference})
    scoped = handlers.scope(model, prefix="a")
    density = log_density(alone, (), {}, {"p_normal": scores})[0]
    for name, renamed in {
        "a/p_normal": handlers.scope(alone, prefix="a"),
        "a/a/p_normal": handlers.reparam(scoped, config={"a/p": reference}),
    }.items():
        assert log_density(renamed, (), {}, {name: scores})[0] == density
