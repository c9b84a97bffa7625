"""Hooks that serve several runs; what they do in one is tested with the driver."""

import io

import pytest

from simplex_jax._src.runtime import hooks


def event(step, metrics, info=()):
    return hooks.Event(step, 0, 100, 1.0, 0.5, None, info, metrics)


def test_a_hook_serves_one_run_after_another():
    """As those of an estimator that is fitted twice: the second run had no patience left."""
    stop, heat = hooks.EarlyStop("loss", patience=2), hooks.Equilibrium()
    for _ in range(2):
        answers = [stop(event(i, {"loss": x})) for i, x in enumerate([5.0, 1.0, 2.0, 2.0])]
        assert answers == [False] * 3 + [True]
        for step in range(9):
            heat(event(step, {}, {"kinetic": 2.0 + step % 2}))
    assert len(heat.save()[""]) == 9


def test_a_log_of_a_second_run_replaces_that_of_the_first(tmp_path):
    log = hooks.MetricsLog(tmp_path / "metrics.jsonl")
    for steps in ((5, 10, 15), (5, 10)):
        for step in steps:
            log(event(step, {}))
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ['{"step": 5', '{"step": 10']


def test_a_second_run_may_have_the_steps_of_the_first(tmp_path):
    """Each has one chunk, so the second run begins with the step that ended the first."""
    log, heat = hooks.MetricsLog(tmp_path / "metrics.jsonl"), hooks.Equilibrium()
    stop = hooks.EarlyStop("loss", patience=1)
    shown = io.StringIO()
    progress = hooks.Progress(["loss"], file=shown)
    for loss in (1.0, 2.0):
        for call in hooks.calls_of([progress]).begin:
            call()
        last = event(5, {"loss": loss}, {"kinetic": 2.0})
        log(last)
        heat(last)
        progress(last)
        progress.finish(last)
        assert not stop(last)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 1
    assert len(heat.save()[""]) == 1
    assert [line[-1] for line in shown.getvalue().splitlines()] == ["1", "2"]


@pytest.mark.parametrize(("hook", "says"), [(hooks.Progress, r"Progress\(...\)"), (3, "it is 3")])
def test_what_is_no_hook_is_named(hook, says):
    with pytest.raises(TypeError, match=says):
        hooks.calls_of([print, hook])
