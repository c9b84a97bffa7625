"""The estimate of the time of a run, and the warning before a long one."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

from simplex_jax._src.models.dpm import families, fitting, options


def rows_of(n, p):
    return jnp.asarray(np.random.default_rng(0).normal(size=(n, p)), jnp.float32)


def warned(n, p, of=families.gaussian, **given):
    scale = jnp.eye(p) if of is families.gaussian else 1.0
    settings = options.of_size(n, options.Options(**given))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitting.warn_of_time(settings, of(jnp.zeros(p), scale), rows_of(n, p), 10)
    return [str(one.message) for one in caught]


def test_a_large_alpha_is_told_with_the_clusters_that_it_expects():
    (message,) = warned(200, 2, alpha=1e4, passes=600)
    assert "alpha = 10000 expects 198 clusters of 200 rows" in message
    assert "on one core" in message


def test_many_columns_are_told_with_the_remedy():
    (message,) = warned(1000, 256, passes=20)
    assert "covariance of 256 columns" in message
    assert "diagonal_gaussian" in message
    assert not warned(1000, 256, of=families.diagonal_gaussian, passes=20)
    (message,) = warned(1000, 256, of=families.diagonal_gaussian, passes=20_000)
    assert "covariance" not in message


@pytest.mark.parametrize(
    ("n", "p", "given"),
    [
        (200, 2, {}),
        (200, 2, {"alpha": 1000.0, "passes": 60}),
        (1000, 8, {"chains": 4}),
        (1000, 256, {"seconds": 60.0}),
        (5000, 16, {}),
    ],
)
def test_other_runs_are_not_warned_of(n, p, given):
    assert not warned(n, p, **given)


def test_a_start_in_as_many_clusters_as_rows_makes_room():
    assert options.of_size(200, options.Options(initial_clusters=200)).capacity == 200
    assert options.of_size(200, options.Options(initial_clusters=20)).capacity == 64
