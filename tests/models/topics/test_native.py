"""The native lowering of the local step beside the one of XLA, mutants of it, and its edges.

Its law is tested with that of the other sweeps in test_local.py. False alarms as there.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import native_code, native_sweeps
from support import statistics_checks as checks
from support.marks import slow_but
from test_local import conditional_checks

from simplex_jax._src.corpus.device import Documents
from simplex_jax._src.models.lda import model
from simplex_jax._src.models.topics import engine
from simplex_jax._src.models.topics.native import calls, library

pytestmark = native_code.on_cpu(library.LIBRARY)

KINDS = ("dense", "sparse", "integer")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "file", "old", "new"),
    [
        ("dense", "dense.inl", "cursor.counts[next] - 1 + same", "cursor.counts[next] + same"),
        ("sparse", "sparse.inl", "(cursor.counts[slot] -= 1)", "(cursor.counts[slot])"),
        (
            "dense",
            "dense.inl",
            "cursor.masses[topic] = mass_of<kBursts>(plan, more, topic);",
            "",
        ),
        ("sparse", "sparse.inl", "  enter(cursor, topic);\n  cursor.pos", "  cursor.pos"),
        (
            "dense",
            "dense.inl",
            "mass_of<kBursts>(plan, cursor.counts[k], k)",
            "mass_of<kBursts>(plan, cursor.counts[k], 0)",
        ),
        ("sparse", "sparse.inl", "alpha[j] * weights[j]", "alpha[0] * weights[j]"),
        (
            "sparse",
            "handlers.cc",
            "task.alpha[k] * weights[k]",
            "(task.alpha[k] + (*static_cast<uint8_t*>(task.labels) == k)) * weights[k]",
        ),
        ("integer", "integer.inl", "cursor.masses[cursor.old] -= cursor.scale;\n  log", "log"),
        ("integer", "integer.inl", "  cursor.masses[topic] += cursor.scale;\n", ""),
        (
            "integer",
            "integer.inl",
            "rounded_up(task.alpha[k] * static_cast<float>(cursor.scale));\n  }\n  std::fill",
            "rounded_up(task.alpha[0] * static_cast<float>(cursor.scale));\n  }\n  std::fill",
        ),
        ("dense", "random.inl", "2 * (lanes() + (first + i))", "0 * lanes()"),
        ("dense", "random.inl", "Words{} + id", "Words{}"),
    ],
    ids=[
        "own token kept",
        "own token kept in the list",
        "stale counts",
        "stale list",
        "alpha of another topic",
        "alpha of another topic in the prior",
        "table that depends on labels",
        "own token kept in whole numbers",
        "stale masses",
        "alpha of another topic in whole numbers",
        "one number for a document",
        "one number for a position",
    ],
)
def test_mutants_are_seen(kind, file, old, new, tmp_path, getkey, seed):
    prefix = native_sweeps.mutated(tmp_path, file, old, new)
    sweep = functools.partial(native_sweeps.sweep, kind=kind, prefix=prefix)
    assert checks.family(conditional_checks(sweep, getkey, seed))


def bound_checks(kind, prefix=None):
    """P-value of a token whose masses are far below what they are rounded up to, after one sweep.

    Ten other tokens of its document can have one topic only, and hold nearly all of its mass.
    """
    copies, last = 2_000_000, np.array([1, 0.5001, 0])  # a bound of eight bits is 0.5625
    if kind == "integer":
        # Rounded up to 2 and 3; the third topic has no token, and alpha becomes one of 2,700 parts.
        copies, last = 200_000, np.array([1.1, 2.9, 32767]) / 32767
    likelihood = jnp.asarray([[1, 0, last[0]], [0, 1, last[1]], [0, 0, last[2]]], jnp.float32)
    words, topics = [0, *[1] * 9, 2], [0, *[1] * 9, 2]
    documents = Documents(
        jnp.tile(jnp.asarray(words, jnp.int32), copies),
        jnp.arange(copies, dtype=jnp.int32) * 11,
        jnp.full(copies, 11, jnp.int32),
    )
    labels = jnp.tile(jnp.asarray(topics, jnp.uint8), copies)
    new = native_sweeps.sweep(
        jax.random.key(4),
        likelihood,
        jnp.full(3, 1e-6),
        documents,
        labels,
        kind=kind,
        prefix=prefix,
    )
    p = np.array([1, 9, 1e-6]) * last
    p = p[p > 0] / p.sum()
    return checks.chi_square(np.bincount(np.asarray(new)[10::11], minlength=len(p)), p)


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_leave_the_exact_law(kind):
    # One check of each: the false-alarm rate is 1e-3.
    assert bound_checks(kind) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cursor.v[i % kChunk] * bound < task", "0 <= task"),
        (
            "const float* weights = task.weights + word * task.rows * kLanes;\n  return topic_of",
            "const uint8_t* weights = task.bounds + word * task.rows * kLanes;\n  return topic_of",
        ),
    ],
    ids=["all accepted", "bounds for refused tokens"],
)
def test_bounds_for_weights_are_seen(old, new, tmp_path):
    prefix = native_sweeps.mutated(tmp_path, "sparse.inl", old, new)
    assert bound_checks("sparse", prefix) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return drawn < exact * (task", "return true || drawn < exact * (task"),
        ("static_cast<float>(mass - rounded_up(alpha)) + alpha", "static_cast<float>(mass)"),
    ],
    ids=["all accepted", "alpha as rounded"],
)
def test_whole_numbers_for_masses_are_seen(old, new, tmp_path):
    prefix = native_sweeps.mutated(tmp_path, "integer.inl", old, new)
    assert bound_checks("integer", prefix) < 1e-3


@pytest.mark.slow
def test_tokens_refused_too_often_have_the_exact_law(tmp_path):
    prefix = native_sweeps.mutated(tmp_path, "integer.inl", "kTries = 16", "kTries = 1")
    assert bound_checks("integer", prefix) > 1e-3  # the false-alarm rate


def drawn_between_sums(width=16, prefix=None):
    """The topic of a token whose random number lies where the running sums of lanes decrease.

    Lane 3 has a mass in its second row only, and (c + b) + a < c + (b + a) as floats: that lane is
    chosen with less than nothing left to pass. A search over 10^7 documents found this one.
    """
    a, b, c = map(float.fromhex, ("0x1.fc955ap-1", "0x1.cc2838p-1", "0x1.7abb84p-1"))
    likelihood = np.zeros((32, 1), np.float32)
    likelihood[[0, 1, 2, 4, 19], 0] = a, b, c, 1, 1e-9
    one = jnp.ones(1, jnp.int32)
    document = Documents(0 * one, 0 * one, one, 1_291_546 * one)
    labels = jnp.full(1, 32, jnp.uint8)
    key, alpha, options = jax.random.key(2), jnp.ones(32), {"kind": "dense", "prefix": prefix}
    drawn = native_sweeps.sweep(
        key, jnp.asarray(likelihood), alpha, document, labels, width=width, **options
    )
    return int(drawn[0])


@pytest.mark.parametrize("width", [4, 8, 16])
def test_a_topic_without_mass_is_never_drawn(width):
    assert drawn_between_sums(width) == 19


@pytest.mark.slow
def test_sums_that_decrease_lead_to_one_otherwise(tmp_path):
    line = "  left = left > 0 ? left : 0;\n"
    assert drawn_between_sums(prefix=native_sweeps.mutated(tmp_path, "search.inl", line, "")) == 3


@pytest.mark.parametrize("num_words", [40, 2_000])
@pytest.mark.parametrize("kind", ["sparse", "integer"])
def test_a_document_draws_alike_beside_a_long_one(kind, num_words):
    """Documents too long for whole numbers leave them to the others.

    Without it there are so few tokens that tables are made for 781 of the 2,000 words only.
    """
    likelihood, alpha, documents, labels = problem(300, [20] * 50 + [40_000], num_words)
    short = documents._replace(starts=documents.starts[:50], lengths=documents.lengths[:50])
    both, alone = (
        native_sweeps.sweep(jax.random.key(0), likelihood, alpha, some, labels, kind=kind)
        for some in (documents, short)
    )
    np.testing.assert_array_equal(both[:1000], alone[:1000])
    assert (both[1000:] != labels[1000:]).mean() > 0.5


def problem(num_topics, lengths, num_words=40, seed=0):
    """Documents of given lengths, topics, and labels a tenth of which are missing."""
    rng = np.random.default_rng(seed)
    lengths = np.asarray(lengths, np.int32)
    starts = (np.cumsum(lengths) - lengths).astype(np.int32)
    tokens = rng.integers(0, num_words, max(1, lengths.sum())).astype(np.int32)
    labels = rng.integers(0, num_topics, tokens.size)
    labels[rng.uniform(size=tokens.size) < 0.1] = num_topics
    phi = rng.gamma(0.3, size=(num_topics, num_words)) + 1e-6
    return (
        jnp.asarray(phi / phi.max(axis=0), jnp.float32),
        jnp.asarray(rng.gamma(2.0, size=num_topics) / 10, jnp.float32),
        Documents(jnp.asarray(tokens), jnp.asarray(starts), jnp.asarray(lengths)),
        jnp.asarray(labels, engine.label_dtype(num_topics)),
    )


@pytest.mark.parametrize("num_topics", slow_but([1, 3, 16, 50, 100, 300], 50))
def test_both_lowerings_draw_the_same_labels(num_topics):
    """Up to rounding, which moves one draw in some 10,000 and by that others of its document."""
    arguments = problem(num_topics, [0, 1, 5, 40, 33, 7] * 200)
    key = jax.random.key(1)
    native = jax.jit(functools.partial(native_sweeps.sweep, kind="dense"))(key, *arguments)
    plain = jax.jit(engine.METHODS["collapsed"])(key, *arguments)
    assert (np.asarray(native) != np.asarray(plain)).mean() < 2e-3
    assert (np.asarray(native) < num_topics).all()


@pytest.mark.parametrize("num_topics", [17, 50, 191, 192, 4097])
def test_the_kind_does_not_depend_on_other_documents(num_topics):
    """Devices have different documents of a batch, and kinds differ in some labels."""
    lengths = [9, 40, 10, 300] * 20
    likelihood, alpha, documents, labels = problem(num_topics, lengths)
    together = native_sweeps.sweep(jax.random.key(1), likelihood, alpha, documents, labels)
    for some in (np.arange(0, 80, 2), np.arange(1, 80, 2)):  # short ones and long ones
        few = documents._replace(
            starts=documents.starts[some], lengths=documents.lengths[some], ids=jnp.asarray(some)
        )
        alone = native_sweeps.sweep(jax.random.key(1), likelihood, alpha, few, labels)
        starts, ends = np.asarray(few.starts), np.asarray(few.starts + few.lengths)
        for start, end in zip(starts, ends, strict=True):
            np.testing.assert_array_equal(alone[start:end], together[start:end])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_topics", [1, 50, 300])
def test_vectors_of_every_width_draw_the_same(kind, num_topics):
    """Sums are taken in one order; those over topics of a document, longer than a vector, are not.

    Of the sparse kernel these are the same too: its rows have 16 topics in all versions.
    """
    arguments = problem(num_topics, [0, 1, 5, 40, 33, 7, 600] * 50)
    widest, *others = (
        native_sweeps.sweep(jax.random.key(1), *arguments, kind=kind, width=width)
        for width in (16, 8, 4)
    )
    for narrower in others:
        np.testing.assert_array_equal(widest, narrower)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_topics", [1, 10_000])
@pytest.mark.parametrize("lengths", [[0], [1], [0, 0, 1], [100_000, 3]], ids=str)
def test_extremes(kind, num_topics, lengths):
    likelihood, alpha, documents, labels = problem(num_topics, lengths)
    new = native_sweeps.sweep(jax.random.key(0), likelihood, alpha, documents, labels, kind=kind)
    total = sum(lengths)
    assert (np.asarray(new)[:total] < num_topics).all()
    np.testing.assert_array_equal(new[total:], labels[total:])
    counted = engine.count_labels(new, documents, num_topics)
    np.testing.assert_array_equal(counted.sum(axis=0), lengths)


@pytest.mark.parametrize("num_words", [1, 63, 64, 130])
@pytest.mark.parametrize("num_topics", [1, 16, 33])
def test_rows_of_words_are_the_likelihood(num_topics, num_words, seed):
    rng = np.random.default_rng(seed)
    log_topics = jnp.asarray(30 * rng.standard_normal((num_topics, num_words)), jnp.float32)
    log_topics = log_topics.at[0].set(-jnp.inf).at[:, -1].set(-jnp.inf)
    rows = np.asarray(calls.lay_out(log_topics))
    expected = engine.likelihood_of(log_topics).T
    np.testing.assert_allclose(rows[:, :num_topics], expected, rtol=1e-5, atol=1e-37)
    assert (rows[:, num_topics:] == 0).all()
    assert rows.shape == (num_words, -(-num_topics // 16) * 16)
    for width in (4, 8):
        np.testing.assert_array_equal(calls.lay_out(log_topics, width=width), rows)
    assert np.isnan(calls.lay_out(log_topics.at[0, 0].set(jnp.nan))[0, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_impossible_weights_end_no_process(kind):
    """Weights that are no numbers, or zero for all topics, give some topic."""
    likelihood, alpha, documents, labels = problem(20, [30] * 10)
    for wrong in (jnp.nan, 0.0, jnp.inf):
        weights = jnp.full_like(likelihood, wrong)
        new = native_sweeps.sweep(jax.random.key(0), weights, alpha, documents, labels, kind=kind)
        assert (np.asarray(new) < 20).all()


def miscounted(num_words, prefix=None):
    """Return the cells of the counts of topics and words that are wrong after two sweeps."""
    likelihood, alpha, documents, _ = problem(12, [1000] * 1000, num_words)
    labels, counts = engine.no_labels(1_000_000, 12), jnp.zeros((12, num_words), jnp.int32)
    weights = calls.lay_out(jnp.log(likelihood))
    for key in jax.random.split(jax.random.key(0)):
        labels, counts, _ = calls.sweep(
            key[None],
            weights,
            alpha,
            documents,
            labels,
            counts,
            burn_in=0,
            count="changes",
            tally=False,
            prefix=prefix,
        )
    expected = np.zeros((12, num_words), np.int32)
    np.add.at(expected, (np.asarray(labels), np.asarray(documents.tokens)), 1)
    return (expected != counts).sum()


@pytest.mark.parametrize("num_words", [40, 200_000])
def test_threads_count_what_they_have_drawn(num_words):
    """Each for itself where there are few words, part by part of one table where there are many."""
    assert miscounted(num_words) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1 - 2 * static_cast<int32_t>(notes[i] & 1)", "1"),
        ("int32_t* counts = counts_ + (part << task_.part)", "int32_t* counts = counts_"),
        ("for (size_t part = 0; part < parts_; ++part) make(part);", ""),
        ("if (size == kRoom) make(part)", "if (size == kRoom) size = 0"),
    ],
    ids=["left labels counted", "the first part for all", "last notes lost", "full parts lost"],
)
def test_notes_that_are_lost_are_seen(old, new, tmp_path):
    assert miscounted(200_000, native_sweeps.mutated(tmp_path, "task.h", old, new)) > 0


def test_documents_beyond_the_tokens_are_refused():
    likelihood, alpha, documents, labels = problem(5, [3, 4])
    for wrong in (
        documents._replace(lengths=documents.lengths + 1),
        documents._replace(starts=documents.starts - 1),
        documents._replace(tokens=documents.tokens + 40),
        documents._replace(tokens=documents.tokens - 40),
    ):
        with pytest.raises(Exception, match=r"LDA: a (document|token)"):
            jax.block_until_ready(
                native_sweeps.sweep(jax.random.key(0), likelihood, alpha, wrong, labels)
            )


def test_chains_side_by_side_draw_as_alone():
    likelihood, alpha, documents, labels = problem(12, [30] * 40)
    keys = jax.random.split(jax.random.key(3), 3)
    phi = jnp.log(jnp.stack([likelihood, likelihood[::-1], likelihood**2]))

    def sweep(key, phi):
        return engine.sweeps(
            key, phi, alpha, documents, labels, times=2, count="changes", tally=True
        )

    together = jax.jit(jax.vmap(sweep))(keys, phi)
    for chain in range(3):
        alone = sweep(keys[chain], phi[chain])
        jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[chain], b), together, alone)  # noqa: B023


@pytest.mark.parametrize("name", slow_but(engine.ENGINES, "native"))
def test_words_are_counted_from_zero_or_from_what_is_given(name):
    likelihood, alpha, documents, labels = problem(12, [30] * 40)
    given = jnp.arange(12 * 40, dtype=jnp.int32).reshape(12, 40)
    for count in ("changes", "labels"):
        one, other = (
            engine.sweeps(
                jax.random.key(0),
                jnp.log(likelihood),
                alpha,
                documents,
                labels,
                words,
                times=2,
                count=count,
                engine=name,
            ).words
            for words in (None, given)
        )
        np.testing.assert_array_equal(one + given, other)
        assert np.abs(one).sum() > 0


def test_words_that_nothing_would_count_are_refused():
    likelihood, alpha, documents, labels = problem(12, [30] * 40)
    words = jnp.zeros((12, 40), jnp.int32)
    with pytest.raises(ValueError, match="set count"):
        engine.sweeps(
            jax.random.key(0), jnp.log(likelihood), alpha, documents, labels, words, times=1
        )


def test_the_engine_can_be_chosen():
    assert engine.resolve() == "native"
    assert engine.resolve("xla") == "xla"
    with pytest.raises(ValueError, match=r"^engine .*'gpu'$"):
        engine.resolve("gpu")
    with pytest.raises(ValueError, match=r"^engine .*'fast'$"):
        model.configure((2, 2), engine="fast")


def test_without_a_library_xla_does_the_work(monkeypatch):
    monkeypatch.setattr(library, "works", lambda: False)
    monkeypatch.setattr(library, "why_not", lambda: "no C++ compiler")
    assert engine.resolve() == "xla"
    with pytest.raises(ValueError, match="no C\\+\\+ compiler"):
        engine.resolve("native")


def table_checks(key, seed, prefix=None):
    """The checks at fault of tables of each topic, which are sums of Bernoulli variables."""
    rng = np.random.default_rng(seed)
    concentration = np.array([1e-3, 0.1, 1.0, 20.0, 5.0])
    number, turns, dtype = 300, 2_000, np.uint16
    lengths = rng.integers(0, 120, number)
    labels = rng.choice(6, lengths.sum(), p=[0.3, 0.2, 0.2, 0.29, 0, 0.01])  # 5: of no topic
    starts = np.cumsum(lengths) - lengths
    documents = Documents(
        jnp.zeros(labels.size, jnp.int32), *(jnp.asarray(x, jnp.int32) for x in (starts, lengths))
    )
    counts = np.zeros((number, 6), int)
    np.add.at(counts, (np.repeat(np.arange(number), lengths), labels), 1)
    draw = jax.jit(functools.partial(calls.tables, prefix=prefix))
    given = jnp.asarray(concentration, jnp.float32), documents, jnp.asarray(labels, dtype)
    tables = np.array([draw(k, *given) for k in jax.random.split(key, turns)])
    p_values = {}
    for topic, c in enumerate(concentration):
        p = np.concatenate([c / (c + np.arange(n)) for n in counts[:, topic]])
        if p.size == 0:
            assert (tables[:, topic] == 0).all()
            continue
        variance = (p * (1 - p)).sum()
        p_values["mean", topic] = checks.mean_z(tables[:, topic], p.sum(), variance)
        p_values["variance", topic] = checks.mean_z(
            (tables[:, topic] - p.sum()) ** 2, variance, 2 * variance**2 + variance
        )
    return checks.family(p_values)


def test_tables_have_the_law_of_a_restaurant(getkey, seed):
    assert not table_checks(getkey(), seed)


# What follows in the tables of topics, not of words.
SEATED = ", static_cast<uint32_t>(count), u,\n               unused);\n      for (int64_t i = 0"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("earlier = seen[topic]++", "earlier = ++seen[topic]"),
        ("seen[own[i]] = 0", "seen[0] = 0"),
        (f"static_cast<uint32_t>(at){SEATED}", f"0{SEATED}"),
        (
            f"task.ids[d], static_cast<uint32_t>(at){SEATED}",
            f"task.ids[0], static_cast<uint32_t>(at){SEATED}",
        ),
    ],
    ids=["itself before it", "documents before it", "words of randomness again", "of one document"],
)
def test_mutants_of_tables_are_seen(old, new, tmp_path, getkey, seed):
    assert table_checks(getkey(), seed, native_sweeps.mutated(tmp_path, "tables.inl", old, new))


def test_tables_depend_on_no_other_document(getkey):
    _, alpha, documents, labels = problem(12, [30] * 500)
    labels = jnp.asarray(np.arange(labels.size) % 12, labels.dtype)
    key, numbers = getkey(), jnp.arange(500)
    every = calls.tables(key, alpha, documents, labels)
    parts = [
        calls.tables(
            key,
            alpha,
            documents._replace(
                starts=documents.starts[part], lengths=documents.lengths[part], ids=numbers[part]
            ),
            labels,
        )
        for part in (slice(0, 100), slice(100, 500))
    ]
    np.testing.assert_array_equal(every, parts[0] + parts[1])
    for width in (4, 8):
        again = calls.tables(key, alpha, documents, labels.astype(jnp.uint16), width=width)
        np.testing.assert_array_equal(every, again)
    wrong = documents._replace(starts=documents.starts + 10)
    with pytest.raises(Exception, match="LDA: a document"):
        jax.block_until_ready(calls.tables(key, alpha, wrong, labels))


def test_totals_of_more_than_int32_can_count():
    words = np.full((3, 5), 2**31 - 1, np.int32) - np.arange(15, dtype=np.int32).reshape(3, 5)
    expected = words.sum(axis=1, dtype=np.int64).astype(np.float32)
    np.testing.assert_array_equal(engine.totals(jnp.asarray(words)), expected)
    np.testing.assert_array_equal(jax.vmap(engine.totals)(jnp.asarray(words[None]))[0], expected)
