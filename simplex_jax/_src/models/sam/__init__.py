"""The spherical admixture model: topics of unit vectors as directions."""

from typing import Any

from simplex_jax._src.models import pipeline
from simplex_jax._src.models.records import Model
from simplex_jax._src.models.sam import data, fitting, report
from simplex_jax._src.models.sam.data import Data, weigh
from simplex_jax._src.models.sam.fitting import Fit, transform
from simplex_jax._src.models.sam.model import build
from simplex_jax._src.models.sam.options import Arguments, Options, resolve_options
from simplex_jax._src.options import with_options

MODEL = Fit.MODEL = Model(
    name="sam",
    options=Options,
    fit=Fit,
    as_data=data.as_data,
    digest=data.digest,
    hold_out=data.hold_out,
    resolve_options=resolve_options,
    prepare=fitting.prepare,
    summarise=fitting.summarise,
    warn=fitting.warn,
    judge=fitting.judge,
    describe=fitting.describe,
    files=report.FILES,
    infer=fitting.infer,
    score=fitting.score,
    alone="a step of a direction needs the gradients of all documents",
)


@with_options(Arguments)
def fit(documents: Any, arguments: Arguments) -> Fit:
    """Sample the directions of the topics of documents.

    Ctrl-C (SIGINT) and SIGTERM end the run early, and the samples so far are summarised.

    Args:
        documents: Unit vectors, a table of floating point numbers [D, V]; or counts, which become
            tf-idf vectors: a `corpus.Corpus`, such as `corpus.read` returns for a file, a table of
            integers, or texts, a sequence of D strings, whose words `corpus.from_texts` counts with
            its default options.
        {options}

    Returns:
        The fit. The same documents, options, versions and device give the same numbers, unless
        `seconds` ends the run.

    Raises:
        ValueError: An option is out of range, a document is not a unit vector, or held-out ones
            have another vocabulary; a `CheckpointError` if `resume` finds only checkpoints that
            are damaged or belong to another run.
        FloatingPointError: The topics became NaN; the message names the step.

    Example:
        >>> import numpy as np
        >>> from simplex_jax import sam
        >>> rows = np.repeat([[0.8, 0.6, 0.0, 0.0], [0.0, 0.0, 0.6, 0.8]], 10, axis=0)
        >>> fitted = sam.fit(rows, 2, alpha=0.5, kappa1=200.0, steps=200)
        >>> fitted.topics.shape, fitted.proportions.shape, bool(fitted.length.max() <= 1)
        ((2, 4), (20, 2), True)
    """
    return pipeline.fit(MODEL, documents, arguments)
