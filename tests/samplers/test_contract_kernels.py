"""What every kernel promises, over the cases that `contract_*.py` list.

Simplex kernels have more to promise, and are tested for it in `test_contract.py`.
"""

import inspect
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.contracts import CASES, KERNELS, VARIANTS
from support.marks import slow_but

from simplex_jax._src import base, estimators, gradients, samplers
from simplex_jax._src.geometry import manifolds, mirror
from simplex_jax._src.runtime import driver


@pytest.fixture(
    params=[*KERNELS, *(pytest.param(case, marks=pytest.mark.slow) for case in VARIANTS)],
    ids=" ".join,
)
def case(request):
    return CASES[request.param]()


@pytest.fixture(params=KERNELS, ids=" ".join)
def kernel_case(request):
    return CASES[request.param]()


def test_every_sampler_has_a_case():
    """Of its own name."""
    files = Path(samplers.__file__).parent.glob("*.py")
    built = {path.stem for path in files if "\ndef build(" in path.read_text("utf-8")}
    assert built == set(samplers.__all__), "import each in samplers/__init__.py"
    without = built - {name for _, name in CASES}
    assert not without, "give each a line in CASES of a tests/support/contract_*.py"


def test_structure_is_kept_and_no_key_is_used_twice(case, getkey):
    with jax.debug_key_reuse(True):
        state = case.kernel.init(getkey(), case.position)
        assert int(base.current_step(state)) == 0
        assert base.current_step(state).dtype == jnp.int32
        batch = case.stream(getkey(), 0)
        moved, info = jax.jit(case.kernel.update)(getkey(), state, batch)
        chex.assert_trees_all_equal_shapes_and_dtypes(moved, state)
        assert int(base.current_step(moved)) == 1
        assert jax.tree.leaves(info)


@pytest.mark.slow
def test_eager_equals_jit_and_loop_equals_vmap(kernel_case, getkey):
    case = kernel_case
    state = case.kernel.init(getkey(), case.position)
    batch = case.stream(getkey(), 0)
    keys = jax.random.split(getkey(), 2)
    update = jax.jit(case.kernel.update)
    alone = [update(key, state, batch) for key in keys]
    together = jax.jit(jax.vmap(case.kernel.update, in_axes=(0, None, None)))(keys, state, batch)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *alone)
    chex.assert_trees_all_close(together, stacked, rtol=2e-4, atol=1e-5)
    eager = case.kernel.update(keys[0], state, batch)
    chex.assert_trees_all_close(eager, alone[0], rtol=2e-4, atol=1e-5)


def arrays(*trees):
    """The arrays of JAX among the leaves, and where their numbers are; empty ones are nowhere."""
    leaves = [leaf for leaf in jax.tree.leaves(trees) if isinstance(leaf, jax.Array) and leaf.size]
    return leaves, [leaf.unsafe_buffer_pointer() for leaf in leaves]


def check_donation(case, key):
    """Run twice from one start with donated states: the same numbers, and nothing is deleted."""
    given = case.kernel, case.position, case.stream
    update = jax.jit(case.kernel.update, donate_argnums=1)
    key_init, key_stream, *keys = jax.random.split(key, 5)
    batch = case.stream(key_stream, 0)
    ends = []
    for _ in range(2):
        state = case.kernel.init(key_init, case.position)
        _, places = arrays(state)
        assert len(set(places)) == len(places), "no array is in the state twice"
        assert not set(places) & set(arrays(given)[1]), "the arrays of a state are its own"
        for key_update in keys:
            state, _ = update(key_update, state, batch)
        ends.append(state)
    chex.assert_trees_all_equal(*ends)
    assert not any(leaf.is_deleted() for leaf in arrays(given)[0])


@pytest.mark.slow
def test_a_donated_state_leaves_the_start_as_it_is(case, getkey):
    check_donation(case, getkey())


@pytest.mark.parametrize("mutant", ["position", "memory"])
def test_a_state_of_the_arrays_that_were_given_is_seen(mutant, getkey):
    case = CASES["contract_langevin", "sgld running"]()
    inits = {
        "position": lambda key, x: case.kernel.init(key, x)._replace(position=x),
        "memory": case.kernel.init.args[0],  # without the copies of `base.freeze`
    }
    kernel = case.kernel._replace(init=inits[mutant])
    with pytest.raises(AssertionError, match="its own"):
        check_donation(case._replace(kernel=kernel), getkey())


def position_and_info(state, info):
    return state.position, info


def test_one_trace_serves_other_step_sizes_and_the_chain_stays_finite(case, getkey):
    traces = []

    def stream(key, step):
        traces.append(1)
        return case.stream(key, step)

    def run(kernel, steps, **options):
        state = case.kernel.init(getkey(), case.position)
        return driver.run(
            getkey(), kernel, state, stream, steps, collect=position_and_info, chunk=500, **options
        )[1]

    run(case.rebuild(0.001) if case.rebuild else case.kernel, 3)
    traced = len(traces)
    trace, info = run(case.kernel, 1500)
    assert len(traces) == traced
    for leaf in jax.tree.leaves((trace, info)):
        assert np.isfinite(leaf).all()
    for leaf in jax.tree.leaves(trace):
        assert (np.ptp(leaf, axis=0) > 0).all(), "every coordinate moves"


@pytest.mark.slow
def test_double_precision_is_kept(kernel_case, getkey):
    case = kernel_case
    with jax.enable_x64(True):
        double = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), case.position)
        state = case.kernel.init(getkey(), double)
        state, trace = driver.run(getkey(), case.kernel, state, case.stream, 3)
        assert all(leaf.dtype == np.float64 for leaf in jax.tree.leaves(trace))


@pytest.mark.slow
def test_a_schedule_is_read_at_the_step(kernel_case, getkey):
    """A step size of next to nothing from the second update on all but stops the chain."""
    case = kernel_case
    if case.rebuild is None:
        pytest.skip("it has no step size")
    kernel = case.rebuild(lambda step: jnp.where(step < 1, 0.01, 1e-12))
    state = kernel.init(getkey(), case.position)
    _, trace = driver.run(getkey(), kernel, state, case.stream, 3)
    for leaf in jax.tree.leaves(trace):
        start = np.abs(leaf[1] - leaf[0]).max()
        np.testing.assert_allclose(leaf[2], leaf[1], atol=max(1e-4, 1e-2 * start))


@pytest.mark.parametrize("step_size", [0.0, -1.0, np.nan, np.inf, [0.1, 0.2], lambda step: -0.1])
def test_bad_step_sizes_are_named(step_size):
    for build in CASES.values():
        if build().rebuild is None:
            continue
        with pytest.raises(ValueError, match="step_size"):
            build().rebuild(step_size)


OTHERS = {
    **dict.fromkeys(("alpha", "shape", "rate", "mean", "precision", "step_size"), 0.5),
    "manifold": manifolds.sphere(),
    "mirror": mirror.simplex(),
    "metric": jnp.diag,
    "diffusion": lambda z, v: v,
}


@pytest.mark.parametrize(
    ("target", "given", "message"),
    [
        ("estimator", estimators.categorical, r"^estimator .* categorical itself"),
        (
            "estimator",
            lambda x: -x.sum(),
            r"gradients.density\(log_density\) .* <lambda>",
        ),
        ("estimator", estimators.Estimator, "the function Estimator"),
        ("estimator", 3.0, r"^estimator .* a float$"),
        ("log_density", gradients.density(jnp.sum), "log_density must be .*; it is a Estimator"),
    ],
)
def test_what_is_no_estimator_or_log_density_is_named(target, given, message):
    """A function that makes an estimator is not one."""
    tried = 0
    for name in samplers.__all__:
        build = getattr(samplers, name).build
        parameters = inspect.signature(build).parameters
        if target in parameters:
            needed = [p for p, one in parameters.items() if one.default is one.empty]
            others = {p: OTHERS[p] for p in needed if p != target}
            with pytest.raises(ValueError, match=message):
                build(**{target: given}, **others)
            tried += 1
    assert tried == {"estimator": 14, "log_density": 4}[target]


def test_a_function_that_makes_a_space_is_named():
    density = gradients.density(jnp.sum)
    with pytest.raises(ValueError, match=r"^manifold .* sphere\(\) .* sphere itself"):
        samplers.gmc.build(jnp.sum, manifolds.sphere, 0.1)
    with pytest.raises(ValueError, match=r"^mirror .* hypercube itself"):
        samplers.mld.build(density, mirror.hypercube, 0.1)


@pytest.mark.parametrize("start", [0.5, [0.2, 0.3, 0.5]])
def test_numbers_of_python_are_a_start_like_others(start):
    """A weakly typed state would compile the update again."""
    kernels = {
        "barker": samplers.barker.build(lambda x: -(jnp.asarray(x) ** 2).sum(), 0.5),
        "sgld": samplers.sgld.build(gradients.density(lambda x: -(x**2).sum()), 0.1),
    }
    if not isinstance(start, float):
        target = gradients.density(lambda x: jnp.log(x).sum())
        kernels["mld"] = samplers.mld.build(target, mirror.simplex(), 0.01)
    for name, kernel in kernels.items():
        state = kernel.init(jax.random.key(0), start)
        assert state.position.shape == np.shape(start)
        assert not any(leaf.weak_type for leaf in jax.tree.leaves(state)), name
        update = jax.jit(kernel.update)
        for step in range(2):
            state, _ = update(jax.random.key(step), state, None)
        assert update._cache_size() == 1, name


def few_updates(case, key, number):
    """The state and the info after a few updates, each of a batch of its own."""
    key_init, key_stream, *keys = jax.random.split(key, 2 + number)
    state = case.kernel.init(key_init, case.position)
    update = jax.jit(case.kernel.update)
    for step, key_update in enumerate(keys):
        state, info = update(key_update, state, case.stream(key_stream, step))
    return jax.block_until_ready((state, info))


def leaking(kernel):
    kept = []

    def update(key, state, batch):
        kept.append(state.step + 1)
        return kernel.update(key, state, batch)

    return update


def with_a_nan(kernel):
    """NaN that does not get into the result."""

    def update(key, state, batch):
        lost = jax.jit(lambda step: jnp.log(-1.0 - step))(state.step)
        state, info = kernel.update(key, state, batch)
        return state, (info, lost)

    return update


# Of the others each takes more than two seconds on a busy core.
FAST = {"sgrld"}
MODES = {
    "debug_nans": (lambda: jax.debug_nans(True), 3),
    "checking_leaks": (jax.checking_leaks, 1),
    "disable_jit": (jax.disable_jit, 2),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(case, marks=[] if case[1] in FAST else pytest.mark.slow) for case in KERNELS],
    ids=" ".join,
)
@pytest.mark.parametrize("mode", slow_but(MODES, "debug_nans"))
def test_the_modes_of_jax_for_finding_errors_find_none(name, mode, getkey):
    """No NaN on the way, no tracer that outlives its trace, and the same program without `jit`."""
    case = CASES[name]()
    context, number = MODES[mode]
    with context():
        state, _ = few_updates(case, getkey(), number)
    assert int(base.current_step(state)) == number


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "mutant", "error"),
    [("debug_nans", with_a_nan, FloatingPointError), ("checking_leaks", leaking, Exception)],
    ids=["nan", "leak"],
)
def test_the_modes_see_planted_errors(mode, mutant, error, getkey):
    case = CASES["contract_cir", "reflected_cir"]()
    kernel = case.kernel._replace(update=mutant(case.kernel))
    context, number = MODES[mode]
    with context(), pytest.raises(error, match=r"invalid value \(nan\)|[Ll]eaked"):
        few_updates(case._replace(kernel=kernel), getkey(), number)


@pytest.mark.slow
def test_a_thousand_chains(kernel_case, getkey):
    case = kernel_case
    many = case._replace(kernel=base.chains(case.kernel, 1000))
    for leaf in jax.tree.leaves(few_updates(many, getkey(), 2)):
        assert leaf.shape[0] == 1000
        assert np.isfinite(leaf).all()
