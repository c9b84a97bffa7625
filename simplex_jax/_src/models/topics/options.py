"""Options shared by the models of token topics."""

from simplex_jax._src.models.options import RunOptions
from simplex_jax._src.models.topics.data import Size
from simplex_jax._src.models.topics.engine import ENGINES
from simplex_jax._src.options import option, options

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


def check_words(size: Size) -> None:
    """Raise a ValueError for a vocabulary of one word, or documents of none: without topics."""
    if size.tokens < 1:
        raise ValueError("every document is empty: give documents with words of the vocabulary")
    if size.words < 2:
        raise ValueError(
            "topics need a vocabulary of at least two words; it has one: keep more of them, those "
            "of texts by corpus.from_texts(texts, options=corpus.TextOptions(min_df=1, max_df=1.0"
            ")), or give other documents"
        )
