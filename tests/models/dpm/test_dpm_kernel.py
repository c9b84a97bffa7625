"""Arguments, shapes, bad input and edges of the Dirichlet-process mixture; nothing statistical."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simplex_jax._src.models.dpm import families, totals
from simplex_jax._src.models.dpm import model as dp_labels
from simplex_jax._src.models.dpm import model as dp_step
from simplex_jax._src.models.dpm import model as dpm_mixture
from simplex_jax._src.runtime.driver import run

ROWS = families.multinomial_rows([[2, 0, 1], [0, 0, 3], [0, 1, 0], [0, 0, 0]])
FAMILY = families.multinomial(3)
GAUSSIAN = families.gaussian(jnp.zeros(1), jnp.eye(1))
KEY = jax.random.key(0)


def shapes(kernel, stream, labels):
    """The state after an update, without computing it."""

    def update(key):
        state = kernel.init(key, labels)
        return kernel.update(key, state, stream(key, jnp.int32(0)))

    return jax.eval_shape(update, KEY)


COMBINATIONS = [
    ("exact", "memoised", "dependent", "sticks", None),
    ("exact", "subsampled", "independent", "sticks", None),
    ("scir", "memoised", "independent", "escobar-west", 3),
    ("scir", "subsampled", "dependent", "sticks", 3),
    ("sgrld", "memoised", "dependent", "sticks", None),
    ("smld", "subsampled", "dependent", "sticks", None),
]
CARRIED = {"total": "carried", "counts": "subsampled", "label_moves": False}


@pytest.mark.slow
@pytest.mark.parametrize(("sampler", "counts", "variant", "alpha_update", "chains"), COMBINATIONS)
def test_states_keep_their_structure(sampler, counts, variant, alpha_update, chains):
    options = {"sampler": sampler, "counts": counts, "variant": variant, "chains": chains}
    prior = dpm_mixture.Gamma(1, 2)
    kernel, stream = dpm_mixture.build(
        ROWS, FAMILY, alpha=prior, alpha_update=alpha_update, batch_size=3, capacity=20, **options
    )
    labels = jnp.zeros(4, jnp.int32)
    start = jax.eval_shape(kernel.init, KEY, labels)
    state, info = shapes(kernel, stream, labels)
    chex.assert_trees_all_equal_shapes_and_dtypes(state, start)
    lead = () if chains is None else (chains,)
    assert state.position.atoms.shape == (*lead, 32, 3)
    assert info.occupied.shape == lead
    assert (state.totals is None) == (counts == "subsampled")


@pytest.mark.slow
def test_the_dtype_follows_the_family():
    with jax.enable_x64(True):
        rows = jnp.zeros((4, 1))
        family = families.gaussian(jnp.zeros(1), jnp.eye(1))
        kernel, stream = dpm_mixture.build(rows, family, alpha=dpm_mixture.Gamma(1.0, 1.0))
        state, _ = shapes(kernel, stream, jnp.zeros(4, jnp.int32))
    assert state.position.log_weights.dtype == state.alpha.dtype == jnp.float64
    assert state.labels.dtype == state.step.dtype == jnp.int32


BAD = [
    ({"sampler": "gibbs"}, r"sampler .* 'gibbs'"),
    ({"counts": "all"}, r"^counts .*'all'$"),
    ({"variant": "kalli"}, r"^variant .*'kalli'$"),
    ({"alpha_update": "no"}, r"^alpha_update .*'no'$"),
    ({"batch_size": 5}, r"batch_size .* 4 rows; it is 5"),
    ({"batch_size": 0}, r"batch_size .* 1"),
    ({"alpha": 0.0}, r"alpha .* 0.0"),
    ({"alpha": dpm_mixture.Gamma(1.0, -1.0)}, r"rate of alpha .*-1\.0$"),
    ({"variant": "independent", "decay": 1.0}, r"decay .* 0 and 1"),
    ({"decay": 0.5}, r"^decay .*dependent variant"),
    ({"stick_step_size": 0.5}, r"^stick_step_size .*exact"),
    (
        {"alpha": 2.0, "alpha_update": "escobar-west"},
        r"^alpha_update 'escobar-west' ",
    ),
    ({"capacity": 0}, r"capacity .* 1"),
    ({"chains": 0}, r"chains .* 1"),
    ({"sampler": "scir", "atom_step_size": -1.0}, r"^step_size .*-1\.0$"),
    ({"sampler": "sgrld", "atom_step_size": 2.0}, "step_size must be below 2"),
    ({"counts": "subsampled", "alpha_update": "escobar-west"}, "needs memoised counts"),
    ({"sampler": "scir", "total": "lost"}, r"^total .*'lost'$"),
    (CARRIED, 'total "carried"'),
    (CARRIED | {"sampler": "smld"}, "carried"),
    (CARRIED | {"sampler": "scir", "counts": "memoised"}, r'^total "carried" '),
    (CARRIED | {"sampler": "scir", "label_moves": True}, "label_moves=True is incompatible"),
    ({"split_merge": -1}, r"^split_merge .*-1$"),
    ({"split_merge": 1, "sampler": "scir"}, r"^split_merge .*exact sampler"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        dpm_mixture.build(ROWS, FAMILY, **options)


def test_rows_and_families_must_fit():
    with pytest.raises(ValueError, match="category 2"):
        dpm_mixture.build(ROWS, families.multinomial(2))
    with pytest.raises(ValueError, match="multinomial_rows"):
        dpm_mixture.build(jnp.zeros((3, 3)), FAMILY)
    with pytest.raises(ValueError, match=r"^sampler 'scir' "):
        dpm_mixture.build(jnp.zeros((3, 1)), GAUSSIAN, sampler="scir")
    no_evidence = GAUSSIAN._replace(log_evidence=None)
    with pytest.raises(ValueError, match="log_evidence"):
        dpm_mixture.build(jnp.zeros((3, 1)), no_evidence, split_merge=1)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (jnp.zeros(3, jnp.int32), r"labels .* \[4\]"),
        (jnp.zeros(4), "they are float32"),
        (jnp.array([0, 1, 16, 0]), r"labels .* 0..15 \(capacity\); it is 16 at index"),
        (jnp.array([0, -1, 0, 0]), "it is -1"),
    ],
)
def test_bad_first_labels_are_named(labels, message):
    kernel, _ = dpm_mixture.build(ROWS, FAMILY, capacity=16)
    with pytest.raises(ValueError, match=message):
        kernel.init(KEY, labels)


def test_rows_may_be_arrays_of_numpy():
    family = families.diagonal_gaussian(np.zeros(2, np.float32), 1.0)
    rows = np.ones((5, 2))
    kernel, _ = dpm_mixture.build(rows, family)
    labels = jax.ShapeDtypeStruct((5,), jnp.int32)
    state = jax.eval_shape(kernel.init, KEY, labels)
    density = jax.eval_shape(
        lambda mixture: dpm_mixture.log_predictive(family, mixture, rows), state[0]
    )
    assert density.shape == (5,)


def test_random_labels():
    labels = dpm_mixture.random_labels(KEY, ROWS, 2, chains=50)
    assert labels.shape == (50, 4)
    assert set(np.unique(labels)) == {0, 1}
    with pytest.raises(ValueError, match=r"clusters .* 1"):
        dpm_mixture.random_labels(KEY, ROWS, 0)


def test_running_sums_keep_what_rounding_takes():
    """Sums that grow and shrink by a factor of 1e7 come back to what is left, to rounding."""
    steps = np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32) * 1e4
    changes = jnp.asarray(np.concatenate([[[1.0, 2, 3]], steps, -steps[::-1]]), jnp.float32)
    start = totals.no_loss(jnp.zeros(3))

    def sums(add):
        return jax.jit(lambda: jax.lax.scan(lambda t, c: (add(t, c), None), start, changes)[0])()

    np.testing.assert_allclose(jnp.add(*sums(totals.add)), [1, 2, 3], rtol=1e-5)
    plain = sums(lambda total, change: total._replace(values=total.values + change))
    assert np.abs(plain.values - np.array([1, 2, 3])).max() > 1e-2


def test_a_slice_that_rounds_to_its_bound_leaves_the_stick_open():
    """u < w_z, and in float32 log u = log w_z once in ten million rows."""
    weights = jnp.log(jnp.array([0.2, 0.5, 0.3]))
    position = dpm_mixture.Mixture(weights, jnp.float32(-jnp.inf), jnp.full((3, 3), -jnp.log(3.0)))
    labels = jnp.array([1, 1, 2, 0])
    sliced = dp_labels.Slices(weights, weights[labels], jnp.int32(0))
    kernel, _ = dpm_mixture.build(ROWS, FAMILY)
    state = kernel.init(KEY, labels)
    before = state._replace(position=position, occupancy=jnp.array([1, 2, 1]), totals=None)
    ids = jnp.arange(4, dtype=jnp.int32)
    for key in jax.random.split(KEY, 5):
        after, _ = dp_labels.draw_labels(key, kernel.update.args[0], before, ids, sliced)
        assert after.labels[:2].tolist() == [1, 1]
        assert int(after.labels[2]) in (1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("split_merge", [0, 1])
def test_running_sums_do_not_drift(split_merge):
    """Tight clusters 300 of their deviations from the centre, which rows come to and leave."""
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(6, 2)) * 300
    x = (centres[np.repeat(np.arange(6), 50)] + rng.normal(size=(300, 2))).astype(np.float32)
    family = families.gaussian(jnp.zeros(2), 4e4 * jnp.eye(2), 0.01, 50.0)
    kernel, stream = dpm_mixture.build(
        jnp.asarray(x), family, alpha=3.0, batch_size=100, split_merge=split_merge
    )
    state = kernel.init(KEY, dpm_mixture.random_labels(KEY, x, 10))
    state, moved = run(
        KEY,
        kernel,
        state,
        stream,
        2016,
        collect=lambda state, info: info.moved,
        grow=dpm_mixture.State.grown,
    )
    assert moved.sum() * 100 > 500
    labels = np.asarray(state.labels)
    sums = jax.tree.map(lambda a, b: np.asarray(a, float) + np.asarray(b, float), *state.totals)
    for k in range(len(state.occupancy)):
        mine = x[labels == k].astype(np.float64)
        size = max(len(mine), 1)
        assert sums.number[k] == len(mine)
        # Squares are 1e6, and differ by 1e3. Unless sums are rebuilt they are off by 1.2.
        np.testing.assert_allclose(sums.total[k], mine.sum(axis=0), atol=1e-4 * size)
        np.testing.assert_allclose(sums.square[k], mine.T @ mine, atol=0.1 * size)


@pytest.mark.slow
def test_a_move_of_two_clusters_leaves_the_sums_of_others():
    kernel, _ = dpm_mixture.build(ROWS, FAMILY, split_merge=1, capacity=16)
    state = kernel.init(KEY, jnp.array([0, 0, 1, 2]))
    lost = state.totals.lost.at[2].set(1)
    state = state._replace(totals=state.totals._replace(lost=lost))
    move = jax.jit(lambda key: dp_step._split_merge(kernel.update.args[0], key, state)[0])
    others = [move(key) for key in jax.random.split(KEY, 40)]
    kept = [one for one in others if one.occupancy[2] == 1 and int(one.labels[3]) == 2]
    changed = [one for one in kept if (one.labels != state.labels).any()]
    assert changed
    assert all(one.totals.lost[2].tolist() == [1, 1, 1] for one in changed)


@pytest.mark.slow
def test_the_log_predictive_keeps_the_leftover_mass():
    """Where all weight is beyond the sticks at hand, rows are predicted by the prior alone."""
    kernel, _ = dpm_mixture.build(ROWS, FAMILY, capacity=16)
    mixture = kernel.init(KEY, jnp.zeros(4, jnp.int32)).position
    beyond = mixture._replace(
        log_weights=jnp.full(16, -jnp.inf), log_rest=jnp.zeros(()), atoms=mixture.atoms
    )
    result = dpm_mixture.log_predictive(FAMILY, beyond, ROWS)
    np.testing.assert_allclose(result, FAMILY.log_predictive(ROWS), rtol=1e-6)
    likelihood = np.asarray(FAMILY.log_likelihood(ROWS, mixture.atoms), np.float64)
    dense = np.exp(likelihood) @ np.exp(np.asarray(mixture.log_weights, np.float64))
    dense += np.exp(float(mixture.log_rest) + np.asarray(FAMILY.log_predictive(ROWS), np.float64))
    np.testing.assert_allclose(
        dpm_mixture.log_predictive(FAMILY, mixture, ROWS), np.log(dense), rtol=1e-5, atol=1e-6
    )


@pytest.mark.slow
def test_another_model_of_the_same_shape_does_not_compile_again():
    def kernel_of(counts, concentration, h, alpha):
        rows = families.multinomial_rows(counts)
        return dpm_mixture.build(
            rows,
            families.multinomial(2, concentration),
            sampler="scir",
            atom_step_size=h,
            stick_step_size=2 * h,
            alpha=dpm_mixture.Gamma(alpha, 1.0),
            capacity=16,
        )[0]

    kernels = [kernel_of([[1, 2], [1, 0]], 0.5, 0.1, 1.0), kernel_of([[1, 1], [9, 0]], 2, 0.3, 2)]
    ids = jnp.arange(2, dtype=jnp.int32)
    update = jax.jit(lambda kernel, key, state: kernel.update(key, state, ids))
    for kernel in kernels:
        state = kernel.init(KEY, jnp.array([0, 1]))
        state, info = update(kernel, jax.random.key(1), state)
        assert int(state.step) == 1 or int(state.needed) > 16
        chex.assert_tree_all_finite(state)
        assert 1 <= int(info.occupied) <= 2 or int(state.needed) > 16
    assert update._cache_size() == 1


@pytest.mark.slow
def test_chains_that_take_turns_are_those_side_by_side(monkeypatch):
    kernel, _ = dpm_mixture.build(
        ROWS, FAMILY, alpha=dpm_mixture.Gamma(2.0, 1.0), chains=3, capacity=32
    )
    start = kernel.init(KEY, dpm_mixture.random_labels(KEY, ROWS, 3, chains=3))
    ids, result = jnp.arange(4, dtype=jnp.int32), []
    for large in (0, 2**30):
        monkeypatch.setattr(dp_step, "_LARGE", large)
        update = jax.jit(lambda key, state: kernel.update(key, state, ids))
        states = [start]
        for i in range(40):
            states.append(update(jax.random.fold_in(KEY, i), states[-1])[0])
        result.append(jax.tree.map(lambda *leaves: np.stack(leaves), *states))
    one, other = result
    assert len(np.unique(one.step)) > 3
    for name in ("labels", "occupancy", "needed", "step"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.needed == one.needed[:, :1]).all()
    np.testing.assert_allclose(one.alpha, other.alpha, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "table", [[[3, 1]], [[2, 2]] * 40, [[0, 0]] * 3], ids=["one row", "alike", "no data"]
)
def test_one_row_rows_alike_and_rows_without_data(table):
    rows = families.multinomial_rows(table)
    kernel, stream = dpm_mixture.build(
        rows, families.multinomial(2), alpha=dpm_mixture.Gamma(2.0, 2.0)
    )
    state = kernel.init(KEY, jnp.zeros(len(table), jnp.int32))
    state, labels = run(
        KEY, kernel, state, stream, 200, collect=dpm_mixture.labels_of, grow=dpm_mixture.State.grown
    )
    assert labels.shape == (200, len(table))
    assert int(state.occupancy.sum()) == len(table)
    if len(table) == 40:  # the largest cluster has most rows
        assert np.mean([np.bincount(row).max() for row in labels[20:]]) > 30


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["scir", "sgrld"])
def test_totals_are_carried_where_sticks_are_in_use(sampler):
    """Short steps leave them nearly where they were.

    Sticks beyond the last one in use, and atoms without rows, have none.
    """
    options = CARRIED | {"sampler": sampler, "batch_size": 3, "capacity": 16}
    sizes = {"atom_step_size": 1e-6, "stick_step_size": 1e-6}
    kernel, stream = dpm_mixture.build(ROWS, FAMILY, alpha=1.0, **options, **sizes)
    state = kernel.init(KEY, jnp.array([0, 0, 2, 2]))
    assert all(np.isinf(leaf).all() for leaf in jax.tree.leaves(state.log_totals))
    seen = []
    for step in range(6):
        key = jax.random.fold_in(KEY, step)
        before, (state, _) = state, kernel.update(key, state, stream(key, step))
        for old, new in zip(*map(jax.tree.leaves, (before, state)), strict=True):
            assert old.shape == new.shape
        finite = np.isfinite(state.log_totals.atoms[:, 0])
        np.testing.assert_array_equal(finite, np.asarray(before.occupancy) > 0)
        both = finite & np.isfinite(before.log_totals.atoms[:, 0])
        change = np.exp(state.log_totals.atoms - before.log_totals.atoms)[both] - 1
        seen += np.abs(change).ravel().tolist()
    assert seen
    assert max(seen) < 0.05
    grown = dpm_mixture.grow(state, 32)
    assert np.isinf(grown.log_totals.sticks[16:]).all()


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["sgrld", "smld"])
def test_langevin_samplers_come_near_the_exact_one(sampler):
    """Two groups of rows that nothing confuses: sizes are found, whatever moves the atoms."""
    table = np.repeat([[20, 2, 0], [0, 3, 20]], [30, 60], axis=0)
    rows = families.multinomial_rows(table)
    kernel, stream = dpm_mixture.build(
        rows,
        families.multinomial(3, concentration=1.0),
        sampler=sampler,
        atom_step_size=1e-4,
        stick_step_size=1e-3,
        alpha=0.2,
        batch_size=45,
    )
    state = kernel.init(KEY, dpm_mixture.random_labels(KEY, rows, 5))
    state, labels = run(
        KEY,
        kernel,
        state,
        stream,
        3000,
        collect=dpm_mixture.labels_of,
        thin=10,
        grow=dpm_mixture.State.grown,
    )
    late = labels[150:]
    assert (late[:, 0, None] == late[:, :30]).mean() > 0.9
    assert (late[:, -1:] == late[:, 30:]).mean() > 0.9
    assert (late[:, 0] != late[:, -1]).all()


def test_documents_anywhere_among_the_rows_keep_the_default_compilation(monkeypatch):
    monkeypatch.setattr(totals.programs, "quick_options", lambda: {"quick": 1})
    assert totals.compiler_options(ROWS) == totals.compiler_options((jnp.ones(3), ROWS)) == {}
    assert totals.compiler_options(GAUSSIAN, (jnp.ones(3), jnp.ones(4))) == {"quick": 1}
