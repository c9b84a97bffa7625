"""Streams: coverage, uniformity and dependence on the key and the step alone.

Chi-square tests are judged as one family at 1e-3 each (`statistics_checks.family`).
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from support import statistics_checks as checks
from support.marks import slow_but

from simplex_jax._src import batches
from simplex_jax._src.runtime import feed


def take(stream, key, steps):
    return np.stack([stream(key, step) for step in steps])


@pytest.mark.parametrize(("size", "batch_size"), [(12, 3), (12, 12), (10, 3), (7, 5), (5, 1)])
def test_shuffled_visits_every_datum_in_an_epoch_and_none_twice_in_a_batch(
    size, batch_size, getkey
):
    key = getkey()
    stream = jax.jit(batches.shuffled(jnp.arange(size), batch_size))
    per_epoch = -(-size // batch_size)
    orders = set()
    for epoch in range(4):
        result = take(stream, key, range(epoch * per_epoch, (epoch + 1) * per_epoch))
        assert set(result.ravel().tolist()) == set(range(size))
        for batch in result:
            assert len(set(batch.tolist())) == batch_size
        counts = np.bincount(result.ravel(), minlength=size)
        assert counts.min() >= 1
        assert counts.max() <= 2
        assert (counts == 2).sum() == per_epoch * batch_size - size
        orders.add(result.tobytes())
    assert size < 6 or len(orders) == 4


@pytest.mark.parametrize(
    "make",
    [
        lambda data: batches.uniform(data, 3),
        lambda data: batches.uniform(data, 3, replace=False),
        lambda data: batches.shuffled(data, 3),
        batches.full,
    ],
)
def test_batches_are_rows_of_a_tree_and_follow_key_and_step(make, getkey):
    data = {"x": np.arange(20).reshape(10, 2), "y": jnp.arange(10.0)}
    stream = make(batches.indexed(data))
    key, other = getkey(), getkey()
    batch = stream(key, 4)
    assert isinstance(batch, batches.Indexed)
    np.testing.assert_array_equal(batch.data["x"], data["x"][batch.ids])
    np.testing.assert_array_equal(batch.data["y"], data["y"][batch.ids])
    jitted = jax.jit(stream)(key, jnp.int32(4))
    np.testing.assert_array_equal(batch.ids, jitted.ids)
    if batch.ids.size < 10:
        assert any(not np.array_equal(stream(key, step).ids, batch.ids) for step in range(4))
        assert any(not np.array_equal(stream(other, step).ids, batch.ids) for step in range(4))


@pytest.mark.slow
def test_permutation_is_one_at_every_small_size(getkey):
    for size in [1, 2, 3, 5, 6, 7, 12, 64, 65, 257, 1000]:
        image = np.asarray(batches.permutation(getkey(), jnp.arange(size), size))
        assert sorted(image.tolist()) == list(range(size))


def test_permutation_of_a_huge_range_is_injective(getkey):
    size = 2**31 - 1
    index = jnp.concatenate([jnp.arange(100_000), size - 1 - jnp.arange(100_000)])
    image = np.asarray(batches.permutation(getkey(), index, size), np.int64)
    assert len(set(image.tolist())) == 200_000
    assert image.min() >= 0
    assert image.max() < size
    # Uniform: the mean of 200,000 values is within 5 standard errors, false alarm 6e-7.
    assert abs(image.mean() / size - 0.5) < 5 * np.sqrt(1 / 12 / 200_000)


def images(key, size, keys):
    index = jnp.arange(size)
    draw = jax.jit(jax.vmap(lambda key: batches.permutation(key, index, size)))
    return np.asarray(draw(jax.random.split(key, keys)))


def order_numbers(permutations):
    size = permutations.shape[1]
    numbers = {order: i for i, order in enumerate(itertools.permutations(range(size)))}
    return np.array([numbers[tuple(row)] for row in permutations.tolist()])


def uniform_p(values, bins):
    return checks.chi_square(np.bincount(values, minlength=bins), np.full(bins, 1 / bins))


@pytest.mark.parametrize("size", [2, 4, 5, 6])
def test_all_orders_of_a_small_set_are_equally_likely(size, getkey):
    numbers = order_numbers(images(getkey(), size, 20_000))
    bins = int(np.prod(np.arange(1, size + 1)))
    assert uniform_p(numbers, bins) > 1e-3 / 4


@pytest.mark.parametrize("size", slow_but([11, 100, 1000], 11, 100))
def test_single_and_pairs_of_images_are_uniform(size, getkey):
    result = images(getkey(), size, 100_000 if size < 1000 else 20_000)
    coarse = np.minimum(result * 10 // size, 9)
    tenth = np.bincount(np.minimum(np.arange(size) * 10 // size, 9), minlength=10)
    p_values = {}
    for first, second in [(0, 1), (0, size - 1), (size // 2, size // 2 + 1), (1, size // 3)]:
        p_values["single", first] = uniform_p(result[:, first], size)
        pair = coarse[:, first] * 10 + coarse[:, second]
        expected = (np.outer(tenth, tenth) - np.diag(tenth)).ravel() / (size * (size - 1))
        observed = np.bincount(pair, minlength=100)
        p_values["pair", first, second] = checks.chi_square(observed, expected)
        p_values["order", first, second] = uniform_p(
            (result[:, first] < result[:, second]).astype(int), 2
        )
    # Odd and even permutations of neighbours: steps between images.
    steps = (result[:, 1] - result[:, 0]) % size
    p_values["difference"] = uniform_p(steps - 1, size - 1)
    assert not checks.family(p_values)


def test_the_uniformity_check_sees_a_rotation(seed):
    """A cyclic shift maps every single index uniformly, yet its pairs give it away."""
    rng = np.random.default_rng(seed)
    result = (np.arange(100) + rng.integers(100, size=(20_000, 1))) % 100
    assert uniform_p(result[:, 0], 100) > 1e-6
    assert uniform_p((result[:, 1] - result[:, 0]) % 100 - 1, 99) == 0


def test_uniform_includes_every_datum_equally(getkey):
    key = getkey()
    for replace in (True, False):
        stream = jax.jit(jax.vmap(batches.uniform(jnp.arange(9), 4, replace), in_axes=(None, 0)))
        result = np.asarray(stream(key, jnp.arange(20_000)))
        repeats = np.array([len(set(row)) < 4 for row in result.tolist()])
        if not replace:
            assert not repeats.any()
        else:
            # 1 - 8 7 6 / 9^3; 5 standard errors, false alarm 6e-7.
            p = 1 - 8 * 7 * 6 / 9**3
            assert abs(repeats.mean() - p) < 5 * np.sqrt(p * (1 - p) / 20_000)
        assert uniform_p(result[:, 2], 9) > 1e-4


def test_cost_does_not_grow_with_the_data():
    for make in (
        lambda data: batches.shuffled(data, 10),
        lambda data: batches.uniform(data, 10, replace=False),
    ):
        sizes = []
        for n in (10_000, 1_000_000):
            stream = make(jnp.zeros(n, jnp.int8))
            # The data come in as an argument and leave through one gather alone.
            jaxpr = jax.make_jaxpr(lambda stream, key, step: stream(key, step))(
                stream, jax.random.key(0), 3
            )
            assert "sort" not in str(jaxpr).replace("indices_are_sorted", "")
            sizes.append(str(jaxpr).count(f"[{n}]"))
        assert sizes[0] == sizes[1] <= 4


def test_bad_input_is_named():
    data = jnp.arange(5)
    for make in (batches.uniform, batches.shuffled):
        for size in (0, -1, 2.5):
            with pytest.raises(ValueError, match="batch_size"):
                make(data, size)
    with pytest.raises(ValueError, match="batch_size 6"):
        batches.shuffled(data, 6)
    with pytest.raises(ValueError, match="batch_size 6"):
        batches.uniform(data, 6, replace=False)
    batches.uniform(data, 6)
    for bad, message in (
        ({"x": jnp.arange(3), "y": jnp.arange(4)}, "of one length"),
        (jnp.float32(1), "of one length"),
        ((), "batches.none"),
        (jnp.zeros((0, 2)), r"empty; .* \[\(0, 2\)\]"),
    ):
        with pytest.raises(ValueError, match=f"^data must .*{message}"):
            batches.full(bad)


@pytest.mark.parametrize("make", [batches.uniform, batches.shuffled])
def test_a_size_may_be_an_array_of_one_number(make):
    for size in (np.array(3), jnp.array(3)):
        assert make(jnp.arange(5), size)(jax.random.key(0), 0).shape == (3,)


def from_host(data):
    """The stream of a run that is given batches, of which this is the first."""
    return next(feed.blocks([data], 0, 1, 1)).stream


@pytest.mark.parametrize("make", [batches.full, lambda data: batches.uniform(data, 2), from_host])
def test_data_that_arrays_cannot_hold_are_refused(make):
    """JAX takes 2^40 for 0, and says of a sparse table that it is a sequence."""
    large = np.array([2**40, 1])
    with pytest.raises(ValueError, match=r"whole numbers .* from 1 to 1099511627776"):
        make({"seen": large, "x": np.ones(2)})
    with jax.enable_x64(True):
        assert int(make(large)(jax.random.key(0), 0).max()) in (1, 2**40)
    assert make(np.array([7, 7]))(jax.random.key(0), 0).tolist() == [7, 7]
    if make is not from_host:
        with pytest.raises(ValueError, match=r"^data .*csr_array"):
            make(sp.csr_array(np.eye(2)))
