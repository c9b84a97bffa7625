"""Moves whose mixing is measured leave the law of the labels alone. False alarms: 1e-3."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lda_mixing import relabelled
from scipy import special
from support import statistics_checks as checks

from simplex_jax._src.corpus.device import DeviceCorpus

TOPICS, WORDS, COPIES, ALPHA = 4, np.array([0, 1, 1]), 100_000, 0.3


@pytest.mark.slow
@pytest.mark.parametrize("fair", [True, False])
def test_documents_that_relabel_their_groups(fair, monkeypatch, seed):
    """Copies of a document of three tokens, from exact draws of its labels given the topics.

    The mutant takes the groups in the order of their topics, which the moves change.
    """
    if not fair:
        monkeypatch.setattr(
            jnp, "argsort", lambda x, axis: jnp.tile(jnp.arange(TOPICS), (len(x), 1))
        )
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.ones(3), TOPICS)
    labels = np.array(list(itertools.product(range(TOPICS), repeat=len(WORDS))))
    counts = (labels[:, :, None] == np.arange(TOPICS)).sum(axis=1)
    log_p = np.log(topics[labels, WORDS]).sum(axis=1) + special.gammaln(counts + ALPHA).sum(axis=1)
    p = special.softmax(log_p)
    drawn = labels[rng.choice(len(labels), COPIES, p=p)]
    documents = DeviceCorpus(
        jnp.tile(jnp.asarray(WORDS, jnp.int32), COPIES),
        jnp.arange(COPIES + 1, dtype=jnp.int32) * len(WORDS),
        jnp.arange(COPIES, dtype=jnp.int32),
    )
    log_topics = jnp.log(jnp.asarray(topics, jnp.float32))
    new = relabelled(
        jax.random.key(seed), log_topics, documents, jnp.asarray(drawn.ravel(), jnp.uint8)
    )
    places = np.asarray(new).reshape(drawn.shape) @ TOPICS ** np.arange(len(WORDS))[::-1]
    p_value = checks.chi_square(np.bincount(places, minlength=len(labels)), p)
    assert (p_value > 1e-3) is fair
