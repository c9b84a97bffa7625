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

CHAINS, MOVES, CAPACITY, ALPHA = 20_000, 4, 5, 1.3


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


def exact_posterior(family, rows, every):
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
        log_p.append(sum(np.log(ALPHA) + special.gammaln(len(c)) + log_f[c] for c in clusters))
    return special.softmax(log_p)


def run_moves(key, family, rows, labels, alpha, rounds):
    """Move every chain several times; also the share of accepted moves."""

    def one_chain(key, labels):
        def move(state, key):
            result = split_merge.propose(key, family, rows, *state, alpha, rounds=rounds)
            return result[:3], (result.accepted, result.needed)

        occupancy = jnp.zeros(CAPACITY, jnp.int32).at[labels].add(1)
        start = labels, family.statistics(rows, labels, CAPACITY), occupancy
        (labels, _, _), told = jax.lax.scan(move, start, jax.random.split(key, MOVES))
        return labels, told

    return jax.vmap(one_chain)(jax.random.split(key, CHAINS), labels)


compiled = jax.jit(run_moves, static_argnums=5)


def p_values(name, seed, key, run=compiled, change=lambda family: family, alpha=ALPHA, rounds=1):
    """Compare partitions after the moves with their posterior."""
    rng = np.random.default_rng(seed)
    family, rows = CASES[name]()
    every = all_partitions(5)
    exact = exact_posterior(family, rows, every)
    start = every[rng.choice(len(every), CHAINS, p=exact)]
    # The sticks that clusters are at mean nothing.
    start = np.argsort(rng.random((CHAINS, CAPACITY)), axis=1)[np.arange(CHAINS)[:, None], start]
    labels, (accepted, needed) = run(key, change(family), rows, jnp.asarray(start), alpha, rounds)
    assert 0.05 < accepted.mean() < 0.95
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
        return choose(*arguments)._replace(log_q=jnp.zeros(()))

    return chosen


def with_the_anchors(choose):
    """As if the anchors had been drawn too."""

    def chosen(key, family, rows, members, *rest):
        result = choose(key, family, rows, members, *rest)
        return result._replace(log_q=result.log_q - jnp.log(2.0))

    return chosen


def by_size_alone(find):
    """As if the partner had been drawn by its size."""

    def result(*arguments):
        partners = find(*arguments)
        return partners._replace(by_ratio=partners.by_size)

    return result


def drawn_otherwise(draw):
    """Partners by their sizes alone, that are said to be drawn by the ratio as well."""

    def drawn(key, partners, labels, first):
        return draw(key, partners._replace(by_ratio=partners.by_size), labels, first)

    return drawn


def without_partner(partners):
    class Uncounted(partners):
        def log_p(self, one):
            return jnp.zeros(())

    return Uncounted


def with_another_ratio(find):
    """As if clusters were as probable apart as together."""

    def result(*arguments):
        return find(*arguments)._replace(log_apart=jnp.zeros_like(arguments[2], jnp.float32))

    return result


def by_halves(choose):
    """Blind splits of about equal halves, that are said to be of any size."""

    def chosen(*arguments):
        *rest, log_shares, present, drawn, blind = arguments
        log_shares = jnp.where(blind, jnp.log(0.5), log_shares)
        return choose(*rest, log_shares, present, drawn, blind)

    return chosen


MUTANTS = {
    "no proposal": ("_choose", without_log_q),
    "anchors drawn": ("_choose", with_the_anchors),
    "partner drawn otherwise": ("_draw_partner", drawn_otherwise),
    "partner not counted": ("_Partners", without_partner),
    "no evidence": ("_find_partners", with_another_ratio),
}


def test_partners_by_size_alone_will_do(seed, getkey, monkeypatch) -> None:
    name = "_find_partners"
    monkeypatch.setattr(split_merge, name, by_size_alone(getattr(split_merge, name)))
    fresh = jax.jit(lambda *arguments: run_moves(*arguments, 1))
    run = lambda *arguments: fresh(*arguments[:-1])  # noqa: E731
    assert not checks.family(p_values("multinomial", seed, getkey(), run=run))


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
    name, make = MUTANTS[mutant]
    monkeypatch.setattr(split_merge, name, make(getattr(split_merge, name)))
    fresh = jax.jit(lambda *arguments: run_moves(*arguments, 1))
    run = lambda *arguments: fresh(*arguments[:-1])  # noqa: E731
    assert checks.family(p_values("multinomial", seed, getkey(), run=run))


def partition(sizes, getkey):
    """Clusters of counts of given sizes, at every other stick, and their sums."""
    family = families.multinomial(3, np.array([0.5, 0.7, 0.9]))
    labels = jnp.repeat(2 * jnp.arange(len(sizes)), jnp.array(sizes))
    table = jax.random.poisson(getkey(), 2.0, (len(labels), 3))
    rows = families.multinomial_rows(np.asarray(table))
    occupancy = jnp.zeros(12, jnp.int32).at[labels].add(1)
    return family, rows, labels, family.statistics(rows, labels, 12), occupancy


def test_partners_are_drawn_as_often_as_they_are_said_to_be(seed, getkey) -> None:
    family, _, labels, statistics, occupancy = partition([3, 1, 5, 2], getkey)
    partners = split_merge._find_partners(family, statistics, occupancy, jnp.int32(2))
    expected = np.exp([partners.log_p(k) for k in range(12)])
    assert ((expected > 0) == [True, *[False] * 3, True, False, True, *[False] * 5]).all()
    keys = jax.random.split(getkey(), 50_000)
    draw = jax.vmap(lambda key: split_merge._draw_partner(key, partners, labels, jnp.int32(2)))
    drawn = np.bincount(draw(keys), minlength=12)
    assert checks.chi_square(drawn[expected > 0], expected[expected > 0]) > 1e-3
    assert drawn[expected == 0].sum() == 0
    # By size alone it is another law.
    assert checks.chi_square(drawn[[0, 4, 6]], np.array([3, 5, 2]) / 10) < 1e-6


def test_a_single_cluster_has_no_partner(getkey) -> None:
    family, _, labels, statistics, occupancy = partition([4], getkey)
    partners = split_merge._find_partners(family, statistics, occupancy, jnp.int32(0))
    assert np.isneginf([partners.log_p(k) for k in range(12)]).all()
    assert split_merge._draw_partner(getkey(), partners, labels, jnp.int32(0)) == 0


def test_a_split_is_undone_with_the_probability_of_its_partner(getkey) -> None:
    """That of the state after it, of the second group: neither before it, nor of the first."""
    family, rows, labels, before, sizes = partition([9, 2, 4], getkey)
    # Of the nine rows of the first cluster the last two go to the empty stick 1.
    after = labels.at[7:9].set(1)
    sides = jnp.where(after == 0, 0, jnp.where(after == 1, 1, 2))
    groups = split_merge._Groups(
        sides, family.statistics(rows, sides, 2), jnp.array([7, 2]), jnp.zeros(())
    )
    apart = split_merge._after_split(before, sizes, groups, jnp.int32(0), jnp.int32(1))
    result = split_merge._find_partners(family, *apart, jnp.int32(0)).log_p(1)
    occupancy = jnp.zeros(12, jnp.int32).at[after].add(1)
    statistics = family.statistics(rows, after, 12)
    partners = split_merge._find_partners(family, statistics, occupancy, jnp.int32(0))
    np.testing.assert_allclose(result, partners.log_p(1), rtol=1e-5)
    reverse = split_merge._find_partners(family, statistics, occupancy, jnp.int32(1))
    assert abs(float(result - reverse.log_p(0))) > 0.05


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
        return split_merge.propose(key, family, rows, labels, statistics, occupancy, 1.0)

    labels = jnp.full(2000, 2, jnp.int32)
    state = labels, family.statistics(rows, labels, 16), jnp.zeros(16, jnp.int32).at[2].set(2000)
    for _ in range(8):
        state = move(getkey(), *state)[:3]
    labels = np.asarray(state[0])
    tables = np.array([np.bincount(truth[labels == k], minlength=2) for k in set(labels)])
    assert tables.max(axis=1).sum() == 2000
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
        return result.labels, result.accepted, result.needed

    keys = jax.random.split(getkey(), 64)
    small, large = (
        [np.stack(leaf) for leaf in zip(*(move(capacity, key) for key in keys), strict=True)]
        for capacity in (2, 9)
    )
    short = small[2] == 3
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
    assert not bool(result.accepted)


def test_a_family_without_evidence_is_refused() -> None:
    family, rows = multinomial()
    with pytest.raises(ValueError, match="log_evidence"):
        split_merge.propose(
            jax.random.key(0), family._replace(log_evidence=None), rows, None, None, None, 1.0
        )
