"""LDA with the topics integrated out: against enumeration, and the same on any machine.

Chains start from exact draws of the posterior of a tiny corpus, see test_lda. p-values are judged
by Holm's procedure at 1e-3 (`statistics_checks.family`): with a fresh seed a correct library fails
a test with a probability of at most 1e-3.
"""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from support import native_code, native_sweeps, tiny_lda
from support import statistics_checks as checks
from support.marks import slow_but

from simplex_jax._src import base
from simplex_jax._src.corpus import device
from simplex_jax._src.models import lda
from simplex_jax._src.models.lda import kernel as lda_kernel
from simplex_jax._src.models.lda import model
from simplex_jax._src.models.topics import engine
from simplex_jax._src.models.topics.native import calls, library
from simplex_jax._src.runtime.driver import run

pytestmark = native_code.on_cpu(library.LIBRARY)

ALPHA, BETA = np.array([0.4, 0.9]), np.array([0.1, 0.3, 0.5])
APART = np.array([[0.1, 0.3, 0.5], [0.7, 0.2, 0.4]])
SHAPE = (2, 3)
CORPUS = device.to_device(tiny_lda.table([[], [2], [1, 2], [0, 0, 1]], 3))
CHAINS, STEPS = 10_000, 10
# Every word a block of its own, as it is with so few; two words in one; and all of them.
BOUNDS = {"alone": [0, 1, 2], "two together": [0, 2], "all together": [0]}


@pytest.fixture
def together(monkeypatch):
    """A function that puts words into blocks."""

    def put(name):
        inner = BOUNDS[name]
        bounds = jnp.array(inner + [3] * (calls.BLOCKS + 1 - len(inner)), jnp.int32)
        monkeypatch.setattr(engine, "word_blocks", lambda tokens, num_words: bounds)

    return put


@pytest.fixture
def compiled_anew():
    """Programs that know no functions but those of this test."""
    jax.clear_caches()
    yield
    jax.clear_caches()


def posterior_checks(getkey, seed, *, alpha=ALPHA, beta=BETA, of=BETA, sweeps=1):
    """P-values of features of chains after some updates; the exact posterior has the beta `of`."""
    posterior = tiny_lda.posterior(CORPUS, ALPHA, of)
    z, log_phi = tiny_lda.draw(posterior, np.random.default_rng(seed), CHAINS)
    one, stream = model.build(
        CORPUS,
        SHAPE,
        alpha=alpha,
        beta=beta,
        local="integrated",
        sweeps=sweeps,
        batch_size=2,
    )
    kernel = base.chains(one, CHAINS, position_axis=0)
    state = kernel.init(getkey(), jnp.ones((CHAINS, *SHAPE)))
    labels = jnp.asarray(z, jnp.uint8)
    chain = np.arange(CHAINS)[:, None]
    counts = jnp.zeros((CHAINS, *SHAPE), jnp.int32).at[chain, z, CORPUS.tokens].add(1)
    memory = lda_kernel.Memory(labels, counts)
    state = state._replace(
        position=jnp.asarray(log_phi, jnp.float32),
        sampler=state.sampler._replace(memory=memory),
    )
    state, _ = run(getkey(), kernel, state, stream, STEPS, collect=lambda state, info: ())
    labels, counts = state.sampler.memory
    expected = jnp.zeros_like(counts).at[chain, labels, CORPUS.tokens].add(1)
    np.testing.assert_array_equal(counts, expected)
    seen = tiny_lda.observed(posterior, np.asarray(labels), state.position, of)
    exact = tiny_lda.exact(posterior, of)
    return {name: checks.mean_z(value, exact[name], value.var()) for name, value in seen.items()}


@pytest.mark.parametrize("name", slow_but(BOUNDS, "two together"))
@pytest.mark.parametrize("beta", [BETA, APART], ids=["beta of words", "beta of topics and words"])
def test_the_posterior_is_left_invariant(name, beta, together, getkey, seed):
    together(name)
    assert not checks.family(posterior_checks(getkey, seed, beta=beta, of=beta, sweeps=2))


@pytest.mark.parametrize(
    "wrong",
    [{"beta": 1.3 * BETA}, {"alpha": 1.3 * ALPHA}, {"alpha": ALPHA[::-1]}],
    ids=["beta", "alpha", "alpha reversed"],
)
def test_wrong_concentrations_are_seen(wrong, together, getkey, seed):
    together("two together")
    assert checks.family(posterior_checks(getkey, seed, **wrong))


@pytest.mark.slow
def test_masses_that_are_not_drawn_are_seen(compiled_anew, monkeypatch, getkey, seed):
    """A mutant: the mean mass of each block in place of a draw."""
    mean = types.SimpleNamespace(
        log_dirichlet=lambda key, sums: jnp.log(sums / sums.sum(axis=-1, keepdims=True))
    )
    monkeypatch.setattr(engine, "draws", mean)
    assert checks.family(posterior_checks(getkey, seed))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        # The token's own label stays in its document, or the block's sums are those of the start.
        (
            "  tile.counts[topic] += change;\n",
            "  tile.counts[topic] += change > 0 ? 1.0f - (tile.old < 99) : 0.0f;\n",
        ),
        ("  tile.sums[topic] += change;\n", ""),
        ("constant(*beta)", "constant(*task.beta)"),
        (" * load(tile.scales + at);", ";"),
    ],
    ids=["own token", "stale sums", "beta of the first word", "no masses"],
)
def test_mutants_are_seen(old, new, compiled_anew, together, tmp_path, monkeypatch, getkey, seed):
    prefix = native_sweeps.mutated(tmp_path, "integrated.inl", old, new)
    mutant = functools.partial(calls.integrated, prefix=prefix)
    monkeypatch.setattr(calls, "integrated", mutant)
    together("two together")
    assert checks.family(posterior_checks(getkey, seed))


def random_sweep(key, corpus, num_topics, labels, **options):
    """A sweep over a corpus of counts, from labels [T], and its bounds."""
    documents = device.select(corpus, jnp.arange(device.size(corpus), dtype=jnp.int32))
    num_words = int(corpus.tokens.max()) + 1
    words = jnp.zeros((num_topics, num_words), jnp.int32)
    words = words.at[labels, corpus.tokens].add(1, mode="drop")
    bounds = engine.word_blocks(corpus.tokens, num_words)
    beta = jnp.full(num_words, 0.1)
    sums = calls.block_sums(words, beta, bounds)
    masses = sums / sums.sum(axis=1, keepdims=True)
    log_topics = jnp.log(
        jax.random.dirichlet(jax.random.key(5), jnp.ones(num_words), (num_topics,))
    )
    return calls.integrated(
        *(key, log_topics, jnp.full(num_topics, 0.2), beta, masses, sums, bounds),
        *(documents, labels.astype(engine.label_dtype(num_topics)), words),
        **options,
    )


@pytest.mark.parametrize("num_topics", [1, 33, 90, 300])
def test_labels_are_those_of_any_instruction_set_and_are_counted(num_topics):
    """Twice by the widest vectors, whose threads take tiles in another order, and by others."""
    rng = np.random.default_rng(num_topics)
    counts = sp.csr_array(rng.poisson(0.3, (400, 90)) * rng.integers(1, 9, (400, 1)))
    corpus = device.to_device(counts.astype(np.int32))
    labels = jnp.asarray(rng.integers(0, num_topics + 1, corpus.tokens.size))  # some have none
    drawn = [
        random_sweep(jax.random.key(0), corpus, num_topics, labels, width=width)
        for width in (16, 16, 8, 4)
    ]
    for other in drawn[1:]:
        np.testing.assert_array_equal(drawn[0][0], other[0])
        np.testing.assert_array_equal(drawn[0][1], other[1])
    new, words = drawn[0]
    assert new.max() < num_topics
    expected = jnp.zeros_like(words).at[new, corpus.tokens].add(1)
    np.testing.assert_array_equal(words, expected)


def test_blocks_have_about_as_many_tokens():
    rng = np.random.default_rng(0)
    tokens = jnp.asarray(rng.zipf(1.5, 20_000).clip(max=500) - 1)
    bounds = np.asarray(engine.word_blocks(tokens, 500))
    assert bounds[0] == 0
    assert bounds[-1] == 500
    assert (np.diff(bounds) >= 0).all()
    sizes = np.diff(np.searchsorted(np.sort(tokens), bounds))
    most = np.bincount(tokens).max()
    assert sizes.sum() == tokens.size
    assert sizes.max() <= tokens.size / calls.BLOCKS + most


def test_tokens_out_of_order_are_an_error():
    documents = device.Documents(jnp.array([1, 0]), jnp.zeros(1, int), jnp.array([2]))
    corpus = device.to_device(sp.csr_array([[1, 1]], dtype=np.int32))
    with pytest.raises(Exception, match=r"LDA: .*not in order"):
        random_sweep(
            jax.random.key(0), corpus._replace(tokens=documents.tokens), 2, jnp.array([0, 1])
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sampler": "sgrld"}, r"^local 'integrated' .*; sampler is 'sgrld'"),
        ({"counts": "subsampled"}, r"^local 'integrated' .* counts 'subsampled'"),
        ({"step_size": 5.0}, "leave step_size out; it is 5.0"),
        ({"engine": "xla"}, "native code for CPUs in float32"),
    ],
)
def test_what_does_not_go_together_is_an_error(options, words):
    counts = sp.csr_array(np.eye(6, dtype=np.int32) * 3)
    with pytest.raises(ValueError, match=words):
        lda.fit(counts, 2, passes=2, local="integrated", **options)


def test_a_fit_finds_topics_and_goes_on_as_if_it_had_not_stopped(tmp_path):
    """On a corpus that is drawn from the model, with learned concentrations and two chains."""
    rng = np.random.default_rng(1)
    topics = rng.dirichlet(np.full(80, 0.05), 5)
    shares = rng.dirichlet(np.full(5, 0.2), 300)
    counts = sp.csr_array(np.array([rng.multinomial(40, t @ topics) for t in shares]))
    options = {
        "local": "integrated",
        "alpha": "learn-asymmetric",
        "beta": "learn",
        "chains": 2,
        "seed": 4,  # both chains find all topics; of seed 3 one has two as one
    }
    fitted = lda.fit(counts, 5, passes=60, **options)
    lda.fit(counts, 5, passes=30, checkpoint=tmp_path, **options)
    resumed = lda.fit(counts, 5, passes=60, checkpoint=tmp_path, resume=True, **options)
    for one, other in zip(
        jax.tree.leaves(fitted.state), jax.tree.leaves(resumed.state), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    close = np.abs(fitted.topics[:, None] - topics).sum(axis=2).min(axis=1)
    assert close.max() < 0.3
