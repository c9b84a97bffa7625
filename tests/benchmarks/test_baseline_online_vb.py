"""Online variational Bayes against scikit-learn, and the steps that variational methods share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from baselines import entries, online_vb
from scipy import special
from sklearn.decomposition import LatentDirichletAllocation
from support import tiny_lda

from simplex_jax._src.corpus import device
from simplex_jax._src.geometry.digamma import digamma

SHAPE = (4, 60)
ALPHA, BETA = 0.2, 0.05
CLOSE = 1e-6  # the series of scikit-learn's digamma ends at terms of 2.5e-9
# Smaller groups than those of real corpora: a few documents each.
SMALL = tiny_lda.mutated(online_vb, "_SEGMENTS = 256", "_SEGMENTS = 5")


def corpus_of(rng, documents=40):
    """Sparse counts of documents of all lengths, some without words."""
    lengths = rng.choice([0, 1, 5, 40, 300], documents)
    topics = rng.dirichlet(np.full(SHAPE[1], 0.1), SHAPE[0])
    shares = rng.dirichlet(np.full(SHAPE[0], 0.2), documents)
    return sp.csr_array(rng.multinomial(lengths, shares @ topics).astype(np.int32))


class Theirs(LatentDirichletAllocation):
    """Scikit-learn's from given weights, with the first gamma at 1 and not at random."""

    def _init_latent_vars(self, n_features, dtype):
        super()._init_latent_vars(n_features, dtype)
        self.components_ = self.start.copy()
        total = special.digamma(self.start.sum(axis=1, keepdims=True))
        self.exp_dirichlet_component_ = np.exp(special.digamma(self.start) - total)

    def _e_step(self, counts, cal_sstats, random_init, parallel=None):
        return super()._e_step(counts, cal_sstats, random_init=False, parallel=parallel)


def weights_of_both(build, getkey, seed, dtype, iterations, tolerance):
    """Weights after two batches, as a kernel and as scikit-learn moves them."""
    rng = np.random.default_rng(seed)
    counts = corpus_of(rng)
    corpus = device.to_device(counts)
    lengths = np.diff(corpus.starts)
    by_length = np.argsort(lengths)
    batches = [rng.permutation(40)[:12], np.append(by_length[-10:], by_length[:2])]
    theirs = Theirs(
        SHAPE[0],
        doc_topic_prior=ALPHA,
        topic_word_prior=BETA,
        learning_method="online",
        learning_decay=0.7,
        learning_offset=1024.0,  # they number the updates from 1
        total_samples=40,
        max_doc_update_iter=iterations,
        mean_change_tol=tolerance,
        random_state=0,
    )
    options = {"iterations": iterations, "tolerance": tolerance}
    kernel, _ = build(corpus, SHAPE, alpha=ALPHA, beta=BETA, batch_size=12, **options)
    state = kernel.init(getkey(), jnp.ones(SHAPE, dtype))
    assert state.sampler.weights.dtype == dtype
    theirs.start = np.asarray(state.sampler.weights, np.float64)
    rows = sp.csr_array(counts[np.asarray(corpus.order)], dtype=np.float64)
    update = jax.jit(kernel.update)
    for ids in batches:
        theirs.partial_fit(rows[ids])
        state, _ = update(getkey(), state, jnp.asarray(ids))
    weights = np.asarray(state.sampler.weights)
    share = weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(state.position), share, rtol=1e-4)
    return weights, theirs.components_


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [pytest.param(online_vb.build, marks=pytest.mark.slow), SMALL.build],
    ids=["one group", "groups"],
)
def test_double_precision_agrees_with_scikit_learn(build, getkey, seed):
    with jax.enable_x64(True):
        ours, theirs = weights_of_both(build, getkey, seed, np.float64, 100, 1e-3)
    np.testing.assert_allclose(ours, theirs, rtol=CLOSE)


@pytest.mark.slow
def test_single_precision_agrees_with_scikit_learn(getkey, seed):
    """A fixed number of iterations: by rounding a document could stop one earlier or later."""
    ours, theirs = weights_of_both(SMALL.build, getkey, seed, np.float32, 20, 0.0)
    np.testing.assert_allclose(ours, theirs, rtol=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("moving & (change >= tolerance)", "moving"),
        ("new = alpha + theta", "new = alpha + 0.98 * theta"),
        ("(documents / size) * total.T", "total.T"),
        ("number < documents.lengths", "number <= documents.lengths"),
        ("-(-lengths // _SEGMENT)", "-(-lengths // (2 * _SEGMENT))"),
        ("_, theta_here, share = shares(gamma)", "_, theta_here, share = shares(gamma + 0.01)"),
    ],
    ids=["never stops", "counts 2 % down", "not scaled", "padding", "groups overfull", "stale"],
)
def test_mutants_are_seen(old, new, getkey, seed):
    mutant = tiny_lda.mutated(online_vb, old, new)
    mutant._SEGMENTS = SMALL._SEGMENTS
    with jax.enable_x64(True):
        ours, theirs = weights_of_both(mutant.build, getkey, seed, np.float64, 100, 1e-3)
    assert not np.allclose(ours, theirs, rtol=CLOSE)


@pytest.mark.slow
def test_iterations_are_told(getkey, seed):
    corpus = device.to_device(corpus_of(np.random.default_rng(seed)))
    told = {}
    for name, options in {
        "one": {"iterations": 1},
        "at once": {"iterations": 9999, "tolerance": 1e6},
        "all": {"iterations": 9999, "tolerance": 1e-2},
    }.items():
        kernel, stream = online_vb.build(corpus, SHAPE, batch_size=40, **options)
        state = kernel.init(getkey(), jnp.ones(SHAPE))
        _, info = jax.jit(kernel.update)(getkey(), state, stream(getkey(), 0))
        told[name] = info.sampler.local
    assert (told["one"].iterations, told["one"].unfinished) == (1, 1)
    assert (told["at once"].iterations, told["at once"].unfinished) == (1, 0)
    assert 1 < told["all"].iterations < 9999
    assert told["all"].unfinished == 0


def test_default_step_size_is_that_of_the_authors():
    step_size = online_vb.default_step_size()
    t = np.array([0, 10, 5000])
    np.testing.assert_allclose(step_size(t), (1025.0 + t) ** -0.7, rtol=1e-5)


def test_start_has_noise_around_the_topics(getkey):
    """Gamma(100, 1 / 100) times V p: of 60,000 the mean has a standard error of 4e-4."""
    shape = (1000, 60)
    p = np.random.default_rng(0).dirichlet(np.ones(60), 1000)
    corpus = device.to_device(sp.csr_array(np.ones((1, 60), np.int32)))
    kernel, _ = online_vb.build(corpus, shape, beta=0.5)
    state = kernel.init(getkey(), jnp.asarray(p))
    noise = (np.asarray(state.sampler.weights, np.float64) - 0.5) / (60 * p)
    assert abs(noise.mean() - 1) < 2.5e-3
    assert abs(noise.std() - 0.1) < 2e-3
    np.testing.assert_allclose(np.exp(state.position).sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-6), (np.float64, 1e-12)])
def test_digamma(dtype, tolerance):
    x = np.concatenate([np.geomspace(1e-6, 1e8, 2000), np.linspace(1, 3, 500)]).astype(dtype)
    with jax.enable_x64(dtype is np.float64):
        result = np.asarray(digamma(jnp.asarray(x)), np.float64)
    expected = special.digamma(x.astype(np.float64))
    assert (np.abs(result - expected) <= tolerance * np.maximum(np.abs(expected), 1)).all()


def test_entries_are_the_table(seed):
    counts = corpus_of(np.random.default_rng(seed))
    corpus = device.to_device(counts)
    known = entries.of(corpus)
    table = sp.csr_array(
        (np.asarray(known.counts), known.corpus.tokens, known.corpus.starts), counts.shape
    )
    np.testing.assert_array_equal(table.toarray(), counts[np.asarray(corpus.order)].toarray())
    assert known.counts.size == counts.nnz
    np.testing.assert_array_equal(known.lengths, np.diff(corpus.starts))
    nothing = entries.of(device.to_device(sp.csr_array((3, 2), dtype=np.int32)))
    assert nothing.corpus.starts.tolist() == [0, 0, 0, 0]
    assert nothing.counts.tolist() == [0]
