"""Topics of a corpus: latent Dirichlet allocation from counts to a summary of its posterior."""

from typing import Any

from simplex_jax.models import pipeline
from simplex_jax.models.lda import checks, data, fitting, memory, options, proportions, tables
from simplex_jax.models.lda.fitting import Fit
from simplex_jax.models.lda.model import build, build_streaming
from simplex_jax.models.lda.options import Arguments, Options
from simplex_jax.models.lda.proportions import shards, transform
from simplex_jax.models.options import takes

MODEL = Fit.MODEL = pipeline.Model(
    name="lda",
    options=Options,
    fit=Fit,
    as_data=data.as_data,
    digest=data.digest,
    hold_out=data.hold_out,
    settle=options.settle,
    prepare=fitting.prepare,
    summarise=fitting.summarise,
    warn=checks.warn,
    describe=fitting.describe,
    files=tables.FILES,
    infer=proportions.infer,
)


@takes(Arguments)
def fit(corpus: Any, given: Arguments) -> Fit:
    """Sample the topics of a corpus.

    It ends early, and is summarised, on SIGTERM or SIGINT (Ctrl-C), see `pipeline.train`.

    Args:
        corpus: A `corpus.Corpus`, a table of its counts [D, V], or a corpus on disk
            (`corpus.store.open`), of which batches are read while the run goes on.
        {options}

    Returns:
        The fit. The same corpus, options, versions and device give the same numbers, except that
        `seconds` and `time_limit`, also the one by default, end a run by the clock.

    Raises:
        ValueError: An option is out of range, the counts are not counts, or the held-out documents
            have another vocabulary; a `CheckpointError` if `resume` finds only checkpoints that
            are damaged or of another run.
        FloatingPointError: The topics became NaN; the message names the step.

    Example:
        >>> import scipy.sparse as sp
        >>> from simplex_jax import lda
        >>> counts = sp.csr_array([[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 8, 9]])
        >>> fitted = lda.fit(counts, 2, passes=40, seed=1)
        >>> fitted.mean.shape, fitted.proportions.argmax(axis=1).tolist() in (
        ...     [0, 0, 1, 1], [1, 1, 0, 0])
        ((2, 4), True)
    """
    return pipeline.fit(MODEL, corpus, given)


@takes(Options)
def resolve(corpus: Any, given: Options) -> Options:
    """Return the options of a run with everything that was left out filled in.

    Args:
        corpus: As for `fit`; only its size matters.
        {options}

    Raises:
        ValueError: An option is out of range; the message names it.

    Example:
        >>> import scipy.sparse as sp
        >>> from simplex_jax import lda
        >>> settings = lda.resolve(sp.csr_array([[3, 0], [0, 2]]), 2, passes=50)
        >>> settings.counts, settings.steps, settings.step_size
        ('memoised', 50, 5.0)
    """
    return options.settle(data.as_data(corpus), None, given)


load = Fit.load

__all__ = [
    "MODEL",
    "Fit",
    "Options",
    "build",
    "build_streaming",
    "fit",
    "load",
    "memory",
    "resolve",
    "shards",
    "transform",
]
