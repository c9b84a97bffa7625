"""Lines that the commands of topic models print."""

import numpy as np
import pytest

from simplex_jax._src.corpus import from_counts
from simplex_jax._src.models import hdp, lda, pipeline
from simplex_jax._src.models.hdp import commands as hdp_commands
from simplex_jax._src.models.lda import commands as lda_commands
from simplex_jax._src.models.topics import fits


def test_topics_are_listed_from_the_most_prevalent_and_the_rest_is_counted():
    prevalence = np.full(1000, 0.001)
    prevalence[7] = 0.003
    lines = fits.topic_lines(prevalence, [f"word{topic}" for topic in range(1000)])
    assert lines[0] == "   7    0.3%  word7"
    assert len(lines) == 101
    assert lines[-1] == "and 900 topics of 90.0% in all, see topics.csv"
    assert fits.topic_lines(np.full(101, 1 / 101), [""] * 101)[-1].startswith("and 1 topic of 1.0%")
    few = fits.topic_lines(np.array([0.25, 0.75]), ["rare", "frequent"])
    assert few == ["   1   75.0%  frequent", "   0   25.0%  rare"]


@pytest.mark.parametrize(
    ("model", "commands", "options", "shown"),
    [
        (
            lda,
            lda_commands,
            {"num_topics": 1, "batch_size": 1},
            ["1 topic by scir", "1 document a"],
        ),
        (lda, lda_commands, {"num_topics": 2, "batch_size": 2}, ["2 topics by", "2 documents a b"]),
        (hdp, hdp_commands, {"initial_topics": 1, "chains": 1}, ["from 1 topic,"]),
        (hdp, hdp_commands, {"initial_topics": 2, "chains": 1}, ["from 2 topics,"]),
    ],
)
def test_things_are_announced_in_singular_or_plural(model, commands, options, shown):
    asked = model.MODEL.options(**options)
    corpus = from_counts(np.ones((3, 4), int))
    line = commands._announce(
        pipeline.plan_of(model.MODEL, corpus, asked, pipeline.Session(holdout=0))
    )
    assert all(text in line for text in shown)
