"""Options shared by the models of token topics."""

from collections.abc import Sequence

from simplex_jax._src.models.options import RunOptions
from simplex_jax._src.models.topics.data import Size
from simplex_jax._src.models.topics.engine import ENGINES
from simplex_jax._src.options import option, options
from simplex_jax._src.runtime import directory as directories

SHARE_ERROR = 0.02
"""Default of the Monte-Carlo error of the topic proportions of documents."""


@options
class TopicOptions(RunOptions):
    """Run options shared by these models."""

    engine: str | None = option(
        "Where the sweeps of the training run: native is C++ on CPUs, xla runs everywhere. "
        "Blocked sweeps always run by xla.",
        default=None,
        choices=ENGINES,
        unset="native where it works",
        parameter=None,
    )


def check_words(size: Size, vocabulary: Sequence[str]) -> None:
    """Raise a ValueError for documents without words, or a vocabulary that no run can have."""
    if size.tokens < 1:
        raise ValueError("every document is empty: give documents with words of the vocabulary")
    directories.check_words(vocabulary)
