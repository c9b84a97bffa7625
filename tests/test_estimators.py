import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.marks import slow_but

from simplex_jax._src import base, batches, draws, estimators
from simplex_jax._src.runtime import driver
from simplex_jax._src.samplers import scir, sgrhmc, sgrld, smld

LIKELIHOOD = jnp.array([[0.8, 0.1, 0.3], [0.2, 0.9, 0.7]])  # [outcome, component]
DATA = jnp.array([0, 0, 1, 1, 1, 0, 1])


def expected_counts(key, log_weights, batch):
    return jax.nn.softmax(log_weights + jnp.log(LIKELIHOOD)[batch]).sum(axis=0)


def all_batches(n):
    return [jnp.array(rows) for rows in itertools.combinations(range(len(DATA)), n)]


def test_categorical_counts_labels_by_simplex(getkey):
    labels = jnp.array([[0, 2], [1, 2], [0, 0], [0, 1]])
    estimator = estimators.categorical(size=8)
    counts, _ = estimator.estimate(getkey(), (), jnp.zeros((2, 3)), labels)
    np.testing.assert_array_equal(counts, [[6, 2, 0], [2, 2, 4]])
    position = {"a": jnp.zeros((2, 3)), "b": jnp.zeros(2)}
    batch = {"a": labels, "b": jnp.array([0, 0, 0, 1])}
    counts, _ = estimator.estimate(getkey(), (), position, batch)
    np.testing.assert_array_equal(counts["b"], [6, 2])
    np.testing.assert_array_equal(counts["a"], [[6, 2, 0], [2, 2, 4]])


@pytest.mark.parametrize("bad", [-1, 3, 2**31 - 1, -(2**31)])
def test_labels_out_of_range_spoil_their_own_simplex_only(bad, getkey):
    labels = jnp.array([[0, 2], [bad, 1]])
    estimate = estimators.categorical(2).estimate
    counts, _ = jax.jit(estimate)(getkey(), (), jnp.zeros((2, 3)), labels)
    assert np.isnan(counts[0]).all()
    np.testing.assert_array_equal(counts[1], [0, 1, 1])
    message = rf"labels from 0 to 2, of 3 categories; it is {bad} at index \(1, 0\)"
    with pytest.raises(ValueError, match=message):
        estimate(getkey(), (), jnp.zeros((2, 3)), labels)


def test_multinomial_sums_rows(getkey):
    rows = jnp.array([[1, 0, 2], [0, 5, 0]])
    counts, _ = estimators.multinomial(size=6).estimate(getkey(), (), jnp.zeros(3), rows)
    np.testing.assert_array_equal(counts, [3, 15, 6])


def test_bad_input_is_named(getkey):
    for size in (0, -1, np.nan, np.inf):
        for build in (estimators.categorical, estimators.multinomial):
            with pytest.raises(ValueError, match="size"):
                build(size)
        with pytest.raises(ValueError, match="size"):
            estimators.control_variate(expected_counts, size, jnp.zeros(3), jnp.zeros(3))
    with pytest.raises(ValueError, match="of must"):
        estimators.control_variate(expected_counts, 7, jnp.zeros(3), jnp.zeros(3), of="both")
    categorical, multinomial = estimators.categorical(5), estimators.multinomial(5)
    with pytest.raises(ValueError, match="integer labels"):
        categorical.estimate(getkey(), (), jnp.zeros(3), jnp.zeros(4))
    with pytest.raises(ValueError, match=r"batch of labels .* \[n, 2\]"):
        categorical.estimate(getkey(), (), jnp.zeros((2, 3)), jnp.zeros(4, jnp.int32))
    with pytest.raises(ValueError, match=r"at least 0; it is -1.0 at index \(0, 1\)"):
        multinomial.estimate(getkey(), (), jnp.zeros(2), jnp.array([[3.0, -1.0]]))
    with pytest.raises(ValueError, match="batch of rows"):
        multinomial.estimate(getkey(), (), jnp.zeros(3), jnp.zeros((4, 2)))
    with pytest.raises(ValueError, match="batch"):
        categorical.estimate(getkey(), (), jnp.zeros(3), jnp.int32(1))


@pytest.mark.parametrize("n", [1, 3])
def test_subsampled_and_control_variate_are_unbiased(n, getkey):
    """Averaged over all batches of n, both give the full-data counts; the variate varies less."""
    log_weights = jnp.log(jnp.array([0.5, 0.2, 0.3]))
    reference = jnp.log(jnp.array([0.45, 0.25, 0.3]))
    full = expected_counts(None, log_weights, DATA)
    known = expected_counts(None, reference, DATA)
    plain = estimators.subsampled(expected_counts, len(DATA))
    variates = {
        of: estimators.control_variate(expected_counts, len(DATA), reference, known, of=of)
        for of in ("counts", "derivatives")
    }
    spread = {}
    for name, estimator in {"plain": plain, **variates}.items():
        estimates = np.stack(
            [
                estimator.estimate(getkey(), (), log_weights, DATA[rows])[0]
                for rows in all_batches(n)
            ]
        )
        np.testing.assert_allclose(estimates.mean(axis=0), full, rtol=1e-5)
        spread[name] = estimates.var(axis=0).sum()
    for name, variate in variates.items():
        assert spread[name] < spread["plain"] / 20
        exact, _ = variate.estimate(getkey(), (), reference, DATA[:n])
        np.testing.assert_allclose(exact, known, rtol=1e-6)


def test_a_control_variate_of_derivatives_vanishes_with_the_probability(getkey):
    """And one of counts does not: from all batches of 1, at a probability of 1e-6."""
    reference = jnp.log(jnp.array([0.45, 0.3, 0.25]))
    log_weights = jnp.log(jnp.array([0.6, 0.4, 1e-6]))
    known = expected_counts(None, reference, DATA)
    noise, full = {}, expected_counts(None, log_weights, DATA)
    for of in ("counts", "derivatives"):
        variate = estimators.control_variate(expected_counts, len(DATA), reference, known, of=of)
        result = np.stack(
            [variate.estimate(getkey(), (), log_weights, DATA[rows])[0] for rows in all_batches(1)]
        )
        np.testing.assert_allclose(result.mean(axis=0), full, rtol=1e-4, atol=1e-6)
        noise[of] = result[:, 2].std()
    assert noise["derivatives"] < 1e-5 < 0.1 < noise["counts"]


def test_control_variate_uses_the_same_draws_twice(getkey):
    def drawn_counts(key, log_weights, batch):
        labels = draws.categorical(key, jnp.exp(log_weights) * LIKELIHOOD[batch])
        return jnp.zeros(3).at[labels].add(1.0)

    reference, known = jnp.log(jnp.array([0.2, 0.3, 0.5])), jnp.array([2.0, 2.0, 3.0])
    estimator = estimators.control_variate(drawn_counts, len(DATA), reference, known)
    with jax.debug_key_reuse(True):
        counts, _ = jax.jit(estimator.estimate)(getkey(), (), reference, DATA)
    np.testing.assert_array_equal(counts, known)


def assign(key, log_weights, data, previous):
    return draws.categorical(key, jnp.exp(log_weights) * LIKELIHOOD[data])


def count(labels, data):
    return jnp.zeros(3).at[labels].add(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 3, 7])
def test_memoised_counts_stay_those_of_all_assignments(batch_size, getkey):
    labels = jnp.zeros(len(DATA), jnp.int8)
    estimator = estimators.memoised(assign, count, labels, count(labels, DATA))
    kernel = scir.build(estimator, alpha=0.5, step_size=1.0, total="refreshed")
    state = kernel.init(getkey(), jnp.ones(3))
    stream = batches.shuffled(batches.indexed(DATA), batch_size)
    state, memories = driver.run(
        getkey(), kernel, state, stream, 60, collect=lambda state, info: state.memory
    )
    assert memories.assignments.dtype == np.int8
    for labels, counts in zip(memories.assignments, memories.counts, strict=True):
        np.testing.assert_array_equal(counts, np.bincount(labels, minlength=3))
    changed = (np.diff(memories.assignments, axis=0) != 0).sum(axis=1)
    assert changed.max() <= batch_size
    assert changed.sum() > 10


def test_previous_assignments_are_those_of_the_batch(getkey):
    def keep_and_check(key, position, data, previous):
        return jnp.where(previous == data, previous, 2)

    estimator = estimators.memoised(keep_and_check, count, DATA, count(DATA, DATA))
    memory = estimator.init(getkey())
    ids = jnp.array([5, 2, 6])
    batch = batches.Indexed(ids, DATA[ids])
    counts, memory = estimator.estimate(getkey(), memory, jnp.zeros(3), batch)
    np.testing.assert_array_equal(memory.assignments, DATA)
    np.testing.assert_array_equal(counts, count(DATA, DATA))


def test_estimators_carry_their_arrays_as_arguments():
    """Nothing of the size of the data is compiled into a program."""
    data = jnp.arange(10_000) % 3
    estimator = estimators.memoised(assign, count, data, count(data, data))
    kernel = base.as_pytree(scir.build(estimator, alpha=0.5, step_size=1.0))
    sizes = [leaf.size for leaf in jax.tree.leaves(kernel) if hasattr(leaf, "size")]
    assert max(sizes) == 10_000

    def start(kernel, key):
        return kernel.init(key, jnp.ones(3))

    assert len(jax.jit(start).lower(kernel, jax.random.key(0)).as_text()) < 20_000


@pytest.mark.parametrize(
    "build", slow_but([scir.build, sgrld.build, sgrhmc.build, smld.build], scir.build)
)
def test_counts_below_zero_end_a_run_with_an_error(build, getkey):
    rows = jnp.array([[3.0, 1.0, 0.0], [2.0, -1.0, 4.0]])
    kernel = build(estimators.multinomial(size=2), 0.5, 0.01)
    state = kernel.init(getkey(), jnp.ones(3))
    with pytest.raises(FloatingPointError, match=r"position.* became NaN in update 1"):
        driver.run(getkey(), kernel, state, batches.full(rows), 3)


def test_a_reference_of_derivatives_has_no_empty_category():
    reference = jnp.log(jnp.array([0.5, 0.5, 0.0]))
    given = (expected_counts, 7, reference, jnp.ones(3))
    estimators.control_variate(*given)
    with pytest.raises(ValueError, match=r"reference .* at index \(2,\)"):
        estimators.control_variate(*given, of="derivatives")


def test_labels_beyond_32_bits_are_out_of_range():
    labels = np.array([2**32 + 1, 0])
    with jax.enable_x64(True):
        estimator = estimators.categorical(size=2)
        with pytest.raises(ValueError, match="labels from 0 to 2"):
            estimator.estimate(jax.random.key(0), (), jnp.zeros(3), jnp.asarray(labels))


def test_a_reference_is_like_the_position(getkey):
    at, seen = jnp.log(jnp.full(3, 1 / 3)), jnp.zeros((1, 3))
    for reference, counts, message in (
        ([-1.0, -1.0, -1.0], jnp.ones(3), r"^reference .*PyTreeDef"),
        (at, jnp.ones(2), r"reference_counts of shape \(2,\) does not broadcast"),
    ):
        estimator = estimators.control_variate(expected_counts, 7, reference, counts)
        with pytest.raises(ValueError, match=message):
            estimator.estimate(getkey(), (), at, seen)


def test_batches_have_the_structure_of_the_position(getkey):
    position = {"a": jnp.zeros(3), "b": jnp.zeros(3)}
    for estimator, rows in (
        (estimators.categorical(4), jnp.array([0, 1])),
        (estimators.multinomial(4), jnp.ones((2, 3))),
    ):
        for batch in (rows, {"a": rows}, [rows, rows], {"a": rows, "b": rows, "c": rows}):
            with pytest.raises(ValueError, match=r"^batch .*'b': \*"):
                estimator.estimate(getkey(), (), position, batch)


@pytest.mark.parametrize("sampler", [scir, smld], ids=lambda module: module.__name__)
def test_counts_without_an_axis_of_categories_are_refused(sampler, getkey):
    """A sum that forgot its axis was taken for the count of each category."""
    rows = jnp.array([[1.0, 0.0, 2.0]])
    for counts_of, position, message in (
        (
            lambda key, at, batch: batch.sum(),
            jnp.ones(3),
            r"^the estimated counts .*\(3,\); .*\(\)",
        ),
        (lambda key, at, batch: batch.sum(axis=0), [jnp.ones((1, 3))] * 2, "structure"),
    ):
        kernel = sampler.build(estimators.subsampled(counts_of, 1), 0.5, 0.1)
        with pytest.raises(ValueError, match=message):
            kernel.update(getkey(), kernel.init(getkey(), position), rows)
