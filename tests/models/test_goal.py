"""Runs that end when they are good: effective sizes, levels, and what a look decides."""

import numpy as np
import pytest
import scipy.sparse as sp
from support.cut_runs import Cut
from support.fits import assert_same

from simplex_jax._src.evaluate import diagnostics
from simplex_jax._src.models import goal, lda
from simplex_jax._src.models.lda import posterior
from simplex_jax._src.runtime.hooks import Event


def autoregressive(rng, length, chains, rho, sd=1.0):
    x = rng.normal(size=(length, chains)) * np.sqrt(1 - rho**2)
    x[0] = rng.normal(size=chains)
    for row in range(1, length):
        x[row] += rho * x[row - 1]
    return sd * x


@pytest.mark.parametrize("rho", [0.0, 0.6, 0.95])
def test_effective_sizes_are_those_of_an_autoregression(rho, seed):
    """n (1 - rho) / (1 + rho), to a fifth: four standard deviations of the estimate."""
    trace = autoregressive(np.random.default_rng(seed), 20_000, 2, rho)
    expected = 40_000 * (1 - rho) / (1 + rho)
    assert goal.effective(trace) == pytest.approx(expected, rel=0.2)
    # As everywhere, chains that are apart count nothing, and one that lacks a quantity is left out.
    assert goal.effective(trace + np.array([0.0, 50.0])) < 10
    assert goal.effective(trace) == diagnostics.summary({"x": trace.T})["x"]["ess"]
    alone = np.where([True, False], trace, np.nan)
    assert goal.effective(alone) == diagnostics.effective_size(trace[:, 0])


def test_effective_sizes_of_what_is_too_short_or_stands_still_are_zero():
    assert goal.effective(np.zeros((0, 2, 3))).tolist() == [0, 0, 0]
    assert goal.effective(np.ones((50, 1))) == 0


@pytest.mark.parametrize(("slope", "expected"), [(0.0, True), (-0.5, False), (0.5, False)])
def test_a_level_has_settled_if_it_no_longer_drifts(slope, expected, seed):
    """A drift of a half; false-alarm rate about 0.3% at a fresh seed."""
    rng = np.random.default_rng(seed)
    trace = 7.0 + autoregressive(rng, 400, 1, 0.5, 0.05)
    assert goal.settled(trace + slope * np.linspace(0, 1, 400)[:, None]) is expected
    assert not goal.settled(trace[:9])


def event(step, seconds=0.0):
    return Event(step, 0, 2**31 - 1, seconds, 0.0, None, None, {})


def steps_of(hook, seconds=0.01, most=2000):
    return next((n for n in range(1, most) if hook(event(n, n * seconds))), None)


def grown(rng, size, level=None):
    """The second halves of traces that grow at each look; the first `size` entries stand still."""
    x, count = rng.normal(size=(5000, 1, 10)), iter(range(5000))
    x[:, :, :size] = x[0, :, :size]

    def traces():
        n = next(count)
        result = {"share": x[20 * n : 40 * n]}
        return result if level is None else result | {"level": level[20 * n : 40 * n]}

    return traces


def test_it_ends_when_nine_in_ten_are_good(seed):
    rng = np.random.default_rng(seed)
    assert steps_of(goal.Goal(grown(rng, 1), "level", 200.0, 1e6)) < 100
    assert steps_of(goal.Goal(grown(rng, 2), "level", 200.0, 1e6)) is None


def test_it_waits_for_the_level(seed):
    rng = np.random.default_rng(seed)
    level = rng.normal(7.0, 0.1, (5000, 1)) - np.minimum(np.arange(5000), 400)[:, None] / 100
    flat = steps_of(goal.Goal(grown(rng, 0, level[1000:]), "level", 200.0, 1e6))
    assert flat < steps_of(goal.Goal(grown(rng, 0, level), "level", 200.0, 1e6))


def test_it_ends_in_time_but_not_before_its_steps(seed):
    rng = np.random.default_rng(seed)
    assert steps_of(goal.Goal(grown(rng, 9), "level", 200.0, 0.5)) == 50
    assert steps_of(goal.Goal(grown(rng, 9), "level", 200.0, 0.5, 300)) == 300


def test_looks_are_rare():
    looks = []

    def traces():
        looks.append(1)
        return {"share": np.zeros((10, 1))}

    assert steps_of(goal.Goal(traces, "level", 1.0, 1e6)) is None
    assert 30 < len(looks) < 50


def test_a_run_with_a_length_goes_its_way():
    assert steps_of(goal.Goal(lambda: 1 / 0, "level", None, 0.0)) is None


@pytest.mark.parametrize("entries", [1, 2, 5, 12, 30])
def test_nine_in_ten_are_at_least_nine_in_ten(entries, seed):
    """Of that many entries, all but a tenth, rounded down, must have the number that is told."""
    rng = np.random.default_rng(seed)
    trace = rng.normal(size=(400, 1, entries))
    trace[:, :, : entries // 10] = 1.0
    happened = event(100)
    assert goal.Goal(lambda: {"share": trace}, "level", 200.0, 1e6)(happened)
    assert happened.metrics["ess_share"] > 200
    trace[:, :, entries // 10] = 1.0
    assert not goal.Goal(lambda: {"share": trace}, "level", 200.0, 1e6)(event(100))


COUNTS = sp.csr_array(
    np.random.default_rng(5).poisson(np.repeat([[3, 0.1], [0.1, 3]], 4, axis=1)[[0, 1] * 20])
)


def test_a_fit_without_a_length_ends_when_it_is_good_and_goes_on_after_a_cut(tmp_path):
    whole = lda.fit(COUNTS, 2, alpha=0.5, target_ess=60, holdout=8)
    sizes = [
        {name: size for name, size in record.items() if name.startswith("ess_")}
        for record in whole.metrics
    ]
    assert min(sizes[-1].values()) >= 60
    assert not any(min(look.values()) >= 60 for look in sizes[:-1] if look)
    assert not any("time was over" in warning for warning in whole.warnings)
    halfway = int(whole.metrics[len(whole.metrics) // 2]["step"])
    options = {"alpha": 0.5, "target_ess": 60, "holdout": 8, "checkpoint": tmp_path}
    lda.fit(COUNTS, 2, hooks=[Cut(halfway)], **options)
    assert_same(lda.fit(COUNTS, 2, resume=True, **options), whole)


def test_the_goal_counts_as_the_diagnostics_do():
    """One run said "78 effective samples" and "fewer than 10" of the same quantity."""
    fitted = lda.fit(COUNTS, 2, alpha=0.5, target_ess=60, holdout=8)
    assert fitted.settings.chains == 2
    last, sizes = fitted.metrics[-1], {n: row["ess"] for n, row in fitted.diagnostics.items()}
    assert last["ess_log_predictive"] == pytest.approx(sizes["log_predictive"])
    assert last["ess_prevalence"] == pytest.approx(min(sizes[f"prevalence {k}"] for k in (0, 1)))


def test_a_fit_whose_time_is_over_says_what_it_has():
    short = lda.fit(COUNTS, 2, target_ess=1e6, time_limit=0.2, holdout=8)
    start = "The time was over before the goal of 1e+06 effective samples: 2 of 2 topics"
    (sentence,) = (sentence for sentence in short.warnings if sentence.startswith(start))
    assert "Raise the time limit; if that does not help, a larger alpha" in sentence


def test_a_fit_that_a_hook_ends_does_not_blame_the_time():
    fitted = lda.fit(COUNTS, 2, hooks=[lambda event: event.step >= 20], target_ess=1e6, holdout=8)
    (sentence,) = (sentence for sentence in fitted.warnings if "the goal" in sentence)
    assert sentence.startswith("A hook ended the run before the goal of 1e+06 effective samples:")
    assert "time" not in sentence


def test_a_hook_that_ends_a_run_before_its_passes_is_named_however_long_it_took(monkeypatch):
    """By default the limit is 60 seconds or 200 passes, whichever comes last."""
    monkeypatch.setattr(posterior, "_SECONDS", 1e-9)
    fitted = lda.fit(COUNTS, 2, hooks=[Cut(20)], target_ess=1e6, chains=1)
    (sentence,) = (sentence for sentence in fitted.warnings if "the goal" in sentence)
    assert sentence.startswith("A hook ended the run before the goal")
    records = [{"seconds": 1.0, "passes": passes} for passes in (199.0, 200.0)]
    assert [posterior.is_over(fitted.settings, record) for record in records] == [False, True]


@pytest.mark.parametrize("given", [{"target_ess": 50}, {"time_limit": 9.0}])
def test_a_run_has_a_length_or_a_goal(given):
    with pytest.raises(ValueError, match="target_ess and time_limit are for memoised counts"):
        lda.fit(COUNTS, 2, passes=3, **given)


@pytest.mark.slow
def test_a_run_that_was_good_does_not_go_on(tmp_path):
    options = {"alpha": 0.5, "target_ess": 60, "checkpoint": tmp_path}
    whole = lda.fit(COUNTS, 2, **options)
    assert_same(lda.fit(COUNTS, 2, resume=True, **options), whole)
    more = lda.fit(COUNTS, 2, resume=True, **options | {"target_ess": 90})
    assert more.metrics[-1]["step"] > whole.metrics[-1]["step"]


@pytest.mark.slow
def test_a_goal_and_a_length_take_each_others_place(tmp_path):
    # Without a goal there would be one chain.
    options = {"alpha": 0.5, "chains": 2, "checkpoint": tmp_path}
    good = lda.fit(COUNTS, 2, target_ess=60, **options)
    last = int(good.metrics[-1]["step"])
    longer = lda.fit(COUNTS, 2, steps=last + 50, resume=True, **options)
    assert longer.metrics[-1]["step"] == last + 50
    best = lda.fit(COUNTS, 2, target_ess=200, resume=True, **options)
    assert best.metrics[-1]["step"] > last + 50
    assert best.metrics[-1]["ess_prevalence"] >= 200


@pytest.mark.slow
def test_a_single_topic_is_good():
    fitted = lda.fit(COUNTS, 1, target_ess=20, holdout=8, time_limit=30.0)
    assert not any("time was over" in warning for warning in fitted.warnings)


def test_estimated_counts_have_a_length():
    assert lda.resolve(COUNTS, 2, counts="subsampled", batch_size=20).steps == 400
    with pytest.raises(ValueError, match="memoised counts"):
        lda.resolve(COUNTS, 2, counts="subsampled", target_ess=50)


def test_topics_that_hardly_mix_are_written_without_intervals(tmp_path):
    short = lda.fit(COUNTS, 2, steps=3, chains=1)
    lines = (short.save(tmp_path / "run") / "topics.csv").read_text().splitlines()
    assert {tuple(line.split(",")[-3:]) for line in lines[1:]} == {("nan", "nan", "none")}
    assert "time was over" not in " ".join(short.warnings)
