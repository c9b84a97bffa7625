"""The tables of the papers' experiments, by the name of their result, and rows in Markdown.

`../pages.py` writes them into the pages.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bias_points import Point, cheapest, told_slope

Rows = list[dict[str, Any]]

BIAS_ALLOWED = 0.05  # in standard deviations, for comparisons of cost
NEAR = 1.5  # times the lowest cost; timings on a busy machine resolve no less


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table, with three digits, or all before the point."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [columns, ["---"] * len(columns)]
    lines += [[shown(row.get(column, "")) for column in columns] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def shown(value: Any) -> str:
    """Return a value as a cell; empty for NaN."""
    if value is None or value != value:
        return ""
    if isinstance(value, str | int):
        return str(value)
    return f"{value:.0f}" if 100 <= abs(value) < 1e6 else f"{value:.3g}"


def chosen(rows: Rows, **columns: str) -> Rows:
    """Return some columns under new names, with blanks for underscores."""
    return [{new.replace("_", " "): row[old] for new, old in columns.items()} for row in rows]


def least(rows: Rows, by: str, key: Callable[[dict[str, Any]], float]) -> Rows:
    """Return the row that minimises `key` for each value of the column `by`, in order."""
    names = list(dict.fromkeys(row[by] for row in rows))
    return [min((row for row in rows if row[by] == name), key=key) for name in names]


def scir_figure1(result: dict[str, Any]) -> Rows:
    """Quantiles of the logarithm of a sparse component."""
    return [
        {
            "log10 of component 5": row["method"],
            **{f"{100 * q:g}%": row[f"log10 quantile {q:g}"] for q in (0.05, 0.25, 0.5, 0.75)},
            "medians of 5 chains": _between(row.get("least median"), row.get("largest median")),
        }
        for row in result["rows"]
    ]


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.1f} to {high:.1f}"


def scir_figure2(result: dict[str, Any]) -> Rows:
    """Distances by batch size; bold are those whose range overlaps with that of the lowest."""
    rows = result["rows"]
    sizes = list(dict.fromkeys(row["batch size"] for row in rows if row["batch size"] != ""))
    table: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        case, method, size = row["case"], row["method"], row["batch size"]
        line = table.setdefault((case, method), {"n": f"{case}: {method}"})
        at = [r for r in rows if (r["case"], r["batch size"]) == (case, size)]
        highest = min(at, key=lambda r: r["KS mean"])["KS max"]
        text = f"{row['KS mean']:.3f}"
        if size != "" and row["KS min"] <= highest:
            text = f"**{text}**"
        text += f" ({row['KS min']:.3f} to {row['KS max']:.3f})"
        line |= {str(n): text for n in (sizes if size == "" else [size])}  # exact draws need none
    return list(table.values())


def scir_variates(result: dict[str, Any]) -> Rows:
    """Distances and noise by counts, with batch sizes in columns."""
    table: dict[tuple[str, str], dict[str, Any]] = {}
    for row in result["rows"]:
        line = table.setdefault(
            (row["case"], row["counts"]), {"": f"{row['case']}: {row['counts']}"}
        )
        n = row["batch size"]
        spread = "" if row["KS sd"] is None else f" ({row['KS sd']:.3f})"
        line[f"KS (sd), n = {n}"] = f"{row['KS mean']:.3f}{spread}"
        line[f"noise, n = {n}"] = row["noise of the counts"]
        line[f"added, n = {n}"] = row["added"]
    return list(table.values())


def scir_vocabulary(result: dict[str, Any]) -> Rows:
    """Perplexities relative to the truth, and masses of unseen words, by vocabulary."""
    rows = result["rows"]
    sizes = list(dict.fromkeys(row["words"] for row in rows))
    names = list(dict.fromkeys(row["method"] for row in rows))
    actual = {(row["method"], row["words"]): row for row in rows}
    table: Rows = []
    for name in names:
        line: dict[str, Any] = {"": name}
        for size in sizes:
            row = actual[name, size]
            ratio = row["perplexity"] / actual["truth", size]["perplexity"]
            spread = (
                "" if name == "truth" else f" ({ratio:.2f}; {_range(row['least'], row['most'])})"
            )
            line[f"perplexity, V = {size:,}"] = shown(row["perplexity"]) + spread
        for size in sizes:
            line[f"mass unseen, {size:,}"] = actual[name, size]["unseen"]
        table.append(line)
    return table


def lda_variates(result: dict[str, Any]) -> Rows:
    """Perplexities by counts, and the noise of an estimate."""
    return [
        {
            "counts": row["counts"],
            "step": row["step size"],
            "updates": row["updates"],
            "seconds": row["seconds"],
            "one sample": row["perplexity"],
            "average, second half": row["averaged"],
            "of the seeds": _range(row["least"], row["most"]),
            "noise of the counts": row["noise of the counts"],
        }
        for row in result["rows"]
    ]


def mld_theorem4(result: dict[str, Any]) -> Rows:
    """Entropies against the bound."""
    return result["rows"]


def sgrld_figure1(result: dict[str, Any]) -> Rows:
    """For each sampler the step sizes of the lowest distance and the most effective samples."""
    rows = result["rows"]
    by_distance = least(rows, "sampler", lambda row: row["KS"])
    by_size = least(rows, "sampler", lambda row: -row["ESS mean"])
    return [
        {
            "": near["sampler"],
            "step of least KS": near["step size"],
            "KS": near["KS"],
            "ESS, mean": near["ESS mean"],
            "bulk ESS, median": near["bulk ESS median"],
            "acceptance": near["acceptance"],
            "least": near["least"],
            "step of most ESS": many["step size"],
            "ESS there": many["ESS mean"],
            "KS there": many["KS"],
            "least there": many["least"],
        }
        for near, many in zip(by_distance, by_size, strict=True)
    ]


def mld_figure1(result: dict[str, Any]) -> Rows:
    """For each method the best step size after 1,000 iterations; for exact CIR also after 10."""
    components = [name for name in result["rows"][0] if name.startswith("TV")]

    def mean(row: dict[str, Any]) -> float:
        return sum(1.0 if row[name] is None else row[name] for name in components)

    rows = result["rows"]
    best = least([row for row in rows if row["iterations"] == 1000], "method", mean)
    early = [row for row in rows if row["method"] == "exact CIR" and row["iterations"] == 10]
    best += [*sorted(early, key=mean)[:1], *(row for row in rows if row["method"] == "floor")]
    return chosen(
        best,
        method="method",
        step="step size",
        iterations="iterations",
        **{name.removeprefix("TV, ").replace(" ", "_"): name for name in components},
    )


def mld_variants(result: dict[str, Any]) -> Rows:
    """For each approximation the errors on two posteriors, and perplexities."""
    return [
        {
            "in place of exp(y)": row["name"],
            **{
                f"{target}: {told}": text
                for target in ("dense", "sparse")
                for told, text in (
                    ("mean", row[f"{target}, mean"]),
                    (
                        "variances",
                        f"{row[f'{target}, least variance']:.3g} to "
                        f"{row[f'{target}, largest variance']:.3g}",
                    ),
                )
            },
            "step": row["step"],
            "one sample": row["one sample"],
            "average, second half": row["averaged"],
            "of the seeds": _range(row["least"], row["most"]),
        }
        for row in result["rows"]
        if row["part"] == "variants"
    ]


def mld_variants_ball(result: dict[str, Any]) -> Rows:
    """For each target and kernel the slope, and the bias at the ends of the grid."""
    rows = [row for row in result["rows"] if row["part"] == "ball"]
    curves: dict[tuple[str, str], Rows] = {}
    for row in rows:
        curves.setdefault((row["target"], row["name"]), []).append(row)
    return [
        {
            "target": target,
            "kernel": name,
            "slope": points[0]["slope"] + ", exact" * points[0]["exact"],
            **{
                f"{told}, {end} step": point[column]
                for end, point in (("largest", points[0]), ("smallest", points[-1]))
                for told, column in (
                    ("h", "step_size"),
                    ("bias", "bias"),
                    ("steps for a sample", "steps"),
                )
            },
            "noise": max(point["noise"] for point in points),
        }
        for (target, name), points in curves.items()
    ]


def sggmc_order(result: dict[str, Any]) -> Rows:
    """Slopes, and the bias at two of the step sizes."""
    points = result["settings"]["points"]
    table: Rows = []
    for row in result["rows"]:
        line = {"kernel": row["kernel"], "slope": row["slope"]}
        for h in (0.4, 0.1):
            near = min(points[row["kernel"]], key=lambda point: abs(point["step_size"] - h))
            line[f"bias at h = {h:g}"] = near["bias"]
        table.append(line)
    return table


def sggmc_circle(result: dict[str, Any]) -> Rows:
    """Distances of one chain and of all."""
    spread = "{least:.3f} to {most:.3f}".format
    return chosen(
        [row | {"least to most": spread(**row)} for row in result["rows"]],
        circle="method",
        one_chain="distance, one chain",
        of_the_chains="least to most",
        all="all chains",
        **{"mass_at_the_lesser_mode": "mass at mu_1", "true_mass": "true mass"},
        kinetic_energy="kinetic energy",
        effective_samples="effective samples of a chain",
    )


def sggmc_posterior(result: dict[str, Any]) -> Rows:
    """Distances of one chain and of all, on the first set of data."""
    return chosen(
        [row for row in result["rows"] if row["data set"] == 0],
        posterior="method",
        **{"joint,_one_chain": "joint, one chain", "joint,_all": "joint, all"},
        kinetic_energy="kinetic energy",
        effective_samples="effective samples of a chain",
        NaN_chains="NaN chains",
        samples_before_NaN="samples before NaN",
    )


def sggmc_posterior_data(result: dict[str, Any]) -> Rows:
    """Chains that became NaN, distances and kinetic energies on every set of data."""
    rows = result["rows"]
    several = {row["method"] for row in rows if row["data set"] == 1}
    table = []
    for name in dict.fromkeys(row["method"] for row in rows if row["method"] in several):
        own = [row for row in rows if row["method"] == name]
        table.append(
            {
                "posterior": name,
                f"chains that became NaN, of {result['settings']['chains']}": ", ".join(
                    str(row["NaN chains"]) for row in own
                ),
                "joint, one chain": ", ".join(shown(row["joint, one chain"]) or "-" for row in own),
                "kinetic energy": ", ".join(shown(row["kinetic energy"]) or "-" for row in own),
            }
        )
    return table


def sggmc_applications(result: dict[str, Any]) -> Rows:
    """The measures of each application."""
    return chosen(
        result["rows"],
        application="application",
        method="method",
        measure="measure",
        value="value",
        second="second",
        truth_of_it="true second",
        kinetic_energy="kinetic energy",
    )


def bias(result: dict[str, Any]) -> Rows:
    """Slopes by kernel and target."""
    return _by_target(
        result, lambda curves: {name: told_slope(points) for name, points in curves.items()}
    )


def bias_costs(result: dict[str, Any]) -> Rows:
    """Microseconds per effective sample; those near a target's lowest are bold."""

    def told(curves: Curves) -> dict[str, str]:
        costs = {name: cheapest(points, BIAS_ALLOWED) for name, points in curves.items()}
        least = min(cost for cost in costs.values() if not math.isnan(cost))
        texts = {name: shown(cost) or "none" for name, cost in costs.items()}
        return {
            name: f"**{text}**" if costs[name] <= NEAR * least else text
            for name, text in texts.items()
        }

    return _by_target(result, told)


Curves = dict[str, list[Point]]
"""Biases over the step sizes, by kernel."""


def _by_target(result: dict[str, Any], told: Callable[[Curves], dict[str, str]]) -> Rows:
    """Return a figure of the kernels on each target, in columns, and which are exact there."""
    actual: dict[str, Curves] = {}
    exact = set()
    for row in result["rows"]:
        target, kernel = row["target"], row["kernel"]
        values = (math.nan if row[name] is None else row[name] for name in Point._fields)
        actual.setdefault(target, {}).setdefault(kernel, []).append(Point(*values))
        if row["exact"]:
            exact.add((target, kernel))
    table: dict[str, dict[str, str]] = {}
    for target, curves in actual.items():
        for kernel, text in told(curves).items():
            row = table.setdefault(kernel, {"kernel": f"`{kernel}`"} | dict.fromkeys(actual, ""))
            row[target] = text + ", exact" * ((target, kernel) in exact)
    return list(table.values())


def lda_wikipedia(result: dict[str, Any]) -> Rows:
    """Perplexities: one sample, the papers' running average, and that of the second half."""
    return [
        {
            "settings": _settings(row),
            "method": row["method"],
            "alpha, beta": f"{row['alpha']:g}, {row['beta']:g}",
            "sweeps": row["sweeps"],
            "step": row["step size"],
            "one sample": row["perplexity"],
            "average, papers'": row["running"],
            "average, second half": row["averaged"],
            "of the seeds": _range(row["least"], row["most"]),
            "seconds": row["seconds"],
        }
        for row in result["rows"]
    ]


def lda_wikipedia_seconds(result: dict[str, Any]) -> Rows:
    """Likewise, with the number of updates that fit in the time."""
    rows = zip(lda_wikipedia(result), result["rows"], strict=True)
    return [shown | {"updates": row["updates"]} for shown, row in rows]


def _settings(row: dict[str, Any]) -> str:
    """Return whether settings are published; for some methods none are printed."""
    if row["settings"] != "own":
        return {"common": "common", "grid": "chosen"}[row["settings"]]
    unknown = row["method"].startswith(("SMLD", "SGRHMC"))
    return "SGRLD's, step ours" if unknown else "published"


def lda_nips(result: dict[str, Any]) -> Rows:
    """Perplexities by the sweeps of an update."""
    return [
        {
            "method": row["method"],
            "sweeps an update": row["sweeps an update"],
            "step": row["step size"],
            "one sample": row["perplexity"],
            "average": row["averaged"],
            "of the seeds": _range(row["least"], row["most"]),
            "seconds": row["seconds"],
        }
        for row in result["rows"]
    ]


def mld_figure1d(result: dict[str, Any]) -> Rows:
    """Likewise, against the values printed in appendix H.2 of Hsieh et al. (2018)."""
    printed = {"SMLD-approximate": "1323", "SGRHMC, Ma et al.": "about 1400"}
    rows = lda_wikipedia(result)
    return [row | {"printed": printed.get(row["method"], "")} for row in rows]


def _range(low: float | None, high: float | None) -> str:
    """Return a range, or what there is of it if seeds diverged."""
    if low is None:
        return "all diverged"
    if high is None:
        return f"{low:.0f}, others diverged"
    return f"{low:.0f} to {high:.0f}" if low < high else "one"


def dpm(result: dict[str, Any]) -> Rows:
    """Scores of mixtures, minus the mean log predictive density."""
    return [
        {
            "": row["method"],
            "base measure": row["base"],
            "steps": row["steps"].strip("()"),
            "updates": row["updates"],
            "seconds": row["seconds"],
            "last state": row["current"],
            "averaged (sd over seeds)": f"{row['averaged']} ({row['sd over seeds']})",
            "clusters": f"{row['clusters']:.0f}",
        }
        for row in result["rows"]
    ]


def dpm_remarks(result: dict[str, Any]) -> Rows:
    """Scores over the run, and numbers of clusters."""
    return [
        {
            "": row["method"],
            "base measure": row["base"],
            "halfway": row["halfway"],
            "last state": row["current"],
            "averaged (sd over seeds)": f"{row['averaged']} ({row['sd over seeds']})",
            "clusters": f"{row['clusters']:.0f}",
            "concentration": row["alpha"],
        }
        for row in result["rows"]
    ]


def dpm_directions(result: dict[str, Any]) -> Rows:
    """Densities, and the agreement of clusters and groups."""
    return [
        {
            "": row["method"],
            "clusters": row["clusters"],
            "log density": row["log density"],
            "of the seeds": ""
            if row["log density"] is None
            else f"{row['least log density']:.2f} to {row['most log density']:.2f}",
            "NMI": row["NMI"],
            "NMI, training": row["NMI, training"],
        }
        for row in result["rows"]
    ]


def sam(result: dict[str, Any]) -> Rows:
    """Log-perplexities of the spherical admixture model."""
    return [
        {
            "": row["method"] + ", variational start" * (row["start"] != "prior"),
            "settings": row["settings"],
            "updates": f"{row['updates']:,}",
            "kinetic energy": row["kinetic energy"],
            "importance sampling": row["importance"],
            "10 pooled": row["importance, 10 pooled"],
            "200 prior draws": row["prior draws"],
        }
        for row in result["rows"]
    ]


def scir_rates(result: dict[str, Any]) -> Rows:
    """Distances by batch size; those within two standard errors of the lowest are bold."""
    rows, seeds = result["rows"], len(result["settings"]["seeds"])
    sizes = result["settings"]["batch_sizes"]
    table: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        case, method, n = row["case"], row["method"], row["batch size"]
        line = table.setdefault((case, method), {"": f"{case}: {method}"})
        at = [r for r in rows if r["case"] == case and r["batch size"] == n]
        best = min(at, key=lambda r: r["KS mean"])
        near = row["KS mean"] <= best["KS mean"] + 2 * best["KS sd"] / math.sqrt(seeds)
        text = f"{row['KS mean']:.3f}"
        # Without events all batches are alike, and exact draws need none.
        shown_at = sizes if n == "" or case == "no events" else [n]
        line |= {f"n = {size}": f"**{text}**" if near and n != "" else text for size in shown_at}
    return list(table.values())


def scir_rates_moments(result: dict[str, Any]) -> Rows:
    """Means and standard deviations of CIR against the predictions."""
    return [
        {
            "CIR": row["case"],
            "n": row["batch size"],
            "step": row["step size"],
            "error of the mean, sds": f"{row['bias']:.3f}",
            "predicted": f"{row['predicted bias']:.3f}",
            "ratio of sds": f"{row['sd']:.2f}",
            "predicted ratio": f"{row['predicted sd']:.2f}",
        }
        for row in result["rows"]
        if row["method"] == "CIR" and row["batch size"] != 1000
    ]


def scir_lognormal(result: dict[str, Any]) -> Rows:
    """Distances by batch size, as `scir_rates`, and moments of the mean-reverting process."""
    rows, sizes = result["rows"], result["settings"]["batch_sizes"]
    table: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        line = table.setdefault(
            (row["case"], row["method"]), {"": f"{row['case']}: {row['method']}"}
        )
        line[f"n = {row['batch size']}"] = f"{row['KS mean']:.3f} ({row['KS sd']:.3f})"
        if row["batch size"] == sizes[0]:
            line[f"later, n = {sizes[0]}"] = f"{row['KS, later']:.3f}"
            line[f"ratio of sds, n = {sizes[0]}"] = f"{row['sd']:.2f}"
            line["predicted"] = shown(row["predicted sd"])
    names = list(next(iter(table.values())))
    names = ["", *(f"n = {n}" for n in sizes), *names[2:5]]
    return [{name: line.get(name, "") for name in names} for line in table.values()]


def scir_networks(result: dict[str, Any]) -> Rows:
    """Perplexities of held-out pairs."""
    return [
        {
            "": row["method"],
            "an update": row["batch"],
            "step, of strengths": f"{row['step size']:g}, {row['of strengths']:g}"
            if row["step size"]
            else "",
            "updates": row["updates"],
            "seconds": row["seconds"],
            "one sample": row["one sample"],
            "averaged": f"{row['averaged']:.3f}",
            "of the seeds": f"{row['least']:.3f} to {row['most']:.3f}" if row["least"] else "",
            "memberships below 0.001": row["below 0.001"],
            "communities": row["communities"],
        }
        for row in result["rows"]
    ]


def scir_hmm(result: dict[str, Any]) -> Rows:
    """Distances to Gibbs sampling, and the share near 0."""
    return [
        {
            "": row["method"],
            "subsequences": row["batch"],
            "step": row["step size"],
            "KS, transitions": f"{row['KS of transitions']:.3f}",
            "KS, symbols": f"{row['KS of symbols']:.3f}",
            "sd": "" if row["KS sd"] is None else f"{row['KS sd']:.3f}",
            "log density of a symbol": f"{row['log density']:.4f}",
            "transitions below 1e-6": row["transitions below 1e-6"],
            "symbols below 1e-6": row["symbols below 1e-6"],
            "seconds": row["seconds"],
        }
        for row in result["rows"]
    ]


TABLES: dict[str, Callable[[dict[str, Any]], Rows]] = {
    "scir_figure1": scir_figure1,
    "scir_figure2": scir_figure2,
    "scir_variates": scir_variates,
    "scir_rates": scir_rates,
    "scir_rates.moments": scir_rates_moments,
    "scir_lognormal": scir_lognormal,
    "scir_networks": scir_networks,
    "scir_hmm": scir_hmm,
    "scir_vocabulary": scir_vocabulary,
    "lda_variates": lda_variates,
    "mld_theorem4": mld_theorem4,
    "mld_variants": mld_variants,
    "mld_variants.ball": mld_variants_ball,
    "sgrld_figure1": sgrld_figure1,
    "mld_figure1": mld_figure1,
    "bias": bias,
    "bias.costs": bias_costs,
    "sggmc_order": sggmc_order,
    "sggmc_circle": sggmc_circle,
    "sggmc_posterior": sggmc_posterior,
    "sggmc_posterior.data": sggmc_posterior_data,
    "sggmc_applications": sggmc_applications,
    "lda_wikipedia_common": lda_wikipedia,
    "lda_wikipedia_published": lda_wikipedia,
    "lda_wikipedia_full": lda_wikipedia,
    "lda_wikipedia_gibbs": lda_wikipedia,
    "lda_wikipedia_grid": lda_wikipedia,
    "lda_wikipedia_seconds": lda_wikipedia_seconds,
    "mld_figure1d": mld_figure1d,
    "lda_nips": lda_nips,
    "dpm_msweb": dpm,
    "dpm_msweb_remarks": dpm_remarks,
    "dpm_synthetic": dpm,
    "dpm_directions": dpm_directions,
    "sam_20news": sam,
    "sam_20news_variational": sam,
    "sam_wikipedia": sam,
    "sam_wikipedia_variational": sam,
}
"""By the name of the result; one experiment may have several."""
