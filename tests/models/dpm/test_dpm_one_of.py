"""Components with one of several priors, against sums over the members.

Statistical tests have a false-alarm rate of 1e-3 with a fresh seed.
"""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from support import statistics_checks as checks

from simplex_jax._src.models import dpm
from simplex_jax._src.models.dpm import data, families, options
from simplex_jax._src.models.dpm.families.family import component

MODULE = importlib.import_module("simplex_jax._src.models.dpm.families.one_of")
WEIGHTS = np.array([0.2, 0.5, 0.3])
SCALES = (0.05, 1.0, 20.0)
NORMALS = [families.gaussian([0.5], [[scale]], 0.7, 8.0) for scale in SCALES]
PROFILES = [families.multinomial(3, concentration) for concentration in (0.1, 1.0, 30.0)]
X = jnp.array([[0.4], [0.7], [0.5], [3.0], [-2.0]])
COUNTS = families.multinomial_rows([[4, 0, 1], [3, 0, 0], [0, 1, 1], [1, 1, 1], [0, 0, 0]])
CASES = {"gaussian": (NORMALS, X), "multinomial": (PROFILES, COUNTS)}
LABELS = jnp.array([0, 0, 1, 1, 2])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_evidence_and_predictive_are_sums_over_the_members(name):
    members, rows = CASES[name]
    family = families.one_of(members, WEIGHTS)
    statistics = family.statistics(rows, LABELS, 4)  # the last cluster has no rows
    given = family.statistics(rows, jnp.array([1, 0, 0, 2, 1]), 4)
    each = np.array([member.log_evidence(statistics) for member in members], np.float64)
    expected = special.logsumexp(each.T + np.log(WEIGHTS), axis=1)
    np.testing.assert_allclose(family.log_evidence(statistics), expected, atol=2e-6)
    both = jax.tree.map(jnp.add, statistics, given)
    after = family.log_evidence(both) - family.log_evidence(given)
    np.testing.assert_allclose(family.log_evidence(statistics, given), after, atol=1e-5)
    single = family.statistics(rows, jnp.arange(5), 5)
    np.testing.assert_allclose(family.log_predictive(rows), family.log_evidence(single), atol=2e-6)


def drawn(family, members, rows, seed):
    """P-values of the mean atom of each cluster, of many components with its rows."""
    number = 20_000
    result = {}
    for cluster in range(3):
        own = members[0].statistics(rows, jnp.where(cluster == LABELS, 0, 1), 1)
        many = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (number, *leaf.shape[1:])), own)
        atoms = family.draw(jax.random.key(seed + cluster), many)
        # Log standard deviations, or the first probability
        value = atoms[..., 0] if isinstance(atoms, jax.Array) else -atoms.log_det
        values = [member.draw(jax.random.key(9), many) for member in members]
        values = [v[..., 0] if isinstance(v, jax.Array) else -v.log_det for v in values]
        shares = special.softmax(
            np.log(WEIGHTS) + np.array([m.log_evidence(own)[0] for m in members], np.float64)
        )
        bound = float(np.quantile(np.concatenate(values), 0.4))
        below = np.asarray([np.mean(np.asarray(v) < bound) for v in values]) @ shares
        seen = np.asarray(value) < bound
        # Twice the variance and more: what is expected is found by draws as well.
        result[cluster] = checks.mean_z(seen, below, 2 * below * (1 - below))
    return checks.family(result)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_draws_are_of_the_members_in_proportion_to_their_evidence(name, monkeypatch):
    members, rows = CASES[name]
    family = families.one_of(members, WEIGHTS)
    assert not drawn(family, members, rows, 0)

    def by_prior(several, log_weights, statistics):
        each = jax.vmap(lambda member: member.log_evidence(statistics), out_axes=1)(several)
        return log_weights + 0 * each

    monkeypatch.setattr(MODULE, "_evidences", by_prior)
    assert drawn(family, members, rows, 0)


@pytest.mark.slow
def test_profiles_are_means_over_the_members(getkey):
    family = families.one_of(PROFILES, WEIGHTS)
    statistics = family.statistics(COUNTS, jnp.zeros(5, jnp.int32), 1)
    many = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (20_000, *leaf.shape[1:])), statistics)
    probabilities = np.exp(family.draw(getkey(), many)).astype(np.float64)
    mean, variance = component(family, statistics, family.draw(getkey(), statistics))
    p_values = {
        k: checks.mean_z(probabilities[:, k], float(mean[0, k]), float(variance[0, k]))
        for k in range(3)
    }
    assert not checks.family(p_values)
    np.testing.assert_allclose(probabilities.var(axis=0), variance[0], rtol=0.1)


def test_members_differ_in_their_priors_alone():
    for members, message in (
        ([], r"^members .*one family"),
        ([NORMALS[0], "gaussian"], r"members\[1\] .* dpm.families"),
        ([NORMALS[0], families.gaussian([0.0, 0.0], jnp.eye(2))], "kind and size"),
        ([NORMALS[0], PROFILES[0]], "kind and size"),
        ([NORMALS[0], NORMALS[1]._replace(log_evidence=None)], "has no log_evidence"),
    ):
        with pytest.raises(ValueError, match=message):
            families.one_of(members)
    family = families.one_of([NORMALS[0], families.gaussian([0.0], [[1.0]], 0.7, 8.0)])
    with pytest.raises(ValueError, match=r"^members .* statistics$"):
        family.check(X)
    families.one_of(NORMALS).check(X)
    families.one_of(PROFILES).check(COUNTS)
    with pytest.raises(ValueError, match=r"weights .* \[3\]"):
        families.one_of(NORMALS, [0.5, 0.5])
    with pytest.raises(ValueError, match=r"^weights .*0\.0 at index \(2,\)$"):
        families.one_of(NORMALS, [0.5, 0.5, 0.0])


def test_rows_may_be_a_data_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": np.asarray(X[:, 0])})
    family = families.one_of(NORMALS)
    found = data.as_data(data.Given(frame, family)).rows
    np.testing.assert_array_equal(found, X)
    options.resolve_options(data.as_data(data.Given(X, family)), frame, options.Options())


@pytest.mark.filterwarnings("error")
def test_prior_means_of_poisson_may_be_rounded():
    """0.37 / 0.1 is not 1.11 / 0.3 to the last digit; rows are of NumPy, in double precision."""
    rows = np.random.default_rng(0).poisson(3.7, (50, 1)) * 1.0
    families.one_of([families.poisson([s * 3.7], s) for s in (0.1, 0.3, 1.0, 10.0)]).check(rows)
    other = families.one_of([families.poisson([mean], 1.0) for mean in (3.7, 3.701)])
    with pytest.raises(ValueError, match=r"^members .* log_likelihood$"):
        other.check(rows)


@pytest.mark.slow
def test_a_fit_learns_how_wide_clusters_are():
    """Two clusters of very different width: no one scale is right for both."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(0, 5, (150, 2)), rng.normal(20, 0.05, (150, 2))])
    rows = (rows - rows.mean(axis=0)).astype(np.float32)
    family = families.one_of(
        [families.gaussian(np.zeros(2), scale * np.eye(2), 1e-4) for scale in (0.01, 1.0, 100.0)]
    )
    fitted = dpm.fit(rows, family=family, passes=200, seed=0)
    sizes = fitted.clusters.sizes
    np.testing.assert_allclose(sizes[:2], 150, atol=3)
    roots = np.asarray(fitted.clusters.profiles.root[:2], np.float64)
    sd = np.sqrt(np.linalg.inv(np.swapaxes(roots, 1, 2) @ roots)[:, 0, 0])
    np.testing.assert_allclose(sorted(sd), [0.05, 5.0], rtol=0.2)
