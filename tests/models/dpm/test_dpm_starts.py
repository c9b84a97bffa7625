"""Where chains of a mixture start."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simplex_jax import dpm
from simplex_jax.models.dpm import families, starts


def groups(seed, sizes, spread):
    """Rows of round clusters in the plane, and their clusters."""
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(len(sizes)) / len(sizes)
    truth = np.repeat(np.arange(len(sizes)), sizes)
    centres = 10 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rows = centres[truth] + spread * rng.normal(size=(len(truth), 2))
    return jnp.asarray(rows, jnp.float32), truth


def family():
    return families.gaussian(np.zeros(2, np.float32), np.eye(2))


@pytest.mark.parametrize("clusters", [1, 4, 9])
def test_clusters_that_are_apart_are_kept_apart(clusters, seed, getkey) -> None:
    rows, truth = groups(seed, [60] * clusters, 0.3)
    labels = np.asarray(starts.predictive_labels(getkey(), family(), rows, 60))
    found = [np.unique(labels[truth == k]) for k in range(clusters)]
    assert sum(map(len, found)) >= clusters
    # A cluster may stand for two groups where its seeds missed one, but for few.
    assert len(np.unique(np.concatenate(found))) >= 0.7 * clusters


def test_rows_beyond_those_compared_choose_too(seed, getkey, monkeypatch) -> None:
    monkeypatch.setattr(starts, "_ROWS", 200)
    rows, truth = groups(seed, [300, 500], 0.3)
    # A fresh function, since the number of rows is a constant of the compiled one.
    labels = jax.jit(starts.predictive_labels.__wrapped__, static_argnums=3)(
        getkey(), family(), rows, 30
    )
    sides = [set(np.unique(np.asarray(labels)[truth == k])) for k in (0, 1)]
    assert labels.shape == (800,)
    assert not sides[0] & sides[1]


@pytest.mark.parametrize("size", [1, 2, 5, 11])
def test_few_rows(size, getkey) -> None:
    rows, _ = groups(0, [size], 1.0)
    most = max(1, size // 5)
    labels = starts.predictive_labels(getkey(), family(), rows, most)
    assert labels.shape == (size,)
    assert ((labels >= 0) & (labels < most)).all()


def test_of_level_partitions_the_one_with_the_most_clusters() -> None:
    noise = np.random.default_rng(0).normal(size=(4, 400))
    densities = noise * 0.1 + np.array([[-5.0], [-3.0], [-3.0], [-4.0]])
    assert starts._chosen(jnp.asarray(densities)) == 2


def test_a_tight_prior_does_not_freeze_the_start() -> None:
    """From random labels chains do not leave the clusters that they start with."""
    rows, truth = groups(1, [60] * 5, 1.0)
    narrow = families.gaussian(np.zeros(2, np.float32), 0.3 * np.eye(2))
    fitted = dpm.fit(rows, narrow, alpha=1.0, passes=40, seed=3)
    assert fitted.settings.split_merge == 4
    assert 4 <= len(np.unique(fitted.point.labels)) <= 8
    found = np.array([np.bincount(fitted.point.labels[truth == k]).max() for k in range(5)])
    assert found.sum() / len(truth) > 0.9
