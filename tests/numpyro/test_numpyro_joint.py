"""Moves by row leave the joint law of parameters and data as it is, in models with shared factors.

A chain that starts at parameters drawn together with their data is at others of the same law after
any number of moves. What is compared are functions of parameters and data before and after, of one
chain each: most of their variance is in the data, and cancels.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from support import statistics_checks as checks
from support import tiny_lda

from simplex_jax.numpyro_kernels import SCIR, moves, rows, scir, sites

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


FEATURES = {factorisation: of_factors, hierarchical: of_groups, neighbours: of_rows}


def rejected(model, key):
    """Features that are off, at a false-alarm rate of 1e-3.

    Kernels start elsewhere: what they learn there must not depend on the parameters to keep. Steps
    are long, for short ones would make up for a wrong ratio.
    """
    kernel = SCIR(model, 2.0)

    def drawn(key):
        trace = handlers.trace(handlers.seed(model, key)).get_trace()
        return {name: site["value"] for name, site in trace.items() if site["type"] == "sample"}

    def chain(key):
        key_truth, key_start, key_run = jax.random.split(key, 3)
        truth, other = drawn(key_truth), drawn(key_start)
        x = truth["x"]
        other.pop("x")
        state = kernel.init(key_run, 0, other, (x,), {})
        z = {name: sites.native(kernel._inspected.kinds[name], truth[name]) for name in other}
        state = kernel.refresh(state._replace(z=z), (x,), {})
        step = lambda _, state: kernel.sample(state, (x,), {})  # noqa: E731
        state = jax.lax.fori_loop(0, STEPS, step, state)
        last = kernel.get_constrain_fn((x,), {})(state.z)
        features = FEATURES[model]
        before, after = features(truth), features({**last, "x": x})
        moved = jnp.stack([(last[name] != truth[name]).mean() for name in other])
        return jax.tree.map(jnp.subtract, after, before), moved

    changes, moved = jax.jit(jax.vmap(chain))(jax.random.split(key, CHAINS))
    assert (np.asarray(moved).mean(axis=0) > 0.5).all()
    values = {name: np.asarray(value, np.float64) for name, value in changes.items()}
    return checks.family({name: checks.mean_z(v, 0.0, v.var()) for name, v in values.items()})


@pytest.mark.slow
@pytest.mark.parametrize("model", FEATURES, ids=lambda model: model.__name__)
def test_parameters_and_data_keep_their_law(model, getkey):
    assert not rejected(model, getkey())


def forgotten(monkeypatch):
    """What other sites see of the rows that were accepted is what was proposed for all."""
    mutant = tiny_lda.mutated(moves, "density = evaluate(z)\n", "density = proposal.there\n")
    monkeypatch.setattr(scir.moves, "jump", mutant.jump)


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
    """Each row is accepted by the ratio of all of them."""
    right = sites.Rows.sums_of_term

    def wrong(rows, term):
        sums = right(rows, term)
        return jnp.full_like(sums, sums.sum())

    monkeypatch.setattr(sites.Rows, "sums_of_term", wrong)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "mutant"),
    [
        (factorisation, forgotten),
        (factorisation, turned),
        (hierarchical, pooled),
        (neighbours, believed),
    ],
    ids=lambda function: function.__name__,
)
def test_mutants_are_seen(model, mutant, getkey, monkeypatch):
    mutant(monkeypatch)
    assert rejected(model, getkey())
