"""The papers' claims, and what the kept results say of them: the table of `docs/papers.md`.

`../pages.py` writes it. Numbers come from `benchmarks/results/papers`; verdicts are ours.
"""

import functools
from typing import Any

import kept

RESULTS = kept.RESULTS / "papers"
VERDICTS = ("reproduced", "partly", "not reproduced", "open")
Row = dict[str, Any]


def claims() -> list[dict[str, str]]:
    """Return the rows of the table, with links into `docs/experiments.md`."""
    return [
        {
            "claim": f"[{where}](experiments.md#{section}): {claim}",
            "verdict": verdict,
            "theirs": theirs,
            "ours": ours,
            "settings": settings,
        }
        for where, section, claim, verdict, theirs, ours, settings in (*_simplex(), *_spheres())
    ]


@functools.cache
def result(name: str) -> dict[str, Any]:
    """Return a kept result."""
    return kept.read(RESULTS / f"{name}.json")


def row(name: str, /, **where: Any) -> Row:
    """Return the only row of a result with the given values; blanks of columns are underscores."""
    asked = {column.replace("_", " "): value for column, value in where.items()}
    (found,) = (r for r in result(name)["rows"] if asked.items() <= r.items())
    return found


def _ks(case: str, method: str, n: int) -> str:
    found = row("scir_figure2", case=case, method=method, batch_size=n)
    return f"{method} {found['KS mean']:.3f} ({found['KS min']:.3f} to {found['KS max']:.3f})"


def _medians(method: str) -> str:
    found = row("scir_figure1", method=method)
    return f"{method} {found['least median']:.1f} to {found['largest median']:.1f}"


def _rates(method: str) -> str:
    exact, few = (
        row("scir_rates", case=case, method=method, batch_size=n)
        for case, n in (("rates", 1000), ("few events", 1))
    )
    return f"{method} {exact['KS mean']:.3f}, {few['KS mean']:.2f} ({few['KS sd']:.2f})"


def _lda(name: str, *methods: str) -> str:
    found = {method: row(name, method=method) for method in methods}
    return ", ".join(f"{method} {r['running']:.0f}" for method, r in found.items())


def _nips(method: str, sweeps: int) -> str:
    """Return an average over the second half of the run, with its range over seeds."""
    r = row("lda_nips", method=method, sweeps_an_update=sweeps)
    return f"{method} {r['averaged']:.0f} ({r['least']:.0f} to {r['most']:.0f})"


def _wikipedia(name: str, *methods: str) -> str:
    """Return averages as the papers have them, and of the second half with its range over seeds."""
    found = {method: row(name, method=method) for method in methods}
    return "; ".join(
        f"{method} {r['running']:.0f}, {r['averaged']:.0f} ({r['least']:.0f} to {r['most']:.0f})"
        for method, r in found.items()
    )


def _users(method: str) -> str:
    found = row("dpm_msweb", method=method)
    return f"{method.removesuffix(', published')} {found['averaged']} ({found['sd over seeds']})"


def _clusters() -> str:
    found = [
        row("dpm_msweb_remarks", method=method)
        for method in ("SCIR, 30 labels", "SGRLD, published", "SGRLD, concentration 100")
    ]
    return "from 30 labels: SCIR {}, SGRLD {}; at 100 {}, last scores {}, {}, {}".format(
        *(f"{r['clusters']:.0f}" for r in found), *(r["current"] for r in found)
    )


def _ess(sampler: str) -> str:
    best = max(r["ESS mean"] for r in result("sgrld_figure1")["rows"] if r["sampler"] == sampler)
    return f"{best:.0f}"


def _variation(method: str, step: float) -> str:
    found = row("mld_figure1", method=method, step_size=step, iterations=1000)
    return f"{method.partition(',')[0]} " + ", ".join(
        f"{found[f'TV, component {component}']:.3f}" for component in (1, 8)
    )


def _bound() -> str:
    steps = "theorem's"
    rows = [r for r in result("mld_theorem4")["rows"] if r["step"] == steps and r["data"] == "all"]
    loose = [r["bound"] / r["entropy at random"] for r in rows]
    slope = result("mld_theorem4")["settings"]["slopes"][f"all, {steps}"]
    return f"T^({slope:.2f}), {min(loose):.0f} to {max(loose):.0f} times below the bound"


def _taylor(name: str) -> str:
    found = row("mld_variants", part="variants", name=name)
    return f"{found['averaged']:.0f} ({found['least']:.0f} to {found['most']:.0f})"


def _slope(kernel: str) -> str:
    return f"{kernel} {row('sggmc_order', kernel=kernel)['slope']}"


def _data_sets(method: str) -> str:
    rows = [r for r in result("sggmc_posterior")["rows"] if r["method"] == method]
    broken = sum(r["NaN chains"] for r in rows)
    chains = result("sggmc_posterior")["settings"]["chains"] * len(rows)
    if broken:
        return f"{broken} of {chains} chains NaN"
    far, hot = ([r[name] for r in rows] for name in ("joint, one chain", "kinetic energy"))
    return (
        f"variation {min(far):.2f} to {max(far):.2f}, kinetic energy {min(hot):.1f} to "
        f"{max(hot):.1f} for 1"
    )


def _lognormal() -> str:
    mended, all_data, blind = (
        row("scir_lognormal", case="even", method=method, batch_size=n)
        for method, n in (
            ("mean-reverting GBM", 1),
            ("mean-reverting GBM", 1000),
            ("the paper's GBM", 1),
        )
    )
    return (
        f"theirs {blind['KS mean']:.2f}, later {blind['KS, later']:.2f}; mean-reverting, all data, "
        f"then n = 1: {all_data['KS mean']:.3f}, {mended['KS mean']:.2f} ({mended['KS sd']:.2f})"
    )


def _sam(name: str, method: str, settings: str) -> str:
    return f"{method} {row(name, method=method, settings=settings)['importance, 10 pooled']:.0f}"


def _sam_seconds(name: str) -> str:
    return f"{result(name)['settings']['seconds a method']:.0f} s"


_Claim = tuple[str, str, str, str, str, str, str]
_TOY = "sparse-and-dense-posteriors-by-minibatches-scir-figures-1-and-2"
_WIKIPEDIA = "lda-on-wikipedia-50-documents-at-a-time-scir-figure-3a-sgrld-2b-mld-1b-and-1d"
_MIRROR = "total-variation-over-iterations-mld-figures-1a-and-1c"
_SAM = "the-spherical-admixture-model-on-20news-different-and-wikipedia-sggmc-figure-5"
_MODES = "two-modes-on-a-circle-and-a-mixture-posterior-sggmc-sections-51-and-52"


def _simplex() -> list[_Claim]:
    truth = row("scir_figure1", method="true quantiles")["log10 quantile 0.5"]
    return [
        (
            "SCIR 1",
            _TOY,
            "SCIR has the quantiles of a sparse component",
            "reproduced",
            "picture",
            f"log10 medians: {_medians('SCIR')}, {_medians('SGRLD')}; truth {truth:.1f}",
            "published",
        ),
        (
            "SCIR 2(a)",
            _TOY,
            "far closer to a sparse posterior than SGRLD",
            "reproduced",
            "picture",
            f"distances, n = 10: {_ks('sparse', 'SCIR', 10)}, {_ks('sparse', 'SGRLD', 10)}",
            "published; SGRLD's drift corrected",
        ),
        (
            "SCIR 2(b)",
            _TOY,
            "level on a dense one",
            "reproduced",
            "picture",
            f"n = 100: {_ks('dense', 'SCIR', 100)}, {_ks('dense', 'SGRLD', 100)}",
            "likewise",
        ),
        (
            "SCIR 2.3",
            "rates-and-precisions-on-0-inf-by-minibatches-scir-section-23-poster-section-5",
            "gamma posteriors without bias near 0",
            "partly",
            "no experiment",
            f"all data, then few events at n = 1: {_rates('CIR')}, {_rates('reflected Euler')}",
            "ours",
        ),
        (
            "SCIR 2.3, GBM",
            "lognormal-targets-by-minibatches-scir-section-23",
            "geometric Brownian motion samples lognormal posteriors",
            "not reproduced",
            "no experiment",
            _lognormal(),
            "ours",
        ),
        (
            "SCIR 3(a)",
            _WIKIPEDIA,
            "LDA below SGRLD",
            "reproduced",
            "picture",
            _wikipedia("lda_wikipedia_published", "SCIR", "SGRLD"),
            "published, other documents",
        ),
        (
            "SCIR 3(b)",
            "dirichlet-process-mixture-of-web-users-scir-figure-3b",
            "mixture of web users below SGRLD",
            "not reproduced",
            "picture",
            f"{_users('SCIR, published')}, {_users('SGRLD, published')}",
            "published; code's indexing corrected",
        ),
        (
            "SCIR 4.2",
            "dirichlet-process-mixture-of-web-users-scir-figure-3b",
            "SGRLD makes too many clusters; a higher concentration helps, but fits worse",
            "not reproduced",
            "remarks",
            _clusters(),
            "three seeds",
        ),
        (
            "SGRLD 1",
            "effective-sample-size-of-the-parameterisations-sgrld-figure-1",
            "most effective samples in the expanded mean",
            "not reproduced",
            "picture",
            f"{_ess('Riemannian, expanded mean')}; reduced natural "
            f"{_ess('Langevin, reduced natural')}; expanded mean uncorrected "
            f"{_ess('Riemannian, expanded mean, uncorrected')}",
            "published",
        ),
        (
            "SGRLD 2(a)",
            "lda-on-the-nips-papers-all-documents-in-every-update-sgrld-figure-2a",
            "collapsed Gibbs best, SGRLD second",
            "partly",
            "picture",
            ", ".join(
                [
                    _nips("collapsed Gibbs", 1),
                    _nips("online VB", 5),
                    _nips("hybrid", 5),
                    _nips("SGRLD", 1),
                ]
            ),
            "1,740 of 2,483 papers, at most 100 updates",
        ),
        (
            "SGRLD 2(b)",
            _WIKIPEDIA,
            "SGRLD below hybrid below variational Bayes",
            "reproduced",
            "picture",
            _wikipedia("lda_wikipedia_grid", "SGRLD", "hybrid", "online VB")
            + "; published length "
            + _lda("lda_wikipedia_full", "SGRLD", "hybrid", "online VB")
            + "; at equal alpha and beta "
            + _lda("lda_wikipedia_common", "SGRLD", "hybrid", "online VB"),
            "a grid of ours, a third of the length; published length: the others' defaults",
        ),
        (
            "MLD, Theorem 4",
            _MIRROR,
            "divergence falls at least as T^(-1/2)",
            "reproduced",
            "bound",
            _bound(),
            "printed step corrected",
        ),
        (
            "MLD 1(a), 1(c)",
            _MIRROR,
            "MLD converges faster than SGRLD",
            "partly",
            "picture",
            "a dense, a sparse component: "
            + ", ".join(
                (
                    _variation("MLD, symmetric", 0.003),
                    _variation("SGRLD", 0.0001),
                    _variation("exact CIR", 0.3),
                )
            ),
            "100,000 of 2,000,000 chains",
        ),
        (
            "MLD 1(b)",
            _WIKIPEDIA,
            "SMLD-approximate below SGRLD",
            "partly",
            "picture",
            "equal updates: "
            + _wikipedia("lda_wikipedia_full", "SMLD-approximate", "SGRLD")
            + "; equal seconds: "
            + _wikipedia("lda_wikipedia_seconds", "SMLD-approximate", "SGRLD"),
            "3,000 updates, theirs 2,000; step ours",
        ),
        (
            "MLD 1(d)",
            _WIKIPEDIA,
            "SMLD-approximate, SGRHMC, K = 50",
            "not reproduced",
            "1323, about 1400",
            _wikipedia("mld_figure1d", "SMLD-approximate", "SGRHMC, Ma et al."),
            "other documents, steps ours",
        ),
        (
            "MLD, footnote 4",
            "variants-of-smld-approximate-and-the-ball-mld-footnote-4-and-appendix-b2",
            "other approximations of exp do as well",
            "partly",
            "a sentence",
            f"as printed {_taylor('max(0, 1 + y), as the paper')}, threshold "
            f"{_taylor('max(0.01, 1 + y)')}, third order {_taylor('third order')}, second "
            f"{_taylor('second order')}",
            "AP articles",
        ),
    ]


def _spheres() -> list[_Claim]:
    circle = row("sggmc_circle", method="SGGMC, V = 1000")
    mass, true = circle["mass at mu_1"], circle["true mass"]
    one, low, high = (circle[name] for name in ("distance, one chain", "least", "most"))
    return [
        (
            "SGGMC, Table 1",
            "order-of-the-geodesic-samplers-sggmc-section-33",
            "SGGMC, gSGNHT, GMC, CHMC, RMHMC of order 2, the step of SGHMC of 1",
            "partly",
            "orders",
            ", ".join(
                map(_slope, ("SGGMC", "gSGNHT", "GMC", "CHMC", "RMHMC", "SGGMC, the step of SGHMC"))
            ),
            "target ours",
        ),
        (
            "SGGMC 3",
            _MODES,
            "both modes of a circle",
            "reproduced",
            "picture",
            f"lesser mass {mass:.3f} (true {true:.3f}); variation "
            f"{one:.2f} ({low:.2f} to {high:.2f} of 16 chains)",
            "published",
        ),
        (
            "SGGMC 4",
            _MODES,
            "posterior of a mixture",
            "not reproduced",
            "picture",
            f"V of the batch: {_data_sets('SGGMC, full-matrix V of the batch')}; of all data: "
            f"{_data_sets('SGGMC')}; a batch a step: {_data_sets('SGGMC, a batch a step')}",
            "published, likelihood corrected, five sets of data",
        ),
        (
            "SGGMC 5(a)",
            _SAM,
            "topics on a sphere, 20News: below variational inference",
            "partly",
            "picture",
            f"10 pooled: {_sam('sam_20news', 'VI', '')}, "
            f"{_sam('sam_20news', 'SGGMC', 'published')}; at equilibrium "
            f"{_sam('sam_20news', 'SGGMC, full batch', 'equilibrium')}",
            f"{_sam_seconds('sam_20news')}, one seed",
        ),
        (
            "SGGMC 5(b)",
            _SAM,
            "the same, Wikipedia",
            "open",
            "picture",
            f"10 pooled: {_sam('sam_wikipedia', 'VI', '')}, "
            f"{_sam('sam_wikipedia', 'SGGMC', 'published')}",
            f"{_sam_seconds('sam_wikipedia')} for hours, one seed",
        ),
    ]
