"""What the baselines of LDA have in common: arguments, evaluation, and that they learn."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from baselines import collapsed_gibbs, hybrid, online_vb, scvb0
from baselines.hybrid import Local

from simplex_jax._src import base
from simplex_jax._src.corpus import device
from simplex_jax._src.models.lda import model as lda
from simplex_jax._src.models.topics import evaluation
from simplex_jax._src.runtime import driver

TINY = device.to_device(sp.csr_array([[3, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 0, 0]]))
BUILDS = {
    "collapsed_gibbs": collapsed_gibbs.build,
    "online_vb": online_vb.build,
    "hybrid": hybrid.build,
    "scvb0": scvb0.build,
}
every_baseline = pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
VARIATIONAL = {name: build for name, build in BUILDS.items() if name != "collapsed_gibbs"}
every_variational = pytest.mark.parametrize("build", VARIATIONAL.values(), ids=VARIATIONAL)


@every_baseline
@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": [0.1, np.nan]}, "alpha"),
        ({"alpha": [0.1, 0.1, 0.1]}, "alpha"),
        ({"alpha": "much"}, "alpha"),
        ({"beta": -1.0}, "beta"),
        ({"beta": np.ones((4, 2))}, "beta"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"shape": (0, 4)}, "shape"),
        ({"shape": (2,)}, "shape"),
        ({"shape": (2, 3)}, "shape"),
    ],
    ids=str,
)
def test_bad_arguments_are_named(build, options, name):
    with pytest.raises(ValueError, match=name):
        build(TINY, **{"shape": (2, 4)} | options)


@pytest.mark.parametrize(
    ("build", "options", "name"),
    [
        (online_vb.build, {"iterations": 0}, "iterations"),
        (online_vb.build, {"tolerance": -1e-3}, "tolerance"),
        (online_vb.build, {"tolerance": np.nan}, "tolerance"),
        (hybrid.build, {"local_step": Local(sweeps=5, burn_in=5)}, "burn_in"),
        (hybrid.build, {"local_step": Local("other")}, "local"),
        (scvb0.build, {"burn_in": -1}, "burn_in"),
        (scvb0.build, {"document_step_size": 1.5}, "document_step_size"),
        (scvb0.build, {"document_step_size": 0.0}, "document_step_size"),
        (collapsed_gibbs.build, {"batch_size": 5}, "batch_size"),
    ],
)
def test_bad_options_are_named(build, options, name):
    with pytest.raises(ValueError, match=name):
        build(TINY, (2, 4), **options)


@every_variational
@pytest.mark.parametrize("step_size", [1.0001, 2, lambda step: 1.5])
def test_step_sizes_above_1_are_refused(build, step_size):
    with pytest.raises(ValueError, match="step_size must be above 0 and at most 1"):
        build(TINY, (2, 4), step_size=step_size)


@every_baseline
@pytest.mark.parametrize("position", [np.ones((2, 3)), np.zeros((2, 4)), np.full((2, 4), np.nan)])
def test_bad_positions_are_named(build, position):
    kernel, _ = build(TINY, (2, 4))
    with pytest.raises(ValueError, match="position"):
        kernel.init(jax.random.key(0), position)


def test_a_schedule_that_leaves_its_range_stops_the_run(getkey):
    """It gives NaN, at which the driver stops."""
    kernel, stream = scvb0.build(TINY, (2, 4), step_size=lambda step: jnp.where(step < 2, 0.5, 1.5))
    state = kernel.init(getkey(), jnp.ones((2, 4)))
    with pytest.raises(FloatingPointError, match="NaN in update 3"):
        driver.run(getkey(), kernel, state, stream, 5)


@pytest.mark.slow
@every_baseline
def test_topics_are_learned(build):
    """Perplexity within 30% of that of the topics which the documents came from.

    A flat model has 120, the topics themselves 18. The seed is fixed, for these find a mode.
    """
    rng = np.random.default_rng(3)
    topics = rng.dirichlet(np.full(120, 0.05), 5)
    shares = rng.dirichlet(np.full(5, 0.2), 360)
    train, observed, target = (
        sp.csr_array(rng.multinomial(50, shares[rows] @ topics).astype(np.int32))
        for rows in (slice(300), slice(300, None), slice(300, None))
    )
    heldout = evaluation.completion(observed, target)
    alpha = jnp.full(5, 0.2)
    options = {} if build is collapsed_gibbs.build else {"step_size": 0.2}
    kernel, stream = build(
        device.to_device(train), (5, 120), alpha=0.2, beta=0.05, batch_size=100, **options
    )
    state = kernel.init(jax.random.key(1), jnp.ones((5, 120)))
    result = []
    driver.run(
        jax.random.key(2),
        kernel,
        state,
        stream,
        60,
        collect=lambda state, info: info.topic_tokens.sum(),
        chunk=30,
        hooks=[
            evaluation.Evaluation(heldout, jax.random.key(3)),
            lambda event: result.append(event.metrics["perplexity"]),
        ],
    )
    log_p = evaluation.log_predictive(
        jax.random.key(4), jnp.log(jnp.asarray(topics) + 1e-12), alpha, heldout
    )
    assert result[-1] < 1.3 * evaluation.perplexity(log_p, heldout.counts)


@pytest.mark.slow
@pytest.mark.parametrize("build", [collapsed_gibbs.build, scvb0.build])
def test_mean_topics_are_read_off_all_chains(build, getkey):
    kernel, stream = build(TINY, (2, 4))
    many = base.chains(kernel, 3)
    state = many.init(getkey(), jnp.ones((2, 4)))
    state, _ = driver.run(getkey(), many, state, stream, 2)
    assert state.position.shape == (3, 2, 4)
    np.testing.assert_allclose(lda.mean_topics(state), np.exp(state.position), rtol=1e-4)


@pytest.mark.slow
@every_baseline
def test_one_topic_and_no_tokens_leave_the_prior(build, getkey):
    corpus, beta = device.to_device(sp.csr_array((3, 2), dtype=np.int32)), np.array([1e-3, 3e-3])
    options = {} if build is collapsed_gibbs.build else {"step_size": 1.0}
    kernel, stream = build(corpus, (1, 2), alpha=1e-3, beta=beta, **options)
    state = kernel.init(getkey(), jnp.ones((1, 2)))
    state, info = driver.run(getkey(), kernel, state, stream, 3, collect=lambda state, info: info)
    np.testing.assert_allclose(np.exp(state.position), [[0.25, 0.75]], rtol=1e-5)
    chex.assert_tree_all_finite(info)
