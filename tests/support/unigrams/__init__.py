"""A mixture of unigrams, the smallest model: every document has one label, and its topic's words.

Labels are drawn given shares ~ Dirichlet(alpha) and topics ~ Dirichlet(beta), and these given the
labels: a Gibbs sampler of all documents at once. Tests put this folder into the models.
"""

from typing import Any

from simplex_jax._src.models.unigrams import fitting, tables
from simplex_jax._src.models.unigrams.fitting import Fit
from simplex_jax._src.models.unigrams.options import Arguments, Options, resolve_options

from simplex_jax._src.corpus import digest, holdout
from simplex_jax._src.models import pipeline
from simplex_jax._src.models.records import Model
from simplex_jax._src.options import with_options

MODEL = Model(
    name="unigrams",
    options=Options,
    fit=Fit,
    as_data=fitting.as_data,
    digest=digest,
    hold_out=holdout,
    resolve_options=resolve_options,
    prepare=fitting.prepare,
    summarise=fitting.summarise,
    warn=fitting.warn,
    describe=fitting.describe,
    files=tables.FILES,
    infer=fitting.infer,
    score=fitting.score,
)
Fit.MODEL = MODEL


@with_options(Arguments)
def fit(corpus: Any, arguments: Arguments) -> Fit:
    """Sample the topics of documents of one topic each.

    Args:
        corpus: A `corpus.Corpus`, or a table of its counts [D, V].
        {options}
    """
    return pipeline.fit(MODEL, corpus, arguments)


load = Fit.load
