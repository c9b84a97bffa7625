"""Every kernel as a sampling algorithm of BlackJAX."""

import re
import subprocess
import sys

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.contracts import CASES, KERNELS

import simplex_jax
from simplex_jax._src import base, batches, step_sizes
from simplex_jax._src.runtime.to_blackjax import to_blackjax
from simplex_jax._src.samplers import barker

blackjax = pytest.importorskip("blackjax")
STEPS = 5
# For each of the others two programs are compiled in more than two seconds.
QUICK = {"scir"}
PARAMS = [
    pytest.param(case, marks=[] if case[1] in QUICK else pytest.mark.slow) for case in KERNELS
]


def position_and_info(state, info):
    return state.position, info


@pytest.mark.parametrize("name", PARAMS, ids=" ".join)
def test_a_kernel_runs_in_blackjax_as_it_does_here(name, getkey):
    """The same numbers, from BlackJAX's keys and the batches of `run`."""
    case = CASES[name]()
    key_run, key_init, key_blackjax = (getkey() for _ in range(3))
    algorithm = to_blackjax(case.kernel, case.stream, jax.random.split(key_run)[1])
    start = algorithm.init(case.position, key_init)
    chex.assert_trees_all_equal(start, case.kernel.init(key_init, case.position))
    end, theirs = blackjax.util.run_inference_algorithm(
        key_blackjax, algorithm, STEPS, initial_state=start, transform=position_and_info
    )

    keys = jax.random.split(key_blackjax, STEPS)  # of the updates, which `run` would fold

    def update(key, state, batch):
        return case.kernel.update(keys[base.current_step(state)], state, batch)

    kernel = case.kernel._replace(update=update)
    state, ours = simplex_jax.run(
        key_run, kernel, start, case.stream, STEPS, collect=position_and_info
    )
    chex.assert_trees_all_close((end, theirs), (state, ours), rtol=1e-4, atol=1e-5)
    assert int(base.current_step(end)) == STEPS


@pytest.mark.slow
def test_chains_by_vmap(getkey):
    """As BlackJAX has them: `jax.vmap` of both functions."""
    case = CASES["contract_cir", "scir"]()
    algorithm = to_blackjax(case.kernel, case.stream, getkey())
    keys = jax.random.split(getkey(), 3)
    states = jax.vmap(algorithm.init, in_axes=(None, 0))(case.position, keys)
    states, _ = jax.jit(jax.vmap(algorithm.step))(keys, states)
    one, _ = jax.jit(algorithm.step)(keys[1], algorithm.init(case.position, keys[1]))
    chex.assert_trees_all_close(jax.tree.map(lambda leaf: leaf[1], states), one, rtol=1e-5)


def test_shuffled_batches_keep_their_epochs(getkey):
    """One key serves all steps: four steps see each of eight data once."""
    stream = batches.shuffled(jnp.arange(8.0), 2)

    def update(key, state, batch):
        return state._replace(step=state.step + 1), batch

    kernel = barker.build(lambda x: -x * x, 1.0)._replace(update=update)
    _, seen = blackjax.util.run_inference_algorithm(
        getkey(),
        to_blackjax(kernel, stream, getkey()),
        4,
        initial_position=0.0,
        transform=lambda state, info: info,
    )
    assert sorted(np.ravel(seen).tolist()) == list(range(8))


@pytest.mark.slow
def test_every_sampler_with_an_acceptance_is_named(getkey):
    """The docstring names the kernels that have what dual averaging needs, and no others."""
    needed = {"step_size", "acceptance"}
    having = {
        name.split()[0]
        for (module, name), build in CASES.items()
        if module != "contract_sam_vi" and needed <= {*_info(build(), getkey())}
    }
    named = simplex_jax.to_blackjax.__doc__.split("The Info of")[1].split("has an")[0]
    # The two are baselines.
    assert having - {"ld", "rld"} == {*re.findall("`(.*?)`", named)}, "correct `to_blackjax`"


def _info(case, key):
    state = case.kernel.init(key, case.position)
    batch = case.stream(key, 0)
    _, info = jax.eval_shape(case.kernel.update, key, state, batch)
    return getattr(info, "_fields", ())


@pytest.mark.slow
def test_blackjax_adapts_a_step_size_as_we_do(getkey):
    """Its dual averaging and `step_sizes.adapt` find the same step to 20%, on N(0, I) of R^20."""
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    def log_density(x):
        return -(x**2).sum() / 2

    stream = batches.full(jnp.zeros(1))
    state = barker.build(log_density, 1.0).init(getkey(), jnp.zeros(20))
    first, adapted, last = dual_averaging_adaptation(target=0.5)

    def update(carry, key):
        state, averages = carry
        kernel = barker.build(log_density, jnp.exp(averages.log_step_size))
        state, info = to_blackjax(kernel, stream, key).step(key, state)
        return (state, adapted(averages, info.acceptance)), None

    start = state, first(0.1)
    (_, averages), _ = jax.jit(
        lambda: jax.lax.scan(update, start, jax.random.split(getkey(), 2000))
    )()
    build = base.bind(base.static(barker.build), log_density)
    ours = step_sizes.adapt(getkey(), build, state, stream, target=0.5, num_steps=2000)
    assert float(last(averages)) == pytest.approx(float(ours), rel=0.2)


def test_blackjax_is_imported_when_it_is_used():
    program = "import sys, simplex_jax.samplers; from simplex_jax import to_blackjax; "
    program += "sys.exit('blackjax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
