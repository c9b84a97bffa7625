"""Latent Dirichlet allocation: topics of a corpus, from counts to a posterior summary."""

from typing import Any

from simplex_jax._src.models import pipeline
from simplex_jax._src.models.lda import checks, fitting, memory, regression, report
from simplex_jax._src.models.lda.fitting import Fit
from simplex_jax._src.models.lda.model import build
from simplex_jax._src.models.lda.options import Arguments, Options, resolve_options
from simplex_jax._src.models.lda.probability import left_to_right
from simplex_jax._src.models.lda.regression import Effects, Question
from simplex_jax._src.models.records import Model
from simplex_jax._src.models.topics import data, evaluation, proportions
from simplex_jax._src.models.topics.proportions import shards
from simplex_jax._src.options import with_options

MODEL = Fit.MODEL = Model(
    name="lda",
    options=Options,
    fit=Fit,
    as_data=data.as_data,
    digest=data.digest,
    hold_out=data.hold_out,
    resolve_options=resolve_options,
    prepare=fitting.prepare,
    summarise=fitting.summarise,
    warn=checks.warn,
    judge=checks.judge,
    describe=data.describe,
    files=report.FILES,
    infer=proportions.infer,
    score=evaluation.score,
    alone=None,
)


@with_options(Arguments)
def fit(corpus: Any, arguments: Arguments) -> Fit:
    """Sample the topics of a corpus.

    Ctrl-C (SIGINT) and SIGTERM end the run early, and the samples so far are summarised.

    Args:
        corpus: A `corpus.Corpus`, such as `corpus.read` returns for a file; a table of counts
            [D, V], dense, sparse, AnnData or a data frame, whose column names are the words (see
            `corpus.from_counts`); a corpus on disk (`corpus.open_store`), which is read batch by
            batch during the run; or a sequence of D texts, whose words `corpus.from_texts` counts
            with its default options.
        {options}

    Returns:
        The fit. The same corpus, options, versions and device give the same numbers, unless the
        clock ends the run (`seconds` or `time_limit`); `again` is then a call that does.

    Raises:
        ValueError: An option is out of range, the counts are not counts, or the held-out documents
            have another vocabulary. A `CheckpointError` if all checkpoints that `resume` finds are
            damaged or belong to another run.
        FloatingPointError: The topics became NaN; the message names the step.

    Example:
        >>> import scipy.sparse as sp
        >>> from simplex_jax import lda
        >>> counts = sp.csr_array([[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 8, 9]])
        >>> fitted = lda.fit(counts, 2, passes=40, seed=1)
        >>> fitted.topics.shape, fitted.proportions.argmax(axis=1).tolist() in (
        ...     [0, 0, 1, 1], [1, 1, 0, 0])
        ((2, 4), True)
    """
    return pipeline.fit(MODEL, corpus, arguments)


@with_options(Options)
def resolve(corpus: Any, options: Options) -> Options:
    """Return the options of a run with all defaults filled in.

    Args:
        corpus: As for `fit`; only its size matters.
        {options}

    Raises:
        ValueError: An option is out of range; the message names it.

    Example:
        >>> import scipy.sparse as sp
        >>> from simplex_jax._src.models import lda
        >>> settings = lda.resolve(sp.csr_array([[3, 0], [0, 2]]), 2, passes=50)
        >>> settings.counts, settings.steps, settings.step_size
        ('memoised', 50, 5.0)
    """
    return resolve_options(data.as_data(corpus), None, options)


@with_options(Question)
def effects(fitted: Fit, corpus: Any, columns: Any, question: Question) -> Effects:
    """Regress the topic proportions of documents on covariates.

    This is the method of composition (Treier and Jackman 2008; `estimateEffect` of stm). For each
    kept draw of topics and alpha, in every chain, the proportions of documents are drawn from their
    posterior, and the proportion of each topic is regressed on the covariates by least squares,
    which gives a posterior of the coefficients. The result is the mixture over the draws, so it
    includes the uncertainty of the topics, of the proportions and of a sample of D documents.

    The topic model does not use the covariates. Differences between the proportions of short
    documents therefore shrink towards 0: where topics share no word, by the factor
    N / (N + sum of alpha) for N words a document. Documents are assumed independent given the
    covariates.

    Args:
        fitted: A fit with kept samples (`keep_samples`), or a loaded one with `samples`.
        corpus: The documents, as for `fit`: those of the fit, or others.
        columns: Values for the D documents by name: a mapping of lists or arrays, a data frame of
            pandas or polars, or a pyarrow table. Numbers and dates (`datetime64`, or 2020-03-01)
            become lines or curves, other values groups. Documents without a value are left out.
        {options}

    Returns:
        Means, differences and slopes of the proportions with their intervals.

    Raises:
        ValueError: The fit kept no samples; a column is unknown, constant or of the wrong length;
            there are too few documents; or an option is out of range.

    Example:
        >>> import scipy.sparse as sp
        >>> from simplex_jax import lda
        >>> counts = sp.csr_array([[9, 8, 0, 1], [7, 9, 1, 0], [0, 1, 9, 8], [1, 0, 8, 9]] * 5)
        >>> fitted = lda.fit(counts, 2, passes=60, seed=1, keep_samples=10)
        >>> effects = lda.effects(fitted, counts, {"kind": ["a", "a", "b", "b"] * 5})
        >>> [term.label for term in effects.terms]
        ['a', 'b', 'b - a']
        >>> bool((abs(effects.mean[:, 2]) > 0.7).all()), effects.documents
        (True, 20)
    """
    return regression.effects(fitted, corpus, columns, question)


load = Fit.load
