"""The tables of `docs/` that are not of the papers' experiments, by the name of their result."""

import itertools
import statistics
from collections.abc import Callable, Iterable
from typing import Any

import kept
import lda_coverage
import numpy as np
import numpyro_ess
import simplex_wide
from tables import Rows

CORPORA = {
    "ap": "AP",
    "news20": "20 Newsgroups",
    "nips": "NIPS",
    "synth": "synth",
    "sotu": "embedded",
    "news20-all": "20 Newsgroups, all words",
    "wikipedia": "Wikipedia",
    "wikipedia-1000": "Wikipedia",
    "wikipedia-5000": "Wikipedia, 5,000 articles",
    "msweb": "MSWeb",
}


def commands(result: dict[str, Any]) -> Rows:
    """Seconds of whole commands, by the clock and of all threads."""
    return [
        {
            "command": f"`{row['command'].replace(' ROWS', ' rows.csv')}`",
            **{
                told: f"{row[name]:.1f}" if name in row else ""
                for told, name in (
                    ("first, s", "first_seconds"),
                    ("of all threads", "first_processor_seconds"),
                    ("second, s", "second_seconds"),
                    ("threads, second", "second_processor_seconds"),
                    ("of it training", "second_training"),
                )
            },
        }
        for row in result["rows"]
    ]


DRAWS = {
    "cir": "`draws.cir`",
    "cir, rbg key": "`draws.cir`, rbg key",
    "cir, called by itself": "`draws.cir`, called by itself",
    "loggamma": "`draws.loggamma`",
    "poisson": "`draws.poisson`",
    "log_dirichlet": "`draws.log_dirichlet`",
    "jax poisson + loggamma": "JAX: `poisson`, then `loggamma`",
    "jax loggamma": "JAX: `loggamma`",
    "jax poisson": "JAX: `poisson`",
    "jax approximate (not exact)": "JAX: approximate gamma and Poisson (0.11 and later; not exact)",
    "numpy noncentral_chisquare": "NumPy `noncentral_chisquare`, one thread",
    "numpy, two threads": "NumPy, two threads with a generator each",
    "floor": "lower bound: four random words a draw, and the passes over memory",
}


def draws(result: dict[str, Any]) -> Rows:
    """Nanoseconds a draw, on a CPU and on a GPU."""
    here = {row["draw"]: row for row in result["rows"]}
    there = {row["draw"]: row for row in _rows("draws_gpu")}
    return [
        {
            "": told,
            "CPU, by the clock": here.get(name, {}).get("wall_ns"),
            "CPU, all threads": here.get(name, {}).get("cpu_ns"),
            # NumPy does not run there.
            "GPU": None if told.startswith("NumPy") else there[name]["wall_ns"],
        }
        for name, told in DRAWS.items()
    ]


def dirichlet_paths(result: dict[str, Any]) -> Rows:
    """Nanoseconds a coordinate and update of paths, and effective samples of c and r."""
    return [
        {
            "counts": f"{row['tokens']:,} tokens, {row['zeros']:.0%} zeros",
            "by": "native code" if row["native"] else "XLA",
            "by the clock": f"{row['wall ns']:,.0f}",
            "all threads": f"{row['cpu ns']:,.0f}",
            "updates": row["updates"],
            "effective, c": row.get("effective c"),
            "r": row.get("effective r"),
        }
        for row in result["rows"]
    ]


def compile_times(result: dict[str, Any]) -> Rows:
    """CPU seconds and sizes of some programs."""
    some = ("scir", "sghmc", "sgrhmc", "SCIR, one simplex", "SCIR, hierarchical")
    some += ("Gibbs, SCIR and NUTS", "lda", "hdp", "sam", "dpm")
    return [
        {"program": row["program"]}
        | {name: f"{row[name]:.2f}" for name in ("trace", "lower", "compile")}
        | {name: f"{row[name]:,}" for name in ("instructions", "kernels")}
        for row in result["rows"]
        if row["program"] in some
    ]


def compile_times_fits(result: dict[str, Any]) -> Rows:
    """Seconds and sizes of whole fits."""
    return [
        {
            "fit": f"`{row['program']}`",
            "first call less the second": f"{row['first call']:.1f}",
            **{name: f"{row[name]:,}" for name in ("programs", "instructions")},
        }
        for row in result["rows"]
        if "first call" in row
    ]


def lda_peers(result: dict[str, Any]) -> Rows:
    """Perplexities and seconds by tool and corpus, medians over the seeds; the lowest is bold.

    They are of averaged topics, with a star if those of a run are single ones.
    """

    def score(runs: Rows) -> float:
        return statistics.median(row["averaged"] or row["single"] for row in runs)

    lowest = {
        corpus: min(map(score, _groups(rows, "tool").values()))
        for corpus, rows in _groups(result["rows"], "corpus").items()
    }
    table: Rows = []
    for tool, of_tool in _groups(result["rows"], "tool").items():
        line = {"tool": _tool(tool)}
        for corpus, runs in _groups(of_tool, "corpus").items():
            text = f"{score(runs):,.0f}" + "*" * (not all(row["averaged"] for row in runs))
            bold = f"**{text}**" if score(runs) == lowest[corpus] else text
            line[CORPORA[corpus]] = f"{bold} in {_median(runs, 'seconds'):.1f} s"
        table.append(line)
    return table


def lda_small(result: dict[str, Any]) -> Rows:
    """Perplexities of ours and of tomotopy after some seconds, medians over the seeds."""
    return [
        {
            "corpus": CORPORA[corpus],
            "K": topics,
            **{
                f"{mark} s": _pair(runs, f"after {mark} s", ("ours", "tomotopy-2"))
                for mark in (2, 5, 10)
            },
            "passes in 10 s": _passes(runs, ("ours", "tomotopy-2")),
        }
        for corpus, of_corpus in _groups(result["rows"], "corpus").items()
        for topics, here in _groups(of_corpus, "num_topics").items()
        for runs in [_groups(here, "tool")]
    ]


def _pair(runs: dict[str, Rows], column: str, tools: tuple[str, str]) -> str:
    """Return two medians, the lower one bold."""
    values = [_median(runs[tool], column) for tool in tools]
    digits = ".1f" if min(values) < 100 else ",.0f"
    texts = [f"{value:{digits}}" for value in values]
    low = int(values[1] < values[0])
    return " / ".join(f"**{text}**" if i == low else text for i, text in enumerate(texts))


def _passes(runs: dict[str, Rows], tools: tuple[str, str]) -> str:
    """Return medians of the passes in 10 s, since runs end at the next checkpoint."""
    speeds = ([10 * run["work"] / run["seconds"] for run in runs[tool]] for tool in tools)
    return " / ".join(f"{statistics.median(of_tool):,.0f}" for of_tool in speeds)


def lda_priors_peers(result: dict[str, Any]) -> Rows:
    """Means over seeds with fixed and learned concentrations; bold if all seeds agree."""

    def pair(runs: dict[str, Rows], column: str) -> str:
        values = [[run[column] for run in runs[tool]] for tool in ("ours", "ours-learned")]
        digits = ".1f" if min(map(min, values)) < 100 else ",.0f"
        texts = [f"{statistics.mean(of_tool):{digits}}" for of_tool in values]
        for i, (one, other) in enumerate((values, values[::-1])):
            if max(one) < min(other):
                texts[i] = f"**{texts[i]}**"
        return " / ".join(texts)

    return [
        {
            "corpus": CORPORA[corpus],
            **{f"after {mark} s": pair(runs, f"after {mark} s") for mark in (2, 5, 10)},
            "passes in 10 s": _passes(runs, ("ours", "ours-learned")),
        }
        for corpus, here in sorted(
            _groups(result["rows"], "corpus").items(), key=lambda item: list(CORPORA).index(item[0])
        )
        for runs in [_groups(here, "tool")]
    ]


def lda_peers_wikipedia(result: dict[str, Any]) -> Rows:
    """Speed and perplexity of single samples, medians over the seeds with ranges."""
    table: Rows = []
    for topics, of_topics in _groups(result["rows"], "num_topics").items():
        runs_of = _groups(of_topics, "tool")
        low = min(runs_of, key=lambda tool: _median(runs_of[tool], "single"))
        for tool, runs in runs_of.items():
            rates = [run["tokens_per_second"] / 1e6 for run in runs]
            scores = [run["single"] for run in runs]
            bold = "**" * (tool == low)
            table.append(
                {
                    "K": f"{topics:,}",
                    "tool": _tool(tool),
                    "passes": f"{_median(runs, 'work'):.0f}",
                    "s": f"{_median(runs, 'seconds'):.1f}",
                    "M tokens/s": f"{statistics.median(rates):.1f} ({_span(rates, '.1f')})",
                    "single": f"{bold}{statistics.median(scores):.0f}{bold} ({_span(scores)})",
                }
            )
    return table


def lda_sweeps(result: dict[str, Any]) -> Rows:
    """Nanoseconds a token of each kernel; the one that is chosen is bold."""
    columns = {"dense": "dense", "in whole numbers": "integer", "sparse": "sparse"}
    table: Rows = []
    for row in result["rows"]:
        chosen = "integer" if row["topics"] >= 192 else "dense"
        cells = {
            name: f"**{row[key]:.0f}**" if key == chosen else f"{row[key]:.0f}"
            for name, key in columns.items()
        }
        corpus = f"{CORPORA[row['corpus']]}, {row['tokens'] / 1e6:.3g} M tokens"
        whole = f"{row['update']:.0f}"
        table.append(
            {"corpus": corpus, "K": f"{row['topics']:,}"} | cells | {"whole update": whole}
        )
    return table


def lda_shares(result: dict[str, Any]) -> Rows:
    """Errors and processor time of shares, and how far chains are from their end."""
    return [
        {
            "corpus, topics, alpha": f"{CORPORA[row['corpus']]}, {row['topics']}, {row['alpha']:g}",
            "passes of training": row["passes"],
            "error": f"{row['error']:.4f}",
            "said": f"{row['said']:.4f}",
            "beyond 0.04": f"{row['above 0.04']:.1%}",
            **{
                f"ms a document, {error}": f"{1e3 * seconds / row['documents']:.1f}"
                for error in ("0.02", "0.05")
                for seconds in [row[f"processor seconds, {error}"]]
            },
            **{f"{n} sweeps": f"{row[f'begun, {n} sweeps']:.3f}" for n in (3, 6, 12)},
        }
        for row in result["rows"]
    ]


def lda_first_run(result: dict[str, Any]) -> Rows:
    """The default run beside one of more passes."""
    return [
        {
            "corpus": row["corpus"],
            "documents": f"{row['documents']:,}",
            "passes": f"{row['passes']:,}",
            "times as many": row["longer"],
            "stable of 30": row["stable topics of 30"],
            "perplexity above that of the longer run": f"{round(row['above it, %'], 1) + 0:.1f}%",
            "stable topics that the longer run has": row["stable topics that it has"],
            "their median affinity": row["their median affinity"],
        }
        for row in result["rows"]
        if "longer" in row
    ]


def lda_first_run_chains(result: dict[str, Any]) -> Rows:
    """What stable topics of a few chains promise of others, by the default affinity."""
    rows = [row for row in result["rows"] if row.get("same from") == 0.75]
    return [
        {
            "corpus": row["corpus"],
            "chains of a run": f"{row['chains']}{' (default)' * (row['chains'] == 4)}",
            "stable of 30": row["stable topics"],
            "pairs of a stable topic and another chain that has it": (
                f"{row['of them another chain has, %']:.1f}%"
            ),
            "topics that all other chains have and that are called stable": (
                f"{row['of them called stable, %']:.0f}%"
            ),
        }
        for row in sorted(rows, key=lambda row: (row["corpus"] == "AP", -row["chains"]))
    ]


SAMPLERS = {
    "1 updates": "one update of the topics a pass (default)",
    "2 updates": "two",
    "4 updates": "four",
    "8 updates": "eight",
    "integrated": "topics integrated out (tomotopy, one worker)",
}


def lda_mixing(result: dict[str, Any]) -> Rows:
    """Effective samples of the median topic in 1,000 passes, with the range of the seeds."""
    return [
        {"": told}
        | {
            CORPORA[row["corpus"]]: f"{row['median, per 1,000 passes']:.1f} "
            f"({row['least median']:.1f} to {row['largest median']:.1f})"
            for row in result["rows"]
            if row["sampler"] == sampler
        }
        for sampler, told in SAMPLERS.items()
    ]


PRIORS = {
    "learn": "learned, common to all topics",
    "learn-asymmetric": "learned, one for each topic",
}


def lda_priors(result: dict[str, Any]) -> Rows:
    """Effective samples and perplexities by concentrations."""
    return [
        {
            "corpus": CORPORA[row["corpus"]],
            "alpha": PRIORS.get(row["alpha"], row["alpha"]),
            "beta": "learned" if row["beta"] == "learn" else row["beta"],
            "lowest tenth of the topics": f"{row['lowest tenth, per 1,000 passes']:.1f}",
            "median topic": f"{row['median, per 1,000 passes']:.1f} "
            f"({row['least median']:.1f} to {row['largest median']:.1f})",
            "perplexity": row["perplexity"],
        }
        for row in result["rows"]
    ]


def hdp_topics(result: dict[str, Any]) -> Rows:
    """Perplexities, and topics that hold 99% of the tokens; the lowest of a corpus is bold.

    A model without averages has several rows, of which the better one counts.
    """

    def score(row: dict[str, Any]) -> float:
        return row["averaged"] or row["single"]

    by_corpus = _groups(result["rows"], "corpus")
    lowest = {corpus: min(map(score, rows)) for corpus, rows in by_corpus.items()}
    table: Rows = []
    for model, of_model in _groups(result["rows"], "model").items():
        line = {"": _model(model)}
        for corpus, rows in _groups(of_model, "corpus").items():
            best = min(rows, key=score)
            text = f"{score(best):.0f}"
            bold = f"**{text}**" if score(best) == lowest[corpus] else text
            line[CORPORA[corpus]] = f"{bold} ({best['topics']})"
        table.append(line)
    return table


def _model(name: str) -> str:
    if name.startswith("lda "):
        return f"`lda --topics {name.removeprefix('lda ')} --alpha learn-asymmetric`"
    told = name.replace("hdp", "`hdp`") if name.startswith("hdp") else name
    told += ", the default" * (name == "hdp from 100")
    return told + ", single, the better of one pass and 30 s" * (name == "gensim HdpModel")


def dpm_scale(result: dict[str, Any]) -> Rows:
    """Mixtures at scale, with what the mixture that made the rows has."""
    return [
        {
            "rows, covariances": f"{row['rows']:,} x {row['columns']}, {row['covariance']}",
            "tool": _tool(row["tool"]),
            "s": f"{row['seconds']:.0f}",
            "a pass": f"{row['seconds_a_pass']:.1f}",
            "held-out density (truth)": f"{row['heldout']:.2f} ({row['truth']:.2f})",
            "NMI (of the truth)": f"{row['nmi']:.3f} ({row['nmi_of_truth']:.3f})",
            "clusters (truth)": f"{row['fewest_clusters']} to {row['most_clusters']} "
            f"({row['true_clusters']})",
        }
        for row in result["rows"]
    ]


def dpm_peers_scales(result: dict[str, Any]) -> Rows:
    """Predictive densities and seconds; the highest of a case is bold."""
    rows = [row for row in result["rows"] if row["density"] == "predictive"]
    highest = {
        case: max(row["heldout"] for row in here) for case, here in _groups(rows, "case").items()
    }
    table: Rows = []
    for tool, of_tool in _groups(rows, "tool").items():
        line = {"held out": tool.replace(", n_init=1", ", predictive").replace(" exact,", "")}
        for row in of_tool:
            case = row["case"].replace(" prior", "")
            text = f"{row['heldout']:.2f} ({row['least']:.2f} to {row['most']:.2f})"
            line[case] = f"**{text}**" if row["heldout"] == highest[row["case"]] else text
            line[f"s, {case}"] = f"{row['seconds']:.2g}"
        table.append(line)
    return table


CASES = {
    "decade": "State of the Union by decade, a tenth of the paragraphs held out",
    "half-decade": "by half-decade, likewise",
    "half-decade-whole": "half-decades, every fourth held out as a whole",
    "year": "by year, a tenth held out",
    "president": "by president",
    "president-unknown": "by president, which is not given for held-out paragraphs",
    "ap": "AP by month",
    "nips": "NIPS 0-12 by volume",
    "news20": "20 Newsgroups by group",
    "news20-unknown": "by group, which is not given for held-out messages",
}
MODELS = {
    "lda": "`lda`",
    "one-slice": "one slice",
    "without-bursts": "without bursts",
    "dtm": "`dtm`",
    "tomotopy": "tomotopy's DTModel",
    "topica": "topica's DTM, the model of gensim's LdaSeqModel",
    "topica-content": "topica's STM, groups as content and prevalence",
    "gensim": "gensim's LdaSeqModel",
}


def dtm(result: dict[str, Any]) -> Rows:
    """Held-out perplexities by case and model, means over the seeds; the lowest is bold."""
    found = _perplexities(result["rows"])
    models = [model for model in MODELS if any(model == one for _, one in found)]
    return [
        {"": told} | {MODELS[model]: cell for model, cell in cells.items()}
        for case, told in CASES.items()
        if (cells := _bold({m: found[case, m] for m in models if (case, m) in found}))
    ]


def dtm_peers(result: dict[str, Any]) -> Rows:
    """Held-out perplexities of other packages and of ours, by case in columns."""
    ours = [row for row in _rows("dtm") if row["model"] in ("lda", "dtm")]
    found = _perplexities([*result["rows"], *ours])
    of_others = {row["model"] for row in result["rows"]} - {"lda", "dtm"}
    asked = {row["case"] for row in result["rows"]}
    models = [*(model for model in MODELS if model in of_others), "lda", "dtm"]
    table: dict[str, dict[str, str]] = {model: {"": MODELS[model]} for model in models}
    for case, told in CASES.items():
        if case in asked:
            cells = _bold({m: found[case, m] for m in models if (case, m) in found})
            for model in models:
                table[model][told] = cells.get(model, "")
    return list(table.values())


def dtm_gensim(result: dict[str, Any]) -> Rows:
    """Perplexities and processor seconds of all models on few words."""
    by_model = _groups(result["rows"], "model")
    found = _perplexities(result["rows"])
    cells = _bold({model: x for (_, model), x in found.items()})
    return [
        {
            "": MODELS[model],
            "perplexity": cells[model],
            "seconds": f"{_median(by_model[model], 'processor_seconds'):,.0f}",
        }
        for model in MODELS
        if model in cells
    ]


def _perplexities(rows: Rows) -> dict[tuple[str, str], float]:
    """Return the mean over seeds of each case and model."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        found.setdefault((row["case"], row["model"]), []).append(row["perplexity"])
    return {which: statistics.mean(values) for which, values in found.items()}


def _bold(values: dict[str, float]) -> dict[str, str]:
    """Return perplexities as cells, the lowest one bold."""
    low = min(values.values(), default=0)
    return {name: f"**{x:,.0f}**" if x == low else f"{x:,.0f}" for name, x in values.items()}


def dtm_calibration(result: dict[str, Any]) -> Rows:
    """Shares of 90% intervals that hold the truth, by effective samples."""
    named = {"words": "ten leading words by slice", "prevalence": "prevalence by slice"}
    groups = {"all that are shown": "", "50 effective samples": "_mixed", "fewer": "_apart"}

    def share(name: str, kinds: Iterable[str]) -> str:
        held, number = (
            sum(row[f"{name}{kind}{end}"] for row in result["rows"] for kind in kinds)
            for end in ("_held", "")
        )
        return f"{held / number:.1%}"

    return [
        {"": named.get(name, name)}
        | {
            told: share(name, [kind] if kind else ("_mixed", "_apart"))
            for told, kind in groups.items()
        }
        for name in ("words", "prevalence", "c", "r")
    ]


def lda_coverage_all(result: dict[str, Any]) -> Rows:
    """Shares of intervals that hold the truth, by quantity and method."""
    return _parsed(itertools.takewhile(bool, lda_coverage.table(result["rows"])))


def lda_coverage_cases(result: dict[str, Any]) -> Rows:
    """Ours by case, and topics without an interval."""
    return _parsed(itertools.dropwhile(bool, lda_coverage.table(result["rows"])))


def simplex_wide_sizes(result: dict[str, Any]) -> Rows:
    """Effective samples on wide simplices, of the largest size."""
    size = max(row["size"] for row in result["rows"])
    return _parsed(simplex_wide.table([row for row in result["rows"] if row["size"] == size]))


def numpyro_kernels(result: dict[str, Any]) -> Rows:
    """Effective samples a second of numpyro kernels."""
    return _parsed(numpyro_ess.table(result["rows"]).splitlines())


def _parsed(lines: Iterable[str]) -> Rows:
    """Return the rows of a table that a script prints."""
    head, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in lines if line)
    return [dict(zip(head, cells, strict=True)) for cells in rows]


def _tool(name: str) -> str:
    return "**ours**" if name == "ours" else name


def _rows(name: str) -> Rows:
    """Return the rows of a kept result."""
    return kept.read(kept.RESULTS / f"{name}.json")["rows"]


def _groups(rows: Rows, column: str) -> dict[Any, Rows]:
    """Return the rows by their value in a column, in order."""
    values = dict.fromkeys(row[column] for row in rows)
    return {value: [row for row in rows if row[column] == value] for value in values}


def _median(rows: Rows, column: str) -> float:
    return float(np.median([row[column] for row in rows]))


def _span(values: list[float], digits: str = ".0f") -> str:
    return f"{min(values):{digits}} to {max(values):{digits}}"


TABLES: dict[str, Callable[[dict[str, Any]], Rows]] = {
    "commands": commands,
    "draws": draws,
    "dirichlet_paths": dirichlet_paths,
    "compile_times": compile_times,
    "compile_times.fits": compile_times_fits,
    "lda_peers": lda_peers,
    "lda_small": lda_small,
    "lda_priors_peers": lda_priors_peers,
    "lda_peers_wikipedia": lda_peers_wikipedia,
    "lda_sweeps": lda_sweeps,
    "lda_shares": lda_shares,
    "lda_first_run": lda_first_run,
    "lda_first_run.chains": lda_first_run_chains,
    "lda_mixing": lda_mixing,
    "lda_priors": lda_priors,
    "lda_coverage": lda_coverage_all,
    "lda_coverage.cases": lda_coverage_cases,
    "hdp_topics": hdp_topics,
    "dpm_scale": dpm_scale,
    "dpm_peers_scales": dpm_peers_scales,
    "dtm": dtm,
    "dtm_peers": dtm_peers,
    "dtm_peers_ap_nips": dtm_peers,
    "dtm_gensim": dtm_gensim,
    "dtm_calibration": dtm_calibration,
    "simplex_wide": simplex_wide_sizes,
    "numpyro_ess": numpyro_kernels,
}
"""By the name of the result; one may have several."""
