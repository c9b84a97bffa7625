"""The hierarchical Dirichlet process: topics of counts, with an unknown number of topics."""

from typing import Any

from simplex_jax._src.corpus import digest
from simplex_jax._src.models import pipeline
from simplex_jax._src.models.hdp import fitting, report
from simplex_jax._src.models.hdp.fitting import Fit
from simplex_jax._src.models.hdp.kernel import build
from simplex_jax._src.models.hdp.options import Arguments, Options, resolve_options
from simplex_jax._src.models.records import Model
from simplex_jax._src.models.topics import data, evaluation, proportions
from simplex_jax._src.options import with_options

MODEL = Fit.MODEL = Model(
    name="hdp",
    options=Options,
    fit=Fit,
    as_data=fitting.as_data,
    digest=digest,
    hold_out=data.hold_out,
    resolve_options=resolve_options,
    prepare=fitting.prepare,
    summarise=fitting.summarise,
    warn=fitting.warn,
    judge=fitting.judge,
    describe=data.describe,
    files=report.FILES,
    infer=proportions.infer,
    score=evaluation.score,
    alone="the number of its topics changes while it runs",
)


@with_options(Arguments)
def fit(corpus: Any, arguments: Arguments) -> Fit:
    """Sample the topics of a corpus, and their number.

    Ctrl-C (SIGINT) and SIGTERM end the run early, and the samples so far are summarised.

    Args:
        corpus: A `corpus.Corpus`, or a table of its counts [D, V]; or texts, a sequence of D
            strings, whose words `corpus.from_texts` counts with its default options.
        {options}

    Returns:
        The fit. The same corpus, options, versions and device give the same numbers, unless
        `seconds` ends the run.

    Raises:
        ValueError: An option is out of range, or the documents are not counts of one vocabulary.
        CheckpointError: `resume` finds only checkpoints that are damaged or belong to another run.
        FloatingPointError: The state became NaN; the message names the step.

    Example:
        >>> import scipy.sparse as sp
        >>> from simplex_jax import hdp
        >>> counts = sp.csr_array([[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 8, 9]])
        >>> fitted = hdp.fit(counts, passes=100, seed=1)
        >>> shares = fitted.transform(counts)
        >>> bool(shares[0].argmax() != shares[2].argmax()), min(fitted.num_topics_posterior) >= 2
        (True, True)
    """
    return pipeline.fit(MODEL, corpus, arguments)
