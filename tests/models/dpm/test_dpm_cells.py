"""Families of tables with missing cells: exact without imputation, and in single precision.

What the other families are tested for as well is in `test_dpm_families`. Statistical tests fail at
a rate of 1e-3 with a fresh seed, and reject their mutants.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from support import dpm_cells
from support import statistics_checks as checks
from support.dpm_cells import NAMES, N, data, make, some_atoms

from simplex_jax._src.models.dpm import families
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.models.dpm.families.diagonal_gaussian import DiagonalNormals
from simplex_jax._src.models.dpm.families.poisson import Counted

DRAWS = 20_000


def ones(n=N):
    return jnp.zeros(n, jnp.int32)


@pytest.mark.parametrize("name", NAMES)
def test_the_evidence_is_that_of_the_cells_that_are_there(name, seed):
    family, rows = make(name), data(name, np.random.default_rng(seed))
    labels = jnp.array([0, 1, 0, 1, 0, 1, 2])
    result = jax.jit(family.log_evidence)(family.statistics(rows, labels, 3))
    for k in range(3):
        mine = jax.tree.map(lambda leaf, k=k: np.asarray(leaf)[np.asarray(labels) == k], rows)
        assert float(result[k]) == pytest.approx(dpm_cells.log_evidence(name, mine), abs=2e-5)


def without(name, rows, row, column):
    """Rows of which one cell more is missing."""
    if name == "product":
        return {key: without(kind, rows[key], row, column) for key, kind in GROUPS.items()}
    none = jnp.nan if jnp.issubdtype(rows.dtype, jnp.floating) else -1
    return rows.at[row, column].set(none)


GROUPS = {"size": "diagonal_gaussian", "visits": "poisson", "colour": "categorical"}


@pytest.mark.parametrize("name", NAMES)
def test_columns_add(name, seed):
    """A row with both cells is two rows with one cell each, and one without a cell is none."""
    rng = np.random.default_rng(seed)
    family, atoms = make(name), some_atoms(name, rng)
    rows = jax.tree.map(lambda leaf: jnp.nan_to_num(jnp.abs(leaf)), data(name, rng))
    first, second = (without(name, rows, slice(None), j) for j in (1, 0))
    neither = without(name, first, slice(None), 0)
    family.check(neither)

    @jax.jit
    def parts(family, rows):
        log_f = family.log_likelihood(rows, atoms), family.log_predictive(rows)
        return *log_f, family.statistics(rows, jnp.arange(N) % 2, 2)

    both, *each, none = (parts(family, one) for one in (rows, first, second, neither))
    jax.tree.map(
        lambda whole, a, b: np.testing.assert_allclose(whole, a + b, rtol=1e-5, atol=1e-5),
        both,
        *each,
    )
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(none))


def test_likelihoods_are_those_of_scipy(seed):
    rng = np.random.default_rng(seed)
    atoms, x = some_atoms(NAMES[0], rng), rng.normal(size=(5, 2)).astype(np.float32)
    result = make(NAMES[0]).log_likelihood(x, atoms)
    mean, sd = (np.asarray(leaf, np.float64) for leaf in atoms)
    exact = stats.norm.logpdf(x[:, None], mean, sd).sum(axis=-1)
    np.testing.assert_allclose(result, exact, rtol=1e-5, atol=1e-5)
    log_rates, counts = some_atoms("poisson", rng), jnp.arange(12).reshape(6, 2)
    result = make("poisson").log_likelihood(counts, log_rates)
    rates = np.exp(np.asarray(log_rates, np.float64))
    reference = np.array(dpm_cells.COUNT["shape"]) / dpm_cells.COUNT["rate"]
    exact = (
        stats.poisson.logpmf(counts[:, None], rates)
        - stats.poisson.logpmf(counts, reference)[:, None]
    )
    np.testing.assert_allclose(result, exact.sum(axis=-1), rtol=1e-5, atol=1e-5)
    nothing = make("poisson").log_likelihood(jnp.array([[0, 3]]), jnp.array([[-jnp.inf, 0.0]]))
    assert jnp.isfinite(nothing).all()
    np.testing.assert_array_equal(
        make("poisson").log_likelihood(jnp.array([[2.0, jnp.nan]]), log_rates),
        make("poisson").log_likelihood(jnp.array([[2, -1]]), log_rates),
    )


@pytest.mark.slow
def test_one_column_is_the_gaussian_of_one_column(seed):
    rng = np.random.default_rng(seed)
    x = jnp.asarray(rng.normal(2, 3, (9, 1)), jnp.float32).at[4].set(jnp.nan)
    pair = (
        families.diagonal_gaussian([1.0], 2.0, 0.5, 4.0),
        families.gaussian([1.0], [[2.0]], 0.5, 4.0),
    )
    labels = jnp.arange(9) % 2
    given = [family.statistics(x, labels, 2) for family in pair]
    for function in (
        lambda family, s: family.log_evidence(s),
        lambda family, s: family.log_evidence(s, jax.tree.map(lambda leaf: leaf[::-1], s)),
        lambda family, s: family.log_predictive(x),
    ):
        np.testing.assert_allclose(*map(function, pair, given), rtol=1e-5, atol=1e-5)


def draws_p_values(name, family, seen, rows, getkey):
    repeated = jax.tree.map(lambda leaf: jnp.tile(leaf, (DRAWS,) + (1,) * (leaf.ndim - 1)), seen)
    atoms = jax.jit(family.draw)(getkey(), repeated)
    host = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), atoms)
    return dpm_cells.p_values(name, host, rows)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_cell_counted_as_0_is_rejected(name, seed, getkey):
    rows = data(name, np.random.default_rng(seed))
    filled = jax.tree.map(lambda leaf: jnp.where(leaf == -1, 0, jnp.nan_to_num(leaf)), rows)
    if name != "poisson":  # where -1 is a number
        size = rows if name == "diagonal_gaussian" else rows["size"]
        size = jnp.nan_to_num(size)
        filled = size if name == "diagonal_gaussian" else filled | {"size": size}
    wrong = make(name).statistics(filled, ones(), 1)
    assert checks.family(draws_p_values(name, make(name), wrong, rows, getkey))


@pytest.mark.parametrize("name", NAMES)
def test_a_column_counted_twice_is_rejected(name, seed, getkey):
    """That of the groups' first columns, or of one group of the product."""
    rows = data(name, np.random.default_rng(seed))
    seen = make(name).statistics(rows, ones(), 1)
    if name == "product":
        wrong = seen | {"visits": jax.tree.map(lambda leaf: 2 * leaf, seen["visits"])}
    else:
        wrong = jax.tree.map(lambda leaf: leaf.at[:, 0].multiply(2), seen)
    assert checks.family(draws_p_values(name, make(name), wrong, rows, getkey))


@pytest.mark.parametrize("name", NAMES)
def test_profiles_are_moments_of_what_is_drawn(name, seed, getkey):
    """Means and variances of means, deviations, rates and probabilities; and a mutant."""
    family, rows = make(name), data(name, np.random.default_rng(seed), 30)
    seen = family.statistics(rows, ones(30), 1)
    repeated = jax.tree.map(lambda leaf: jnp.tile(leaf, (DRAWS,) + (1,) * (leaf.ndim - 1)), seen)
    atoms = jax.jit(family.draw)(getkey(), repeated)
    mean, variance = family.profile(seen, jax.tree.map(lambda leaf: leaf[:1], atoms))
    drawn = {
        "diagonal_gaussian": lambda: atoms,
        "poisson": lambda: jnp.exp(atoms),
        "product": lambda: {
            "size": atoms["size"],
            "visits": jnp.exp(atoms["visits"]),
            "colour": jax.tree.map(jnp.exp, atoms["colour"]),
        },
    }[name]()

    def compared(mean, variance):
        leaves = zip(*map(jax.tree.leaves, (drawn, mean, variance)), strict=True)
        result = {}
        for i, (x, m, v) in enumerate(leaves):
            flat = np.asarray(x, np.float64).reshape(DRAWS, -1)
            m, v = (np.asarray(leaf, np.float64).ravel() for leaf in (m, v))
            for j in range(flat.shape[1]):
                result[i, j] = checks.mean_z(flat[:, j], m[j], v[j])
                fourth = ((flat[:, j] - m[j]) ** 4).mean()
                result[i, j, "variance"] = checks.variance_z(flat[:, j], m[j], v[j], fourth)
        return checks.family(result)

    assert not compared(mean, variance)
    assert compared(mean, jax.tree.map(lambda leaf: 1.07 * leaf, variance))


def exactly(function, *values):
    """The same function in double precision."""
    with jax.enable_x64(True):
        values = jax.tree.map(
            lambda x: np.asarray(x, np.float64 if np.asarray(x).dtype.kind == "f" else None), values
        )
        return jax.tree.map(lambda x: np.asarray(x, np.float64), function(*values))


def everything(family, rows, labels, atoms):
    statistics = family.statistics(rows, labels, 2)
    only = family.statistics(rows, jnp.where(labels == 1, 1, -1), 2)
    return (
        family.log_evidence(statistics),
        family.log_evidence(only, statistics),
        family.log_predictive(rows),
        family.log_likelihood(rows, atoms),
        family.profile(statistics, atoms),
    )


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.0, 1e4, -1e6])
def test_numbers_far_from_0_keep_their_digits(offset, seed):
    """A column of mean 1e4 and deviation 1 and one of 0.1, with cells missing, in float32.

    At a mean of 1e6 the cells themselves are rounded to a 30th of the deviation.
    """
    rng = np.random.default_rng(seed)
    x = (offset + rng.normal(0, [1.0, 0.1], (500, 2))).astype(np.float32)
    x[rng.random(x.shape) < 0.2] = np.nan
    labels = jnp.asarray(rng.integers(0, 2, 500), jnp.int32)
    deviations = np.array([[1.0, 0.2], [2.0, 0.1]])

    def result(x, labels):
        centre = jnp.asarray(np.full(2, offset), x.dtype)
        prior = [centre, *(jnp.asarray(v, x.dtype) for v in ([1.0, 0.01], 0.1))]
        atoms = DiagonalNormals(
            centre + jnp.array([[0.3], [-0.2]], x.dtype) * deviations, deviations
        )
        atoms = jax.tree.map(lambda leaf: jnp.asarray(leaf, x.dtype), atoms)
        return everything(families.diagonal_gaussian(*prior), x, labels, atoms)

    single, double = result(jnp.asarray(x), labels), exactly(result, x, labels)
    # Atoms and prior means are the same numbers only up to rounding of the offset.
    moved = 3 * abs(offset) * 6e-8 / 0.1
    for a, b, n in zip(single[:4], double[:4], (500, 500, 1, 1), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 + (moved * 4 if n == 1 else 1e-2))
    cells = np.where(np.isnan(x[:, 0]), np.nan, x[:, 0].astype(np.float64))
    own = cells[np.asarray(labels) == 0]
    exact, _ = dpm_cells.normal_posterior(own, float(np.float32(offset)), 1.0, 0.1, 3.0)
    mean, sd = single[4][0]
    assert abs(float(mean[0, 0]) - exact["mean"]) < 1e-6 * abs(offset) + 1e-5
    nu, psi = exact["freedom"], exact["scale"]
    expected = np.sqrt(psi / 2) * np.exp(special.gammaln((nu - 1) / 2) - special.gammaln(nu / 2))
    assert float(sd[0, 0]) == pytest.approx(expected, rel=2e-6)


def test_means_and_variances_of_the_data_are_found_far_from_0(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(1e4, 1, (400, 1))
    x[::7] = np.nan
    family = families.diagonal_gaussian_of(x)
    m, sd = np.nanmean(x), np.nanstd(x)
    exact = stats.t.logpdf(x[1:6] - m, 3, scale=sd * np.sqrt(2 / 3))[:, 0]
    # The cells are rounded to 1e-3 / 2.
    np.testing.assert_allclose(family.log_predictive(x[1:6].astype(np.float32)), exact, atol=1e-3)


@pytest.mark.parametrize("mean", [0.01, 30.0, 1e4, 1e6])
def test_counts_of_all_sizes_keep_their_digits(mean, seed):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(mean, (300, 2)).astype(np.int32)
    counts[rng.random(counts.shape) < 0.2] = -1
    labels = jnp.asarray(rng.integers(0, 2, 300), jnp.int32)

    def result(start, labels):
        dtype = start.dtype
        family = families.poisson(jnp.asarray([1.0, 5.0], dtype), jnp.asarray(1 / start, dtype))
        atoms = jnp.log(start) + jnp.asarray([[0.02, -0.3], [0.5, 1.0]], dtype)
        return everything(family, jnp.asarray(counts), labels, atoms)

    start = np.float32(mean)
    single, double = result(jnp.asarray(start), labels), exactly(result, start, labels)
    for a, b, n in zip(single[:4], double[:4], (300, 300, 1, 1), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-5 + 1e-6 * n * mean)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), single[4], double[4])


@pytest.mark.parametrize("total", [0, 3])
@pytest.mark.parametrize("given", [False, True])
def test_the_evidence_of_many_zeros(total, given):
    """Where the mean given all rows is far below that of the prior."""
    n, start = 50_000, np.float32(1000)

    def evidence(start):
        family = families.poisson(jnp.ones(1, start.dtype), jnp.asarray([1 / start]))
        few = Counted(jnp.full((1, 1), n, jnp.int32), jnp.full((1, 1), total, jnp.int32))
        many = Counted(few.number * 3, few.total * 2) if given else None
        return family.log_evidence(few, many)

    result, exact = evidence(jnp.asarray(start))[0], exactly(evidence, start)[0]
    # Given others the evidence is relative to the rows' own mean, and of the size of 1 nat.
    np.testing.assert_allclose(result, exact, rtol=2e-7, atol=1e-6 if given else 0)


@pytest.mark.parametrize("mean", [3.0, 1e4, 1e6])
@pytest.mark.parametrize("factor", [0.5, 1, 3])
def test_large_counts_are_split_and_merged_by_their_evidence(mean, factor, seed):
    """Groups of one mean, far from that of the prior, whose sums are up to 2e8.

    Relative to the prior mean the evidences were off by 8 nats: of two clusters of counts near 1e6
    and 3e6, half were split at any time.
    """
    rng = np.random.default_rng(seed)
    family = families.poisson(1.0, np.array([1 / mean], np.float32))
    rate = np.float64(np.float32(1 / mean))
    sizes = rng.integers(1, 80, 200)
    totals = np.array([[rng.poisson(factor * mean, n).sum() for n in (k, 80 - k)] for k in sizes])
    (few, many) = (
        Counted(jnp.asarray(n[:, None], jnp.int32), jnp.asarray(s[:, None], jnp.int32))
        for n, s in zip((sizes, 80 - sizes), totals.T, strict=True)
    )

    def exact(n, s):
        return special.gammaln(1 + s) + np.log(rate) - (1 + s) * np.log(rate + n)

    expected = exact(80, totals.sum(axis=1)) - sum(map(exact, (sizes, 80 - sizes), totals.T))
    none = jax.tree.map(jnp.zeros_like, many)
    gained = family.log_evidence(few, many) - family.log_evidence(few, none)
    assert np.abs(gained - expected).max() < 1e-2
    if mean == 1e6 and factor != 1:  # Those relative to the prior mean, as before, are refused.
        whole = family.log_evidence(jax.tree.map(jnp.add, few, many))
        planted = whole - family.log_evidence(few) - family.log_evidence(many)
        assert np.abs(planted - expected).max() > 1


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.int32, np.float32])
def test_counts_may_have_any_type(dtype):
    family = families.poisson(jnp.ones(2), jnp.ones(2))
    rows = np.array([[255, 3], [0, 255]], dtype)
    family.check(rows)
    result = family.statistics(jnp.asarray(rows), jnp.array([0, 0]), 1)
    assert result.number.tolist() == [[2, 2]]
    assert result.total.tolist() == [[255, 258]]


@pytest.mark.slow
def test_words_and_columns_in_one_table(seed):
    """Sparse rows are one group of a product."""
    rng = np.random.default_rng(seed)
    family = families.product(
        {"words": families.multinomial(4), "size": families.diagonal_gaussian([0.0], 1.0)}
    )
    counts = rng.poisson(1.0, (5, 4))
    rows = {"words": families.multinomial_rows(counts), "size": jnp.ones((5, 1))}
    family.check(rows)
    assert family_rows.size(rows) == 5
    some = family_rows.take(rows, jnp.array([3, 9]))
    np.testing.assert_allclose(
        family.log_predictive(some), [family.log_predictive(rows)[3], 0], rtol=1e-5, atol=1e-6
    )
    assert family.statistics(some, jnp.array([0, 0]), 1)["words"].tolist() == [counts[3].tolist()]


def test_a_product_of_simplexes_is_one():
    both = families.product({"a": families.categorical([2]), "b": families.multinomial(3)})
    assert set(both.simplex.alpha) == {"a", "b"}
    assert make("product").simplex is None
    none = make("poisson")._replace(log_evidence=None)
    assert families.product({"a": none}).log_evidence is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make(NAMES[0], freedom=0.0), r"^freedom .*0\.0$"),
        (lambda: make(NAMES[0], scale=[1.0, 2.0, 3.0]), r"scale .* \[2\]"),
        (lambda: make(NAMES[0], mean=1.0), r"^mean .*\(\)$"),
        (lambda: make(NAMES[0]).check(np.array([[1.0, np.inf]])), r"rows\[0, 1\] is inf"),
        (lambda: make(NAMES[0]).check(np.ones((2, 2), int)), "floats"),
        (lambda: families.diagonal_gaussian_of([[1.0, 2.0], [2.0, 2.0]]), "column 1 of rows does"),
        (lambda: families.diagonal_gaussian_of([[0.1], [0.1], [0.1]]), "column 0 of rows does"),
        (lambda: families.diagonal_gaussian_of([[np.nan], [np.nan]]), "column 0 of rows does"),
        (
            lambda: families.diagonal_gaussian_of([[1e-30], [3e-30]]),
            r"column 0 .*float32",
        ),
        (
            lambda: families.diagonal_gaussian_of([[1e300], [1.0]]),
            r"rows\[0, 0\] is 1e\+300: .* 6e",
        ),
        (lambda: make("poisson", shape=[1.0, -1.0]), r"^shape .*-1\.0 at index \(1,\)$"),
        (lambda: families.poisson(1.0, 1.0), "one of them"),
        (lambda: make("poisson").check(np.array([[1, -2]])), r"rows\[0, 1\] is -2"),
        (lambda: make("poisson").check(np.array([[1.5, 1]])), r"rows\[0, 0\] is 1.5"),
        (lambda: make("poisson").check(np.array([[1, 2**25]])), r"from 0 to 2\^24"),
        (lambda: make("poisson").check(np.full((200, 2), 2**24)), r"below 2\^31"),
        (lambda: make("poisson").check(np.array([["a", "b"]])), "counts"),
        (lambda: families.product({}), r"^groups "),
        (lambda: families.product({"a": 3}), r"group 'a' .* dpm.families"),
        (lambda: make("product").check(np.ones((2, 2))), r"^rows .*'size'"),
        (lambda: make("product").check({"size": np.ones((2, 2))}), r"^rows .*'size'"),
        (
            lambda: families.gaussian_of(np.array([[1.0, np.nan], [2.0, 3.0]])),
            r"column 1 .*families\.gaussian",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_groups_of_a_table_are_checked(seed):
    rows = data("product", np.random.default_rng(seed))
    with pytest.raises(ValueError, match=r"colour: rows\[0, 0\] is 5"):
        make("product").check(rows | {"colour": jnp.full((N, 2), 5)})
    with pytest.raises(ValueError, match="one length"):
        make("product").check(rows | {"colour": jnp.zeros((N + 1, 2), int)})
