"""Families of tables with missing cells: examples, and closed forms in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from simplex_jax._src.models.dpm import families
from simplex_jax._src.models.dpm.families.categorical import variables as by_variable
from simplex_jax._src.models.dpm.families.diagonal_gaussian import DiagonalNormals
from support import statistics_checks as checks

NAMES = ("diagonal_gaussian", "poisson", "product")
NORMAL = {"mean": [1.0, -1.0], "scale": [2.0, 0.5], "strength": [0.7, 1.3], "freedom": [3.5, 2.2]}
COUNT = {"shape": [0.8, 2.5], "rate": [0.5, 0.3]}
CATEGORIES, CONCENTRATION = [3, 2], [0.5, 1.5]
N = 7


def make(name, **changed):
    """A small family of that name in which all hyperparameters matter."""
    if name == "diagonal_gaussian":
        return families.diagonal_gaussian(
            **{k: jnp.array(v) for k, v in (NORMAL | changed).items()}
        )
    if name == "poisson":
        return families.poisson(**{k: jnp.array(v) for k, v in (COUNT | changed).items()})
    return families.product(
        {
            "size": make("diagonal_gaussian", **changed),
            "visits": make("poisson"),
            "colour": families.categorical(CATEGORIES, np.array(CONCENTRATION)),
        }
    )


def data(name, rng, n=N):
    """Rows with missing cells; the last but one has no observations."""
    missing = rng.random((n, 2)) < 0.3
    missing[[0, 1, 2, 3], [0, 0, 1, 1]] = False  # these rows have observations
    missing[0, 1] = missing[2, 0] = missing[-2] = True
    if name == "diagonal_gaussian":
        values = np.where(missing, np.nan, rng.normal([0.8, -0.3], [2.0, 0.5], (n, 2)))
        return jnp.asarray(values, jnp.float32)
    if name == "poisson":
        return jnp.asarray(np.where(missing, -1, rng.poisson([1.5, 9.0], (n, 2))), jnp.int32)
    rows = {"size": data("diagonal_gaussian", rng, n), "visits": data("poisson", rng, n)}
    return rows | {"colour": jnp.asarray(np.where(missing, -1, rng.integers(0, [3, 2], (n, 2))))}


def some_atoms(name, rng):
    """Three atoms, in single precision."""
    if name == "diagonal_gaussian":
        atoms = DiagonalNormals(rng.normal(size=(3, 2)), np.exp(rng.normal(size=(3, 2))))
    elif name == "poisson":
        atoms = rng.normal(1, 1, (3, 2))
    else:
        tables = [special.log_softmax(rng.normal(size=(3, 1, d)), axis=-1) for d in (2, 3)]
        atoms = {n: some_atoms(k, rng) for n, k in zip(("size", "visits"), NAMES, strict=False)}
        atoms["colour"] = tuple(tables)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), atoms)


def nodes_of(name):
    """(family, atoms, log of prior density times quadrature weight, rows) that integrate over G0.

    For one column. The product's other columns have atoms of their own, for which the same weights
    would not do: it is compared with the sum of its groups.
    """
    x, w = special.roots_legendre(120)
    if name == "poisson":
        family = families.poisson([2.5], 0.5)
        log_rate = np.log(5) + 6 * x
        log_prior = stats.gamma.logpdf(np.exp(log_rate), 2.5, scale=2) + log_rate + np.log(6 * w)
        rows = jnp.array([[3], [0], [11]])
        return family, jnp.asarray(log_rate[:, None], jnp.float32), log_prior, rows
    family = families.diagonal_gaussian([1.0], 0.8, 0.5, 3.0)
    log_sd, z = 7 * x, np.linspace(-9, 9, 200)
    sd = np.exp(log_sd)[:, None]
    mean = 1 + sd / np.sqrt(0.5) * z
    log_prior = stats.invgamma.logpdf(sd**2, 1.5, scale=0.4) + np.log(2) + 2 * np.log(sd)
    log_prior = log_prior + np.log(7 * w)[:, None] + stats.norm.logpdf(z) + np.log(z[1] - z[0])
    mean, sd = mean.ravel()[:, None], np.broadcast_to(sd, mean.shape).ravel()[:, None]
    atoms = DiagonalNormals(jnp.asarray(mean, jnp.float32), jnp.asarray(sd, jnp.float32))
    return family, atoms, log_prior.ravel(), jnp.array([[0.3], [2.5], [-4.0]])


def normal_posterior(cells, mean, scale, strength, freedom):
    """Prior of a column given cells, in double precision, and their log evidence."""
    x = np.asarray(cells, np.float64)
    x = x[~np.isnan(x)]
    n = len(x)
    k, nu = strength + n, freedom + n
    m = (strength * mean + x.sum()) / k
    psi = scale + ((x - x.mean()) ** 2).sum() if n else scale
    psi = psi + (strength * n / k * (x.mean() - mean) ** 2 if n else 0)
    log_f = special.gammaln(nu / 2) - special.gammaln(freedom / 2) - n / 2 * np.log(np.pi)
    log_f += freedom / 2 * np.log(scale) - nu / 2 * np.log(psi) + 0.5 * np.log(strength / k)
    return {"mean": m, "scale": psi, "strength": k, "freedom": nu}, log_f


def count_posterior(cells, shape, rate):
    """Likewise for counts; the evidence is relative to a Poisson at the prior mean."""
    x = np.asarray(cells, np.float64)
    x = x[x >= 0]
    n, s, m = len(x), x.sum(), shape / rate
    a, b = shape + s, rate + n
    log_f = special.gammaln(a) - special.gammaln(shape) + shape * np.log(rate) - a * np.log(b)
    return {"shape": a, "rate": b}, log_f - s * np.log(m) + n * m


def category_posterior(cells, categories, concentration):
    """Likewise for one categorical variable."""
    x = np.asarray(cells)
    a = concentration + np.bincount(x[x >= 0], minlength=categories)
    before = np.full(categories, concentration)
    log_f = special.gammaln(a).sum() - special.gammaln(a.sum())
    return a, log_f - special.gammaln(before).sum() + special.gammaln(before.sum())


def log_evidence(name, rows):
    """Log evidence of rows as one cluster, in closed form."""
    if name == "product":
        colours = zip(np.asarray(rows["colour"]).T, CATEGORIES, CONCENTRATION, strict=True)
        total = sum(category_posterior(*column)[1] for column in colours)
        return (
            total
            + log_evidence("diagonal_gaussian", rows["size"])
            + log_evidence("poisson", rows["visits"])
        )
    prior = NORMAL if name == "diagonal_gaussian" else COUNT
    posterior = normal_posterior if name == "diagonal_gaussian" else count_posterior
    return sum(
        posterior(column, **{key: value[j] for key, value in prior.items()})[1]
        for j, column in enumerate(np.asarray(rows).T)
    )


def _check_normals(atoms, prior):
    """Both parameters of a column, and the mean by itself."""
    m, scale, k, nu = (prior[key] for key in ("mean", "scale", "strength", "freedom"))
    chi, z = scale / atoms.sd**2, np.sqrt(k) * (atoms.mean - m) / atoms.sd
    width = np.sqrt(scale / (k * nu))
    return {
        "chi": checks.dkwm(chi, stats.chi2(nu).cdf, resolution=1e-4),
        "chi, mean": checks.mean_z(chi, nu, 2 * nu),
        "chi, variance": checks.variance_z(chi, nu, 2 * nu, 12 * nu * (nu + 4)),
        "z": checks.dkwm(z, stats.norm.cdf),
        "z, mean": checks.mean_z(z, 0, 1),
        "z, variance": checks.variance_z(z, 0, 1, 3),
        "both": checks.mean_z(z * chi, 0, 2 * nu + nu**2),
        "t": checks.dkwm(atoms.mean - m, stats.t(nu, scale=width).cdf),
    }


def _check_rates(log_rates, prior):
    law = stats.gamma(prior["shape"], scale=1 / prior["rate"])
    rates = np.exp(log_rates)
    fourth = (float(law.stats("k")) + 3) * law.var() ** 2
    return {
        "law": checks.dkwm(rates, law.cdf, resolution=1e-6),
        "mean": checks.mean_z(rates, law.mean(), law.var()),
        "variance": checks.variance_z(rates, law.mean(), law.var(), fourth),
    }


def p_values(name, atoms, rows):
    """Checks of draws of atoms, [draws, ...], against the posterior given rows, or given none."""
    if name == "product":
        rows = rows or dict.fromkeys(("size", "visits", "colour"))
        result = checks.prefixed("size", p_values("diagonal_gaussian", atoms["size"], rows["size"]))
        result |= checks.prefixed("visits", p_values("poisson", atoms["visits"], rows["visits"]))
        drawn = by_variable(CATEGORIES, atoms["colour"])
        for j, log_p in enumerate(drawn):
            cells = np.full(1, -1) if rows["colour"] is None else np.asarray(rows["colour"])[:, j]
            a, _ = category_posterior(cells, CATEGORIES[j], CONCENTRATION[j])
            law, p = stats.beta(a[0], a.sum() - a[0]), np.exp(log_p[:, 0])
            result["colour", j] = checks.dkwm(p, law.cdf, resolution=1e-7)
        return result
    result = {}
    for j in range(2):
        cells = np.array([np.nan]) if rows is None else np.asarray(rows)[:, j]
        if name == "poisson":
            prior, _ = count_posterior(cells, *(COUNT[key][j] for key in COUNT))
            result |= checks.prefixed(j, _check_rates(atoms[:, j], prior))
        else:
            prior, _ = normal_posterior(cells, *(NORMAL[key][j] for key in NORMAL))
            column = jax.tree.map(lambda leaf, j=j: leaf[:, j], atoms)
            result |= checks.prefixed(j, _check_normals(column, prior))
    return result
