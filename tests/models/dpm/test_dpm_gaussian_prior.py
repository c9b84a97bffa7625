"""The prior of Gaussian components from the data: clusters are possible in any dimension."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln, logsumexp, multigammaln
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from support.marks import slow_but

from simplex_jax._src.models.dpm import families, starts
from simplex_jax._src.models.dpm.families import gaussian_prior
from simplex_jax._src.models.dpm.families.gaussian_prior import Prior, prior_of
from simplex_jax.sklearn import DirichletProcessMixture

KINDS = ("spherical", "correlated", "each its own", "widths")


def clusters(seed, p, count, kind, size=300):
    """Rows of clusters with means 1 apart a column, and their clusters."""
    rng = np.random.default_rng([seed, p, count])
    z = rng.choice(count, size, p=rng.dirichlet(np.full(count, 9.0)))
    means = rng.normal(size=(count, p)) * (4 if p < 8 else 1)

    def root():
        return np.linalg.qr(rng.normal(size=(p, p)))[0] * np.exp(rng.normal(0, 0.7, p))

    shared, noise = root(), 0.5 * rng.normal(size=(size, p))
    for k in range(count):
        if kind in ("correlated", "each its own"):
            noise[z == k] @= (shared if kind == "correlated" else root()).T
        elif kind == "widths":
            noise[z == k] *= np.exp(rng.normal(0, 0.6))
    return means[z] + noise, z


def joint(rows, z, prior, mean):
    """Log joint probability of rows and partition (alpha 1), in closed form."""
    total = 0.0
    scales = np.reshape(prior.scale, (-1, *np.shape(prior.scale)[-2:]))
    k, nu, p = prior.strength, prior.freedom, rows.shape[1]
    for c in np.unique(z):
        own = rows[z == c]
        n, off = len(own), own - own.mean(axis=0)
        about = k * n / (k + n) * np.outer(*2 * [own.mean(axis=0) - mean]) + off.T @ off
        logs = [np.linalg.slogdet(np.stack([s, s + about]))[1] for s in scales]
        each = [nu / 2 * before - (nu + n) / 2 * after for before, after in logs]
        total += logsumexp(each) - math.log(len(scales)) + p / 2 * math.log(k / (k + n))
        total += multigammaln((nu + n) / 2, p) - multigammaln(nu / 2, p) + gammaln(n)
        total -= n * p / 2 * math.log(math.pi)
    return total


def margins(rows, z, prior):
    """How much more probable the partition is than its best merger, and one cluster."""
    mean = rows.mean(axis=0)
    names = np.unique(z)
    truth = joint(rows, z, prior, mean)
    mergers = [
        joint(rows, np.where(z == a, b, z), prior, mean) for a in names for b in names if a < b
    ]
    return truth - max(mergers), truth - joint(rows, np.zeros_like(z), prior, mean)


@pytest.mark.parametrize(
    ("p", "count", "kind"),
    slow_but(
        [(p, count, kind) for p, count in ((2, 3), (16, 5), (32, 5), (64, 4)) for kind in KINDS],
        (2, 3, "spherical"),
        (16, 5, "correlated"),
    ),
)
def test_clusters_are_more_probable_than_their_mergers(p, count, kind):
    rows, z = clusters(3, p, count, kind)
    merger, one = margins(rows, z, prior_of(rows))
    assert one > 100
    if p > 2:  # those of two columns overlap
        assert merger > 20


@pytest.mark.slow
def test_the_covariance_of_all_rows_as_scale_makes_them_one():
    """The mutant: the default of earlier versions."""
    rows, z = clusters(3, 32, 5, "spherical")
    assert margins(rows, z, prior_of(rows))[1] > 1000
    prior = Prior(np.cov(rows.T, bias=True), 1.0, 34.0)
    assert margins(rows, z, prior)[1] < -100


@pytest.mark.parametrize("p", slow_but([1, 2, 8, 32], 2))
def test_one_correlated_normal_stays_whole(p):
    rng = np.random.default_rng(p)
    rows = rng.normal(size=(400, p)) @ (
        np.linalg.qr(rng.normal(size=(p, p)))[0] * np.arange(1, p + 1)
    )
    prior = prior_of(rows)
    z = (rows @ np.linalg.svd(rows - rows.mean(axis=0))[2][0] > 0).astype(int)
    assert margins(rows, z, prior)[0] < -20


def test_units_and_offsets_do_not_matter():
    rows, _ = clusters(1, 4, 3, "correlated")
    units = np.array([1e-6, 1.0, 1e3, 1e6])
    one, other = prior_of(rows), prior_of(rows * units + 1e9 * units)
    np.testing.assert_allclose(other.scale / np.outer(units, units), one.scale, rtol=1e-4)
    assert (other.strength, other.freedom) == pytest.approx((one.strength, one.freedom), rel=1e-4)


def test_what_is_given_is_kept():
    rows, _ = clusters(1, 4, 3, "spherical")
    prior = prior_of(rows, 0.25, 7.5)
    assert (prior.strength, prior.freedom) == (0.25, 7.5)
    # The scale is then that of prior mean W: its variances are near 1/4.
    scales = np.reshape(prior.scale, (-1, 4, 4))
    np.testing.assert_allclose(np.diag(scales[len(scales) // 2]) / 2.5, 0.25, rtol=0.3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"strength": 0.0}, r"^strength .* 0\.0$"),
        ({"strength": -1.0}, r"^strength .*-1\.0$"),
        ({"freedom": 3.0}, r"^freedom .* 3; .* 3\.0$"),
    ],
)
def test_hyperparameters_out_of_range(given, message):
    rows, _ = clusters(1, 4, 3, "spherical")
    with pytest.raises(ValueError, match=message):
        families.gaussian_of(rows, **given)
    with pytest.raises(ValueError, match=message):
        DirichletProcessMixture(family_params=given).fit(rows)


def test_fewer_rows_than_columns():
    rows, z = clusters(2, 64, 3, "spherical", size=60)
    family = families.gaussian_of(rows)
    assert np.isfinite(family.log_predictive(jnp.asarray(rows, jnp.float32))).all()
    assert margins(rows, z, prior_of(rows))[0] > 20


def test_a_column_constant_in_every_cluster_leaves_the_prior_finite():
    rows, z = clusters(1, 4, 3, "spherical")
    rows[:, 1] = z
    scale = prior_of(rows).scale
    spread = scale[..., 1, 1] / scale[..., 0, 0]
    assert np.isfinite(scale).all()
    # The values are whole numbers: their variance is at least 1/12.
    assert (spread > 0.2).all()


def test_shrinkage_of_independent_columns_and_of_one_direction():
    rng = np.random.default_rng(0)
    for size in (400, 60):  # more rows than columns, and fewer
        rows = rng.normal(size=(size, 100))
        shrunk, own = gaussian_prior._shrunk(rows.T @ rows / size, size)
        values = np.linalg.eigvalsh(shrunk)
        assert np.abs(values - 1).mean() < 0.35 * np.abs(own - 1).mean()
        assert np.trace(shrunk) == pytest.approx(own.sum())
    rows[:, 0] *= 10
    shrunk, _ = gaussian_prior._shrunk(rows.T @ rows / size, size)
    assert shrunk[0, 0] == pytest.approx(100, rel=0.5)


@pytest.mark.slow
def test_halves_of_a_cluster_are_merged_and_overlapping_clusters_are_not():
    key = jax.random.key(0)
    rows, z = clusters(3, 32, 3, "spherical")
    halves = 2 * z
    for k in range(3):
        halves[z == k] += KMeans(2, n_init=1, random_state=0).fit(rows[z == k]).labels_
    family = families.gaussian_of(rows - rows.mean(axis=0))
    moved = jnp.asarray(rows - rows.mean(axis=0), jnp.float32)
    found = starts.merged(key, family, moved, jnp.asarray(halves, jnp.int32))
    assert adjusted_rand_score(z, found) == 1
    # Rows of counts that hardly know their cluster, of which there are clearly two.
    rng = np.random.default_rng(1)
    z = np.repeat([0, 1], 2_000)
    p = np.array([[0.5, 0.3, 0.1, 0.1], [0.1, 0.1, 0.3, 0.5]])
    counts = families.multinomial_rows(np.array([rng.multinomial(4, p[k]) for k in z]))
    kept = starts.merged(key, families.multinomial(4), counts, jnp.asarray(z, jnp.int32))
    assert len(np.unique(kept)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("p", "count"), [(4, 3), (16, 8), (32, 5), (64, 3)])
def test_the_estimator_finds_them(p, count, kind):
    """At least as well as the best mixture of the true number, less what chance may cost."""
    rows, z = clusters(5, p, count, kind)
    model = DirichletProcessMixture(passes=150, random_state=0).fit(rows + 1e9)
    best = GaussianMixture(count, n_init=5, random_state=0).fit(rows)
    ours, theirs = (adjusted_rand_score(z, x) for x in (model.labels_, best.predict(rows)))
    assert ours > min(theirs, 0.95) - 0.05


@pytest.mark.slow
@pytest.mark.parametrize("p", [2, 8, 32])
def test_the_estimator_leaves_one_correlated_normal_whole(p):
    rng = np.random.default_rng(p)
    rows = rng.normal(size=(400, p)) @ rng.normal(size=(p, p))
    labels = DirichletProcessMixture(passes=100, random_state=0).fit(rows).labels_
    # A row in the tail may be alone: with 32 columns one has the posterior odds exp(-0.7), by
    # `joint`, and all together more than one.
    assert np.bincount(labels).max() >= 397
