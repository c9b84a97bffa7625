r"""A prior of `gaussian` from the data, which leaves clusters possible in any dimension.

With the covariance of all rows as the prior mean of a component's, and little weight on it, every
cluster has to learn p (p + 1) / 2 covariances of its own. From some 20 columns on that costs more
evidence than separating clear clusters gains, and the posterior is one cluster. Clusters of one
data set resemble each other in shape, though, and a prior that says so costs less:

.. math:: \Sigma \sim \mathrm{InverseWishart}(\nu, (\nu - p - 1)\, s W), \qquad
    \mu \sim N(m, \Sigma / \kappa)

W is the covariance within clusters, nu says how much clusters have it in common, and kappa how far
apart they are. The width s is 1; or one of five for each cluster (`one_of`), if that fits better by
more than `_GAIN`, with at most `_MOST_COLUMNS` columns and enough rows.

All of it is chosen by empirical Bayes on at most `_ROWS` rows: of many partitions, that and those
hyperparameters for which their joint log probability is largest (with alpha 1 in the process). The
partitions are those of k-means for several numbers of clusters, their mergers, and the assignments
of all rows given these. W is estimated by quadratic-inverse shrinkage (Ledoit and Wolf 2022,
Bernoulli 28, 1519-1547), and is diagonal for no more rows than columns. A direction in which W is
wider than chance explains could hide two clusters in one: it costs as much as the mean of a
cluster, log(rows) / 2 a column (Schwarz 1978).

The partition is not used further. The prior is fixed before sampling starts, which is exact given
it.
"""

import math
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp, multigammaln

from simplex_jax._src.extras import needed

_ROWS = 2_000
_NUMBERS = (2, 3, 4, 5, 6, 8, 10, 15, 30)
_ROWS_EACH = 5
"""Least mean number of rows of the clusters of a partition."""

_MERGED_FROM = (15, 30)
"""Numbers of clusters from which all mergers are tried; elsewhere only those of the best two."""

_PARTNERS = 3
"""Number of nearest clusters with which a merger is tried."""

_FREEDOMS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Degrees of freedom beyond p + 2, in units of p."""

_WIDTHS = np.array([1 / 9, 1 / 3, 1, 3, 9])
_GAIN = 0.5
"""Nats a row that several widths must gain: an update with them takes several times as long."""

_MOST_COLUMNS = 64
"""Number of columns beyond which they would take too long."""

_ROWS_A_COLUMN = 4
"""Least number of rows for a column: from fewer, widths are found that are chance."""

_LEAST = 1e-5
"""Least variance within clusters in units of that of all rows: beyond, float32 is too short."""


class Prior(NamedTuple):
    """Hyperparameters of `gaussian`."""

    scale: np.ndarray  # [p, p]; or [S, p, p], of which each component has one
    strength: float
    freedom: float


class _Groups(NamedTuple):
    """Moments of the clusters of a partition of standardised rows."""

    number: np.ndarray  # rows, [K]
    mean: np.ndarray  # [K, p]
    scatter: np.ndarray  # sums of squares about the means, [K, p, p]


class _Fit(NamedTuple):
    """The hyperparameters that suit a partition best."""

    score: float  # joint log probability of rows and partition, less the cost of wide directions
    within: np.ndarray  # W, [p, p]
    strength: float
    freedom: float
    evidences: np.ndarray  # of each cluster with its factor of the process, [K]


class _Search:
    """The search for partition and hyperparameters on standardised rows [n, p]."""

    def __init__(
        self, y: np.ndarray, floor: np.ndarray, strength: float | None, freedom: float | None
    ) -> None:
        self._y, self._floor = y, floor
        self._strength = strength
        size, p = y.shape
        # A pooled covariance is worth no more rows than it was made from.
        shares = [share for share in _FREEDOMS if share * p <= size]
        several = p <= _MOST_COLUMNS and size >= _ROWS_A_COLUMN * p
        self._widths = _WIDTHS if several else np.ones(1)
        self._freedoms = p + 2 + p * np.array(shares) if freedom is None else np.array([freedom])

    def best(self) -> tuple[_Fit, np.ndarray]:
        """Return the best hyperparameters, and the widths of which each cluster has one."""
        one = self._groups(np.zeros(len(self._y), int))
        best, groups = self._fit(one, wide=False), one
        starts = [(self._fit(self._groups(z), wide=True).score, z) for z in self._starts()]
        ranked = sorted(range(len(starts)), key=lambda i: -starts[i][0])
        for place, i in enumerate(ranked):
            labels = starts[i][1]
            if place < 2 or labels.max() + 1 in _MERGED_FROM:
                fit, found = self._improved(labels)
                if fit.score > best.score:
                    best, groups = fit, found
        alike = self._fit(groups, wide=False)
        if len(groups.number) == 1:  # says nothing about what clusters have in common
            return alike._replace(freedom=float(self._freedoms[0])), np.ones(1)
        if best.score > alike.score + _GAIN * len(self._y):
            return best, self._widths
        return alike, np.ones(1)

    def _starts(self) -> Iterator[np.ndarray]:
        """Yield labels of rows by k-means, with the columns as they are and uncorrelated."""
        with needed("the search for a prior"):
            from sklearn.cluster import KMeans  # takes half a second

        root = np.linalg.cholesky(_shrunk(self._y.T @ self._y / len(self._y), len(self._y) - 1)[0])
        for space in (self._y, np.linalg.solve(root, self._y.T).T):
            for number in _NUMBERS:
                if number * _ROWS_EACH > len(space):
                    break
                with warnings.catch_warnings():  # of fewer different rows than clusters
                    warnings.simplefilter("ignore")
                    yield _numbered(KMeans(number, n_init=1, random_state=0).fit(space).labels_)

    def _groups(self, labels: np.ndarray) -> _Groups:
        parts = [self._y[labels == k] for k in range(labels.max() + 1)]
        means = np.array([part.mean(axis=0) for part in parts])
        off = [part - mean for part, mean in zip(parts, means, strict=True)]
        return _Groups(
            np.bincount(labels).astype(float), means, np.array([each.T @ each for each in off])
        )

    def _improved(self, labels: np.ndarray) -> tuple[_Fit, _Groups]:
        """Merge clusters and assign rows, in turn; return the best found."""
        best: tuple[_Fit, _Groups] | None = None
        for _ in range(3):
            fit, groups, labels = self._merged(labels)
            if best is None or fit.score > best[0].score:
                best = fit, groups
            new = self._assigned(fit, groups)
            if np.array_equal(new, labels):
                break
            labels = new
        assert best is not None
        return best

    def _merged(self, labels: np.ndarray) -> tuple[_Fit, _Groups, np.ndarray]:
        """Merge the pair that loses least until one cluster is left; return the best stage."""
        groups = self._groups(labels)
        names = np.arange(len(groups.number))  # the present cluster of each at first
        best: tuple[_Fit, _Groups, np.ndarray] | None = None
        while True:
            fit = self._fit(groups, wide=True)
            if best is None or fit.score > best[0].score:
                best = fit, groups, names[labels]
            count = len(groups.number)
            if count == 1:
                return best
            first, second = _near(fit.within, groups.mean)
            merged = _joined(groups, first, second)
            gains = self._evidences(fit, merged) - fit.evidences[first] - fit.evidences[second]
            i = int(np.argmax(gains))
            a, b = first[i], second[i]
            names = np.where(names == b, a, names)
            names = names - (names > b)
            keep = np.arange(count) != b
            groups = _Groups(
                *(
                    np.where((np.arange(count) == a).reshape(-1, *[1] * (x.ndim - 1)), y[i], x)[
                        keep
                    ]
                    for x, y in zip(groups, merged, strict=True)
                )
            )

    def _assigned(self, fit: _Fit, groups: _Groups) -> np.ndarray:
        """Assign every row to its most probable cluster, a few times."""
        p = self._y.shape[1]
        labels = np.zeros(0, int)
        for _ in range(3):
            _, about = self._scatters(fit, groups)
            values = _eigenvalues(fit.within, about)
            each = self._of_widths(fit, groups.number, self._log_dets(fit, values, self._widths))
            width = self._widths[each.argmax(axis=0)]
            c = _spread(fit.freedom, p)
            total = c * width[:, None, None] * fit.within + about
            scale = total / (c + groups.number)[:, None, None]
            logits = np.empty((len(self._y), len(scale)))
            for k, root in enumerate(np.linalg.cholesky(scale)):
                z = np.linalg.solve(root, (self._y - groups.mean[k]).T)
                logits[:, k] = np.log(groups.number[k] / np.diag(root).prod()) - 0.5 * (z**2).sum(0)
            new = _numbered(logits.argmax(axis=1))
            if np.array_equal(new, labels):
                break
            labels = new
            groups = self._groups(labels)
        return labels

    def _fit(self, groups: _Groups, *, wide: bool) -> _Fit:
        number, mean, _ = groups
        size, p = self._y.shape
        widths = self._widths if wide and len(number) > 1 else np.ones(1)
        wide = len(widths) > 1
        within, directions, width = self._within(groups, wide)
        apart = (mean * np.linalg.solve(within, mean.T).T).sum(axis=1) / width
        distance = float(number @ apart) / size
        strength = self._strength
        if strength is None:
            strength = min(1.0, p / distance if distance > 0 else 1.0)
        fit = _Fit(0.0, within, strength, float(self._freedoms[0]), np.zeros(0))
        _, about = self._scatters(fit, groups)
        values = _eigenvalues(within, about)
        for freedom in self._freedoms:
            other = fit._replace(freedom=float(freedom))
            each = _mean(
                self._of_widths(other, number, self._log_dets(other, values, widths), widths)
            )
            score = float(each.sum()) - 0.5 * directions * p * math.log(size)
            if not len(fit.evidences) or score > fit.score:
                fit = other._replace(score=score, evidences=each)
        return fit

    def _within(self, groups: _Groups, wide: bool) -> tuple[np.ndarray, int, np.ndarray]:
        """Return W, the number of its directions wider than chance, and the clusters' widths."""
        number, _, scatter = groups
        size, p = self._y.shape
        degrees = max(size - len(number), 1)
        width = np.ones(len(number))
        for _ in range(3 if wide else 1):
            total = (scatter / width[:, None, None]).sum(axis=0) / size
            variances = np.maximum(np.diag(total), self._floor)
            if wide:
                own = (np.einsum("kpp->kp", scatter) / variances).sum(axis=1) + p
                width = own / (p * (number + 1))
                width /= math.exp(float(number @ np.log(width)) / size)
        sd = np.sqrt(variances)
        np.fill_diagonal(total, variances)
        if size <= p:  # too few rows to tell covariances from differences of clusters
            return np.diag(variances), 0, width
        correlation, values = _shrunk(total / np.outer(sd, sd), degrees)
        # The largest eigenvalue of independent columns (Marchenko and Pastur 1967), and a little.
        chance = 1.05 * (1 + math.sqrt(p / degrees)) ** 2
        return correlation * np.outer(sd, sd), int((values > chance).sum()), width

    def _evidences(self, fit: _Fit, groups: _Groups) -> np.ndarray:
        number, about = self._scatters(fit, groups)
        # Determinants, for one number of degrees of freedom: a tenth of the time of eigenvalues.
        c = _spread(fit.freedom, self._y.shape[1]) * self._widths
        scales = c[:, None, None, None] * fit.within + about
        after = np.linalg.slogdet(scales)[1] - np.linalg.slogdet(fit.within)[1]
        return _mean(self._of_widths(fit, number, after))

    def _scatters(self, fit: _Fit, groups: _Groups) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of rows, and what they add to the scale of the posterior."""
        number, mean, scatter = groups
        weight = fit.strength * number / (fit.strength + number)
        return number, scatter + weight[:, None, None] * mean[:, :, None] * mean[:, None, :]

    def _log_dets(self, fit: _Fit, values: np.ndarray, widths: np.ndarray) -> np.ndarray:
        """Return log determinants of the posterior's scales in units of W, [S, K].

        `values` are the eigenvalues of what the rows add to the scale, in these units, [K, p].
        """
        c = _spread(fit.freedom, values.shape[1]) * widths
        return np.log(c[:, None, None] + values).sum(axis=2)

    def _of_widths(
        self, fit: _Fit, n: np.ndarray, after: np.ndarray, widths: np.ndarray | None = None
    ) -> np.ndarray:
        """Return log evidences with the factors of the process, Gamma(n), [S, K].

        `after` are the log determinants of the posterior's scales in units of W, [S, K]. Constants
        of all partitions are left out.
        """
        p, nu, k = self._y.shape[1], fit.freedom, fit.strength
        c = _spread(nu, p) * (self._widths if widths is None else widths)[:, None]
        log_det = np.linalg.slogdet(fit.within)[1]
        return (
            multigammaln((nu + n) / 2, p)
            - multigammaln(nu / 2, p)
            + 0.5 * (nu * p * np.log(c) - (nu + n) * after - n * log_det)
            + 0.5 * p * np.log(k / (k + n))
            + gammaln(n)
        )


def _mean(logs: np.ndarray) -> np.ndarray:
    """Return the logs of means over the widths, [K]."""
    return logsumexp(logs, axis=0) - math.log(len(logs))


def _spread(freedom: float, p: int) -> float:
    """Return the factor of W in the scale, for which W is the prior mean if that exists."""
    return freedom - p - 1 if freedom > p + 1 else 1.0


def _eigenvalues(within: np.ndarray, scatters: np.ndarray) -> np.ndarray:
    """Return the eigenvalues of scatters [K, p, p] in units of W, [K, p]."""
    inverse = np.linalg.inv(np.linalg.cholesky(within))
    return np.maximum(np.linalg.eigvalsh(inverse @ scatters @ inverse.T), 0)


def _near(within: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of each cluster and the nearest others, first < second."""
    z = np.linalg.solve(np.linalg.cholesky(within), means.T).T
    distance = ((z[:, None] - z) ** 2).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    others = np.argsort(distance, axis=1, kind="stable")[:, : min(_PARTNERS, len(z) - 1)]
    pairs = np.stack([np.repeat(np.arange(len(z)), others.shape[1]), others.ravel()])
    first, second = np.unique(np.sort(pairs, axis=0), axis=1)
    return first, second


def _joined(groups: _Groups, first: np.ndarray, second: np.ndarray) -> _Groups:
    number, mean, scatter = groups
    n, m = number[first], number[second]
    apart = mean[first] - mean[second]
    total = n + m
    between = (n * m / total)[:, None, None] * apart[:, :, None] * apart[:, None, :]
    return _Groups(
        total,
        (n[:, None] * mean[first] + m[:, None] * mean[second]) / total[:, None],
        scatter[first] + scatter[second] + between,
    )


def _numbered(labels: np.ndarray) -> np.ndarray:
    return np.unique(labels, return_inverse=True)[1]


def _shrunk(covariance: np.ndarray, degrees: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the quadratic-inverse shrinkage of a sample covariance, and its own eigenvalues."""
    p = len(covariance)
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 0)
    c = p / degrees
    h = min(c**2, 1 / c**2) ** 0.35 / p**0.35
    largest = values[max(0, p - degrees) :]
    inverse = 1 / np.maximum(largest, 1e-12 * values[-1])
    apart = inverse[:, None] - inverse
    square = apart**2 + (h * inverse[:, None]) ** 2
    smooth = (inverse[:, None] * apart / square).mean(axis=0)
    conjugate = (h * inverse[:, None] ** 2 / square).mean(axis=0)
    amplitude = smooth**2 + conjugate**2
    if p <= degrees:
        shrunk = 1 / (
            (1 - c) ** 2 * inverse + 2 * c * (1 - c) * inverse * smooth + c**2 * inverse * amplitude
        )
    else:
        null = 1 / ((c - 1) * inverse.mean())
        shrunk = np.concatenate([np.full(p - len(largest), null), 1 / (inverse * amplitude)])
    shrunk *= values.sum() / shrunk.sum()
    return (vectors * shrunk) @ vectors.T, values


def prior_of(
    values: np.ndarray, strength: float | None = None, freedom: float | None = None
) -> Prior:
    """Return the hyperparameters of `gaussian` for float64 rows [n, p] whose columns vary.

    The prior mean is that of the rows. `strength` and `freedom` are chosen where None. Missing
    cells are NaN.

    Raises:
        ValueError: `strength` is not positive, or `freedom` not above p - 1.
    """
    size, p = values.shape
    if strength is not None and not 0 < strength < math.inf:
        raise ValueError(f"strength must be finite and positive; it is {strength}")
    if freedom is not None and not p - 1 < freedom < math.inf:
        raise ValueError(f"freedom must be finite and above p - 1 = {p - 1}; it is {freedom}")
    centre, sd = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    if size > _ROWS:
        values = values[np.random.default_rng(0).choice(size, _ROWS, replace=False)]
    y = _complete((values - centre) / sd)
    # Numbers that are rounded to a unit have at least the variance of the rounding.
    units = np.array([_unit(column) for column in y.T])
    search = _Search(y, np.maximum(_LEAST, units**2 / 12), strength, freedom)
    fit, widths = search.best()
    scale = _spread(fit.freedom, p) * fit.within * np.outer(sd, sd)
    several = widths[:, None, None] * scale
    return Prior(several if len(widths) > 1 else scale, fit.strength, fit.freedom)


def _complete(y: np.ndarray) -> np.ndarray:
    """Return rows with missing cells as in the most similar row that has them.

    Means instead would hide what the columns have in common within clusters.
    """
    if not np.isnan(y).any():
        return y
    with needed("the search for a prior"):
        from sklearn.impute import KNNImputer

    return KNNImputer(n_neighbors=1, keep_empty_features=True).fit_transform(y)


def _unit(column: np.ndarray) -> float:
    """Return the least distance of two different numbers, 0 if it is within rounding error."""
    steps = np.diff(np.unique(column))
    steps = steps[steps > 1e-9]
    return float(steps.min()) if len(steps) else 0.0
