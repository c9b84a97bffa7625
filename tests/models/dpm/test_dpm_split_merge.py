"""Split-merge moves: exact on all partitions of a few rows, consistent on many.

Chains start from exact draws of the posterior of the partition, and must end with them. The rate of
false alarms is 1e-3 for each test with a fresh seed; each mutant must fail the same test.
"""

import itertools
from collections import Counter
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from support import statistics_checks as checks

from simplex_jax._src.models.dpm import families, split_merge

pytestmark = pytest.mark.slow

CHAINS, MOVES, CAPACITY, ALPHA = 20_000, 6, 5, 1.3
MANY = 5.0  # a concentration with more clusters, so that several cells are moved at once


def all_partitions(n):
    result = [(0,)]
    for _ in range(n - 1):
        result = [(*p, k) for p in result for k in range(max(p) + 2)]
    return np.array(result)


def multinomial():
    table = [[3, 0], [2, 1], [0, 2], [0, 1], [1, 3]]
    return families.multinomial(2, np.array([0.6, 0.9])), families.multinomial_rows(table)


def gaussian():
    rows = jnp.array([[-2.0], [-1.2], [0.8], [1.0], [2.5]])
    return families.gaussian([0.2], [[0.5]], strength=0.3, freedom=2.5), rows


def mixed():
    """Numbers, categories and counts, of which some are missing."""
    nan = jnp.nan
    rows = {
        "number": jnp.array([[-2.0, 0.1], [-1.2, nan], [nan, nan], [1.0, 1.5], [2.5, -0.2]]),
        "category": jnp.array([[0], [-1], [1], [1], [0]]),
        "count": jnp.array([[0], [1], [7], [-1], [3]]),
    }
    family = families.product(
        {
            "number": families.diagonal_gaussian([0.2, 0.4], [0.5, 1.0], 0.3, 2.5),
            "category": families.categorical([2], 0.7),
            "count": families.poisson([1.2], 0.5),
        }
    )
    return family, rows


CASES = {"multinomial": multinomial, "gaussian": gaussian, "mixed": mixed}


def exact_posterior(family, rows, every, alpha):
    """Probabilities of all partitions; the evidence of a family is tested elsewhere."""
    n = every.shape[1]
    subsets = [s for k in range(1, n + 1) for s in itertools.combinations(range(n), k)]
    labels = np.full((len(subsets), n), -1, np.int32)
    for i, subset in enumerate(subsets):
        labels[i, list(subset)] = 0
    scores = jax.vmap(lambda z: family.log_evidence(family.statistics(rows, z, 1))[0])(labels)
    log_f = dict(zip(subsets, np.asarray(scores, np.float64), strict=True))
    log_p = []
    for z in every:
        clusters = [tuple(np.flatnonzero(z == k)) for k in range(z.max() + 1)]
        log_p.append(sum(np.log(alpha) + special.gammaln(len(c)) + log_f[c] for c in clusters))
    return special.softmax(log_p)


def run_moves(key, family, rows, labels, alpha, rounds):
    """Move every chain several times; also the share of accepted moves."""

    def one_chain(key, labels):
        def move(state, key):
            result = split_merge.propose(key, family, rows, *state, alpha, rounds=rounds)
            return result[:3], (result.proposed, result.accepted, result.needed)

        occupancy = jnp.zeros(CAPACITY, jnp.int32).at[labels].add(1)
        start = labels, family.statistics(rows, labels, CAPACITY), occupancy
        (labels, _, _), told = jax.lax.scan(move, start, jax.random.split(key, MOVES))
        return labels, told

    return jax.vmap(one_chain)(jax.random.split(key, CHAINS), labels)


compiled = jax.jit(run_moves, static_argnums=5)


def p_values(
    name, seed, key, run=compiled, change=lambda family: family, alpha=ALPHA, rounds=1, target=ALPHA
):
    """Compare partitions after the moves with their posterior."""
    rng = np.random.default_rng(seed)
    family, rows = CASES[name]()
    every = all_partitions(5)
    exact = exact_posterior(family, rows, every, target)
    start = every[rng.choice(len(every), CHAINS, p=exact)]
    # The sticks that clusters are at mean nothing.
    start = np.argsort(rng.random((CHAINS, CAPACITY)), axis=1)[np.arange(CHAINS)[:, None], start]
    labels, (proposed, accepted, needed) = run(
        key, change(family), rows, jnp.asarray(start), alpha, rounds
    )
    assert 0.05 < accepted.sum() / proposed.sum() < 0.95
    assert (needed == 0).all()
    same = np.asarray(labels)[:, :, None] == np.asarray(labels)[:, None, :]
    first = np.argmax(same, axis=2)
    result = Counter(map(tuple, first))
    codes = [tuple(np.argmax(z[:, None] == z, axis=1)) for z in every]
    assert sum(result[code] for code in codes) == CHAINS
    order = np.argsort(exact)
    observed = np.array([result[code] for code in codes])
    numbers = every.max(axis=1)
    moved = (np.asarray(start)[:, :, None] == np.asarray(start)[:, None, :]) != same
    assert moved.any(axis=(1, 2)).mean() > 0.1
    return {
        "partitions": checks.chi_square(observed[order], exact[order]),
        "clusters": checks.chi_square(
            np.bincount(numbers, observed, minlength=5), np.bincount(numbers, exact, minlength=5)
        ),
    }


def test_partitions_keep_their_posterior(seed, getkey) -> None:
    assert not checks.family(p_values("multinomial", seed, getkey()))


def test_any_launch_will_do(seed, getkey) -> None:
    """Atoms of another family make worse proposals and leave the posterior alone."""
    other = families.multinomial(2, np.array([3.0, 0.4]))
    change = partial(families.Family._replace, draw=other.draw)
    assert not checks.family(p_values("multinomial", seed, getkey(), change=change))


def test_several_cells_at_once_keep_the_posterior(seed, getkey) -> None:
    p = p_values("multinomial", seed, getkey(), alpha=MANY, target=MANY)
    assert not checks.family(p)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_partitions_keep_their_posterior_after_any_rounds(name, rounds, seed, getkey) -> None:
    assert not checks.family(p_values(name, seed, getkey(), rounds=rounds))


def test_another_concentration_is_rejected(seed, getkey) -> None:
    assert checks.family(p_values("multinomial", seed, getkey(), alpha=ALPHA * 1.1))


def test_another_evidence_is_rejected(seed, getkey) -> None:
    other = families.multinomial(2, np.array([0.85, 0.9]))
    change = partial(families.Family._replace, log_evidence=other.log_evidence)
    assert checks.family(p_values("multinomial", seed, getkey(), change=change))


def with_missing_as_0(family, rows, labels, num_clusters):
    filled = jax.tree.map(lambda leaf: jnp.where(leaf == -1, 0, leaf), rows)
    filled |= {"number": jnp.nan_to_num(rows["number"])}
    return family.statistics(filled, labels, num_clusters)


def with_a_column_twice(family, rows, labels, num_clusters):
    result = family.statistics(rows, labels, num_clusters)
    return result | {"count": jax.tree.map(lambda leaf: 2 * leaf, result["count"])}


@pytest.mark.parametrize("wrong", [with_missing_as_0, with_a_column_twice])
def test_wrong_statistics_of_a_table_are_rejected(wrong, seed, getkey) -> None:
    """That of the proposal is the same in both directions: the evidence decides."""

    def change(family):
        return family._replace(statistics=jax.tree_util.Partial(wrong, family))

    assert checks.family(p_values("mixed", seed, getkey(), change=change))


def without_log_q(choose):
    def chosen(*arguments):
        result = choose(*arguments)
        return result._replace(log_q=0 * result.log_q)

    return chosen


def with_the_anchors(choose):
    """As if the anchors had been drawn too."""

    def chosen(*arguments):
        result = choose(*arguments)
        return result._replace(log_q=result.log_q - jnp.log(2.0))

    return chosen


def drawn_otherwise(draw):
    """Second anchors by chance alone, that are said to be drawn by the density as well."""

    return lambda key, anchors, labels: draw(
        key, anchors._replace(differ=anchors.differ & False), labels
    )


def anchor_not_counted(draw):
    return lambda *arguments: draw(*arguments)._replace(weight=jnp.float32(2))


def with_overlaps(moved):
    return lambda place, target, split, active: split | ~active[target]


def with_active_seconds(moved):
    return lambda place, target, split, active: moved(place, target, split, active & False)


def with_another_ratio(find):
    """As if clusters were as probable apart as together."""

    def result(*arguments):
        log_beta, log_apart = find(*arguments)
        return log_beta, 0 * log_apart

    return result


def by_halves(choose):
    """Blind splits of about equal halves, that are said to be of any size."""

    def chosen(*arguments):
        *rest, log_shares, present, drawn = arguments
        log_shares = jnp.where(rest[3].blind[:, None], jnp.log(0.5), log_shares)
        return choose(*rest, log_shares, present, drawn)

    return chosen


MUTANTS = {
    "no proposal": ("_choose", without_log_q),
    "anchors drawn": ("_choose", with_the_anchors),
    "anchor drawn otherwise": ("_draw_cells", drawn_otherwise),
    "anchor not counted": ("_draw_cells", anchor_not_counted),
    "no evidence": ("_log_apart", with_another_ratio),
    "overlapping cells": ("_are_moved", with_overlaps, MANY),
    "second clusters that are active": ("_are_moved", with_active_seconds),
}


def test_second_anchors_by_chance_alone_will_do(seed, getkey, monkeypatch) -> None:
    find = split_merge._by_density
    monkeypatch.setattr(split_merge, "_by_density", lambda log_f, *rest: find(0 * log_f, *rest))
    fresh = jax.jit(lambda *arguments: run_moves(*arguments, 1))
    run = lambda *arguments: fresh(*arguments[:-1])  # noqa: E731
    # Not the key itself, of the default seed: p = 4e-4 by chance. Seeds 1 to 20 pass with it.
    key = jax.random.fold_in(getkey(), 1)
    assert not checks.family(p_values("multinomial", seed, key, run=run))


def by_sizes(count):
    """As if all rows were listed."""
    return lambda members, groups, listed: groups.sizes


@pytest.mark.parametrize("make", [None, by_sizes])
def test_a_list_of_some_of_the_rows_will_do(make, seed, getkey, monkeypatch) -> None:
    monkeypatch.setattr(split_merge, "_LISTED", 3)
    if make is not None:
        monkeypatch.setattr(split_merge, "_count_listed", make(split_merge._count_listed))
    fresh = jax.jit(lambda *arguments: run_moves(*arguments, 1))
    run = lambda *arguments: fresh(*arguments[:-1])  # noqa: E731
    p = p_values("multinomial", seed, getkey(), run=run, alpha=MANY, target=MANY)
    assert bool(checks.family(p)) == (make is not None)


@pytest.mark.parametrize("make", [None, by_halves])
def test_blind_moves_keep_the_posterior_too(make, seed, getkey, monkeypatch) -> None:
    monkeypatch.setattr(split_merge, "_BLIND", 1.0)
    if make is not None:
        monkeypatch.setattr(split_merge, "_choose", make(split_merge._choose))
    fresh = jax.jit(lambda *arguments: run_moves(*arguments, 1))
    run = lambda *arguments: fresh(*arguments[:-1])  # noqa: E731
    rejected = checks.family(p_values("multinomial", seed, getkey(), run=run))
    assert bool(rejected) == (make is not None)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_are_rejected(mutant, seed, getkey, monkeypatch) -> None:
    name, make, *target = MUTANTS[mutant]
    monkeypatch.setattr(split_merge, name, make(getattr(split_merge, name)))
    fresh = jax.jit(lambda *arguments: run_moves(*arguments, 1))
    run = lambda *arguments: fresh(*arguments[:-1])  # noqa: E731
    target = target[0] if target else ALPHA
    assert checks.family(
        p_values("multinomial", seed, getkey(), run=run, alpha=target, target=target)
    )


def test_no_draw_accepts_a_move_that_is_hopeless(getkey) -> None:
    """A uniform number in float32 is 0 once in 2^23 draws, and its logarithm below any ratio."""
    hopeless = jnp.full(2**24, -100.0).at[:2].set([-jnp.inf, jnp.nan])
    accept = jax.jit(lambda key, log_ratio: jnp.sum(split_merge._are_accepted(key, log_ratio)))
    for key in jax.random.split(getkey(), 4):
        assert accept(key, hopeless) == 0
    assert accept(key, jnp.zeros(2**12)) == 2**12
    share = accept(key, jnp.full(2**20, jnp.log(0.3))) / 2**20
    assert abs(share - 0.3) < 4 * np.sqrt(0.21 / 2**20)


def anchors_of(log_f, labels):
    """Return what the densities of listed rows say of second anchors, [G, L]."""
    outside = labels != jnp.arange(len(log_f))[:, None]
    by_chance = 1 / jnp.maximum(jnp.sum(outside, axis=1), 1)
    return split_merge._Anchors(by_chance, *split_merge._by_density(log_f, outside, by_chance))


def test_places_have_their_ranks_among_the_rows_of_clusters_and_among_the_others(getkey) -> None:
    labels = jax.random.randint(getkey(), (60,), 0, 9)
    number, order = jnp.bincount(labels, length=16), jnp.argsort(labels, stable=True)
    for rank in (0, 1, 5, 40):
        ranks = jnp.full(16, rank)
        within = split_merge._place_within(order, number, ranks)
        outside = split_merge._place_outside(order, labels, number, ranks)
        for k in range(9):
            inside = np.asarray(labels) == k
            if rank < inside.sum():
                assert within[k] == np.flatnonzero(inside)[rank]
            if rank < (~inside).sum():
                assert outside[k] == np.flatnonzero(~inside)[rank]


def test_anchors_are_drawn_as_often_as_they_are_said_to_be(seed, getkey) -> None:
    """Of two clusters, so that no other cluster's choices matter."""
    labels = jnp.array([2, 0, 0, 2, 0, 2, 0, 0])
    inside = labels == jnp.arange(16)[:, None]
    anchors = anchors_of(jnp.where(inside, 9.0, jnp.log(jnp.arange(1.0, 9.0))), labels)
    draw = jax.jit(jax.vmap(lambda key: split_merge._draw_cells(key, anchors, labels)))
    cells = jax.tree.map(np.asarray, draw(jax.random.split(getkey(), 50_000)))
    assert (cells.number <= 2).all()
    first, split = cells.first[:, 0], cells.split[:, 0]
    merges, splits = (first == 2) & ~split, (first == 2) & split
    drawn = np.bincount(cells.places[merges, 0, 1], minlength=8)
    outside = np.asarray(labels) == 0
    expected = np.arange(1, 9)[outside]
    expected = expected / expected.sum() / 2 + 0.1
    said = [anchors.weight(jnp.full(16, place))[2] for place in np.flatnonzero(outside)]
    np.testing.assert_allclose(2 * expected, said, rtol=1e-5)
    assert checks.chi_square(drawn[outside], expected) > 1e-3
    assert drawn[~outside].sum() == 0
    assert checks.chi_square(drawn[outside], np.full(5, 0.2)) < 1e-6  # by chance alone
    # Earlier first anchors are moved more often; the second one is any other row of the cluster.
    pairs = np.zeros((8, 8), int)
    np.add.at(pairs, tuple(cells.places[splits, 0].T), 1)
    for one, others in ((0, [3, 5]), (3, [0, 5]), (5, [0, 3])):
        assert pairs[one].sum() == pairs[one, others].sum()
        assert checks.chi_square(pairs[one, others], np.full(2, 0.5)) > 1e-4


def test_cells_do_not_overlap(seed, getkey) -> None:
    """Nor does a merge take a cluster that is active, and most that can be are moved."""
    labels = jax.random.randint(getkey(), (300,), 0, 40)
    anchors = anchors_of(jax.random.normal(getkey(), (48, 300)), labels)
    draw = jax.jit(jax.vmap(lambda key: split_merge._draw_cells(key, anchors, labels)))
    cells = jax.tree.map(np.asarray, draw(jax.random.split(getkey(), 500)))
    numbers = []
    for first, second, split, places, number in zip(
        cells.first, cells.second, cells.split, cells.places, cells.number, strict=True
    ):
        both = np.concatenate([first[:number], second[:number][~split[:number]]])
        assert len(set(both)) == len(both)
        assert (first[number:] == 48).all()
        np.testing.assert_array_equal(labels[places[:number, 0]], first[:number])
        np.testing.assert_array_equal(labels[places[:number, 1]], second[:number])
        numbers.append(number)
    assert np.mean(numbers) > 8


def test_many_rows_in_pieces(seed, getkey) -> None:
    """Two clusters of 3,000 rows are told apart, and the sums are those of the labels."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.repeat([0, 1], 3000))
    table = rng.poisson(np.array([[8.0, 2.0, 0.2], [0.2, 2.0, 8.0]])[truth])
    family, rows = families.multinomial(3), families.multinomial_rows(table)

    @jax.jit
    def move(key, labels, statistics, occupancy):
        return split_merge.propose(key, family, rows, labels, statistics, occupancy, 1.0, rounds=6)

    labels = jnp.full(6000, 2, jnp.int32)
    state = labels, family.statistics(rows, labels, 16), jnp.zeros(16, jnp.int32).at[2].set(6000)
    for _ in range(20):
        state = move(getkey(), *state)[:3]
    labels = np.asarray(state[0])
    tables = np.array([np.bincount(truth[labels == k], minlength=2) for k in set(labels)])
    assert tables.max(axis=1).sum() / 6000 > 0.98
    np.testing.assert_array_equal(state[2], np.bincount(labels, minlength=16))
    np.testing.assert_array_equal(state[1], family.statistics(rows, state[0], 16))


def test_rows_of_many_columns_in_small_pieces(seed, getkey, monkeypatch) -> None:
    """Clusters of 1,000 rows in pieces of 256, and the sums are those of the labels."""
    monkeypatch.setattr(split_merge, "_STATISTICS_AT_ONCE", 1)
    truth = np.repeat([0, 1], 1000)
    rng = np.random.default_rng(seed)
    rows = jnp.asarray(rng.normal(size=(2000, 3)) + 6.0 * truth[:, None], jnp.float32)
    family = families.gaussian(np.full(3, 3.0), np.eye(3))

    @jax.jit
    def move(key, labels, statistics, occupancy):
        return split_merge.propose(key, family, rows, labels, statistics, occupancy, 1.0, rounds=8)

    labels = jnp.full(2000, 2, jnp.int32)
    state = labels, family.statistics(rows, labels, 16), jnp.zeros(16, jnp.int32).at[2].set(2000)
    for _ in range(40):
        state = move(getkey(), *state)[:3]
    labels = np.asarray(state[0])
    tables = np.array([np.bincount(truth[labels == k], minlength=2) for k in set(labels)])
    assert tables.max(axis=1).sum() > 1950
    np.testing.assert_array_equal(state[2], np.bincount(labels, minlength=16))
    expected = family.statistics(rows, state[0], 16)
    np.testing.assert_allclose(state[1].square, expected.square, rtol=1e-5, atol=1e-2)


def test_a_split_without_room_asks_for_it(getkey) -> None:
    """Nothing is done until there is room, and then what would have been done with more of it."""
    family, rows = multinomial()
    labels = jnp.array([0, 0, 1, 1, 1])

    @partial(jax.jit, static_argnums=0)
    def move(capacity, key):
        occupancy = jnp.zeros(capacity, jnp.int32).at[labels].add(1)
        statistics = family.statistics(rows, labels, capacity)
        result = split_merge.propose(key, family, rows, labels, statistics, occupancy, 1.3)
        return result.labels, result.accepted > 0, result.needed

    keys = jax.random.split(getkey(), 64)
    small, large = (
        [np.stack(leaf) for leaf in zip(*(move(capacity, key) for key in keys), strict=True)]
        for capacity in (2, 9)
    )
    short = small[2] > 2
    assert 0 < short.mean() < 1
    assert not (short & small[1]).any()
    assert (small[0][short] == np.asarray(labels)).all()
    assert (large[2] == 0).all()
    np.testing.assert_array_equal(small[0][~short], large[0][~short])
    assert (large[1] & short).any()


def test_one_row_is_left_alone() -> None:
    family = families.multinomial(2)
    rows, labels = families.multinomial_rows([[1, 2]]), jnp.zeros(1, jnp.int32)
    statistics = family.statistics(rows, labels, 2)
    result = split_merge.propose(
        jax.random.key(0), family, rows, labels, statistics, jnp.array([1, 0]), 1.0
    )
    assert not int(result.accepted)


def test_a_family_without_evidence_is_refused() -> None:
    family, rows = multinomial()
    with pytest.raises(ValueError, match="log_evidence"):
        split_merge.propose(
            jax.random.key(0), family._replace(log_evidence=None), rows, None, None, None, 1.0
        )
