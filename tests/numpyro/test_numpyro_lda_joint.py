"""LDA as a part of numpyro models, its labels drawn by a block next to SCIR, HMC and NUTS.

Chains keep the joint law of parameters, labels and words if they start from it (Geweke 2004): what
is compared are functions of these before and after, of one chain each. The posterior of a
concentration in a run is that by quadrature over all assignments of a tiny corpus. P-values are
judged by Holm's procedure at 1e-3 (`statistics_checks.family`): with a fresh seed a correct library
fails a test with a probability of at most 1e-3.
"""

import itertools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer import HMC, MCMC, NUTS
from scipy import special, stats
from support import statistics_checks as checks
from support import tiny_lda
from support.numpyro_lda import (
    block,
    documents_of,
    kept_in,
    needs_gibbs,
    swept_with,
    words_of,
)

from simplex_jax._src.numpyro import sites
from simplex_jax._src.numpyro.lda_gibbs import LDAGibbs
from simplex_jax._src.numpyro.scir import SCIR

pytestmark = pytest.mark.slow

LENGTHS = np.array([4, 1, 2, 3])
COVARIATE = np.array([-1.0, 0.5, 1.0, -0.5])
BETA = jnp.array([0.5, 1.0, 1.5])
SHARES = jnp.array([0.6, 1.2])
CHAINS, STEPS = 20_000, 8


def learned():
    """A concentration of all documents with a hyperprior."""
    a = numpyro.sample("a", dist.Gamma(2.0, 2.0))
    with numpyro.plate("topics", 2):
        phi = numpyro.sample("phi", dist.Dirichlet(BETA))
    words_of(documents_of(LENGTHS, a * SHARES), phi)


def regressed():
    """Concentrations of each document, by a covariate, and topics by their logarithms."""
    slopes = numpyro.sample("slopes", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    alpha = jnp.exp(jnp.array([-0.5, 0.2]) + COVARIATE[:, None] * slopes)
    with numpyro.plate("topics", 2):
        phi = numpyro.sample("phi", dist.Dirichlet(BETA))
    words_of(documents_of(LENGTHS, alpha), log_topics=jnp.log(phi))


def by_scir(model, engine=None):
    gibbs = needs_gibbs()
    corpus = tiny_lda.table([[0] * length for length in LENGTHS], 3)
    own = block(model, corpus, engine=engine), ["n", "m"]
    return gibbs.Gibbs([own, (SCIR(model, 2.0), None)])


def by_hmc(model, engine=None):
    gibbs = needs_gibbs()
    corpus = tiny_lda.table([[0] * length for length in LENGTHS], 3)
    own = block(model, corpus, engine=engine), ["n", "m"]
    options = {"adapt_step_size": False, "adapt_mass_matrix": False, "trajectory_length": None}
    hmc = HMC(model, step_size=0.5, num_steps=3, **options)
    return gibbs.Gibbs([(SCIR(model), ["phi"]), own, (hmc, None)])


def drawn(model, corpus, key):
    """Parameters, labels, words and counts, drawn token by token."""
    key_model, key_shares, key_labels, key_words = jax.random.split(key, 4)
    trace = handlers.trace(handlers.seed(model, key_model)).get_trace()
    names = ("a", "slopes", "phi")
    truth = {name: trace[name]["value"] for name in names if name in trace}
    alpha = sites.base(trace["n"]["fn"]).concentration
    shares = jax.random.dirichlet(key_shares, jnp.broadcast_to(alpha, (len(LENGTHS), 2)))
    row = np.repeat(corpus.order, LENGTHS[corpus.order])
    labels = jax.random.categorical(key_labels, jnp.log(shares[row]))
    words = jax.random.categorical(key_words, jnp.log(truth["phi"][labels])).astype(jnp.int32)
    n = jnp.zeros((len(LENGTHS), 2), jnp.int32).at[row, labels].add(1)
    m = jnp.zeros((2, 3), jnp.int32).at[labels, words].add(1)
    return truth | {"n": n, "m": m}, labels.astype(jnp.uint8), words


def features(sample):
    phi, n, m = sample["phi"], sample["n"], sample["m"]
    result = {
        **{f"phi {k} {v}": phi[k, v] for k in range(2) for v in range(2)},
        "squares": (phi**2).sum(),
        "overlap": phi[0] @ phi[1],
        "counts": (m * phi).sum(),
        "words": (m[0] ** 2).sum(),
        "tokens": n[:, 0].sum(),
        "together": (n[:, 0] * n[:, 1]).sum(),
        "longest": n[0, 0] * phi[0, 0],
        "order": n[:, 0] @ COVARIATE,
    }
    if "a" in sample:
        a = sample["a"]
        result |= {"a": a, "log a": jnp.log(a), "with a": a * (n[:, 0] * n[:, 1]).sum()}
    else:
        slopes = sample["slopes"]
        result |= {f"slope {k}": slopes[k] for k in range(2)}
        result |= {f"slope {k} squared": slopes[k] ** 2 for k in range(2)}
        result |= {"with slopes": (slopes[0] - slopes[1]) * (n[:, 0] @ COVARIATE)}
    return result


def rejected(model, kernel, key):
    """Features that are off after some steps from draws of the joint law."""
    gibbs = needs_gibbs()
    kernels = [block for block, _ in kernel.blocks]
    own = next(kernel for kernel in kernels if isinstance(kernel, LDAGibbs))
    corpus = jax.tree.map(np.asarray, own._corpus)

    def placed(kernel, state, truth, labels):
        """The state of a block at the truth."""
        if kernel is own:
            z = {name: truth[name] for name in ("n", "m")}
            return state._replace(z=z, labels=labels)
        native = {name: truth[name] for name in state.z}
        if isinstance(kernel, SCIR):
            kinds = kernel._inspected.kinds
            native = {name: kinds[name].native(x) for name, x in native.items()}
        others = {name: x for name, x in truth.items() if name not in native}
        return kernel.refresh(state._replace(z=native), (), gibbs.with_conditioning({}, others))

    def chain(key):
        key_truth, key_run = jax.random.split(key)
        truth, labels, words = drawn(model, corpus, key_truth)
        own._corpus = own._corpus._replace(tokens=words)
        state = kernel.init(key_run, 0, None, (), {})
        parts = zip(kernels, state.block_states, strict=True)
        states = tuple(placed(kernel, part, truth, labels) for kernel, part in parts)
        state = state._replace(block_states=states)
        step = lambda _, state: kernel.sample(state, (), {})  # noqa: E731
        state = jax.lax.fori_loop(0, STEPS, step, state)
        last = kernel.get_constrain_fn((), {})(state.z)
        moved = {name: (last[name] != truth[name]).mean() for name in truth}
        return jax.tree.map(jnp.subtract, features(last), features(truth)), moved

    changes, moved = jax.jit(jax.vmap(chain))(jax.random.split(key, CHAINS))
    assert min(share.mean() for share in moved.values()) > 0.2
    values = {name: np.asarray(value, np.float64) for name, value in changes.items()}
    return checks.family({name: checks.mean_z(v, 0.0, v.var()) for name, v in values.items()})


@pytest.mark.parametrize(
    ("model", "kernel"), [(learned, by_scir), (regressed, by_hmc)], ids=["scir", "hmc"]
)
def test_parameters_labels_and_words_keep_their_law(model, kernel, getkey):
    assert not rejected(model, kernel(model), getkey())


JOINT_MUTANTS = {
    "own label": (learned, by_scir, kept_in),
    "alpha of another topic": (learned, by_scir, swept_with("alpha[0],", "alpha[0][::-1],")),
    "alpha in another order": (regressed, by_hmc, swept_with("alpha[corpus.order]", "alpha")),
}


@pytest.mark.parametrize("mutant", JOINT_MUTANTS)
def test_mutants_of_the_joint_law_are_seen(mutant, getkey, monkeypatch):
    model, kernel, plant = JOINT_MUTANTS[mutant]
    plant(monkeypatch)
    assert rejected(model, kernel(model, "xla"), getkey())


# A run from its start to its end, with NUTS.
TINY = tiny_lda.table([[2], [0, 0, 1], [1, 2]], 3)


def tiny(lengths):
    a = numpyro.sample("a", dist.Gamma(2.0, 2.0))
    with numpyro.plate("topics", 2):
        phi = numpyro.sample("phi", dist.Dirichlet(BETA))
    n = documents_of(lengths, a * SHARES)
    words_of(n, phi)
    numpyro.deterministic("share", n[1, 0] / 3)


def exact():
    """Posterior means of a, its square, a share of tokens and a probability, by quadrature."""
    u = (np.arange(2000) + 0.5) / 2000
    a = stats.gamma(2.0, scale=0.5).ppf(u)
    words = np.repeat(TINY.indices, TINY.data)
    starts = np.concatenate([[0], np.cumsum(TINY.sum(axis=1))])
    z = tiny_lda.assignments(len(words), 2)
    hot = tiny_lda.one_hot(z, 2)
    beta = np.asarray(BETA, np.float64)
    shapes = beta + np.einsum("snk,nw->skw", hot, tiny_lda.one_hot(words, 3))
    log_p = np.tile(tiny_lda._log_polya(shapes, 0).sum(axis=1), (len(a), 1))
    alpha = a[:, None] * np.asarray(SHARES, np.float64)
    for first, last in itertools.pairwise(starts):
        counts = hot[:, first:last].sum(axis=1)
        log_p += tiny_lda._log_polya(counts, alpha[:, None])
        log_p -= tiny_lda._log_polya(np.zeros(2), alpha)[:, None]
    p = special.softmax(log_p)
    share = hot[:, starts[1] : starts[2], 0].mean(axis=1)
    probability = shapes[:, 0, 0] / shapes[:, 0].sum(axis=1)
    in_a = p.sum(axis=1)
    in_z = p.sum(axis=0)
    return {
        "a": in_a @ a,
        "a squared": in_a @ a**2,
        "share": in_z @ share,
        "phi": in_z @ probability,
    }


def run(key, **options):
    gibbs = needs_gibbs()
    blocks = [(block(tiny, TINY), ["n", "m"]), (SCIR(tiny), ["phi"]), (NUTS(tiny), None)]
    mcmc = MCMC(gibbs.Gibbs(blocks), progress_bar=False, **options)
    mcmc.run(key, jnp.asarray(TINY.sum(axis=1)))
    return mcmc


def posterior_checks(key):
    """P-values of posterior means by 20 batches, whose means are taken to be normal."""
    samples = run(key, num_warmup=500, num_samples=10_000).get_samples()
    values = {name: np.asarray(x, np.float64) for name, x in samples.items()}
    result = {
        "a": values["a"],
        "a squared": values["a"] ** 2,
        "share": values["share"],
        "phi": values["phi"][:, 0, 0],
    }
    p_values = {}
    for name, mean in exact().items():
        batches = result[name].reshape(20, -1).mean(axis=1)
        error = (batches.mean() - mean) / max(batches.std(ddof=1) / 20**0.5, 1e-12)
        p_values[name] = 2 * stats.t(19).sf(abs(error))
    return p_values


def test_a_run_with_nuts(getkey):
    assert not checks.family(posterior_checks(getkey()))


def test_counts_that_are_not_updated_are_seen(getkey, monkeypatch):
    """Labels move, and what the other blocks see of them does not."""
    sample = LDAGibbs.sample
    monkeypatch.setattr(
        LDAGibbs,
        "sample",
        lambda self, state, *given: sample(self, state, *given)._replace(z=state.z),
    )
    assert checks.family(posterior_checks(getkey()))


def test_counts_that_do_not_belong_together_have_no_density(getkey, monkeypatch):
    swept_with(".set(counts), words)", ".set(counts), before.words)")(monkeypatch)
    with (
        pytest.warns(UserWarning, match=r"Gibbs starts .*'phi'"),
        pytest.raises(RuntimeError, match="init_params"),
    ):
        run(getkey(), num_warmup=1, num_samples=1)


def test_chains_and_a_run_that_goes_on(getkey):
    options = {"num_chains": 2, "chain_method": "sequential"}
    mcmc = run(getkey(), num_warmup=20, num_samples=30, **options)
    samples = mcmc.get_samples(group_by_chain=True)
    assert samples["n"].shape == (2, 30, 3, 2)
    np.testing.assert_allclose(samples["share"], samples["n"][:, :, 1, 0] / 3, rtol=1e-6)
    one = jax.tree.map(lambda leaf: leaf[0], mcmc.last_state)
    assert mcmc.sampler.get_diagnostics_str(one).startswith("labels moved ")
    mcmc.post_warmup_state = mcmc.last_state
    mcmc.run(mcmc.post_warmup_state.rng_key, jnp.asarray(TINY.sum(axis=1)))
    again = pickle.loads(pickle.dumps(mcmc))  # noqa: S301
    np.testing.assert_array_equal(again.get_samples()["a"], mcmc.get_samples()["a"])
