"""Prior and posterior together: the joint test of Geweke (2004) for mixtures of other families.

Chains start from exact draws of parameters, labels and rows. Updates given the rows, and new rows
given labels and atoms, leave their joint law alone: what comes out is compared with other exact
draws, at a false-alarm rate of 1e-3 a test.
"""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import statistics_checks as checks

from simplex_jax._src import draws
from simplex_jax._src.models.dpm import families
from simplex_jax._src.models.dpm import model as dp_step
from simplex_jax._src.models.dpm import model as dpm_mixture
from simplex_jax._src.models.dpm import state as dp_state
from simplex_jax._src.models.dpm.families.categorical import variables as by_variable

N, CAPACITY, CHAINS, TURNS = 6, 48, 4000, 5
PRIOR = dpm_mixture.Gamma(3.0, 4.0)


class Case(NamedTuple):
    """A family, how rows are drawn from it, and what is looked at."""

    family: object
    sample: object  # (key, atoms of every row) -> rows
    look: object  # (atoms, rows) -> numbers [n, ...] of single rows


def pick(atoms, labels):
    return jax.tree.map(lambda leaf: leaf[labels], atoms)


CATEGORIES = (2, 3)
MISSING = jnp.zeros((N, 2), bool).at[1, 0].set(True).at[2].set(True)


def tables(concentration=0.6):
    return families.categorical(CATEGORIES, concentration)


def draw_categories(key, atoms):
    pairs = zip(jax.random.split(key, 2), by_variable(CATEGORIES, atoms), strict=True)
    rows = jnp.stack([jax.random.categorical(key, log_p) for key, log_p in pairs], axis=1)
    return jnp.where(MISSING, -1, rows).astype(jnp.int32)


def look_at_categories(atoms, rows):
    first, second = by_variable(CATEGORIES, atoms)
    own = jnp.take_along_axis(second, rows[:, 1:] % 3, axis=1)
    return jnp.stack([rows[:, 0], rows[:, 1], jnp.exp(first[:, 0]), jnp.exp(own[:, 0])], axis=1)


def normals(strength=0.5):
    return families.gaussian(jnp.array([1.0]), jnp.array([[2.0]]), strength, freedom=8.0)


def scales(weights=(0.3, 0.7)):
    each = [families.gaussian([1.0], [[scale]], 0.5, 8.0) for scale in (0.5, 6.0)]
    return families.one_of(each, jnp.array(weights))


def draw_normals(key, atoms):
    noise = jax.random.normal(key, atoms.mean.shape)
    return atoms.mean + jnp.sqrt(atoms.covariance[:, 0]) * noise


def look_at_normals(atoms, rows):
    sd = jnp.sqrt(atoms.covariance[:, 0])
    z = (rows - atoms.mean) / sd
    return jnp.concatenate([jnp.tanh(rows), jnp.tanh(atoms.mean - 1) ** 2, sd, z**2 * sd], axis=1)


# Cells of a number, a category and a count that are missing: of one row all.
GONE = jnp.zeros((N, 3), bool).at[jnp.array([0, 2, 4]), jnp.array([0, 1, 2])].set(True)
GONE = GONE.at[1].set(True).at[5, :2].set(True)


def mixed(scale=1.5):
    return families.product(
        {
            "number": families.diagonal_gaussian(jnp.array([1.0]), scale, 0.5, 8.0),
            "category": families.categorical([3], 0.6),
            "count": families.poisson(jnp.array([2.0]), 0.7),
        }
    )


def draw_mixed(key, atoms):
    keys = jax.random.split(key, 3)
    normal = atoms["number"]
    number = normal.mean + normal.sd * jax.random.normal(keys[0], normal.mean.shape)
    category = jax.random.categorical(keys[1], atoms["category"][0][:, 0])[:, None]
    count = jax.random.poisson(keys[2], jnp.exp(atoms["count"]))
    return {
        "number": jnp.where(GONE[:, :1], jnp.nan, number),
        "category": jnp.where(GONE[:, 1:2], -1, category).astype(jnp.int32),
        "count": jnp.where(GONE[:, 2:], -1, count).astype(jnp.int32),
    }


def look_at_mixed(atoms, rows):
    number, category, count = (rows[name] for name in ("number", "category", "count"))
    normal, rate, seen = atoms["number"], jnp.exp(atoms["count"]), jnp.maximum(count, 0)
    own = jnp.take_along_axis(jnp.exp(atoms["category"][0][:, 0]), category % 3, axis=1)
    z = jnp.nan_to_num((number - normal.mean) / normal.sd)
    numbers = [jnp.tanh(jnp.nan_to_num(number)), jnp.tanh(normal.mean - 1) ** 2, normal.sd, z**2]
    return jnp.concatenate([*numbers, category, own, jnp.tanh(seen / 4), jnp.sqrt(rate)], axis=1)


MIXED = {
    "number": jnp.zeros((N, 1)),
    "category": jnp.zeros((N, 1), jnp.int32),
    "count": jnp.zeros((N, 1), jnp.int32),
}

CASES = {
    "mixed": Case(mixed, draw_mixed, look_at_mixed),
    "categorical": Case(tables, draw_categories, look_at_categories),
    "gaussian": Case(normals, draw_normals, look_at_normals),
    "one of two": Case(scales, draw_normals, look_at_normals),
}


def joint(case, key):
    """A draw of everything from the prior."""
    keys = jax.random.split(key, 5)
    family = case.family()
    alpha = jnp.exp(draws.loggamma(keys[0], PRIOR.shape)) / PRIOR.rate
    pairs = jnp.broadcast_to(jnp.stack([jnp.ones(()), alpha]), (CAPACITY, 2))
    sticks = draws.log_dirichlet(keys[1], pairs)
    empty = family.statistics(rows_like(case), jnp.full(N, CAPACITY), CAPACITY)
    position = dp_state.mixture(sticks, family.draw(keys[2], empty))
    labels = jax.random.categorical(keys[3], position.log_weights, shape=(N,)).astype(jnp.int32)
    rows = case.sample(keys[4], pick(position.atoms, labels))
    occupancy = jnp.zeros(CAPACITY, jnp.int32).at[labels].add(1)
    none = jnp.int32(0)
    state = dpm_mixture.State(position, none, labels, occupancy, sticks, alpha, None, none)
    return rows, state


@functools.partial(jax.jit, static_argnames="case")
def independent(case, keys):
    """Draws from the prior, some at a time: large batches of solvers hang on a CPU of one core."""
    return jax.lax.map(functools.partial(joint, case), keys, batch_size=500)


def rows_like(case):
    if case.family is mixed:
        return MIXED
    return jnp.zeros((N, 2), jnp.int32) if case.family is tables else jnp.zeros((N, 1))


@functools.partial(jax.jit, static_argnames="case")
def successive(case, keys, model):
    """Alternate updates and new rows, in all chains."""
    return jax.vmap(functools.partial(chain, case, model=model))(keys)


def chain(case, key, model):
    start = joint(case, jax.random.fold_in(key, TURNS))

    def turn(i, carry):
        rows, state = carry
        key_update, key_batch, key_rows = jax.random.split(jax.random.fold_in(key, i), 3)
        statistics = model.family.statistics(rows, state.labels, CAPACITY)
        lost = jax.tree.map(jnp.zeros_like, statistics)
        state = state._replace(totals=dp_state.Totals(statistics, lost))
        ids = jax.random.permutation(key_batch, N)[:4].astype(jnp.int32)
        given = dataclasses.replace(model, rows=rows)
        state, _ = dp_step.update_chains(given, key_update, state, ids)
        rows = case.sample(key_rows, pick(state.position.atoms, state.labels))
        return rows, state._replace(totals=None)

    return jax.lax.fori_loop(0, TURNS, turn, start)


def features(case, rows, state):
    rows, state = jax.tree.map(jnp.asarray, (rows, state))
    mine = jax.vmap(pick)(state.position.atoms, state.labels)
    seen = np.asarray(jax.vmap(case.look)(mine, rows), np.float64)
    alpha, labels = np.asarray(state.alpha, np.float64), np.asarray(state.labels)
    clusters = np.asarray(dpm_mixture.occupied(state), np.float64)
    values = {"alpha": alpha, "log alpha": np.log(alpha), "clusters": clusters}
    values["both"] = alpha * clusters
    values["first"] = np.exp(np.asarray(state.sticks[:, 0, 0], np.float64))
    for i in range(3):
        values["label", i] = np.minimum(labels[:, i], 5)
        values["together", i] = labels[:, i] == labels[:, i + 3]
        for k in range(seen.shape[2]):
            values["mean", i, k] = seen[:, i, k]
            values["product", i, k] = seen[:, i, k] * seen[:, i + 3, k]
            values["own", i, k] = seen[:, i, k] * seen[:, i, k - 1]
    return {name: np.asarray(value, np.float64) for name, value in values.items()}


def rejected(case, getkey, family=None, prior=PRIOR, **options):
    if options.get("sampler", "exact") != "exact":
        options |= {"atom_step_size": 1.0, "stick_step_size": 1.0}
    kernel, _ = dpm_mixture.build(
        rows_like(case), family or case.family(), alpha=prior, capacity=CAPACITY, **options
    )
    # Rows are new in every turn: sums of floats are never rebuilt from old ones.
    model = dataclasses.replace(kernel.update.args[0], refresh=0)
    rows, state = successive(case, jax.random.split(getkey(), CHAINS), model)
    assert (state.step < TURNS).mean() < 1e-3  # of those that wanted more sticks
    seen = features(case, rows, state)
    expected = features(case, *independent(case, jax.random.split(getkey(), 3 * CHAINS)))
    p_values = {}
    for name, value in seen.items():
        other = expected[name]
        variance = value.var() + other.var() / 3
        if variance > 0:
            p_values[name] = checks.mean_z(value, other.mean(), variance)
    return checks.family(p_values)


@pytest.mark.slow
def test_updates_and_rows_together_keep_the_prior(getkey):
    case = CASES["categorical"]
    assert not rejected(case, getkey)
    # Other numbers in the same program, which is what a wrong formula comes to.
    assert rejected(case, getkey, prior=dpm_mixture.Gamma(3.0, 3.2))
    assert rejected(case, getkey, family=tables(0.75))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gaussian", {}),
        ("gaussian", {"variant": "independent", "alpha_update": "escobar-west"}),
        ("one of two", {"split_merge": 1}),
        ("categorical", {"sampler": "scir"}),
        ("categorical", {"split_merge": 1}),
        ("mixed", {}),
        ("mixed", {"split_merge": 1}),
    ],
)
def test_other_families_and_moves_keep_the_prior(name, options, getkey):
    assert not rejected(CASES[name], getkey, **options)


@pytest.mark.slow
def test_a_wrong_normal_prior_is_seen(getkey):
    assert rejected(CASES["gaussian"], getkey, family=normals(0.7))
    assert rejected(CASES["one of two"], getkey, family=scales((0.5, 0.5)))


def with_missing_as_0(rows, labels, num_clusters):
    filled = jax.tree.map(lambda leaf: jnp.where(leaf == -1, 0, jnp.nan_to_num(leaf)), rows)
    number = jnp.nan_to_num(rows["number"])
    return mixed().statistics(filled | {"number": number}, labels, num_clusters)


def with_cells_twice(rows, labels, num_clusters):
    result = mixed().statistics(rows, labels, num_clusters)
    return result | {"count": result["count"]._replace(total=2 * result["count"].total)}


@pytest.mark.slow
@pytest.mark.parametrize("statistics", [with_missing_as_0, with_cells_twice])
def test_wrong_statistics_of_a_table_are_seen(statistics, getkey):
    wrong = mixed()._replace(statistics=jax.tree_util.Partial(statistics))
    assert rejected(CASES["mixed"], getkey, family=wrong)
