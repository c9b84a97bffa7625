"""Topics that change through time and between groups."""

from typing import Any

from simplex_jax._src.corpus import frames
from simplex_jax._src.models import pipeline
from simplex_jax._src.models.dtm import fitting, report, slices
from simplex_jax._src.models.dtm.fitting import Fit
from simplex_jax._src.models.dtm.model import build
from simplex_jax._src.models.dtm.options import Arguments, Options, resolve_options
from simplex_jax._src.models.records import Model
from simplex_jax._src.models.topics import evaluation, proportions
from simplex_jax._src.options import with_options

MODEL = Fit.MODEL = Model(
    name="dtm",
    options=Options,
    fit=Fit,
    as_data=slices.sliced,
    digest=slices.digest_of,
    hold_out=slices.hold_out,
    resolve_options=resolve_options,
    prepare=fitting.prepare,
    summarise=fitting.summarise,
    warn=report.warn,
    judge=report.judge,
    describe=slices.facts,
    files=report.FILES,
    infer=proportions.infer,
    score=evaluation.score,
    alone="its slices are not shared",
)


@with_options(Arguments)
def fit(corpus: Any, arguments: Arguments) -> Fit:
    """Sample topics that change through time, between groups, or both.

    Each topic has words of its own in each period or group, which lean on those of the period
    before and on a base of the topic; so has the prevalence of the topics. How steady a topic is,
    and how fast it forgets, is learned. With groups and no times, groups vary around the base; with
    both, each group has its own course in time.

    Ctrl-C (SIGINT) and SIGTERM end the run early, and the samples so far are summarised.

    Args:
        corpus: A `corpus.Corpus`, or a table of its counts [D, V]; or texts, a sequence of D
            strings, whose words `corpus.from_texts` counts with its default options.
        {options}

    Returns:
        The fit. The same corpus, options, versions and device give the same numbers, unless
        `seconds` ends the run.

    Raises:
        ValueError: An option is out of range, a document has no time or group, or the documents are
            not counts of one vocabulary.
        CheckpointError: `resume` finds only checkpoints that are damaged or belong to another run.
        FloatingPointError: The state became NaN; the message names the step.

    Example:
        >>> import numpy as np
        >>> from simplex_jax import dtm
        >>> counts = [[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 2, 9]] * 2
        >>> years = [1914, 1944, 1914, 1944] * 2
        >>> fitted = dtm.fit(counts, num_topics=2, times=years, passes=40, static_passes=10)
        >>> fitted.slices.names, fitted.topics_by_slice.shape
        (('1914', '1944'), (2, 2, 4))
    """
    frames.check_order(corpus, {"times": arguments.times, "groups": arguments.groups})
    data = slices.sliced(
        corpus, arguments.times, arguments.groups, arguments.slices, arguments.predict
    )
    return pipeline.fit(MODEL, data, arguments)


load = Fit.load

__all__ = ["MODEL", "Fit", "Options", "build", "fit", "load"]
