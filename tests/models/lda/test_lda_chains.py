"""Several chains: topics put together, what is said of their agreement, and of one topic alone."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from simplex_jax._src.corpus import from_counts
from simplex_jax._src.evaluate import matching
from simplex_jax._src.models import lda as topics
from simplex_jax._src.models.lda import feed as model
from simplex_jax._src.models.lda import kernel as lda_kernel
from simplex_jax._src.models.lda import model as lda
from simplex_jax._src.models.lda import posterior
from simplex_jax._src.models.topics.data import size_of
from simplex_jax._src.samplers import scir

COUNTS = sp.csr_array(
    np.array([[9, 8, 0, 0, 1, 0], [0, 0, 9, 8, 1, 0], [0, 0, 0, 1, 9, 9]] * 10, np.int32)
)
HELDOUT = COUNTS[:6], COUNTS[3:9]
# One chain in eight stays where a topic has two of the themes; with this seed none does.
OPTIONS = {"batch_size": 10, "eval_every": 3, "passes": 60, "seed": 5, "heldout": HELDOUT}


@pytest.fixture(scope="module")
def fitted():
    return topics.fit(COUNTS, 3, chains=3, **OPTIONS)


def test_a_common_concentration_is_that_of_all_chains():
    """Also where chains find different topics, here in words drawn at random."""
    noise = np.random.default_rng(0).poisson(0.4, (30, 20))
    fitted = topics.fit(sp.csr_array(noise), 6, chains=2, alpha="learn", passes=20)
    assert {fitted.alpha.dtype, fitted.alpha_sd.dtype, fitted.beta.dtype} == {np.dtype(float)}
    assert 0 < fitted.shared[1].sum() < 6
    assert np.unique(fitted.alpha).size == np.unique(fitted.alpha_sd).size == 1


def test_topics_of_chains_are_put_together(fitted):
    chex.assert_shape([fitted.topics, fitted.topics_sd], (3, 6))
    assert fitted.state.position.shape == (3, 3, 6)
    assert fitted.num_samples == 3 * 36
    assert sorted(fitted.order[1]) == [0, 1, 2]
    # Each chain has found the three themes, in an order of its own.
    assert fitted.order.tolist() != [[0, 1, 2]] * 3
    assert sorted(fitted.topics.argmax(axis=1) // 2) == [0, 1, 2]
    assert (fitted.stability > 0.99).all()
    np.testing.assert_allclose(fitted.prevalence, 1 / 3, atol=0.05)
    last = fitted.metrics[-1]
    assert last["perplexity_average"] < 1.02 * min(last[f"perplexity_chain_{i}"] for i in range(3))
    assert fitted.diagnostics["log_predictive"]["rhat"] < 1.1
    assert {f"prevalence {k}" for k in range(3)} <= set(fitted.diagnostics)


def test_chains_that_are_not_matched_would_be_noticed(fitted, monkeypatch):
    order = np.tile(np.arange(3), (3, 1))
    monkeypatch.setattr(
        matching,
        "align",
        lambda topics: matching.Alignment(order, np.ones(3), np.ones((3, 3), bool)),
    )
    mixed = topics.fit(COUNTS, 3, chains=3, **OPTIONS)
    assert mixed.topics_sd.max() > 3 * fitted.topics_sd.max()


def test_a_single_chain_is_the_kernel_of_the_model_itself():
    settings = topics.resolve(COUNTS, 3, chains=1)
    data = model.to_device(from_counts(COUNTS), settings)
    kernel, feed = model.build(data, size_of(COUNTS), settings)
    state = model.start(jax.random.key(0), kernel, 6, settings)
    assert state.position.shape == (3, 6)
    assert state.step.shape == ()
    batch = feed(jax.random.key(0), 0)(jax.random.key(0), 0)
    text = str(jax.make_jaxpr(kernel.update)(jax.random.key(0), state, batch))
    assert "3,6]" in text
    assert "1,3,6]" not in text


def test_what_is_read_of_labels_is_the_law_of_the_topics_given_them():
    """Dirichlet(beta + counts): its means and variances, as SciPy has them."""
    beta = np.linspace(0.1, 0.6, 6).astype(np.float32)
    counts = np.random.default_rng(0).poisson(3, (2, 6)).astype(np.int32)
    inner = scir.State(None, None, lda_kernel.Memory(jnp.zeros(1, jnp.uint8), counts), None)
    state = lda.State(jnp.zeros((2, 6)), jnp.int32(1), jnp.ones(2), jnp.asarray(beta), inner)
    sample = posterior.read(state, jnp.asarray(counts.sum(axis=1)), chains=1, memoised=True)
    for topic in range(2):
        law = stats.dirichlet(beta + counts[topic].astype(float))
        np.testing.assert_allclose(sample.mean[0, topic], law.mean(), rtol=1e-5)
        np.testing.assert_allclose(sample.variance[0, topic], law.var(), rtol=1e-5)
    np.testing.assert_allclose(sample.prevalence[0], counts.sum(axis=1) / counts.sum())
    drawn = posterior.read(state, jnp.ones(2), chains=1, memoised=False)
    assert drawn.variance is None


def test_diagnostics_take_topics_as_matched():
    rng = np.random.default_rng(0)
    shares = np.array([0.2, 0.8]) + 0.01 * rng.normal(size=(50, 2, 2))
    shares[:, 1] = shares[:, 1, ::-1]
    traces = {"prevalence": shares, "alpha": np.ones((50, 2))}
    both = np.ones((2, 2), bool)
    result = matching.diagnose(traces, np.array([[0, 1], [1, 0]]), both)
    assert set(result) == {"prevalence 0", "prevalence 1"}
    assert result["prevalence 0"]["rhat"] < 1.1
    apart = matching.diagnose(traces, np.array([[0, 1], [0, 1]]), both)
    assert apart["prevalence 0"]["rhat"] > 1.5
    alone = np.array([[True, True], [False, True]])
    result = matching.diagnose(traces, np.array([[0, 1], [0, 1]]), alone)
    assert result["prevalence 0"]["ess"] > 20  # of the one chain that has it
    assert np.isnan(result["prevalence 0"]["rhat"])
    assert result["prevalence 1"]["rhat"] > 1.5


def test_topics_that_hardly_a_token_uses_are_not_stable():
    # The prior makes them alike, with a mean affinity near 1.
    counts = np.kron(np.eye(2, dtype=int), np.full((10, 20), 2))
    fitted = topics.fit(counts, 6, alpha=0.01, beta=0.5, passes=100, chains=2, seed=0)
    tokens = fitted.prevalence * counts.sum()
    assert fitted.stable[tokens > 100].all()
    empty = tokens < 1
    assert empty.any()
    assert (fitted.stability[empty] > 0.9).all()
    assert not fitted.stable[empty].any()
    # Nor are their means those of several chains.
    each = fitted.prevalence_draws.mean(axis=0)[:, empty]
    assert (each[0] != each.mean(axis=0)).any()
    np.testing.assert_allclose(fitted.prevalence[empty], each[0], rtol=1e-4)


def test_a_topic_that_only_one_chain_has_is_not_blurred(fitted, monkeypatch):
    """Chains put together at random: what they do not share is left as the first chain has it."""
    order = np.stack([np.arange(3), (np.arange(3) + 1) % 3, (np.arange(3) + 2) % 3])
    alone = np.array([[True] * 3, [False] * 3, [False] * 3])
    monkeypatch.setattr(
        matching, "align", lambda topics: matching.Alignment(order, np.zeros(3), alone)
    )
    apart = topics.fit(COUNTS, 3, chains=3, **OPTIONS)
    np.testing.assert_allclose(apart.topics, fitted.topics, atol=0.02)
    assert not apart.stable.any()
    assert any("No topic is stable" in line for line in apart.verdict)
