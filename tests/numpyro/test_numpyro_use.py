"""The numpyro kernels in numpyro's own machinery: chains, resuming, prediction, refusals."""

import inspect
import pickle
from functools import partial

import arviz_base
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, Predictive
from scipy import stats
from support import numpyro_cases as cases
from support.statistics_checks import family

from simplex_jax._src import estimators, gradient_noise, samplers
from simplex_jax._src.base import Kernel
from simplex_jax._src.numpyro import charts, density
from simplex_jax._src.numpyro.distributions import VonMisesFisher
from simplex_jax._src.numpyro.scir import SCIR
from simplex_jax._src.numpyro.sgmcmc import SGMCMC
from simplex_jax._src.samplers import barker, gbm, gmc, gsgnht, mld, scir, sgbd, sgld, sgrld

X = jnp.asarray(cases.POINTS, jnp.float32)
LABELS = jnp.array([0, 0, 1])
KERNELS = {
    "SCIR": partial(SCIR, cases.mixture),
    "SGMCMC": partial(SGMCMC, cases.mixture, partial(sgrld.build, step_size=0.01)),
}


def mcmc_of(kernel, num_samples=8, **options):
    options = {"num_warmup": 4, "progress_bar": False, **options}
    return MCMC(kernel, num_samples=num_samples, **options)


def poisson(x):
    rate = numpyro.sample("p", dist.Gamma(2.0, 1.0))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("x", dist.Poisson(rate), obs=x)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "steps"), [(cases.categorical, 0), (poisson, 1)])
def test_without_jit(model, steps) -> None:
    """The likelihood is looked at off the simplex as well, where numpyro's laws see the numbers."""
    kernel = SCIR(model)
    with jax.disable_jit():
        state = kernel.init(jax.random.key(0), 0, None, (LABELS,), {})
        for _ in range(steps):
            state = kernel.sample(state, (LABELS,), {})
    assert state.tuning["p"].exact
    assert state.i == steps


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_chains_agree_and_go_on(name, capsys) -> None:
    """Chains drawn by any method are the same ones, and a run goes on where it was left."""
    keys = jax.random.split(jax.random.key(3), 2)
    result = {}
    for method in ("sequential", "vectorized", jax.vmap):
        mcmc = mcmc_of(KERNELS[name](), num_chains=2, chain_method=method)
        mcmc.run(keys, X)
        result[method] = mcmc.get_samples(group_by_chain=True)["w"]
        assert result[method].shape == (2, 8, 3)
        assert mcmc.sampler.get_diagnostics_str(mcmc.last_state).startswith("w")
    np.testing.assert_allclose(result["vectorized"], result["sequential"], rtol=0.05, atol=1e-3)
    np.testing.assert_allclose(result[jax.vmap], result["vectorized"], rtol=0.05, atol=1e-3)

    mcmc = mcmc_of(KERNELS[name](), 4)
    mcmc.run(keys[0], X)
    first = mcmc.get_samples()["w"]
    mcmc.post_warmup_state = mcmc.last_state
    mcmc.run(mcmc.last_state.rng_key, X)
    both = np.concatenate([first, mcmc.get_samples()["w"]])
    np.testing.assert_allclose(both, result["sequential"][0], rtol=1e-3, atol=1e-6)

    mcmc.print_summary()
    assert "w[2]" in capsys.readouterr().out
    samples = mcmc.get_samples()
    np.testing.assert_allclose(samples["largest"], samples["w"].max(axis=1))
    drawn = Predictive(cases.mixture, samples)(jax.random.key(0), X)
    assert drawn["x"].shape == (4, 30)
    again = pickle.loads(pickle.dumps(mcmc))  # noqa: S301
    np.testing.assert_array_equal(again.get_samples()["w"], samples["w"])
    assert again.sampler.get_diagnostics_str(again.last_state).startswith("w")
    tree = arviz_base.from_numpyro(mcmc, log_likelihood=True)
    assert tree.posterior["largest"].shape == (1, 4)
    assert tree.posterior["w"].shape == (1, 4, 3)
    assert tree.log_likelihood["x"].shape == (1, 4, 30)


@pytest.mark.slow
def test_raw_keys_other_data_and_a_progress_bar(capsys, monkeypatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.delenv("CI", raising=False)
    mcmc = mcmc_of(SCIR(cases.categorical), progress_bar=True, jit_model_args=True)
    mcmc.run(jax.random.PRNGKey(0), cases.LABELS, init_params={"p": jnp.array([0.2, 0.3, 0.5])})
    assert "p exact" in capsys.readouterr().err
    mcmc.run(jax.random.PRNGKey(1), jnp.flip(cases.LABELS))
    assert mcmc.last_state.rng_key.dtype == jnp.uint32


def normal(x, subsample_size=None):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
    with numpyro.plate("rows", len(x), subsample_size=subsample_size) as rows:
        parts = dist.Normal(jnp.stack([mu, 3.0]), 1)
        numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(w), parts), obs=x[rows])


def local(x):
    with numpyro.plate("rows", len(x), subsample_size=3) as rows:
        w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
        numpyro.sample("x", dist.Normal(w[:, 0], 1), obs=x[rows])


def discrete(x):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
    with numpyro.plate("rows", len(x)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("x", dist.Normal(z, 1), obs=x)


def summed(x):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
    with numpyro.plate("rows", len(x), subsample_size=3) as rows:
        z = numpyro.sample("z", dist.Categorical(w), infer={"enumerate": "parallel"})
        numpyro.sample("x", dist.Normal(z, 1), obs=x[rows])


def summed_outside(x):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
    z = numpyro.sample("z", dist.Categorical(w), infer={"enumerate": "parallel"})
    with numpyro.plate("rows", len(x), subsample_size=3) as rows:
        numpyro.sample("x", dist.Normal(z, 1), obs=x[rows])


def scaled(x):
    with numpyro.handlers.scale(scale=2.0):
        w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
    numpyro.sample("x", dist.Normal(w[0], 1), obs=x)


def direction(x):
    m = numpyro.sample("m", VonMisesFisher(jnp.array([0.0, 0.0, 1.0]), 1.0))
    numpyro.sample("x", dist.Normal(m[0], 1), obs=x)


def bounded(x):
    """A support that depends on another site."""
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.sample("top", dist.Uniform(jnp.exp(mu), 20.0))
    numpyro.sample("x", dist.Normal(mu, 1), obs=x)


BARKER = partial(barker.build, step_size=1e-3)
FISHER = partial(
    sgbd.build,
    step_size=1e-3,
    noise_estimate=gradient_noise.fisher(lambda position, batch: position["p"], size=3),
)
SGLD, SGRLD = partial(sgld.build, step_size=1e-3), partial(sgrld.build, step_size=1e-3)


@pytest.mark.parametrize(
    ("kernel", "arguments", "message"),
    [
        (SCIR(normal), (X,), r"Gibbs\(\[\(SCIR\(model\), \['w'\]\), \(NUTS\(model\), None\)\]\)"),
        (SCIR(normal), (X, 5), r"use SGMCMC\(model, \{...\}\)"),
        (SCIR(local), (X,), r"'w' .* 'rows', which shows 3 of 30 rows"),
        (SGMCMC(local, SGLD), (X,), r"'w' .* 'rows'"),
        (SCIR(discrete), (X,), "'z' is discrete. Mark it infer="),
        (SCIR(summed), (X,), r"'z' .* 'rows' .*MixtureSameFamily"),
        (SCIR(summed_outside), (X,), r"'z' .* 'rows'"),
        (SCIR(scaled), (X,), "prior of site 'w'"),
        (SGMCMC(scaled, BARKER), (X,), "prior of site 'w'"),
        (SCIR(direction), (X,), r"\['m'\]. Use NUTS"),
        (SCIR(lambda x: None), (X,), "no latent site"),
        (SGMCMC(normal, SGRLD), (X,), r"sgrld.build cannot move 'mu' \(other\): .* {None: "),
        (SGMCMC(normal, {"w": SGRLD}), (X,), r"\['mu'\]: .*{None: "),
        (SGMCMC(normal, {"v": SGRLD, None: SGLD}), (X,), r"kernel has sites \['v'\]"),
        (SGMCMC(bounded, {"mu": SGLD, None: SGLD}), (X,), r"support of \['top'\] depends on sites"),
        (SGMCMC(normal, BARKER), (X, 5), r"barker.build needs the exact .* functools.partial.sgbd"),
        (SGMCMC(direction, SGLD), (X,), "use functools.partial.gsgnht.build"),
        (SGMCMC(normal, SGLD), (X, 31), "'rows' .* 1 to .* 30 .* 31"),
        (SGMCMC(normal, SGLD), (X, 0), "it is 0"),
        (SGMCMC(poisson, FISHER), (X,), r"^batch .*SGMCMC"),
    ],
)
def test_what_cannot_be_sampled_is_refused(kernel, arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        kernel.init(jax.random.key(0), 10, None, arguments, {})


COUNTS = estimators.categorical(4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SCIR(normal, -1.0), r"^step_size .*-1\.0$"),
        (lambda: SCIR(normal, target_accept=1.0), "target_accept must be between 0 and 1"),
        (lambda: SGMCMC(normal, sgld.build), "sgld.build needs step_size: freeze"),
        (lambda: SGMCMC(normal, "sgld"), r"^kernel .*'sgld'$"),
        (lambda: SGMCMC(normal, partial(gmc.build, step_size=1.0)), r"^kernel gmc\.build .*barker"),
        (lambda: SGMCMC(normal, partial(mld.build, form="dual")), "Leave out form='dual'"),
        (lambda: SGMCMC(normal, partial(gbm.build, mean=0.0, precision=1.0)), "one lognormal"),
        (lambda: SGMCMC(normal, print), r"^kernel builtins\.print .*estimator"),
        (lambda: SGMCMC(normal, sgld.build(COUNTS, 0.1)), r"^kernel .*returned$"),
        (lambda: SGMCMC(normal, (sgld.build(COUNTS, 0.1), "real")), r"^kernel .*returned$"),
        (lambda: SGMCMC(normal, partial(sgld.build, stepsize=0.1)), r"'stepsize'; .*step_size"),
        (lambda: SGMCMC(normal, partial(sgld.build, COUNTS, 0.1)), r"sgld\.build .*by name$"),
        (
            lambda: SGMCMC(normal, partial(sgld.build, estimator=COUNTS, step_size=1)),
            "estimator to",
        ),
        (lambda: SGMCMC(normal, partial(scir.build, alpha=1.0, step_size=1)), "alpha to"),
        (lambda: SGMCMC(normal, partial(barker.build, log_density=abs, step_size=1)), "density to"),
    ],
)
def test_bad_arguments(make, message) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_bad_starts() -> None:
    kernel, key = SCIR(cases.categorical), jax.random.key(0)
    for params, message in [
        ({"q": jnp.ones(3)}, r"^init_params .* q; .* p"),
        ({"p": jnp.ones(2)}, r"init_params\['p'\] .* \(3,\)"),
        ({"p": jnp.array([-0.5, 0.5, 1.0])}, r"init_params\['p'\] .*sum 1; it is -0\.5"),
        ({"p": jnp.ones(3)}, r"init_params\['p'\] .*sum 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            kernel.init(key, 0, params, (cases.LABELS,), {})
    for one in (SCIR(poisson), SGMCMC(poisson, SGLD)):
        with pytest.raises(ValueError, match=r"init_params\['p'\] .*at least 0; it is -1"):
            one.init(key, 0, {"p": -1.0}, (LABELS,), {})
    for one in (kernel, SGMCMC(normal, SGLD)):
        with pytest.raises(RuntimeError, match="not initialised"):
            one.wrap_model(lambda model: model).get_constrain_fn((), {})


def test_supports_that_depend_on_sites_of_the_same_kernel() -> None:
    state = SGMCMC(bounded, SGLD).init(jax.random.key(0), 0, None, (X,), {})
    assert set(state.z) == {"mu", "top"}


def rows_shown(x):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
    with numpyro.plate("rows", len(x), subsample_size=3) as rows:
        numpyro.sample("x", dist.Normal(w[0] + rows, 1), obs=x[rows])
    with numpyro.plate("others", 5, subsample_size=2) as others:
        numpyro.sample("y", dist.Normal(w[0], 1), obs=x[others])


@pytest.mark.slow
def test_minibatches_are_fresh_and_scaled() -> None:
    """Every key shows other rows, all of them as often, no row twice, and scaled to all."""
    kernel = SCIR(rows_shown)
    kernel.init(jax.random.key(0), 0, None, (X,), {})

    def traced(key):
        trace = density.trace_at(kernel._target((X,), {}, key), {"w": jnp.array([0.5, 0.5])})
        assert trace["x"]["scale"] == 10
        assert trace["y"]["scale"] == 2.5
        return trace["rows"]["value"], trace["others"]["value"]

    rows, others = jax.vmap(traced)(jax.random.split(jax.random.key(1), 4000))
    assert (jnp.diff(jnp.sort(rows, axis=1), axis=1) > 0).all()
    for drawn, size in ((rows, 30), (others, 5)):
        counts = np.bincount(np.asarray(drawn).ravel(), minlength=size)
        assert not family({"rows": stats.chisquare(counts).pvalue})
    # Plates are drawn independently.
    assert abs(np.corrcoef(rows[:, 0], others[:, 0])[0, 1]) < 5 / 4000**0.5


def test_minibatch_of_unit_vectors_takes_the_right_kernel() -> None:
    kernel = SGMCMC(direction, partial(gsgnht.build, step_size=0.1))
    state = kernel.init(jax.random.key(0), 0, None, (X,), {})
    np.testing.assert_allclose(jnp.linalg.norm(state.z["m"]), 1, rtol=1e-5)


def test_every_sampler_has_its_coordinates() -> None:
    """One missing in the table would be taken for a sampler of R^d, and lack an argument."""
    for name in samplers.__all__:
        build = getattr(samplers, name).build
        if build in charts._UNFIT:
            continue
        takes = {"estimator", "log_density"} & set(inspect.signature(build).parameters)
        assert takes, f"{name} takes no estimator: give it a line in _UNFIT of charts.py"
        known = "estimator" in takes or build in charts._CHARTS
        assert known, f"{name} takes a log density: give it a line in _CHARTS of charts.py"
        required = [
            key
            for key, parameter in inspect.signature(build).parameters.items()
            if parameter.default is inspect.Parameter.empty
        ]
        model = ("estimator", "log_density", "alpha", "manifold")
        options = {key: 1.0 for key in required if key not in model}
        chart = charts.sampler(partial(build, **options)).chart
        assert ("log_density" in required) == (chart == charts.DENSITY.name), name
        assert ("alpha" in required) == (chart == charts.COUNTS.name), name
        assert ("manifold" in required) == (chart == charts.SPHERES.name), name
        constrained = {"mirror", "projection"} & set(required)
        assert bool(constrained) == (chart == charts.POINTS.name), name


@pytest.mark.slow
def test_samplers_of_ones_own_declare_their_coordinates() -> None:
    def build(estimator, alpha):
        return sgrld.build(estimator, alpha, step_size=0.01)

    ours, theirs = (
        SGMCMC(cases.mixture, kernel).init(jax.random.key(0), 0, None, (X,), {})
        for kernel in ((build, "counts"), partial(sgrld.build, step_size=0.01))
    )
    np.testing.assert_array_equal(ours.z["w"], theirs.z["w"])
    with pytest.raises(ValueError, match="build needs alpha"):
        SGMCMC(cases.mixture, build)
    with pytest.raises(ValueError, match=r"chart .*'simplex'"):
        SGMCMC(cases.mixture, (build, "simplex"))


def test_kernels_of_ones_own_may_have_options_and_any_info() -> None:
    def build(estimator, *rest, info=(), **options):
        kernel = sgld.build(estimator, step_size=1e-3)
        return Kernel(kernel.init, lambda *inputs: (kernel.update(*inputs)[0], info))

    for info in ((), {"size": jnp.ones(())}, jnp.ones(2)):
        kernel = SGMCMC(poisson, partial(build, info=info))
        state = kernel.init(jax.random.key(0), 0, None, (LABELS,), {})
        assert kernel.get_diagnostics_str(state) == "p"


@jax.jit
def together(w, x):
    return w.max(), x.mean()


def shown_in_part(x, subsample_size):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
    with numpyro.plate("rows", len(x), subsample_size=subsample_size) as rows:
        numpyro.deterministic("means", w[0] * x[rows])
        numpyro.sample("x", dist.Normal(w[0], 1), obs=x[rows])
    largest, centre = together(w, x[rows])
    numpyro.deterministic("largest", largest)
    numpyro.deterministic("centre", centre)


def test_deterministic_sites_of_a_minibatch_are_left_out() -> None:
    kernel, key = SCIR(shown_in_part), jax.random.key(0)
    with pytest.warns(UserWarning, match=r"\['means', 'centre'\]"):
        state = kernel.init(key, 0, None, (X, 3), {})
    assert set(kernel.postprocess_fn((X, 3), {})(state.z)) == {"w", "largest"}
    state = kernel.init(key, 0, None, (X, 30), {})
    result = kernel.postprocess_fn((X, 30), {})(state.z)
    assert result.keys() == {"w", "largest", "means", "centre"}
    assert result["means"].shape == (30,)
    np.testing.assert_allclose(result["centre"], X.mean(), rtol=1e-5)


def random_means(x):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    rows = jax.random.randint(numpyro.prng_key(), (4,), 0, len(x))
    with numpyro.handlers.block():
        hidden = numpyro.sample("hidden", dist.Normal())
    numpyro.deterministic("mean", x[rows].mean() * w[0])
    numpyro.deterministic("moved", w[1] + hidden)
    numpyro.deterministic("first", w[0])


def test_deterministic_sites_of_random_numbers_are_left_out() -> None:
    """A replay of the model would give all samples the same ones."""
    kernel = SCIR(random_means)
    with pytest.warns(UserWarning, match=r"\['mean', 'moved'\]"):
        state = kernel.init(jax.random.key(0), 0, None, (X,), {})
    assert kernel.postprocess_fn((X,), {})(state.z).keys() == {"w", "first"}
