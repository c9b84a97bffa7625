"""The plane of topics: distances that fit into it, and what is left of those that do not."""

import numpy as np
import pytest

from simplex_jax._src.report import topic_map


def distances(points):
    return np.linalg.norm(points[:, None] - points[None], axis=-1)


def test_distances_of_three_topics_are_exact():
    topics = np.random.default_rng(0).dirichlet(np.full(40, 0.1), 3)
    placed = topic_map.positions(topics)
    np.testing.assert_allclose(distances(placed), distances(np.sqrt(topics)), atol=1e-6)


def test_distances_of_many_are_not_larger():
    topics = np.random.default_rng(1).dirichlet(np.full(40, 0.1), 30)
    placed = topic_map.positions(topics)
    assert (distances(placed) <= distances(np.sqrt(topics)) + 1e-9).all()
    np.testing.assert_allclose(placed.mean(axis=0), 0, atol=1e-12)
    assert placed.std(axis=0)[0] >= placed.std(axis=0)[1] > 0
    assert (placed[np.abs(placed).argmax(axis=0), [0, 1]] > 0).all()


def test_groups_lie_together():
    rng = np.random.default_rng(2)
    centres = rng.dirichlet(np.full(60, 0.1), 3)
    groups = np.repeat(np.arange(3), 5)
    topics = 0.9 * centres[groups] + 0.1 * rng.dirichlet(np.full(60, 0.1), 15)
    apart = distances(topic_map.positions(topics))
    same = groups[:, None] == groups
    assert apart[same].max() < apart[~same].min()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_topics_all_alike_are_one_point(count):
    assert (topic_map.positions(np.full((count, 7), 1 / 7)) == 0).all()


def test_two_topics_are_on_a_line():
    placed = topic_map.positions(np.eye(2))
    np.testing.assert_allclose(placed, [[np.sqrt(0.5), 0], [-np.sqrt(0.5), 0]], atol=1e-7)


def test_no_topics():
    with pytest.raises(ValueError, match=r"^first: row 0 "):
        topic_map.positions([[0.0, 0.0]])
