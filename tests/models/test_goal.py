"""Runs that end by a rule: effective sizes, levels, and what a check decides."""

import types

import numpy as np
import pytest
import scipy.sparse as sp
from support.cut_runs import Cut
from support.fits import assert_same

from simplex_jax._src.evaluate import diagnostics
from simplex_jax._src.models import goal, lda, verdict
from simplex_jax._src.models.lda import posterior
from simplex_jax._src.models.topics import data
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


def test_the_sizes_of_chains_that_are_apart_are_added(seed):
    trace = autoregressive(np.random.default_rng(seed), 2000, 2, 0.6) + np.array([0.0, 50.0])
    assert goal.added(trace) == pytest.approx(4000 / 4, rel=0.3)
    assert goal.effective(trace) < 10


def test_an_average_that_is_told_again_is_not_settled():
    """The evaluation at the end of a run is not due, and adds no sample to the average."""
    metrics = [{"step": 4, "x": 3.0}, {"step": 20, "x": 3.0}]
    assert verdict.change(metrics, "x") is None
    assert verdict.change([{"step": 2, "x": 3.5}, *metrics], "x") == 0.5
    assert verdict.change([{"step": 2, "x": 3.0}, *metrics], "x") == 0.0


def event(step, seconds=0.0, due=True):
    return Event(step, 0, 2**31 - 1, seconds, 0.0, None, None, {}, due=due)


def goal_of(traces=dict, level=lambda done: 7.0, **options):
    """A goal whose level depends on the updates done, evaluated at every update."""
    given = {"active": True, "every": 1} | options
    return goal.Goal(traces, "level", lambda event, traces: level(event.step), **given)


def end_of(hook, seconds=0.01, most=3000):
    return next((n for n in range(1, most) if hook(event(n, n * seconds))), None)


def falling(done):
    """A level that halves what it has left whenever a run doubles."""
    return 7 + 0.5 / done


def test_it_ends_when_the_level_has_settled():
    """The change since half is 0.5 / done or, of checks in between, a little more."""
    hook = goal_of(level=falling)
    assert 0.5 / goal.TOLERANCE <= end_of(hook) <= 1.2**3 * 0.5 / goal.TOLERANCE
    assert (hook.reason, hook.ended(0.0)) == ("goal", True)
    # One check by chance is not enough: the level falls all the time, but for one moment.
    steps = [n for n in range(1, 3000) if goal._is_due(n)]
    by_chance = {steps[20]: -steps[20] // 2}
    assert end_of(goal_of(level=lambda done: -0.1 * by_chance.get(done, done))) is None


def test_it_waits_for_effective_samples_of_the_level(seed):
    trace = autoregressive(np.random.default_rng(seed), 3000, 2, 0.9)
    hook = goal_of(lambda: {"level": trace[: next(count)]})
    count = iter(range(0, 3000, 20))
    assert end_of(hook) > goal.ENOUGH / 20
    # Of a level that cannot move, such as that of a single topic, no samples are asked.
    assert end_of(goal_of(lambda: {"level": np.ones((20, 2))})) < 10
    assert end_of(goal_of(lambda: {"level": np.ones((5, 2))})) is None


def test_it_ends_at_its_limits_and_says_which():
    never = {"level": lambda done: -0.1 * done}
    hook = goal_of(limit=77, **never)
    assert (end_of(hook), hook.reason, hook.ended(0.0)) == (77, "limit", True)
    hook = goal_of(limit=77, seconds=0.5, **never)
    assert (end_of(hook), hook.reason, hook.ended(0.0)) == (50, "clock", False)
    hook.load(hook.save())
    assert (hook.reason, hook.ended(0.49), hook.reason) == ("", False, "")
    assert (hook.ended(0.5), hook.reason) == (True, "clock")


def test_the_checks_of_a_run_depend_on_its_updates_alone():
    """A clock may end it between two evaluations, and it may be resumed with or without a goal."""
    whole = goal_of(level=falling, every=3)
    last = next(n for n in range(3, 3000, 3) if whole(event(n)))
    checks = [n for n in range(3, last + 1, 3) if goal._is_due(n // 3)]
    assert 10 < len(checks) < 25
    assert [done for done, _ in whole.save()["levels"]] == checks
    first = goal_of(level=falling, every=3, active=False)
    cut = last // 2 - last // 2 % 3
    assert not any(first(event(n)) for n in range(3, cut + 1, 3))
    first(event(cut + 1, due=False))
    rest = goal_of(level=falling, every=3)
    rest.load(first.save())
    assert next(n for n in range(cut + 3, 3000, 3) if rest(event(n))) == last
    assert rest.save() == whole.save()


def test_the_time_left_is_estimated():
    """Of a level that halves what it has left whenever a run doubles, from the first checks on."""
    hook, expected = goal_of(level=falling), []
    for n in range(1, 3000):
        happened = event(n)
        ended = hook(happened)
        expected.append(happened.metrics.get("expected_steps"))
        if ended:
            break
    known = [entry for entry in expected[20:] if entry is not None]
    assert known[-1] == n
    assert all(n / 2 < entry < 2 * n for entry in known)


@pytest.mark.parametrize("entries", [1, 2, 5, 12, 30])
def test_a_target_is_for_nine_in_ten_entries(entries, seed):
    """Of that many entries, all but a tenth, rounded down, must have the number that is told."""
    rng = np.random.default_rng(seed)
    trace = rng.normal(size=(400, 1, entries))
    trace[:, :, : entries // 10] = 1.0
    assert end_of(goal_of(lambda: {"share": trace}, target=200.0)) < 10
    trace[:, :, entries // 10] = 1.0
    assert end_of(goal_of(lambda: {"share": trace}, target=200.0), most=100) is None


def test_a_run_with_a_length_goes_its_way():
    assert end_of(goal_of(level=lambda done: 7.0, active=False, limit=5, seconds=0.1)) is None


COUNTS = sp.csr_array(
    np.random.default_rng(5).poisson(np.repeat([[3, 0.1], [0.1, 3]], 4, axis=1)[[0, 1] * 20])
)


@pytest.mark.slow
def test_a_fit_without_a_length_ends_when_it_has_settled_and_says_so():
    fitted = lda.fit(COUNTS, 2, alpha=0.5, holdout=8)
    last = fitted.metrics[-1]
    assert (fitted.ended, last["goal"], last["settled"]) == ("goal", 1.0, 1.0)
    assert last["ess_within_log_predictive"] >= goal.ENOUGH
    assert fitted.again == "lda.fit(data, holdout=8, num_topics=2, alpha=0.5)"
    assert fitted.verdict[0].startswith("The predictions have settled")
    assert not fitted.warnings
    assert fitted.settings.chains == 4
    assert_same(eval(fitted.again, {"lda": lda, "data": COUNTS}), fitted)
    other = lda.fit(COUNTS, 2, alpha=0.5, holdout=8, chains=1, time_limit=1e6)
    assert "chains=1" in other.again
    assert "time_limit" not in other.again


def test_a_fit_without_held_out_documents_settles_by_its_likelihood():
    fitted = lda.fit(COUNTS, 2, alpha=0.5)
    assert fitted.ended == "goal"
    assert fitted.metrics[-1]["ess_within_log_likelihood"] >= goal.ENOUGH


@pytest.mark.slow
def test_a_fit_with_a_target_ends_when_it_has_it_and_goes_on_after_a_cut(tmp_path):
    whole = lda.fit(COUNTS, 2, alpha=0.5, target_ess=3000, holdout=8)
    looks = [record for record in whole.metrics if "ess_prevalence" in record]
    assert whole.ended == "goal"
    assert looks[-1]["ess_prevalence"] >= 3000 > looks[-2]["ess_prevalence"]
    sizes = {name: row["ess"] for name, row in whole.diagnostics.items()}
    assert looks[-1]["ess_prevalence"] == pytest.approx(
        min(sizes[f"prevalence {k}"] for k in (0, 1))
    )
    assert "target_ess=3000" in whole.again
    halfway = int(whole.metrics[len(whole.metrics) // 2]["step"])
    options = {"alpha": 0.5, "target_ess": 3000, "holdout": 8, "checkpoint": tmp_path}
    lda.fit(COUNTS, 2, hooks=[Cut(halfway)], **options)
    assert_same(lda.fit(COUNTS, 2, resume=True, **options), whole)


def test_a_fit_whose_time_is_over_says_what_it_has():
    short = lda.fit(COUNTS, 2, target_ess=1e6, time_limit=0.2, holdout=8)
    assert short.ended == "clock"
    assert "passes=" in short.again
    text = " ".join(short.verdict)
    assert "1e+06 effective samples" in text
    assert "A longer run" in text
    assert f"passes={4 * short.done['passes']}" in text


def test_a_fit_that_a_hook_ends_does_not_blame_the_time():
    fitted = lda.fit(COUNTS, 2, hooks=[lambda event: event.step >= 20], holdout=8)
    assert fitted.ended == ""
    assert "time" not in " ".join(fitted.verdict)
    assert fitted.done["passes"] == int(fitted.metrics[-1]["step"])


def test_the_limit_of_a_run_depends_on_sizes_only(monkeypatch):
    monkeypatch.setattr(posterior, "_DRAWS", 1.0)
    monkeypatch.setattr(posterior, "_PASSES", 9)
    fitted = lda.fit(COUNTS, 2, holdout=8)
    assert (fitted.ended, fitted.done) == ("limit", {"passes": 9})
    assert fitted.again == "lda.fit(data, holdout=8, num_topics=2)"
    assert posterior.limit(lda.resolve(COUNTS, 2, target_ess=5.0), data.size_of(COUNTS)) > 1e9


@pytest.mark.parametrize("given", [{"target_ess": 50}, {"time_limit": 9.0}])
def test_a_run_has_a_length_or_a_goal(given):
    with pytest.raises(ValueError, match=r"target_ess and time_limit .*memoised"):
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
    assert lda.fit(COUNTS, 1, target_ess=20, holdout=8, time_limit=30.0).ended == "goal"
    assert lda.fit(COUNTS, 1, holdout=8, time_limit=30.0).ended == "goal"
    assert lda.fit(COUNTS, 1, time_limit=30.0).ended == "goal"


def test_estimated_counts_have_a_length():
    assert lda.resolve(COUNTS, 2, counts="subsampled", batch_size=20).steps == 400
    with pytest.raises(ValueError, match="memoised counts"):
        lda.resolve(COUNTS, 2, counts="subsampled", target_ess=50)


def test_topics_that_hardly_mix_are_written_without_intervals(tmp_path):
    short = lda.fit(COUNTS, 2, steps=3, chains=1)
    lines = (short.save(tmp_path / "run") / "topics.csv").read_text().splitlines()
    assert {tuple(line.split(",")[-3:]) for line in lines[1:]} == {("nan", "nan", "none")}
    assert "time" not in " ".join(short.verdict)


def test_verdicts_say_what_is_good_and_what_is_not_yet():
    def judged(shared, kinds=(True, False, False), **changes):
        shared = np.asarray(shared, bool)
        stable = shared.all(axis=0) & (len(shared) > 1)
        ranges = np.array([[0.1, 0.2, 0.3], [0.2, 0.204, 0.35]])
        fitted = types.SimpleNamespace(
            **{
                "shared": shared,
                "stable": stable,
                "ended": "",
                "metrics": [],
                "done": {"passes": 8},
            }
            | changes
        )
        topics = verdict.topics(fitted, np.array(kinds), ranges)
        return verdict.predictions(fitted, "perplexity"), topics

    both = [[1, 1, 1], [1, 1, 0]]
    assert all(part in judged(both)[1] for part in ("2 of 3 topics", "0.40 points", "other one"))
    assert "All 3 topics are stable" in judged(np.ones((3, 3)))[1]
    assert "Both topics are stable" in judged(np.ones((2, 2)), kinds=(1, 1))[1]
    assert "No topic is stable" in judged([[1, 1, 1], [0, 0, 0]])[1]
    assert "One chain cannot tell" in judged([[1, 1, 1]])[1]
    assert "Nothing was held out" in judged(both)[0]
    assert "is finite" in judged(both, metrics=[{"step": 1, "perplexity": np.inf}])[0]
    falling = [{"step": n, "perplexity": 9.0, "perplexity_average": 9 + 4 / n} for n in (4, 8)]
    assert "not settled after 8 passes" in judged(both, metrics=falling)[0]
    clock = {"ended": "clock", "settings": types.SimpleNamespace(time_limit=5.0)}
    assert "limit of 5 s" in judged(both, metrics=falling, **clock)[0]
    assert judged(both, metrics=falling, ended="goal")[0] == verdict.SETTLED
    flat = [{"step": n, "perplexity": 9.0, "perplexity_average": 9.01} for n in (2, 4, 8)]
    assert judged(both, metrics=flat)[0] == verdict.SETTLED
    assert "too short" in judged(both, metrics=flat[:1])[0]


@pytest.mark.parametrize(("tokens", "held_up"), [(0.1, False), (100.0, True)])
def test_topics_that_hardly_a_token_has_do_not_hold_up_a_target(tokens, held_up):
    """Their prior makes them alike in all chains, and which of them are the same is not known."""
    size = data.size_of(COUNTS)
    prevalence = np.random.default_rng(0).normal(0.5, 1e-3, size=(400, 2, 2))
    prevalence[..., 1] *= np.array([2, 4]) * tokens / size.tokens  # the chains are apart
    moments = {
        "topics": types.SimpleNamespace(mean=np.array([[[0.9, 0.1], [0.5, 0.5]]] * 2)),
        "beta": types.SimpleNamespace(pooled=lambda: (np.full(2, 0.5), None)),
    }
    traces = {"prevalence": prevalence, "log_likelihood": prevalence[..., 0]}
    gathered = types.SimpleNamespace(samples=400, moments=moments, traces=lambda: traces)
    settings = lda.resolve(COUNTS, 2, chains=2, target_ess=100.0)
    kept = types.SimpleNamespace(gathered=lambda: gathered)
    checked = event(8 * settings.eval_every)
    posterior.goal(settings, kept, size, heldout=False)(checked)
    assert (checked.metrics["ess_prevalence"] < 10) == held_up
