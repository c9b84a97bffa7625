"""A state of the Dirichlet-process mixture that has grown goes on as if it had always been large.

Equality is exact, label for label: nothing here is statistical.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simplex_jax._src.base import Kernel, bind
from simplex_jax._src.models.dpm import families
from simplex_jax._src.models.dpm import model as dpm_mixture
from simplex_jax._src.runtime import checkpoint
from simplex_jax._src.runtime.driver import run

RNG = np.random.default_rng(1)
ROWS = families.multinomial_rows(RNG.multinomial(4, RNG.dirichlet(np.full(5, 0.3), 120)))
FAMILY = families.multinomial(5, concentration=0.5)
KEY = jax.random.key(3)
STEPS = 30


@functools.cache
def build(capacity, **options):
    options = {"alpha": dpm_mixture.Gamma(30.0, 10.0), "batch_size": 50} | options
    return dpm_mixture.build(ROWS, FAMILY, capacity=capacity, **options)


def start(kernel):
    return kernel.init(jax.random.key(2), dpm_mixture.random_labels(KEY, ROWS, 3))


def chain(capacity, **options):
    kernel, stream = build(capacity, **options)
    return run(
        jax.random.key(4),
        kernel,
        start(kernel),
        stream,
        STEPS,
        collect=dpm_mixture.labels_of,
        grow=dpm_mixture.State.grown,
        chunk=7,
    )


CASES = {
    "exact": {},
    "scir": {"sampler": "scir", "counts": "subsampled"},
    "independent": {"variant": "independent", "alpha_update": "escobar-west"},
    "chains": {"chains": 2, "alpha_update": "escobar-west"},
    "moves": {"split_merge": 1},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_small_capacity_grows_to_the_chain_of_a_large_one(case):
    small, labels = chain(16, **CASES[case])
    large, expected = chain(64, **CASES[case])
    assert small.occupancy.shape[-1] > 16
    assert large.occupancy.shape[-1] == 64
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_allclose(small.alpha, large.alpha, rtol=1e-5)
    size = small.occupancy.shape[-1]
    np.testing.assert_array_equal(small.occupancy, large.occupancy[..., :size])


@pytest.mark.slow
def test_growing_changes_nothing_but_room():
    kernel, _ = build(16)
    state = start(kernel)
    larger = dpm_mixture.grow(state, 17)
    assert larger.occupancy.shape == (32,)
    assert dpm_mixture.State.grown(larger) is None
    np.testing.assert_allclose(
        dpm_mixture.log_predictive(FAMILY, larger.position, ROWS),
        dpm_mixture.log_predictive(FAMILY, state.position, ROWS),
        rtol=1e-6,
    )
    with pytest.raises(ValueError, match=r"^capacity .* 16"):
        dpm_mixture.grow(state, 15)


class Room(NamedTuple):
    """A state of sums by batch, which has room for batches below its length."""

    position: jax.Array
    step: jax.Array
    needed: jax.Array


def add(key, state, batch):
    room = state.position.shape[0]
    value = jax.random.uniform(key) + batch
    done = Room(state.position.at[batch].add(value), state.step + 1, jnp.int32(0))
    waits = state._replace(needed=jnp.maximum(batch + 1, state.needed))
    waiting = (batch >= room) | (state.needed > room)
    return jax.tree.map(lambda a, b: jnp.where(waiting, a, b), waits, done), value


def room(size):
    return Room(jnp.zeros(size), jnp.int32(0), jnp.int32(0))


def enlarge(state):
    size = state.position.shape[0]
    if int(state.needed) <= size:
        return None
    return state._replace(
        position=jnp.pad(state.position, (0, int(state.needed) - size)), needed=jnp.int32(0)
    )


BATCHES = np.array([0, 1, 0, 3, 2, 3, 3, 6, 0, 1, 5, 7, 0, 2])
TOY = Kernel(init=lambda key, position: room(2), update=add)


def value_of(state, info):
    return info


@pytest.mark.parametrize("source", [iter, lambda data: bind(by_step, jnp.asarray(data))])
@pytest.mark.parametrize("thin", [1, 3])
def test_the_driver_repeats_the_update_that_had_no_room(source, thin):
    steps, options = [], {"collect": value_of, "thin": thin, "chunk": 4}
    hooks = [lambda event: steps.append((event.step, event.state.position.shape[0]))]
    small, trace = run(KEY, TOY, room(2), source(BATCHES), 14, grow=enlarge, hooks=hooks, **options)
    large, expected = run(KEY, TOY, room(8), source(BATCHES), 14, **options)
    np.testing.assert_array_equal(trace, expected)
    np.testing.assert_array_equal(small.position, large.position)
    assert steps == [(4, 4), (8, 7), (12, 8), (14, 8)]


def by_step(data, key, step):
    return data[step]


def test_without_growing_a_run_stops_where_it_is():
    state, _ = run(KEY, TOY, room(2), iter(BATCHES), 14, collect=value_of)
    assert int(state.step) == 3
    assert int(state.needed) > 2


def test_collecting_what_grows_is_refused():
    with pytest.raises(ValueError, match=r"\(2,\) to \(4,\)"):
        run(KEY, TOY, room(2), iter(BATCHES), 14, grow=enlarge)


def test_a_run_resumes_from_a_checkpoint_of_a_state_that_has_grown(tmp_path):
    def part(state, begin, **options):
        batches = iter(BATCHES[begin:])
        return run(KEY, TOY, state, batches, 7, grow=enlarge, collect=value_of, **options)

    saver = checkpoint.Saver(checkpoint.Store(tmp_path), {}, {}, every=0)
    half, _ = part(room(2), 0, hooks=[saver])
    with pytest.raises(checkpoint.CheckpointError, match=r"position is float32 \[4\]"):
        saver.restore(room(2))
    with pytest.raises(checkpoint.CheckpointError, match="position"):
        saver.restore(room(2)._replace(position=jnp.zeros((2, 2))), resized=True)
    back = saver.restore(room(2), resized=True)
    np.testing.assert_array_equal(back.state.position, half.position)
    end, _ = part(back.state, 7)
    whole, _ = run(KEY, TOY, room(8), iter(BATCHES), 14, collect=value_of)
    np.testing.assert_array_equal(end.position, whole.position)
