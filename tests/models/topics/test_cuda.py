"""The local step of GPUs beside the one of CPUs, and its law. False alarms as in test_local.py."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_local
from support import gpus, native_sweeps
from support import statistics_checks as checks
from support.marks import slow_but
from test_native import problem

from simplex_jax._src.corpus.device import Documents
from simplex_jax._src.models.topics import engine
from simplex_jax._src.models.topics.native import calls
from simplex_jax._src.models.topics.native import library as libraries

LIBRARY = libraries.LIBRARY
NARROW, WIDE = (1, 3, 16, 50, 100, 191, 192), (193, 300, 1000, 8000)
LENGTHS = [0, 1, 5, 40, 33, 7, 0, 100]
REPEATS = {"gpu": 500, "emulated": 3}
places = pytest.mark.parametrize("place", gpus.PLACES)


def swept(keys, log_topics, alpha, *documents_and_labels, count="changes", prefix=None):
    """Labels, counts of topics and words, and counts in documents."""
    *documents, labels = documents_and_labels
    return calls.sweep(
        keys,
        calls.lay_out(log_topics, prefix=prefix),
        alpha,
        Documents(*documents),
        labels,
        jnp.zeros(log_topics.shape, jnp.int32),
        burn_in=1 if count == "labels" else 0,
        count=count,
        tally=True,
        kind="dense",
        prefix=prefix,
    )


def arguments(num_topics, place, sweeps):
    likelihood, alpha, documents, labels = problem(num_topics, LENGTHS * REPEATS[place])
    keys = jax.random.split(jax.random.key(1), sweeps)
    return keys, jnp.log(likelihood), alpha, *documents[:3], labels


@places
@pytest.mark.parametrize("count", ["changes", "labels", "nothing"])
@pytest.mark.parametrize("num_topics", slow_but(NARROW, 50, 192))
def test_few_topics_are_drawn_as_on_a_cpu(place, num_topics, count):
    function = functools.partial(swept, count=count)
    on_cpu, on_gpu = gpus.results(LIBRARY, place, function, *arguments(num_topics, place, 3))
    for expected, result in zip(on_cpu, on_gpu, strict=True):
        np.testing.assert_array_equal(expected, result)


def counted(num_topics, place, sweeps=2):
    """Whether many topics are counted as they are drawn; they are drawn in another order."""
    given = arguments(num_topics, place, sweeps)
    _, (labels, words, tally) = gpus.results(LIBRARY, place, swept, *given)
    *_, tokens, _, lengths, before = map(np.asarray, given[1:])
    total = lengths.sum()
    assert (labels[:total] < num_topics).all()
    assert (labels != before).mean() > 0.5
    np.testing.assert_array_equal(labels[total:], before[total:])
    changes = np.zeros((num_topics + 1, given[1].shape[1]), int)
    np.add.at(changes, (labels[:total], tokens), 1)
    np.subtract.at(changes, (before[:total], tokens), 1)
    np.testing.assert_array_equal(words, changes[:num_topics])
    if sweeps == 1:
        in_documents = np.zeros_like(tally)
        np.add.at(in_documents, (np.repeat(np.arange(len(lengths)), lengths), labels[:total]), 1)
        np.testing.assert_array_equal(tally, in_documents)


@places
@pytest.mark.parametrize("num_topics", slow_but(WIDE, 300))
def test_many_topics_are_counted(place, num_topics):
    counted(num_topics, place, sweeps=1)
    counted(num_topics, place)


def law_checks(place, extra, getkey, seed, prefix=None):
    """Labels after a sweep from exact ones, and on a GPU after many from none.

    With topics besides, which no word has, a warp takes a document.
    """
    phi = np.pad(test_local.PHI, ((0, extra), (0, 0)))
    alpha = np.pad(test_local.ALPHA, (0, extra), constant_values=0.5)
    none = jnp.asarray(len(alpha), jnp.uint16)

    def sweep(key, likelihood, alpha, documents, labels):
        labels = jnp.where(labels < test_local.TOPICS, labels, none)
        new = native_sweeps.sweep(
            key, likelihood, alpha, documents, labels, kind="dense", prefix=prefix
        )
        return new.astype(jnp.uint8)

    starts = ("invariant", "converges") if place == "gpu" else ("invariant",)
    return test_local.conditional_checks(sweep, getkey, seed, phi, alpha, starts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "extra"),
    [("emulated", 0), ("emulated", 300), ("gpu", 0), ("gpu", 300), ("gpu", 5000)],
)
def test_the_law_is_that_of_the_model(place, extra, getkey, seed):
    if place == "gpu":
        gpus.needs_gpu(LIBRARY)
    prefix = gpus.emulation(LIBRARY) if place == "emulated" else None
    with gpus.on(place):
        assert not checks.family(law_checks(place, extra, getkey, seed, prefix))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "old", "new"),
    [
        (0, "        add(old, -1);\n", ""),
        (0, "        add(inside ? topic : none, 1);\n", ""),
        (0, "topic < task.topics ? task.alpha[topic] : 0.0f;", "task.alpha[0];"),
        (300, "--counts[old];", ";"),
        (300, "if (lane == 0) ++counts[topic];", ""),
        (300, "k < task.topics ? task.alpha[k] : 0.0f;", "task.alpha[0];"),
        (300, "up_to > inner", "up_to > 0"),
        (
            300,
            "const uint32_t id = documents.ids[document];\n  Label",
            "const uint32_t id = 0;\n  Label",
        ),
        (300, "uint32_t one = 2 * position, two = id;", "uint32_t one = 0, two = id;"),
    ],
    ids=[
        "own token kept",
        "stale counts",
        "alpha of another topic",
        "own token kept, of many",
        "stale counts, of many",
        "alpha of another topic, of many",
        "the first of four",
        "one number for all documents",
        "one number for a document",
    ],
)
def test_mutants_are_seen(extra, old, new, getkey, seed):
    prefix = gpus.emulation(LIBRARY, old, new)
    with gpus.on("emulated"):
        assert checks.family(law_checks("emulated", extra, getkey, seed, prefix))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("row += partial[b] <= left;", "row += 0;"),
        ("threshold - (chosen ? other : 0.0f)", "threshold"),
        ("j + 1 < kLanes ? this_word : first_soon", "this_word"),
        ("lane % 8 >= 4 ? other : 0.0f", "0.0f"),
    ],
    ids=["the first row", "the sums of other lanes", "the word before", "sums of half the lanes"],
)
def test_mutants_of_several_rows_are_seen(old, new):
    with gpus.on("emulated"):
        given = arguments(50, "emulated", 1)
        mutant = swept(*given, prefix=gpus.emulation(LIBRARY, old, new))
        assert (swept(*given)[0] != mutant[0]).any()


@places
@pytest.mark.parametrize("num_topics", [5, 300])
def test_tables(place, num_topics, getkey, seed):
    _, _, documents, labels = problem(num_topics, LENGTHS * REPEATS[place])
    concentration = np.random.default_rng(seed).gamma(0.3, size=num_topics)

    def draw(key, concentration, tokens, starts, lengths, labels, prefix=None):
        documents = Documents(tokens, starts, lengths)
        return calls.tables(key, concentration, documents, labels, prefix=prefix)

    given = getkey(), jnp.asarray(concentration, jnp.float32), *documents[:3], labels
    on_cpu, on_gpu = gpus.results(LIBRARY, place, draw, *given)
    np.testing.assert_array_equal(on_cpu, on_gpu)


@places
@pytest.mark.parametrize("num_words", [1, 31, 33, 300])
@pytest.mark.parametrize("num_topics", [1, 16, 33, 500])
def test_rows_of_words(place, num_topics, num_words, seed):
    rng = np.random.default_rng(seed)
    log_topics = 30 * rng.standard_normal((num_topics, num_words)).astype(np.float32)
    log_topics[0], log_topics[:, -1], log_topics[-1, 0] = -np.inf, -np.inf, np.nan
    on_cpu, on_gpu = gpus.results(LIBRARY, place, calls.lay_out, jnp.asarray(log_topics))
    np.testing.assert_array_equal(on_cpu, on_gpu)


@places
def test_totals(place):
    words = np.random.default_rng(0).integers(0, 2**31 - 1, (3, 70, 1001), dtype=np.int32)
    on_cpu, on_gpu = gpus.results(LIBRARY, place, calls.totals, jnp.asarray(words))
    np.testing.assert_array_equal(on_cpu, on_gpu)


@places
@pytest.mark.parametrize("num_topics", [20, 250])
@pytest.mark.parametrize("weight", [np.nan, 0.0, np.inf, 1e-44])
def test_impossible_weights_give_some_topic(place, num_topics, weight):
    _, alpha, documents, labels = problem(num_topics, [30] * 10)
    weights = jnp.full((40, -(-num_topics // 16) * 16), weight, jnp.float32)

    def sweep(key, weights, alpha, tokens, starts, lengths, labels, prefix=None):
        documents, none = Documents(tokens, starts, lengths), jnp.zeros((0, 0), jnp.int32)
        options = {"burn_in": 0, "count": "nothing", "tally": False, "kind": "dense"}
        return calls.sweep(
            key[None], weights, alpha, documents, labels, none, prefix=prefix, **options
        )[0]

    given = jax.random.key(0), weights, alpha, *documents[:3], labels
    on_cpu, on_gpu = gpus.results(LIBRARY, place, sweep, *given)
    assert (on_gpu < weights.shape[1]).all()
    if num_topics < NARROW[-1]:
        np.testing.assert_array_equal(on_cpu, on_gpu)


def test_the_engine_is_native_on_a_gpu():
    gpus.needs_gpu(LIBRARY)
    assert engine.resolve() == "native"
    assert engine.resolve(None, libraries.most_topics() + 1) == "xla"
    assert libraries.most_topics() >= 8192
