import functools
import io
import json
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.cut_runs import look_after_every_step
from support.marks import slow_but

from simplex_jax import dpm
from simplex_jax._src import base, batches, estimators, gradients, schedules
from simplex_jax._src.runtime import driver, hooks
from simplex_jax._src.samplers import sgld, sgrld, smld

LABELS = np.array([0] * 8 + [1] + [3])
KERNEL = smld.build(
    estimators.categorical(10), 0.5, schedules.polynomial_decay(0.02, tau=10.0, kappa=0.3)
)
STREAM = batches.shuffled(LABELS, 3)


@pytest.fixture
def state(getkey):
    return KERNEL.init(getkey(), jnp.ones(4))


@pytest.fixture
def key(getkey):
    return getkey()


@pytest.fixture
def reference(key, state):
    """The samples of 25 steps by a plain loop over the documented keys."""
    key_update, key_stream = jax.random.split(key)
    update = jax.jit(KERNEL.update)
    positions = []
    for step in range(25):
        state, _ = update(jax.random.fold_in(key_update, step), state, STREAM(key_stream, step))
        positions.append(np.asarray(state.position))
    return np.stack(positions)


def same(first, second):
    np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["chunk", "thin"])
def test_more_steps_than_can_be_numbered_are_an_error(name, key, state):
    with pytest.raises(ValueError, match=f"^{name} .* 2147483646; "):
        driver.run(key, KERNEL, state, STREAM, 5, **{name: 10**10})


@pytest.mark.parametrize(
    ("chunk", "thin"),
    slow_but([(1, 1), (7, 3), (25, 1), (100, 10), (4, 10), (10, 30)], (7, 3)),
)
def test_neither_chunks_nor_thinning_change_samples(chunk, thin, key, state, reference):
    end, trace = driver.run(key, KERNEL, state, STREAM, 25, chunk=chunk, thin=thin)
    same(trace, reference[thin - 1 :: thin])
    same(end.position, reference[-1])
    assert int(end.step) == 25
    assert int(state.step) == 0, "the state passed in is untouched"


@pytest.mark.parametrize("thin", slow_but([1, 4], 4))
def test_a_resumed_run_continues_the_samples(thin, key, state, reference):
    whole = driver.run(key, KERNEL, state, STREAM, 25, chunk=6, thin=thin)
    pieces, resumed = [], state
    for steps in (3, 0, 9, 13):
        resumed, piece = driver.run(key, KERNEL, resumed, STREAM, steps, chunk=6, thin=thin)
        pieces.append(piece)
    np.testing.assert_array_equal(np.concatenate(pieces), whole[1])
    np.testing.assert_array_equal(resumed.position, whole[0].position)
    same(whole[1], reference[thin - 1 :: thin])


def test_one_program_serves_chunks_of_all_lengths(key, state):
    run = functools.partial(driver.run, key, KERNEL, stream=STREAM, chunk=10)
    state, _ = run(state=state, num_steps=10)
    compiled = driver._program()._cache_size()
    for steps in (1, 13, 27):
        state, _ = run(state=state, num_steps=steps)
    assert driver._program()._cache_size() == compiled


@pytest.fixture
def compiled():
    """A function that returns how often the program of runs was compiled since the last call."""
    for thread in threading.enumerate():  # of a fit that has failed
        if thread.name == "compile_ahead":
            thread.join()
    times = []

    def listen(event, seconds, **more):
        if event.endswith("backend_compile_duration") and more.get("fun_name") == "jit(_advance)":
            times.append(seconds)

    def count():
        found = len(times)
        times.clear()
        return found

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield count
    jax.monitoring.unregister_event_duration_listener(listen)


OPTIONS = {"xla_backend_optimization_level": 1}
AHEAD = {"collect": driver.nothing, "compiler_options": OPTIONS}


def shapes_of(state):
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), state)


def test_a_program_compiled_ahead_is_used(key, state, compiled):
    driver.compile_ahead(key, KERNEL, shapes_of(state), STREAM, chunk=77, **AHEAD)()
    assert compiled() == 1
    end, _ = driver.run(key, KERNEL, state, STREAM, 20, chunk=77, **AHEAD)
    assert compiled() == 0
    same(end.position, driver.run(key, KERNEL, state, STREAM, 20, chunk=77)[0].position)


def test_it_is_that_of_the_contexts_of_the_run(key, state, compiled):
    with jax.default_matmul_precision("highest"):
        driver.compile_ahead(key, KERNEL, shapes_of(state), STREAM, chunk=78, **AHEAD)()
        assert compiled() == 1
        driver.run(key, KERNEL, state, STREAM, 20, chunk=78, **AHEAD)
        assert compiled() == 0


def test_what_cannot_be_compiled_is_an_error_of_the_run(key, state):
    options = {"collect": driver.nothing, "compiler_options": {"no_such_option": 1}}
    driver.compile_ahead(key, KERNEL, shapes_of(state), STREAM, chunk=79, **options)()
    with pytest.raises(jax.errors.JaxRuntimeError, match="no_such_option"):
        driver.run(key, KERNEL, state, STREAM, 20, chunk=79, **options)


def test_a_mixture_compiles_its_updates_once(compiled):
    rows = np.random.default_rng(0).normal(size=(50, 1))
    dpm.fit(rows, dpm.families.diagonal_gaussian_of(rows), passes=1, split_merge=0, progress=False)
    assert compiled() == 1


def test_data_are_arguments_of_the_program(key):
    stream = batches.uniform(np.zeros(100_000, np.int32), 5)
    state = KERNEL.init(key, jnp.ones(4))
    text = (
        driver._program()
        .lower(
            tuple(jax.random.split(key)),
            base.as_pytree(KERNEL.update),
            base.as_pytree(driver.position_of),
            base.as_pytree(stream),
            state,
            1,
            thin=1,
            slots=3,
        )
        .as_text()
    )
    assert len(text) < 200_000


def test_collect_may_keep_anything(key, state):
    def collect(state, info):
        return {"largest": jnp.argmax(state.position), "info": info}

    _, trace = driver.run(key, KERNEL, state, STREAM, 8, collect=collect, thin=2)
    assert trace["largest"].shape == (4,)
    assert trace["largest"].dtype == np.int32
    same(trace["info"].step_size, 0.02 * (1 + np.arange(1, 8, 2) / 10) ** -0.3)
    _, nothing = driver.run(key, KERNEL, state, STREAM, 3, collect=lambda state, info: ())
    assert nothing == ()
    _, empty = driver.run(key, KERNEL, state, STREAM, 0)
    assert empty.shape == (0, 4)


def test_host_batches_are_read_as_they_come(key, state):
    numbers = np.arange(25)
    rows = [LABELS[(i + numbers[:3]) % 10] for i in range(25)]

    def stream(key, step):
        return jnp.asarray(np.stack(rows))[step]

    on_device, trace = driver.run(key, KERNEL, state, stream, 25, chunk=10)
    taken = []
    source = (taken.append(i) or row for i, row in enumerate(rows))
    on_host, host_trace = driver.run(key, KERNEL, state, source, 23, chunk=10)
    assert taken == list(range(23))
    np.testing.assert_array_equal(host_trace, trace[:23])
    on_host, rest = driver.run(key, KERNEL, on_host, source, 100, chunk=10)
    assert int(on_host.step) == 25, "the run ends where the batches end"
    np.testing.assert_array_equal(np.concatenate([host_trace, rest]), trace)
    np.testing.assert_array_equal(on_host.position, on_device.position)
    _, empty = driver.run(key, KERNEL, state, iter(rows), 0)
    assert empty.shape == (0, 4)
    with pytest.raises(ValueError, match="stream"):
        driver.run(key, KERNEL, state, [], 5)

    class Source:  # iterable by its items only, as some data sets of PyTorch
        def __getitem__(self, i):
            return rows[i]

    _, again = driver.run(key, KERNEL, state, Source(), 25)
    np.testing.assert_array_equal(again, trace)


def test_kernels_that_need_no_batches(key):
    kernel = sgld.build(gradients.density(lambda x: -(x**2).sum()), 0.1)
    state = kernel.init(key, jnp.zeros(3))
    _, trace = driver.run(key, kernel, state, batches.none, 7)
    _, same = driver.run(key, kernel, state, batches.full(LABELS), 7)
    np.testing.assert_array_equal(trace, same)
    with pytest.raises(ValueError, match=r"it is None: .* give batches\.none"):
        driver.run(key, kernel, state, None, 7)


@pytest.mark.parametrize("other", [LABELS[:2], (LABELS[:3],)])
@pytest.mark.parametrize("place", [1, 12])
def test_host_batches_of_another_shape_are_named(place, other, key, state):
    source = [LABELS[:3]] * place + [other] + [LABELS[:3]] * 5
    with pytest.raises(ValueError, match=rf"update {place} .*batch"):
        driver.run(key, KERNEL, state, source, 20)


def test_few_host_batches_are_read_ahead_however_long_the_chunk(key, state, monkeypatch):
    look_after_every_step(monkeypatch)
    taken, ahead = [], []

    class Watch(hooks.Hook):
        def __call__(self, event):
            ahead.append(len(taken) - event.step)

        pulse = __call__

    source = (taken.append(i) or LABELS[:3] for i in range(45))
    end, trace = driver.run(key, KERNEL, state, source, 100, chunk=30, thin=4, hooks=[Watch()])
    assert int(end.step) == 45
    assert len(trace) == 45 // 4
    assert max(ahead) < 16


def test_hooks_are_called_at_multiples_of_the_chunk_and_closed(key, state):
    events, closed = [], []

    class Watch(hooks.Hook):
        def __call__(self, event):
            events.append(event)

        def close(self):
            closed.append(self)

    state, _ = driver.run(key, KERNEL, state, STREAM, 3, chunk=10)
    end, _ = driver.run(key, KERNEL, state, STREAM, 30, chunk=10, hooks=[Watch(), Watch()])
    assert [event.step for event in events[::2]] == [10, 20, 30, 33]
    assert {(event.first_step, event.last_step) for event in events} == {(3, 33)}
    assert all(int(event.state.step) == event.step for event in events)
    seconds = [event.seconds for event in events[::2]]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0
    assert events[0].metrics is events[1].metrics
    np.testing.assert_array_equal(events[-1].state.position, end.position)
    assert len(closed) == 2


def test_hooks_are_called_whatever_holds_them(key, state):
    steps = []
    given = (hook for hook in [lambda event: steps.append(event.step)])
    driver.run(key, KERNEL, state, STREAM, 3, hooks=given, chunk=1)
    assert len(steps) == 3
    with pytest.raises(TypeError, match=r"^hooks "):
        driver.run(key, KERNEL, state, STREAM, 3, hooks=print)


def test_a_callable_with_methods_of_hooks_is_refused(key, state):
    class Log:
        def __call__(self, event):
            pass

        def close(self):
            pass

    with pytest.raises(TypeError, match="hook Log has a method 'close'"):
        driver.run(key, KERNEL, state, STREAM, 5, hooks=[Log()])


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_hooks_are_closed_after_an_error(error, key, state):
    closed = []

    class Fail(hooks.Hook):
        def __call__(self, event):
            if event.step == 20:
                raise error

        def close(self):
            closed.append(self)

    with pytest.raises(error):
        driver.run(key, KERNEL, state, STREAM, 50, chunk=10, hooks=[Fail()])
    assert len(closed) == 1
    driver.run(key, KERNEL, state, STREAM, 5)


def test_a_hook_ends_the_run_after_all_hooks_saw_the_chunk(key, state, reference):
    seen = []
    stop_hooks = [lambda event: event.step >= 10, lambda event: seen.append(event.step)]
    end, trace = driver.run(key, KERNEL, state, STREAM, 25, chunk=5, hooks=stop_hooks)
    assert seen == [5, 10]
    assert int(end.step) == 10
    same(trace, reference[:10])
    end, _ = driver.run(key, KERNEL, state, STREAM, 10**6, chunk=5, max_seconds=0.0)
    assert int(end.step) == 5


def test_samples_between_pulses_need_no_pulse(key, state):
    """Several processes agree at each pulse, which takes longer than a small update."""
    calls = {"sample": 0, "pulse": 0}

    class Watch(hooks.Hook):
        def sample(self, event):
            calls["sample"] += 1

        def pulse(self, event):
            calls["pulse"] += 1

    driver.run(key, KERNEL, state, STREAM, 200, chunk=200, sample_every=1, hooks=[Watch()])
    assert calls["sample"] == 200
    assert 2 <= calls["pulse"] < 100


def test_pulses_come_within_chunks_and_the_end_is_told_once(key, state, reference, monkeypatch):
    look_after_every_step(monkeypatch)
    calls = []

    class Watch(hooks.Hook):
        def __call__(self, event):
            calls.append(("chunk", event.step))
            if event.step == 20:
                raise RuntimeError

        def pulse(self, event):
            calls.append(("pulse", event.step))
            return event.step == stop

        def finish(self, event):
            calls.append(("finish", event.step))

        def close(self):
            calls.append(("close", 0))

    stop = 7
    batches_read = (STREAM(jax.random.split(key)[1], step) for step in range(25))
    end, trace = driver.run(key, KERNEL, state, batches_read, 25, chunk=5, hooks=[Watch()])
    pulses = [("pulse", step) for step in range(1, 8)]
    assert calls == [*pulses[:4], ("chunk", 5), *pulses[4:], ("finish", 7), ("close", 0)]
    same(trace, reference[:7])
    assert int(end.step) == 7
    calls.clear()
    with pytest.raises(RuntimeError):
        driver.run(key, KERNEL, end, STREAM, 18, chunk=20, hooks=[Watch()])
    assert calls[-2:] == [("chunk", 20), ("close", 0)]


def test_chains_share_the_stream_and_the_step(key, getkey):
    kernel = base.chains(sgrld.build(estimators.categorical(10), 0.5, 0.01), 3)
    state = kernel.init(getkey(), jnp.ones(4))
    state, trace = driver.run(key, kernel, state, STREAM, 6, thin=2)
    assert trace.shape == (3, 3, 4)
    assert np.asarray(state.step).tolist() == [6, 6, 6]
    assert not np.allclose(trace[:, 0], trace[:, 1])


def test_bad_arguments_are_named(key, state):
    for name, value in [("num_steps", -1), ("num_steps", 1.5), ("thin", 0), ("chunk", 0)]:
        arguments = {"num_steps": 5, name: value}
        with pytest.raises(ValueError, match=name):
            driver.run(key, KERNEL, state, STREAM, **arguments)


def event(step, metrics, seconds=1.0, info=()):
    return hooks.Event(step, 0, 100, seconds, 0.5, None, info, metrics)


def test_early_stop_waits_for_its_patience():
    stop = hooks.EarlyStop("loss", patience=2, least=0.1)
    values = [5.0, 4.0, 3.95, None, 3.0, 2.95, np.nan]
    answers = [
        stop(event(i, {} if value is None else {"loss": value})) for i, value in enumerate(values)
    ]
    assert answers == [False] * 6 + [True]
    for bad in ({"patience": 0}, {"patience": 1, "least": -1.0}, {"patience": 1, "least": np.nan}):
        with pytest.raises(ValueError, match=next(reversed(bad))):
            hooks.EarlyStop("loss", **bad)


def test_metrics_log_appends_lines_of_json(tmp_path, key, state):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 0}\n')
    evaluate = lambda event: event.metrics.update(score=np.float32(2.5), bad=np.inf)  # noqa: E731
    log = hooks.MetricsLog(path)
    driver.run(key, KERNEL, state, STREAM, 10, chunk=5, hooks=[evaluate, log])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 5, 10]
    assert lines[2]["score"] == 2.5
    assert lines[2]["bad"] is None
    assert {"seconds", "step_size", "stiffness", "smallest"} <= set(lines[2])


def test_metrics_log_replaces_what_a_run_that_was_cut_has_left(tmp_path, key, state):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 0}\n{"step": 5}\n{"no": 1}\n[2]\n{"step": 10}\n{"st')
    driver.run(key, KERNEL, state, STREAM, 10, chunk=5, hooks=[hooks.MetricsLog(path)])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 5, 10]
    assert "seconds" in lines[1]


def test_progress_writes_plain_lines_elsewhere():
    file = io.StringIO()
    progress = hooks.Progress(["perplexity"], file=file, interval=3600)
    progress(event(10, {"perplexity": 123.4}, seconds=2.0))
    progress(event(50, {}, seconds=10.0))
    progress(event(100, {}, seconds=20.0))
    progress.finish(event(100, {}, seconds=20.0))
    progress.close()
    first, last = file.getvalue().splitlines()
    assert first == "step 10/100, 5 steps/s, 00:18 left, perplexity 123.4"
    assert last == "step 100/100, 5 steps/s, 00:00 left, perplexity 123.4"


def test_progress_towards_a_goal_and_of_a_run_without_a_length():
    file = io.StringIO()
    for metrics in ({"expected_steps": 60.0}, {}):
        happened = event(10, metrics, seconds=2.0)._replace(last_step=hooks.MAX_STEPS)
        hooks.Progress(file=file)(happened)
    assert file.getvalue().splitlines() == [
        "step 10, 5 steps/s, about 00:10 left",
        "step 10, 5 steps/s",
    ]


def test_progress_draws_a_bar_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    file = Terminal()
    progress = hooks.Progress(["perplexity"], file=file)
    progress(event(40, {"perplexity": 123.4}))
    progress(event(100, {}))
    progress.close()
    progress.close()
    assert "100/100" in file.getvalue()
    progress = hooks.Progress(file=file)
    progress(event(40, {"expected_steps": 80.0})._replace(last_step=hooks.MAX_STEPS))
    progress(event(50, {"expected_steps": 90.0})._replace(last_step=hooks.MAX_STEPS))
    progress.close()
    assert "50/90" in file.getvalue()
    assert "about" in file.getvalue()
    assert "perplexity=123.4" in file.getvalue()


def test_polynomial_decay():
    schedule = schedules.polynomial_decay(0.5, tau=10, kappa=0.33)
    # METHODS of the SCIR paper's LDA run: 0.50 at the start, about 0.11 after 1000 updates.
    assert float(schedule(0)) == 0.5
    assert float(schedule(jnp.int32(1000))) == pytest.approx(0.5 * 101**-0.33)
    for bad in ({"initial": 0.0}, {"tau": -1.0}, {"kappa": -0.1}, {"tau": np.nan}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            schedules.polynomial_decay(**{"initial": 0.5, "tau": 10.0, "kappa": 0.3, **bad})


NAN = [(1, 10), (2, 10), (17, 10), (20, 10), (9, 1)]


@pytest.mark.parametrize(("first_bad", "chunk"), slow_but(NAN, (1, 10), (17, 10)))
def test_nan_ends_the_run_and_the_update_is_named(first_bad, chunk, getkey):
    def update(key, state, batch):
        bad = jnp.where(state.step + 1 >= first_bad, jnp.nan, 0.0)
        return state._replace(position=state.position + bad, step=state.step + 1), {}

    kernel = base.Kernel(KERNEL.init, update)
    events = []
    state = KERNEL.init(getkey(), jnp.full(3, 1 / 3))
    with pytest.raises(
        FloatingPointError, match=rf"position became NaN in update {first_bad}:.* step size"
    ):
        driver.run(getkey(), kernel, state, STREAM, 50, chunk=chunk, hooks=[events.append])
    assert all(int(event.state.step) < first_bad for event in events)


def test_a_position_is_no_state(key, state):
    with pytest.raises(ValueError, match=r"^state .*ArrayImpl$"):
        driver.run(key, KERNEL, state.position, STREAM, 3)


def test_a_traced_run_is_refused():
    kernel = sgld.build(gradients.density(lambda x: -(x**2).sum()), 0.1)
    state = kernel.init(jax.random.key(0), jnp.zeros(2))
    stream = batches.full(jnp.zeros(1))
    for transform in (jax.jit, jax.vmap):
        key = jax.random.key(0) if transform is jax.jit else jax.random.split(jax.random.key(0), 2)
        with pytest.raises(ValueError, match=r"jax\.lax\.scan"):
            transform(lambda key: driver.run(key, kernel, state, stream, 3))(key)
