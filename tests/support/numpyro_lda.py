"""Models of LDA in numpyro, with sites "n" of topics in documents and "m" of words in topics."""

import numpyro
import pytest

from simplex_jax._src.models.topics import engine
from simplex_jax._src.numpyro import lda_gibbs
from simplex_jax._src.numpyro.lda_gibbs import LDAGibbs, TopicCounts, WordCounts
from support import tiny_lda


def documents_of(lengths, alpha):
    with numpyro.plate("documents", len(lengths)):
        return numpyro.sample("n", TopicCounts(lengths, alpha))


def words_of(n, topics=None, *, log_topics=None):
    with numpyro.plate("topics", n.shape[1]):
        numpyro.sample("m", WordCounts(n.sum(axis=0), topics, log_topics=log_topics))


def block(model, counts, **options):
    return LDAGibbs(model, counts, documents="n", words="m", **options)


def needs_gibbs():
    """numpyro's module of its Gibbs kernel; skips the test if there is none."""
    return pytest.importorskip(
        "numpyro.infer.gibbs", reason="the composable Gibbs kernel came with numpyro 0.22"
    )


def swept_with(old, new):
    """A function that plants a mutant of the sweeps."""

    def plant(monkeypatch):
        monkeypatch.setattr(lda_gibbs, "sweep", tiny_lda.mutated(lda_gibbs, old, new).sweep)

    return plant


def kept_in(monkeypatch):
    """A token's own label stays in the counts it is drawn from (engine "xla")."""
    own = "counts = counts.at[lane, jnp.minimum(old, num_topics - 1)].add("
    mutant = tiny_lda.mutated(engine, f"{own}-labelled)", f"{own}0 * labelled)")
    monkeypatch.setitem(engine.METHODS, "collapsed", mutant.sweep_collapsed)
