"""The posterior of a tiny spherical admixture model, against weighed draws of its prior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import statistics_checks as checks
import tiny_sam

from simplex_jax.models import sam

CHAINS = 400


def end_points(seed: int, updates: int, hyper: sam.Hyperparameters, **options) -> np.ndarray:
    """Topics of independent chains at two times, [2, chains, K, V]."""
    kernel, stream = sam.build(
        tiny_sam.documents(), (tiny_sam.K, tiny_sam.V), hyper=hyper, **options
    )

    @jax.jit
    def run(kernel, stream, key):
        def chain(key):
            key_start, key_init, key_run, key_batch = jax.random.split(key, 4)
            state = kernel.init(key_init, sam.start(key_start, hyper, tiny_sam.K))

            def update(i, state):
                key = jax.random.fold_in(key_run, i)
                return kernel.update(key, state, stream(key_batch, state.step))[0]

            half = jax.lax.fori_loop(0, updates, update, state)
            return half.position, jax.lax.fori_loop(updates, 2 * updates, update, half).position

        return jax.vmap(chain)(jax.random.split(key, CHAINS))

    return np.asarray(jnp.stack(run(kernel, stream, jax.random.key(seed))), np.float64)


def p_values(ends: np.ndarray, exact: dict[str, tuple[float, float]]) -> dict[str, float]:
    """Tests of the means, chains averaged over their two ends."""
    found = [tiny_sam.statistics(points) for points in ends]
    p = {}
    for name, (mean, error) in exact.items():
        values = (found[0][name] + found[1][name]) / 2
        p[name] = checks.mean_z(values, mean, values.var() + values.size * error**2)
    return p


@pytest.fixture(scope="module")
def exact() -> dict[str, tuple[float, float]]:
    return tiny_sam.posterior(seed=1, draws=200_000)


def test_blocked_gibbs_draws_from_the_posterior(seed: int, exact: dict) -> None:
    """False alarms: 1e-3. Other constants of the model are found out."""
    options = {"sampler": "gmc-bgibbs", "step_size": 0.25, "num_steps": 4}
    right = end_points(seed, 60, tiny_sam.hyper(), **options)
    assert not checks.family(p_values(right, exact))
    for changed in ({"sigma": 1.0}, {"kappa1": 8.0}):
        wrong = end_points(seed, 60, tiny_sam.hyper(**changed), **options)
        assert checks.family(p_values(wrong, exact)), changed


@pytest.mark.parametrize("sampler", ["sggmc", pytest.param("gsgnht", marks=pytest.mark.slow)])
def test_stochastic_gradients_come_close(sampler: str, seed: int, exact: dict) -> None:
    """Batches of 3 of 6 documents, at a step where the bias is below what the test resolves."""
    options = {"sampler": sampler, "batch_size": 3, "step_size": 0.03, "friction": 4.0}
    hyper = tiny_sam.hyper()
    ends = end_points(seed, 500, hyper, **options)
    assert not checks.family(p_values(ends, exact))
    hot = end_points(seed, 500, hyper, **options | {"step_size": 0.25})
    assert checks.family(p_values(hot, exact))


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [6, 2])
def test_longer_chains_of_stochastic_gradients(batch_size: int, seed: int, exact: dict) -> None:
    options = {"sampler": "sggmc", "batch_size": batch_size, "step_size": 0.01, "friction": 4.0}
    ends = end_points(seed, 2000, tiny_sam.hyper(), **options)
    assert not checks.family(p_values(ends, exact))


@pytest.mark.slow
def test_the_metropolis_test_over_averaged_proportions_is_biased(seed: int, exact: dict) -> None:
    """As `sam.build` says: with few samples the topics fit too well."""
    ends = end_points(
        seed, 100, tiny_sam.hyper(), sampler="gmc-apprmh", step_size=0.25, num_steps=4
    )
    assert checks.family(p_values(ends, exact))
