"""Lines that the commands of topic models print."""

import numpy as np

from simplex_jax.cli import topics


def test_topics_are_listed_from_the_most_prevalent_and_the_rest_is_counted():
    prevalence = np.full(1000, 0.001)
    prevalence[7] = 0.003
    lines = topics.listed(prevalence, [f"word{topic}" for topic in range(1000)])
    assert lines[0] == "   7   0.3%  word7"
    assert len(lines) == 101
    assert lines[-1] == "and 900 topics of 90.0% in all, see topics.csv"
    assert topics.listed(np.full(101, 1 / 101), [""] * 101)[-1].startswith("and 1 topic of 1.0%")
    few = topics.listed(np.array([0.25, 0.75]), ["rare", "frequent"])
    assert few == ["   1  75.0%  frequent", "   0  25.0%  rare"]
