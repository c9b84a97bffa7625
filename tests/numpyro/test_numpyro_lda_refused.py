"""Models and arguments that `LDAGibbs` and its laws of counts refuse, each with one clear error."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.sparse as sp
from numpyro import handlers
from support import native_sweeps, tiny_lda
from support.numpyro_lda import block, documents_of, words_of

from simplex_jax._src.corpus import CorpusError, from_counts
from simplex_jax._src.models.topics import engine
from simplex_jax._src.numpyro.lda_gibbs import LDAGibbs, TopicCounts, WordCounts

PHI = jnp.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
COUNTS = tiny_lda.table([[0, 1, 1], [0, 2]], 3)
TOKENS = COUNTS.sum(axis=1)


def changed(**parts):
    """A model with the labels of `COUNTS`, and one part of it replaced."""

    def model():
        a = parts.get("a", lambda: 1.0)()
        n = parts.get("n", lambda a: documents_of(TOKENS, jnp.full(2, 0.5) * a))(a)
        phi = parts.get("phi", lambda n: PHI)(n)
        parts.get("m", words_of)(n, phi)
        parts.get("more", lambda n: None)(n)

    return model


def scaled(a):
    with handlers.scale(scale=0.5):
        return documents_of(TOKENS, jnp.full(2, 0.5))


def masked(a):
    with numpyro.plate("documents", 2):
        law = TopicCounts(TOKENS, jnp.full(2, 0.5))
        return numpyro.sample("n", law.mask(jnp.array([True, False])))


def normal(name):
    return lambda *_: numpyro.sample(name, dist.Normal(0.0, 1.0))


def summed_out():
    values = jnp.array([0.5, 2.0])
    law = dist.Categorical(probs=jnp.array([0.3, 0.7]))
    return values[numpyro.sample("kind", law, infer={"enumerate": "parallel"})]


REFUSED = {
    "no site": (
        changed(n=lambda a: jnp.array([[2, 1], [1, 1]])),
        r"LDAGibbs needs the latent site 'n', but the model has \['m'\]: give both of its "
        r"sites to its block, Gibbs\(\[\(LDAGibbs\(\.\.\.\), \['n', 'm'\]\), \.\.\.\]\)",
    ),
    "law": (
        changed(m=lambda n, phi: numpyro.sample("m", dist.Multinomial(n.sum(axis=0), phi))),
        "site 'm' must have the distribution WordCounts; it has MultinomialProbs",
    ),
    "scaled": (changed(n=scaled), "site 'n' is scaled or masked, so labels cannot be drawn for"),
    "masked": (changed(n=masked), "site 'n' is scaled or masked, so labels cannot be drawn for"),
    "other sites": (
        changed(more=normal("x")),
        r"LDAGibbs draws \['n', 'm'\], not \['x'\]: with numpyro 0.22 use Gibbs",
    ),
    "documents": (
        changed(n=lambda a: documents_of(np.array([3, 2, 1]), jnp.full(2, 0.5))),
        r"site 'n' must have the shape \[D, K\] = \(2, 2\) for this corpus; its shape is \(3, 2\)",
    ),
    "words": (
        changed(phi=lambda n: jnp.full((2, 4), 0.25)),
        r"site 'm' must have the shape \[K, V\] = \(2, 3\) for this corpus; its shape is \(2, 4\)",
    ),
    "lengths": (
        changed(n=lambda a: documents_of(np.array([2, 3]), jnp.full(2, 0.5))),
        r"site 'n' must have the lengths of the documents of the corpus, counts\.sum\(axis=1\); "
        "document 0 has 3 tokens",
    ),
    "topics": (
        changed(phi=lambda n: jnp.array([[0.2, 0.3, 0.5], [1.0, 1.0, 2.0]])),
        "the probabilities of topic 1 of site 'm' add up to 4, not 1: normalise them",
    ),
    "dependence": (
        changed(more=lambda n: numpyro.sample("x", dist.Normal(n[0, 0], 1.0), obs=0.0)),
        r"site 'x' depends on the counts \['n', 'm'\], which LDAGibbs would ignore",
    ),
    "factor": (
        changed(more=lambda n: numpyro.factor("f", jnp.log(1.0 + n[0, 0]))),
        "site 'f' depends on the counts",
    ),
    "topics that depend": (
        changed(phi=lambda n: jax.nn.softmax(jnp.ones((2, 3)) * n[:, :1], axis=-1)),
        "the value of the topics depends on the counts",
    ),
    "summed out": (
        changed(a=summed_out),
        "the value of alpha depends on numbers that the model draws itself",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_is_refused(name, getkey):
    model, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        block(model, COUNTS).init(getkey(), 0, None, (), {})


def test_the_model_itself_is_not_refused(getkey):
    """Nor is a deterministic site of the counts."""
    model = changed(more=lambda n: numpyro.deterministic("x", n[0, 0]))
    for corpus in (COUNTS, sp.coo_array(COUNTS), COUNTS.toarray(), from_counts(COUNTS)):
        state = block(model, corpus).init(getkey(), 0, None, (), {})
        assert state.z["m"].sum() == 5


def test_a_batch_of_keys_is_refused(getkey):
    with pytest.raises(ValueError, match=r"^LDAGibbs .*chain_method='sequential'"):
        block(changed(), COUNTS).init(jax.random.split(getkey(), 2), 0, None, (), {})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sweeps": 0}, r"sweeps .* 1; it is 0"),
        ({"engine": "quick"}, r"engine .* 'quick'"),
        ({"documents": 3}, r"^documents .*3$"),
        ({"words": "n"}, r"^documents and words .* 'n'$"),
    ],
)
def test_an_option_that_is_refused(options, message):
    options = {"documents": "n", "words": "m"} | options
    with pytest.raises(ValueError, match=message):
        LDAGibbs(changed(), COUNTS, **options)


def test_a_corpus_that_is_refused():
    with pytest.raises(CorpusError, match="corpus"):
        block(changed(), [[-1, 2], [0, 1]])


def test_too_many_topics_for_an_engine_are_refused(getkey, monkeypatch):
    native_sweeps.needs("native")
    monkeypatch.setattr(engine.library, "most_topics", lambda: 1)
    with pytest.raises(ValueError, match="engine 'native' supports at most 1 topics"):
        block(changed(), COUNTS, engine="native").init(getkey(), 0, None, (), {})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TopicCounts(3, 0.5), r"alpha .* K topics"),
        (
            lambda: TopicCounts(np.ones(3), np.ones((2, 4))),
            r"\(3,\) and alpha \(2, 4\)",
        ),
        (lambda: WordCounts(3), r"either topics or log_topics$"),
        (lambda: WordCounts(3, PHI, log_topics=PHI), r"either topics or log_topics$"),
        (lambda: WordCounts(3, log_topics=0.5), r"log_topics .* V words"),
        (
            lambda: WordCounts(np.ones(3), PHI),
            r"\(3,\) and topics \(2, 3\)",
        ),
    ],
)
def test_arguments_of_counts_that_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
