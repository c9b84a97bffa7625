"""Proportions by geodesic Monte Carlo, as in the paper of the spherical admixture model.

The laws and checks are those of `test_sam_local`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from baselines.sam_geodesic import Geodesic, _raised, least_squares
from models.sam.test_sam_local import grid, law_of, p_values, sample
from support import statistics_checks as checks
from support import tiny_sam
from support.marks import slow_but

from simplex_jax._src.models.sam import local, model


@pytest.mark.slow
@pytest.mark.parametrize("k", slow_but([2, 3], 2))
def test_draws_are_what_quadrature_says(k, seed):
    """False alarms: 1e-3 for each.

    A step of one size for all documents does not leave where it starts, and all is accepted.
    """
    law, local_step = law_of(k, 20_000), Geodesic(burn_in=40)
    theta = sample(jax.random.key(seed), law, local_step)
    assert not checks.family(p_values(law, theta))
    short = sample(jax.random.key(seed), law, local_step._replace(step_size=5e-4))
    assert checks.family(p_values(law, short))
    for mutant in (
        law._replace(alpha=law.alpha * 1.1),
        law._replace(kappa=law.kappa * 1.1),
        law._replace(gram=law.gram * (1 + 0.2 * jnp.eye(k))),
    ):
        assert checks.family(p_values(mutant, theta))


@pytest.mark.slow
def test_one_step_leaves_exact_draws_exact(seed):
    """False alarms: 1e-3. A step with another temperature is found out."""
    law, key = law_of(2, 20_000), jax.random.key(seed)
    points, weights = grid(law, 4000)
    exact = points[np.random.default_rng(seed).choice(len(points), 20_000, p=weights)]
    ratios = np.log(exact) - np.log(exact).mean(axis=-1, keepdims=True)
    start = local.Start(jnp.asarray(ratios, jnp.float32))
    moved = sample(key, law, Geodesic(burn_in=2), start)
    assert np.mean(np.abs(moved - exact) > 1e-3) > 0.5
    assert not checks.family(p_values(law, moved))
    hotter = law._replace(alpha=law.alpha * 0.8, kappa=law.kappa * 0.8)
    assert checks.family(p_values(law, sample(key, hotter, Geodesic(burn_in=2), start)))


def test_least_squares_are_those_of_numpy():
    law = law_of(3, 5)
    gram, cosines = (np.asarray(x, np.float64) for x in (law.gram, law.cosines))
    result = least_squares(law)
    np.testing.assert_allclose(result, np.linalg.solve(gram, cosines.T).T, rtol=1e-4)
    dependent = law._replace(gram=jnp.ones_like(law.gram))
    np.testing.assert_allclose(_raised(least_squares(dependent), 1e-6), 1 / 3)


@pytest.mark.slow
def test_the_published_chain_stays_at_its_start_and_a_longer_one_forgets_it(seed):
    """Steps of 1e-6, as published, leave least squares where they were. False alarms: 1e-3."""
    law, key = law_of(3, 20_000), jax.random.key(seed)
    published = Geodesic(20, 40, 10, 1e-6, 1e-6, "least-squares", fixed=True)
    start = np.asarray(_raised(least_squares(law), 1e-6), np.float64)
    assert np.abs(sample(key, law, published) - start).max() < 0.01
    moved = published._replace(samples=1, burn_in=60, num_steps=20, step_size=0.01, floor=3e-3)
    assert not checks.family(p_values(law, sample(key, law, moved)))
    assert checks.family(p_values(law, sample(key, law, moved._replace(burn_in=0))))


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"floor": 1.0}, "floor"), ({"start": "zero"}, r"^start .*'zero'$")],
)
def test_settings_out_of_range_are_named(settings, name):
    documents, hyper, shape = tiny_sam.documents(), tiny_sam.hyper(), (tiny_sam.K, tiny_sam.V)
    with pytest.raises(ValueError, match=name):
        model.build(documents, shape, hyper=hyper, local_step=Geodesic(**settings))
