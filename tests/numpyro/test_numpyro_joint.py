"""Kernels leave the joint law of parameters and data as it is.

Moves by row in models with shared factors; blocks of Gibbs next to discrete sites;
log-probabilities of a learned concentration; and HMC in normal scores.

A chain that starts at parameters drawn together with their data is at others of the same law after
any number of moves. What is compared are functions of parameters and data before and after, of one
chain each: most of their variance is in the data, and cancels.
"""

import inspect
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.scipy.special import gammaln
from numpyro import handlers
from numpyro.infer import HMC
from scipy import special, stats
from support import statistics_checks as checks
from support import tiny_lda

from simplex_jax._src.numpyro import density, rows, scir, sites
from simplex_jax._src.numpyro import reference as references
from simplex_jax._src.numpyro.distributions import LogDirichlet
from simplex_jax._src.numpyro.reference import GammaReference
from simplex_jax._src.numpyro.scir import SCIR

SIZE = 3
CHAINS, STEPS = 20_000, 10
CENTRES = jnp.array([-1.0, 0.5, 3.0])


def factorisation(x=None):
    """Counts with means theta beta; as many rows as columns."""
    of_rows, of_columns = numpyro.plate("rows", SIZE, dim=-2), numpyro.plate("columns", SIZE)
    with of_rows:
        law = dist.Gamma(jnp.array([0.5, 2.0]), 1.0).to_event(1)
        theta = numpyro.sample("theta", law)
    with of_columns:
        beta = numpyro.sample("beta", dist.Gamma(jnp.array([1.5, 0.7]), 2.0).to_event(1))
    with of_rows, of_columns:
        numpyro.sample("x", dist.Poisson((theta * beta).sum(axis=-1)), obs=x)


def of_factors(sample):
    theta, beta, x = sample["theta"][:, 0], sample["beta"], sample["x"]
    mean = theta @ beta.T
    return {
        **{f"theta {k}": theta[:, k].mean() for k in range(2)},
        **{f"log theta {k}": jnp.log(theta[:, k]).mean() for k in range(2)},
        **{f"beta {k}": beta[:, k].mean() for k in range(2)},
        "rows": (x.sum(axis=1) * jnp.log(theta.sum(axis=1))).mean(),
        "columns": (x.sum(axis=0) * jnp.log(beta.sum(axis=1))).mean(),
        "likelihood": (x * jnp.log(mean) - mean).mean(),
        "neighbours": (theta[:, 1] * jnp.roll(theta[:, 1], 1)).mean(),
        "squares": (theta.sum(axis=1) ** 2).mean(),
        "both": (theta.sum(axis=0) * beta.sum(axis=0)).mean(),
    }


def hierarchical(x=None):
    """Weights of mixtures in groups, at a concentration that they share."""
    a = numpyro.sample("a", dist.Gamma(2.0, 2.0))
    with numpyro.plate("groups", SIZE, dim=-2):
        w = numpyro.sample("w", dist.Dirichlet(a * jnp.array([0.5, 1.0, 1.5])))
        with numpyro.plate("rows", 4, dim=-1):
            parts = dist.Normal(CENTRES, 1.0)
            numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(w), parts), obs=x)


def of_groups(sample):
    a, w, x = sample["a"], sample["w"][:, 0], sample["x"]
    return {
        "a": a,
        "log a": jnp.log(a),
        **{f"w {k}": w[:, k].mean() for k in range(3)},
        **{f"log w {k}": jnp.log(w[:, k]).mean() for k in range(3)},
        "squares": (w**2).sum(axis=1).mean(),
        "both": a * (w**2).sum(axis=1).mean(),
        "data": (w @ CENTRES * x.mean(axis=1)).mean(),
        "groups": (w[:, 0] * jnp.roll(w[:, 0], 1)).mean(),
    }


def neighbours(x=None):
    """Counts that depend on a row and the next one."""
    with numpyro.plate("rows", SIZE):
        r = numpyro.sample("r", dist.Gamma(0.7, 0.5))
        numpyro.sample("x", dist.Poisson(r + 0.8 * jnp.roll(r, 1)), obs=x)


def of_rows(sample):
    r, x = sample["r"], sample["x"]
    return {
        "r": r.mean(),
        "log r": jnp.log(r).mean(),
        "squares": (r**2).mean(),
        "next": (r * jnp.roll(r, 1)).mean(),
        "own": (x * jnp.log(r)).mean(),
        "other": (x * jnp.log(jnp.roll(r, 1))).mean(),
    }


def log_hierarchical(x=None):
    """The same with words, on log-probabilities, for the densities of small concentrations."""
    a = numpyro.sample("a", dist.Gamma(2.0, 4.0))
    with numpyro.plate("groups", SIZE):
        w = numpyro.sample("w", LogDirichlet(a * jnp.array([0.5, 1.0, 1.5])))
        numpyro.sample("x", dist.Multinomial(4, logits=w), obs=x)


def of_logs(sample):
    a, w, x = sample["a"], sample["w"], sample["x"]
    return {
        "a": a,
        "log a": jnp.log(a),
        **{f"w {k}": jnp.exp(w[:, k]).mean() for k in range(3)},
        **{f"log w {k}": (a * w[:, k]).mean() for k in range(3)},
        "squares": jnp.exp(2 * w).sum(axis=1).mean(),
        "data": (x * jnp.exp(w)).sum(axis=1).mean(),
    }


def assigned(x=None):
    """A mixture whose assignments are discrete sites."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.array([0.5, 1.0, 1.5])))
    with numpyro.plate("rows", 4):
        part = numpyro.sample("part", dist.Categorical(logits=jnp.log(w)))
        numpyro.sample("x", dist.Normal(CENTRES[part], 1.0), obs=x)


def of_parts(sample):
    w, part, x = sample["w"], sample["part"], sample["x"]
    return {
        **{f"w {k}": w[k] for k in range(3)},
        **{f"log w {k}": jnp.log(w[k]) for k in range(3)},
        **{f"part {k}": (part == k).mean() for k in range(2)},
        "both": w[part].mean(),
        "data": w @ CENTRES * x.mean(),
        "squares": (w**2).sum(),
    }


FEATURES = {
    factorisation: of_factors,
    hierarchical: of_groups,
    neighbours: of_rows,
    log_hierarchical: of_logs,
    assigned: of_parts,
}


def drawn(model, key):
    trace = handlers.trace(handlers.seed(model, key)).get_trace()
    return {name: site["value"] for name, site in trace.items() if site["type"] == "sample"}


def features_off(changes):
    """Features that are off, at a false-alarm rate of 1e-3."""
    values = {name: np.asarray(value, np.float64) for name, value in changes.items()}
    return checks.family({name: checks.mean_z(v, 0.0, v.var()) for name, v in values.items()})


def rejected(model, key, chains=CHAINS):
    """Features that are off, at a false-alarm rate of 1e-3.

    Kernels start elsewhere: what they learn there must not depend on the parameters to keep. Steps
    are long, for short ones would make up for a wrong ratio.
    """
    kernel = SCIR(model, 2.0)

    def chain(key):
        key_truth, key_start, key_run = jax.random.split(key, 3)
        truth, other = drawn(model, key_truth), drawn(model, key_start)
        x = truth["x"]
        other.pop("x")
        state = kernel.init(key_run, 0, other, (x,), {})
        z = {name: kernel._inspected.kinds[name].native(truth[name]) for name in other}
        state = kernel.refresh(state._replace(z=z), (x,), {})
        step = lambda _, state: kernel.sample(state, (x,), {})  # noqa: E731
        state = jax.lax.fori_loop(0, STEPS, step, state)
        last = kernel.get_constrain_fn((x,), {})(state.z)
        features = FEATURES[model]
        before, after = features(truth), features({**last, "x": x})
        moved = jnp.stack([(last[name] != truth[name]).mean() for name in other])
        return jax.tree.map(jnp.subtract, after, before), moved

    changes, moved = jax.jit(jax.vmap(chain))(jax.random.split(key, chains))
    assert (np.asarray(moved).mean(axis=0) > 0.5).all()
    return features_off(changes)


@pytest.mark.slow
@pytest.mark.parametrize("model", [*FEATURES][:4], ids=lambda model: model.__name__)
def test_parameters_and_data_keep_their_law(model, getkey):
    assert not rejected(model, getkey())


def forgotten(monkeypatch):
    """What other sites see of the rows that were accepted is what was proposed for all."""
    mutant = tiny_lda.mutated(scir, "density = evaluate(z)\n", "density = there\n")
    monkeypatch.setattr(scir, "metropolis_step", mutant.metropolis_step)


def turned(monkeypatch):
    """Terms of columns are taken for those of rows."""
    right = sites.Rows.sums_of_term

    def wrong(rows, term):
        return right(rows, term.mT if term.ndim == 2 and len(set(term.shape)) == 1 else term)

    monkeypatch.setattr(sites.Rows, "sums_of_term", wrong)


def believed(monkeypatch):
    """All rows in plates are taken to be independent."""
    monkeypatch.setattr(rows, "independent", lambda target, z, name: target.layout.plates[name])


def pooled(monkeypatch):
    """Each row is accepted by the density of all of them."""
    right = sites.Rows.sums_of_term

    def wrong(rows, term):
        sums = right(rows, term)
        return jnp.full_like(sums, sums.sum())

    monkeypatch.setattr(sites.Rows, "sums_of_term", wrong)


def shifted(monkeypatch):
    """Each row is accepted by the density of the one before."""
    right = sites.Rows.sums_of_term

    def wrong(rows, term):
        sums = right(rows, term)
        return jnp.roll(sums, 1, axis=[rows.axis(dim) for dim, _ in rows.plates])

    monkeypatch.setattr(sites.Rows, "sums_of_term", wrong)


def unnormalised(monkeypatch):
    """The density of log-probabilities, as a function of the concentration, lacks its constant."""
    right = density._log_prior

    def wrong(kind, y, parameters):
        constant = 0.0 if kind == sites.GAMMA else gammaln(parameters[0].sum(axis=-1))
        return right(kind, y, parameters) - constant

    monkeypatch.setattr(density, "_log_prior", wrong)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "mutant"),
    [
        (log_hierarchical, unnormalised),
        (factorisation, forgotten),
        (factorisation, turned),
        (hierarchical, shifted),
        (neighbours, believed),
    ],
    ids=lambda function: function.__name__,
)
def test_mutants_are_seen(model, mutant, getkey, monkeypatch):
    mutant(monkeypatch)
    assert rejected(model, getkey())


@pytest.mark.slow
def test_rows_that_are_accepted_together_are_seen(getkey, monkeypatch):
    """The density of all rows is the own one and noise: half a correction, of a small bias.

    Of `hierarchical`, where a move hardly needs correction, it is not seen.
    """
    pooled(monkeypatch)
    assert rejected(factorisation, getkey(), 4 * CHAINS)


REFRESH = SCIR.refresh


def rejected_in_gibbs(key):
    """As `rejected`, for the weights of `assigned` by SCIR and its parts by DiscreteGibbs."""
    gibbs = pytest.importorskip("numpyro.infer.gibbs", reason="it came with numpyro 0.22")
    kernel = gibbs.Gibbs([(SCIR(assigned), ["w"]), (gibbs.DiscreteGibbs(assigned), ["part"])])

    def chain(key):
        key_truth, key_start, key_run = jax.random.split(key, 3)
        truth, other = drawn(assigned, key_truth), drawn(assigned, key_start)
        x = truth.pop("x")
        other.pop("x")
        state = kernel.init(key_run, 0, other, (x,), {})
        weights, parts = state.block_states
        weights = weights._replace(z={"w": jnp.log(truth["w"])})
        parts = parts._replace(z={"part": truth["part"]})
        (block, _), (discrete, _) = kernel.blocks
        # As after a step: the blocks know of each other.
        given = [gibbs.with_conditioning({}, {name: truth[name]}) for name in ("part", "w")]
        states = REFRESH(block, weights, (x,), given[0]), discrete.refresh(parts, (x,), given[1])
        state = state._replace(block_states=states)
        step = lambda _, state: kernel.sample(state, (x,), {})  # noqa: E731
        state = jax.lax.fori_loop(0, STEPS, step, state)
        last = {"w": jnp.exp(state.z["w"]), "part": state.z["part"], "x": x}
        before, after = of_parts({**truth, "x": x}), of_parts(last)
        return jax.tree.map(jnp.subtract, after, before), (last["w"] != truth["w"]).mean()

    changes, moved = jax.jit(jax.vmap(chain))(jax.random.split(key, CHAINS))
    assert moved.mean() > 0.5
    return features_off(changes)


@pytest.mark.slow
def test_weights_next_to_discrete_sites(getkey):
    assert not rejected_in_gibbs(getkey())


@pytest.mark.slow
def test_weights_that_do_not_look_at_their_siblings_again_are_seen(getkey, monkeypatch):
    monkeypatch.setattr(SCIR, "refresh", lambda self, state, *given: state)
    assert rejected_in_gibbs(getkey())


# Of `hierarchical`, away from the prior.
SHAPES, RATE = np.array([0.9, 0.4, 2.5]), 0.7


def scores_of(sample, rng):
    """Normal scores of the values of `hierarchical`, for these references; [chains, ...].

    The total of the gamma variates behind a row of weights is independent of them.
    """
    a, w = (np.asarray(sample[name], np.float64) for name in ("a", "w"))
    total = rng.gamma(SHAPES.sum(), size=(*w.shape[:-1], 1))

    def score(law, x):
        low = special.ndtri(law.cdf(x))
        return np.where(low < 0, low, -special.ndtri(law.sf(x)))

    return {
        "a_normal": score(stats.gamma(1.5, scale=1 / RATE), a),
        "w_normal": score(stats.gamma(SHAPES), w * total),
    }


def rejected_in_scores(key, seed):
    """As `rejected`, for HMC on `hierarchical` in normal scores."""
    key_truth, key_run = jax.random.split(key)
    truth = jax.jit(jax.vmap(lambda k: drawn(hierarchical, k)))(jax.random.split(key_truth, CHAINS))
    scores = scores_of(truth, np.random.default_rng(seed))
    config = {"a": GammaReference(1.5, RATE), "w": GammaReference(SHAPES)}
    model = handlers.reparam(hierarchical, config=config)
    options = {"adapt_step_size": False, "adapt_mass_matrix": False}
    kernel = HMC(model, step_size=0.4, num_steps=3, trajectory_length=None, **options)

    def chain(key, truth, scores):
        x = truth["x"]
        state = kernel.init(key, 0, scores, (x,), {})
        step = lambda _, state: kernel.sample(state, (x,), {})  # noqa: E731
        state = jax.lax.fori_loop(0, STEPS, step, state)
        last = kernel.postprocess_fn((x,), {})(state.z)
        before, after = of_groups(truth), of_groups({**last, "x": x})
        return jax.tree.map(jnp.subtract, after, before), state.accept_prob

    scores = {name: jnp.asarray(z, jnp.float32) for name, z in scores.items()}
    keys = jax.random.split(key_run, CHAINS)
    changes, accepted = jax.jit(jax.vmap(chain))(keys, truth, scores)
    assert 0.5 < accepted.mean() < 0.99
    return features_off(changes)


@pytest.mark.slow
def test_normal_scores(getkey, seed):
    assert not rejected_in_scores(getkey(), seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        # The slope of the transformation is left out; and so is the law of the total.
        ("log_weight = log_slope + (", "log_weight = 0 * log_slope + ("),
        ("log_prior + sum_rightmost(log_total, fn.event_dim)", "log_prior"),
    ],
    ids=["slope", "total"],
)
def test_a_jacobian_that_misses_the_reference_is_seen(old, new, getkey, seed, monkeypatch):
    # The classes of a mutated module are those of the module.
    source = textwrap.dedent(inspect.getsource(GammaReference.__call__))
    assert source.count(old) == 1
    scope = dict(vars(references))
    exec(source.replace(old, new), scope)
    monkeypatch.setattr(GammaReference, "__call__", scope["__call__"])
    assert rejected_in_scores(getkey(), seed)
