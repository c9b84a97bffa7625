"""What simplex kernels promise besides, by the example of three; see `test_contract_kernels.py`."""

import functools
from typing import NamedTuple

import chex
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from simplex_jax._src import base, batches, estimators, gradients
from simplex_jax._src.draws import native
from simplex_jax._src.runtime import driver
from simplex_jax._src.samplers import scir, sgld, sgrld, smld

LABELS = np.array([0] * 8 + [1] + [3])
SAMPLERS = {
    "scir": scir.build,
    "scir refreshed": functools.partial(scir.build, total="refreshed"),
    "sgrld": sgrld.build,
    "sgrld refreshed": functools.partial(sgrld.build, total="refreshed"),
    "smld": smld.build,
    "smld reference": functools.partial(smld.build, reference=0),
    "smld linearised": functools.partial(smld.build, reference=0, linearised=True),
}
# Between them these take every branch of the kernels; compiling is what tests spend their time on.
BRANCHES = ("scir refreshed", "sgrld", "smld", "smld linearised")
STEP_SIZE = {"scir": 0.5, "sgrld": 0.01, "smld": 0.01}


class Case(NamedTuple):
    kernel: base.Kernel
    position: base.Position
    stream: batches.Stream


def step_size(name):
    return STEP_SIZE[name.split()[0]]


def build(name, alpha=0.1, estimator=None):
    return SAMPLERS[name](estimator or estimators.categorical(len(LABELS)), alpha, step_size(name))


def simple(name):
    return Case(build(name), jnp.full(5, 0.2), batches.uniform(LABELS, 4))


def tree(name):
    labels = {"a": LABELS, "b": np.stack([LABELS % 3, LABELS % 2], axis=1)}
    alpha = {"a": 0.1, "b": jnp.array([[0.1], [2.0]])}
    position = {"a": jnp.full(5, 0.2), "b": jnp.ones((2, 3))}
    return Case(build(name, alpha), position, batches.uniform(labels, 4))


def memoised(name):
    def assign(key, position, data, previous):
        return jax.random.categorical(key, position, shape=data.shape)

    def count(assignments, data):
        return jnp.zeros(5).at[assignments].add(1.0)

    estimator = estimators.memoised(assign, count, LABELS, count(LABELS, LABELS))
    stream = batches.shuffled(batches.indexed(LABELS), 4)
    return Case(build(name, estimator=estimator), jnp.full(5, 0.2), stream)


def chains(name):
    case = simple(name)
    return case._replace(kernel=base.chains(case.kernel, 3))


def product(name):
    case = simple(name)
    kernel = base.product({"z": case.kernel, "a": case.kernel})
    return case._replace(kernel=kernel, position={"z": case.position, "a": case.position})


CASES = {
    **{(name, "simple"): functools.partial(simple, name) for name in SAMPLERS},
    ("scir", "tree"): functools.partial(tree, "scir"),
    ("smld linearised", "tree"): functools.partial(tree, "smld linearised"),
    ("sgrld refreshed", "memoised"): functools.partial(memoised, "sgrld refreshed"),
    ("sgrld", "chains"): functools.partial(chains, "sgrld"),
    ("smld", "product"): functools.partial(product, "smld"),
}


@pytest.fixture(params=CASES, ids=" ".join)
def case(request):
    return CASES[request.param]()


assert_close = functools.partial(chex.assert_trees_all_close, rtol=2e-4, atol=1e-5)


def test_structure_is_kept_and_no_key_is_used_twice(case, getkey):
    with jax.debug_key_reuse(True):
        check_structure(case, getkey)


def check_structure(case, getkey):
    state = case.kernel.init(getkey(), case.position)
    assert int(base.current_step(state)) == 0
    assert base.current_step(state).dtype == jnp.int32
    key = getkey()
    batch = case.stream(getkey(), 0)
    update = jax.jit(case.kernel.update)
    moved, info = update(key, state, batch)
    chex.assert_trees_all_equal_shapes_and_dtypes(moved, state)
    assert int(base.current_step(moved)) == 1
    assert jax.tree.leaves(info)


@pytest.mark.slow
@pytest.mark.parametrize("name", BRANCHES)
def test_eager_equals_jit_and_loop_equals_vmap(name, getkey):
    case = simple(name)
    update = jax.jit(case.kernel.update)
    state = case.kernel.init(getkey(), case.position)
    batch = case.stream(getkey(), 0)
    keys = jax.random.split(getkey(), 3)
    alone = [update(key, state, batch) for key in keys]
    assert_close(case.kernel.update(keys[0], state, batch), alone[0])
    together = jax.jit(jax.vmap(update, in_axes=(0, None, None)))(keys, state, batch)
    assert_close(together, jax.tree.map(lambda *leaves: jnp.stack(leaves), *alone))


def test_the_driver_uses_no_key_twice(getkey):
    case = product("smld")
    with jax.debug_key_reuse(True):
        state = case.kernel.init(getkey(), case.position)
        state, _ = driver.run(getkey(), case.kernel, state, case.stream, 3)
    assert int(state.step) == 3


@pytest.mark.parametrize("name", BRANCHES)
def test_traced_once(name, getkey):
    traces = []

    def counts_of(key, position, batch):
        traces.append(1)
        return jnp.zeros(5).at[batch].add(1.0)

    def kernel(alpha, h):
        return SAMPLERS[name](estimators.subsampled(counts_of, 10), alpha, h)

    stream = batches.uniform(LABELS, 4)
    state = kernel(0.1, 0.1).init(getkey(), jnp.full(5, 0.2))
    state, _ = driver.run(getkey(), kernel(0.1, 0.1), state, stream, 13, chunk=5, thin=2)
    assert len(traces) == 1
    # Neither more steps, nor another step size, prior, or data of that shape compile again.
    stream = batches.uniform(LABELS[::-1], 4)
    driver.run(getkey(), kernel(0.3, 0.2), state, stream, 9, chunk=5, thin=2)
    assert len(traces) == 1


@pytest.mark.parametrize("alpha", [1e-3, 1e3])
@pytest.mark.parametrize("name", SAMPLERS)
def test_finite_in_float32(name, alpha, getkey):
    # Empty categories at alpha = 1e-3 have probabilities of about 10^-400.
    h = step_size(name) if alpha < 1 else 1e-4
    kernel = SAMPLERS[name](estimators.categorical(10), alpha, h)
    state = kernel.init(getkey(), jnp.full(200, 0.005))
    state, (trace, info) = driver.run(
        getkey(),
        kernel,
        state,
        batches.uniform(LABELS, 4),
        1500,
        collect=lambda state, info: (state.position, info),
    )
    chex.assert_tree_all_finite((trace, info, state))
    np.testing.assert_allclose(np.exp(trace).sum(axis=-1), 1.0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", BRANCHES)
def test_double_precision(name, getkey):
    with jax.enable_x64(True):
        case = simple(name)
        state = case.kernel.init(getkey(), case.position)
        assert all(leaf.dtype == jnp.float64 for leaf in jax.tree.leaves(state.position))
        state, trace = driver.run(getkey(), case.kernel, state, case.stream, 20)
        for leaf in jax.tree.leaves(trace):
            assert leaf.dtype == np.float64
            np.testing.assert_allclose(np.exp(leaf).sum(axis=-1), 1.0, atol=1e-12)
        # A position keeps its own precision.
        state = case.kernel.init(getkey(), case.position.astype(jnp.float32))
        state, _ = driver.run(getkey(), case.kernel, state, case.stream, 3)
        assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(state.position))


@pytest.mark.parametrize("name", BRANCHES)
def test_schedule_is_read_at_the_step(name, getkey):
    kernel = SAMPLERS[name](
        estimators.categorical(10), 0.1, lambda step: jnp.where(step < 2, 0.1, 0.05)
    )
    state = kernel.init(getkey(), jnp.full(5, 0.2))
    _, used = driver.run(
        getkey(),
        kernel,
        state,
        batches.full(LABELS),
        4,
        collect=lambda state, info: info.step_size,
    )
    np.testing.assert_allclose(used, [0.1, 0.1, 0.05, 0.05])


@pytest.mark.parametrize("name", SAMPLERS)
def test_bad_parameters_are_named(name):
    estimator = estimators.categorical(10)
    for alpha in (0.0, -1.0, np.nan, np.inf, [0.1, 0.0]):
        with pytest.raises(ValueError, match="alpha"):
            SAMPLERS[name](estimator, alpha, 0.1)
    for h in (0.0, -1.0, np.nan, np.inf, [0.1], lambda step: -0.1):
        with pytest.raises(ValueError, match="step_size"):
            SAMPLERS[name](estimator, 0.1, h)
    if not name.startswith("smld"):
        with pytest.raises(ValueError, match="total"):
            SAMPLERS[name.split()[0]](estimator, 0.1, 0.1, total="forgotten")


COUNTED, NORMAL = estimators.categorical(10), gradients.density(lambda x: -(x**2).sum() / 2)
TRACED = {
    "concentration": (lambda a: scir.build(COUNTED, a, 0.5), -0.5),
    "step of a simplex kernel": (lambda h: sgrld.build(COUNTED, 0.1, h), 0.0),
    "step": (lambda h: sgld.build(NORMAL, h), 0.0),
    "preconditioner": (lambda m: sgld.build(NORMAL, 0.1, preconditioner=m), 0.0),
    "schedule that reaches 0": (lambda h: sgld.build(NORMAL, lambda step: h * (1 - step)), 0.1),
}


@pytest.mark.parametrize("name", TRACED)
def test_bad_parameters_in_traced_code_give_nan(name, getkey):
    """The counts hid a negative concentration, and a step of 0 left the chain where it was."""
    build, bad = TRACED[name]
    key = getkey()

    @jax.jit
    def moved(value):
        kernel = build(value)
        state = kernel.init(key, jnp.ones(3))
        return jax.lax.scan(
            lambda s, _: kernel.update(key, s, np.minimum(LABELS, 2)), state, length=2
        )[0]

    assert np.isnan(moved(bad).position).all()


@pytest.mark.parametrize("name", SAMPLERS)
def test_bad_positions_are_named(name, getkey):
    kernel = build(name)
    for position in ([0.5, -0.5], [0.5, np.nan], [0.0, 0.0], [np.inf, 1.0], 0.5, []):
        with pytest.raises(ValueError, match="position"):
            kernel.init(getkey(), position)
    with pytest.raises(ValueError, match=r"position\['b'\]"):
        kernel.init(getkey(), {"a": jnp.ones(2), "b": jnp.zeros(2)})
    for alpha, words in (
        ([0.1, 0.2, 0.3], "alpha of shape"),
        ({"a": 0.1}, r"^alpha .*'a'"),
    ):
        wrong = build(name, alpha=alpha)
        with pytest.raises(ValueError, match=words):
            wrong.init(getkey(), [1.0, 1.0])
        with pytest.raises(ValueError, match=words):
            wrong.update(getkey(), kernel.init(getkey(), [1.0, 1.0]), jnp.array([0, 1]))


def test_a_kernel_prints_its_settings():
    labels = estimators.categorical(4)
    kernel = scir.build(labels, {"a": 0.1}, 0.5, total="carried")
    printed = "scir.update(alpha={'a': 0.1}, estimator=Estimator(...), step_size=0.5)"
    assert repr(jax.tree.map(lambda leaf: leaf, kernel)) == f"Kernel({printed})"
    kernel = base.product({"x": base.chains(scir.build(labels, jnp.ones(5), 0.5), 2)})
    assert all(part in repr(kernel) for part in ("'x': Kernel(", "n=2", "alpha=float32[5]"))


def test_smld_refuses_the_boundary_and_unknown_references(getkey):
    with pytest.raises(ValueError, match="position"):
        build("smld").init(getkey(), [0.0, 1.0])
    kernel = smld.build(estimators.categorical(10), 0.1, 0.1, reference=2)
    with pytest.raises(ValueError, match="reference 2"):
        kernel.init(getkey(), [0.5, 0.5])
    with pytest.raises(ValueError, match="reference"):
        smld.build(estimators.categorical(10), 0.1, 0.1, linearised=True)
    with pytest.raises(ValueError, match=r"^reference .*1\.5$"):
        smld.build(estimators.categorical(10), 0.1, 0.1, reference=1.5)


def test_a_wrong_label_gives_nan_and_not_a_plausible_number(getkey):
    for name in ("scir", "sgrld", "smld"):
        kernel = build(name)
        state = kernel.init(getkey(), jnp.ones(3))
        state, _ = jax.jit(kernel.update)(getkey(), state, jnp.array([0, 3]))
        assert np.isnan(state.position).all()


@pytest.mark.slow
def test_chains_are_the_kernel_with_split_keys(getkey):
    one = build("sgrld")
    many = base.chains(one, 3, position_axis=0, batch_axis=1)
    starts = jnp.array([[1.0, 1, 1, 1], [1, 2, 3, 4], [4, 3, 2, 1]])
    key, key_update = getkey(), getkey()
    state = many.init(key, starts)
    batch = jnp.array([[0, 1, 2], [0, 1, 3]])
    state, _ = many.update(key_update, state, batch)
    for i in range(3):
        alone = one.init(jax.random.split(key, 3)[i], starts[i])
        alone, _ = one.update(jax.random.split(key_update, 3)[i], alone, batch[:, i])
        assert_close(jax.tree.map(lambda leaf, i=i: leaf[i], state), alone)
    with pytest.raises(ValueError, match="n must be"):
        base.chains(one, 0)


def test_an_update_can_be_exported(getkey):
    """As README says: JAX asks whether the calls of native code will be there."""
    case = simple("scir")
    state, data = case.kernel.init(getkey(), case.position), jax.random.key_data(getkey())

    @jax.jit
    def update(data, state, batch):
        return case.kernel.update(jax.random.wrap_key_data(data), state, batch)[0].position

    given = data, state, LABELS[:4]
    if native.LIBRARY.prefix() is not None:
        with pytest.raises(ValueError, match="no compatibility guarantees"):
            jax.export.export(update)(*given)
    calls = [native.LIBRARY.target(call) for call, _ in native.LIBRARY.calls]
    checks = [jax.export.DisabledSafetyCheck.custom_call(call) for call in calls]
    exported = jax.export.export(update, disabled_checks=checks)(*given)
    np.testing.assert_array_equal(exported.call(*given), update(*given))


@pytest.mark.slow
def test_product_scans_its_sites_in_order(getkey):
    """Each conditional sees the latest positions of the sites before it in the order given."""
    seen = []

    def conditional(site):
        def look(key, positions, batch):
            seen.append((site, {name: float(p[0]) for name, p in positions.items()}))
            return batch

        return look

    one = build("smld")
    sites = ("z", "a", "m")
    kernel = base.product(dict.fromkeys(sites, one), {site: conditional(site) for site in sites})
    start = kernel.init(getkey(), dict.fromkeys(sites, jnp.ones(4)))
    end, info = kernel.update(getkey(), start, jnp.array([0, 1]))
    assert [site for site, _ in seen] == list(sites)
    for i, (_, positions) in enumerate(seen):
        for j, name in enumerate(sites):
            state = end if j < i else start
            assert positions[name] == pytest.approx(float(state.position[name][0]))
    assert set(info) == set(sites)
    for wrong in ({}, [one]):
        with pytest.raises(ValueError, match=r"^kernels "):
            base.product(wrong)
    with pytest.raises(ValueError, match=r"^conditionals .* b"):
        base.product({"a": one}, {"b": conditional("b")})
    with pytest.raises(ValueError, match=r"^position .* z, a, m"):
        kernel.init(getkey(), {"z": jnp.ones(4)})
    with pytest.raises(ValueError, match="kernels"):
        base.product({})
