"""Coverage of intervals on simulated corpora: the counts, and that too narrow ones show."""

import functools
import itertools

import kept
import lda_coverage as coverage
import numpy as np
import pytest
from lda_coverage import OURS, Case, Truth, judge
from support.paths import ROOT


def test_percentiles_hold_a_further_draw_as_often_as_they_say():
    """Of 39 uniform draws; 4,000 trials, so that errors of 0.03 are four standard errors."""
    draws = np.random.default_rng(0).random((40, 4000))
    lower, upper = coverage.by_draws(draws[:-1])
    held = ((lower <= draws[-1]) & (draws[-1] <= upper)).mean(axis=1)
    assert abs(held - coverage.LEVELS).max() < 0.03


def test_moments_of_labels_by_enumeration():
    weights = np.array([[3.0, 1.0, 0.5], [0.4, 2.0, 2.0]])
    gamma = np.array([[2.0, 1.0], [0.5, 4.0]])
    counts = np.array([[2, 0, 1], [0, 1, 0]])
    mean, sd = coverage.label_moments(weights, gamma, counts)
    from scipy.special import digamma

    tokens = [(0, 0), (0, 0), (0, 2), (1, 1)]
    logs = digamma(weights) - digamma(weights.sum(axis=1, keepdims=True))
    p = np.array([np.exp(digamma(gamma[d]) + logs[:, w]) for d, w in tokens])
    p /= p.sum(axis=1, keepdims=True)
    first = second = 0.0
    for labels in itertools.product((0, 1), repeat=4):
        weight = np.prod([row[z] for row, z in zip(p, labels, strict=True)])
        share = np.mean(labels)
        first, second = first + weight * share, second + weight * share**2
    np.testing.assert_allclose(mean, [1 - first, first])
    np.testing.assert_allclose(sd, np.sqrt(second - first**2))


def test_counts_by_method_and_quantity(monkeypatch):
    monkeypatch.setattr(coverage, "CASES", {"tiny": Case(topics=2, documents=12, length=8)})

    def known(case: Case, truth: Truth, seed: int):
        ends = np.stack([truth.prevalence] * 3)
        low, high = ends - 0.1, ends + 0.1
        low[0, 0] += 0.2  # the first of the narrowest is above the truth
        withheld = {"withheld_few_samples": 1, "withheld_not_in_all_chains": 0}
        return {"prevalence": (truth.prevalence, low, high)}, withheld

    monkeypatch.setattr(coverage, "ours", known)
    rows = [row for row in judge(0, replicates=2) if not row["method"].startswith("topica")]
    assert len(rows) == 1 + 6 + 6
    own = rows[0]
    assert [own[f"held_{p}"] for p in (50, 80, 95)] == [1, 2, 2]
    assert own["method"] == OURS
    assert own["withheld_few_samples"] == 1
    assert own["intervals"] == 2
    lines = list(coverage.table(rows))
    assert lines[2].startswith("| prevalence | simplex_jax | 1 | 50.0")


def test_the_page_has_the_numbers_of_corpora_and_topics():
    page = " ".join((ROOT / "docs" / "exactness.md").read_text("utf-8").split())
    rows = kept.read(kept.RESULTS / "lda_coverage.json")["rows"]
    own = [row for row in rows if (row["method"], row["quantity"]) == (OURS, "prevalence")]
    with_interval, topics = (sum(row[name] for row in own) for name in ("intervals", "topics"))
    assert f"runs {len({row['seed'] for row in rows})} corpora" in page
    assert f"They have intervals for {with_interval:,} of {topics:,} topics" in page


@pytest.mark.parametrize("method", ["topica_stm", "topica_lda"])
def test_intervals_of_topica(method):
    """Of draws whose topics are known: each has an interval around its own."""
    pytest.importorskip("topica")
    case = Case(topics=3, documents=60, length=40)
    truth = coverage.simulate(case, 3)
    intervals, withheld = getattr(coverage, method)(case, truth, 0)
    assert set(coverage.QUANTITIES) - set(intervals) == {"leading words"}
    assert not withheld
    for true, lower, upper in intervals.values():
        assert lower.shape == upper.shape == (3, *true.shape)
        assert (lower <= upper).all()
    assert intervals["group means"][0].shape == (3, 2)
    true, lower, upper = intervals["proportions"]
    held, of_others = (((lower <= x) & (x <= upper))[-1].mean() for x in (true, true[::-1]))
    assert held > of_others + 0.1


def test_a_run_goes_on_where_it_was_ended(monkeypatch, tmp_path, capsys):
    asked = []

    def fake(seeds, *options):
        for seed in seeds:
            asked.append(seed)
            row = {"seed": seed, "case": "dense", "method": OURS, "quantity": "prevalence"}
            yield [
                row
                | dict.fromkeys(("held_50", "held_80", "held_95", "intervals", "topics"), 1)
                | dict.fromkeys(coverage.REASONS, 0)
            ]
            if seed == 1:
                return

    monkeypatch.setattr(coverage, "in_processes", fake)
    monkeypatch.setattr(kept.sources, "digest", lambda script: "one")
    monkeypatch.setattr(kept, "_code", lambda script: {"script": "x", "digest": "one"})
    path = tmp_path / "kept.json"
    monkeypatch.setattr("sys.argv", ["lda_coverage.py", "--corpora", "4", "--keep", str(path)])
    coverage.main()
    assert asked == [0, 1]
    coverage.main()
    assert asked == [0, 1, 2, 3]
    assert [row["seed"] for row in kept.read(path)["rows"]] == [0, 1, 2, 3]
    monkeypatch.setattr(kept.sources, "digest", lambda script: "two")
    with pytest.raises(ValueError, match="other code"):
        coverage.main()


@functools.cache
def held(width: float) -> dict[str, float]:
    """Share held at 80% over three corpora with known concentrations."""
    rows = [row for seed in (0, 4, 9) for row in judge(seed) if row["method"] == OURS]
    return {
        name: sum(row["held_80"] for row in rows if row["quantity"] == name)
        / sum(row["intervals"] for row in rows if row["quantity"] == name)
        for name in coverage.QUANTITIES
    }


@pytest.mark.slow
def test_four_in_five_hold_the_truth():
    """Of some 25 topics and 250 words, which depend on each other a little, and of documents."""
    shares = held(1.0)
    assert 0.6 < shares["prevalence"] < 0.97
    assert 0.72 < shares["leading words"] < 0.88
    assert 0.77 < shares["proportions"] < 0.83


@pytest.mark.slow
def test_intervals_half_as_wide_would_be_noticed(monkeypatch):
    moments, draws = coverage.by_moments, coverage.by_draws
    monkeypatch.setattr(coverage, "by_moments", lambda mean, sd: moments(mean, sd / 2))
    monkeypatch.setattr(coverage, "by_draws", lambda found: draws(shrunk(found)))
    shares = held(0.5)
    assert shares["leading words"] < 0.65
    assert shares["proportions"] < 0.7


def shrunk(draws: np.ndarray) -> np.ndarray:
    centre = np.median(draws, axis=0)
    return centre + (draws - centre) / 2
