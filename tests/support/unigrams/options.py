"""The options of a mixture of unigrams."""

import dataclasses

from simplex_jax._src.corpus import Corpus
from simplex_jax._src.models.options import RunOptions, number_kept
from simplex_jax._src.models.pipeline import Session
from simplex_jax._src.options import option, options
from simplex_jax._src.runtime import session


@options
class Options(RunOptions):
    """Options of a mixture of unigrams."""

    num_topics: int = option(
        "Number of topics.",
        default=5,
        kw_only=False,
        least=1,
        flag="--topics",
        parameter="n_components",
    )
    alpha: float = option("Concentration of the shares, per topic.", default=1.0)
    beta: float = option("Concentration of words, per word.", default=0.1)


@options
class Arguments(Options, Session):
    """Arguments of `fit`."""


def resolve_options(data: Corpus, heldout: Corpus | None, options: Options) -> Options:
    """Return options with everything that was left out filled in."""
    del heldout
    size = len(data.names)
    if options.batch_size not in (None, size):
        raise ValueError(f"batch_size must be {size}, all documents; it is {options.batch_size}")
    length = session.length(1, options, default_passes=200.0, eval_every=4, sample_every=1)
    words = len(data.vocabulary)
    kept = number_kept(options.keep_samples, options.chains, options.num_topics, words)
    return dataclasses.replace(
        options, batch_size=size, passes=None, keep_samples=kept, **length._asdict()
    )
