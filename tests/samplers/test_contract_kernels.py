"""What every kernel promises, over the cases that `contract_*.py` list.

Simplex kernels have more to promise, and are tested for it in `test_contract.py`.
"""

import importlib
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.paths import TESTS

from simplex_jax import base, samplers
from simplex_jax.runtime import driver

MODULES = sorted({path.stem for path in (TESTS / "support").glob("contract_*.py")})
MODULES.remove("contract_case")
CASES = {
    (module, name): build
    for module in MODULES
    for name, build in importlib.import_module(f"support.{module}").CASES.items()
}


# A name of several words is a variant of a kernel, which differs in few lines.
VARIANTS = {case for case in CASES if " " in case[1]}
KERNELS = [case for case in CASES if case not in VARIANTS]


@pytest.fixture(
    params=[*KERNELS, *(pytest.param(case, marks=pytest.mark.slow) for case in sorted(VARIANTS))],
    ids=" ".join,
)
def case(request):
    return CASES[request.param]()


@pytest.fixture(params=KERNELS, ids=" ".join)
def kernel_case(request):
    return CASES[request.param]()


def test_every_sampler_has_a_case():
    """Of its own name; SGRLD has all of `test_contract.py`."""
    files = Path(samplers.__file__).parent.glob("*.py")
    built = {path.stem for path in files if "\ndef build(" in path.read_text("utf-8")}
    assert built == set(samplers.__all__), "import each in samplers/__init__.py"
    without = built - {name for _, name in CASES} - {"sgrld"}
    assert not without, "give each a line in CASES of a tests/support/contract_*.py"


def shapes(tree):
    return jax.tree.map(lambda leaf: (jnp.shape(leaf), jnp.result_type(leaf)), tree)


def test_structure_is_kept_and_no_key_is_used_twice(case, getkey):
    with jax.debug_key_reuse(True):
        state = case.kernel.init(getkey(), case.position)
        assert int(base.current_step(state)) == 0
        assert base.current_step(state).dtype == jnp.int32
        batch = case.stream(getkey(), 0)
        moved, info = jax.jit(case.kernel.update)(getkey(), state, batch)
        assert shapes(moved) == shapes(state)
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

    run(case.rebuild(0.001), 3)
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
    kernel = case.rebuild(lambda step: jnp.where(step < 1, 0.01, 1e-12))
    state = kernel.init(getkey(), case.position)
    _, trace = driver.run(getkey(), kernel, state, case.stream, 3)
    for leaf in jax.tree.leaves(trace):
        start = np.abs(leaf[1] - leaf[0]).max()
        np.testing.assert_allclose(leaf[2], leaf[1], atol=max(1e-4, 1e-2 * start))


@pytest.mark.parametrize("step_size", [0.0, -1.0, np.nan, np.inf, [0.1, 0.2], lambda step: -0.1])
def test_bad_step_sizes_are_named(step_size):
    for build in CASES.values():
        with pytest.raises(ValueError, match="step_size"):
            build().rebuild(step_size)
