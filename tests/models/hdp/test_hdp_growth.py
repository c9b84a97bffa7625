"""A state that has grown goes on as if it had always been large: equality is exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax._src.corpus import device
from simplex_jax._src.models import growth
from simplex_jax._src.models.hdp import kernel as hdp
from simplex_jax._src.models.hdp.kernel import State
from simplex_jax._src.runtime.driver import run

COUNTS = np.random.default_rng(3).multinomial(12, np.full(20, 0.05), 30).astype(np.int32)


def chain(capacity, chains):
    kernel, stream = hdp.build(
        device.to_device(sp.csr_array(COUNTS)),
        gamma=3.0,
        capacity=capacity,
        chains=chains,
        engine="xla",  # the native one may take another way where there are more topics
    )
    shape = (2, 20) if chains is None else (chains, 2, 20)
    start = jax.random.exponential(jax.random.key(2), shape)
    return run(
        jax.random.key(4),
        kernel,
        kernel.init(jax.random.key(1), start),
        stream,
        12,
        collect=lambda state, info: (state.labels, state.alpha),
        grow=hdp.grown,
        chunk=5,
    )


@pytest.mark.slow
@pytest.mark.parametrize("chains", [None, 2])
def test_a_small_capacity_grows_to_the_chain_of_a_large_one(chains):
    small, (labels, alpha) = chain(4, chains)
    large, (expected, other) = chain(128, chains)
    assert 4 < small.counts.shape[-2] < large.counts.shape[-2] == 128
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_allclose(alpha, other, rtol=1e-5)
    np.testing.assert_array_equal(small.counts.sum(axis=(-1, -2)), 360)


def test_all_topics_that_labels_can_number_have_room():
    """A quarter more again and again would be more than there may be."""
    shapes = {"position": (2**15, 2), "counts": (2**15, 2), "log_weights": (2**15,)}
    arrays = {name: jnp.zeros(shapes.get(name, ())) for name in State._fields}
    state = State(**arrays | {"needed": jnp.asarray(65_000)})
    assert hdp.grown(state).counts.shape == (2**16 - 1, 2)
    with pytest.raises(
        ValueError, match=r"at most 65,535 topics; it is 65,536\. .* a smaller gamma"
    ):
        hdp.grown(state._replace(needed=jnp.asarray(2**16)))


@pytest.mark.parametrize(
    ("capacity", "needed", "larger"), [(4, 9, 16), (256, 257, 320), (256, 330, 400), (7, 7, 7)]
)
def test_room_grows_by_a_quarter_once_it_is_large(capacity, needed, larger):
    assert growth.by_quarters(capacity, needed) == larger


@pytest.mark.slow
def test_growing_changes_nothing_but_room():
    kernel, _ = hdp.build(device.to_device(sp.csr_array(COUNTS)), capacity=4)
    state = kernel.init(jax.random.key(0), jnp.ones((3, 20)))
    larger = hdp.grow(state, 9)
    assert larger.position.shape == (9, 20)
    assert hdp.grown(larger) is None
    np.testing.assert_array_equal(larger.labels, state.labels)
    np.testing.assert_array_equal(larger.counts[:4], state.counts)
    with pytest.raises(ValueError, match=r"^capacity .* 4"):
        hdp.grow(state, 3)
    with pytest.raises(ValueError, match=r"^topics .* 4; .* 5"):
        kernel.init(jax.random.key(0), jnp.ones((5, 20)))


def test_what_cannot_be_sampled_is_refused():
    corpus = device.to_device(sp.csr_array(COUNTS))
    with pytest.raises(ValueError, match=r"^gamma .*0\.0$"):
        hdp.build(corpus, gamma=0.0)
    with pytest.raises(ValueError, match=r"^capacity .* 65,535 topics"):
        hdp.build(corpus, capacity=10**6)
    with pytest.raises(ValueError, match=r"^corpus "):
        hdp.build(device.to_device(sp.csr_array((2, 3), dtype=np.int32)))
