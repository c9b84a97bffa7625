"""Seed words: the law of the topics under their prior, the file, and runs that have them."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import test_lda
from support import statistics_checks as checks
from support import tiny_lda
from support.fits import assert_same, topic_fit
from test_lda import ALPHA, BETA, CHAINS, CORPUS, MANY, SHAPE, flat

from simplex_jax._src import base, estimators
from simplex_jax._src.corpus import device, embedded_corpus, from_counts
from simplex_jax._src.models import lda, pipeline
from simplex_jax._src.models.lda import commands, kernel, model, options, posterior, seeds
from simplex_jax._src.models.lda.kernel import Memory, counts_of, source_of
from simplex_jax._src.models.lda.options import Arguments
from simplex_jax._src.models.lda.seeds import Line, Seeds
from simplex_jax._src.runtime.driver import run
from simplex_jax._src.samplers import scir
from simplex_jax.sklearn import LDA

# Topic 0 expects word 2, topic 1 words 0 and 2.
TOPICS, WORDS, WEIGHT = np.array([0, 1, 1]), np.array([2, 0, 2]), 1.5
SEEDED = np.tile(BETA, (2, 1))
SEEDED[TOPICS, WORDS] += WEIGHT
POSTERIOR = tiny_lda.posterior(CORPUS, ALPHA, SEEDED)

TEXT = sp.csr_array([[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 8, 9]] * 5)


def p_values(topics, getkey, seed):
    """As `test_lda.posterior_checks`, of memoised SCIR with seeds in these topics."""
    z, log_phi = tiny_lda.draw(POSTERIOR, np.random.default_rng(seed), CHAINS)
    wide = 3 * np.arange(CHAINS)[:, None] + WORDS
    given = Seeds(np.tile(topics, CHAINS), wide.ravel(), np.float32(WEIGHT))
    config = model.configure((2, 3 * CHAINS))
    inner = counts_of(source_of(MANY, config)).with_prior(ALPHA, given)
    estimate = base.bind(test_lda.estimate_side_by_side, inner.estimate)
    estimator = estimators.Estimator(inner.init, estimate)
    chains = scir.build(estimator, jnp.asarray(BETA, jnp.float32), 0.5, total="refreshed")
    labels = flat(z).astype(jnp.uint8)
    state = chains.init(getkey(), jnp.ones((CHAINS, *SHAPE)))._replace(
        position=jnp.asarray(log_phi, jnp.float32),
        memory=Memory(labels, test_lda.count(labels, MANY.tokens)),
    )
    stream = device.block_stream(device.size(MANY), CHAINS)
    state, _ = run(getkey(), chains, state, stream, 20, collect=test_lda.nothing)
    seen = tiny_lda.observed(
        POSTERIOR, test_lda.by_chain(state.memory.labels), state.position, SEEDED
    )
    expected = tiny_lda.exact(POSTERIOR, SEEDED)
    return {name: checks.mean_z(value, expected[name], value.var()) for name, value in seen.items()}


def test_the_enumerated_posterior_is_left_invariant(getkey, seed):
    """At 1e-3; the same seeds in the wrong topics are seen."""
    assert not checks.family(p_values(TOPICS, getkey, seed))
    assert checks.family(p_values(1 - TOPICS, getkey, seed))


# Steps at which the Euler schemes have no bias that shows here.
STEPS = {"scir": 1.0, "sgrhmc": 0.2, "sgrld": 2e-3, "smld": 2e-3}


@pytest.mark.slow
@pytest.mark.parametrize("sampler", STEPS)
@pytest.mark.parametrize("wrong", [False, True], ids=["right", "no seeds"])
def test_every_sampler_has_the_posterior_mean(sampler, wrong, getkey):
    """Of one topic, whose counts are known: Dirichlet(beta + n + seeds), to 3% or to 5 errors.

    Started at the mean; without the seeds no sampler passes.
    """
    counts, chains, steps = sp.csr_array([[6, 3, 1]]), 500, 400
    a = np.array([6.5, 3.5, 7.5])
    given = Seeds(np.array([0]), np.array([2]), np.float32(6))
    built, stream = lda.build(
        device.to_device(counts),
        (1, 3),
        beta=0.5,
        seeds=None if wrong else given,
        sampler=sampler,
        step_size=STEPS[sampler],
    )
    start = np.random.default_rng(0).dirichlet(a, chains)[:, None]
    many = base.chains(built, chains, position_axis=0)
    state = many.init(getkey(), jnp.asarray(start, jnp.float32))
    _, mean = run(
        *(getkey(), many, state, stream, steps),
        collect=lambda state, info: jnp.exp(state.position[:, 0]).mean(axis=0),
    )
    expected, result = a / a.sum(), np.asarray(mean[-100:]).mean(axis=0)
    error = 5 * np.sqrt(expected * (1 - expected) / (a.sum() + 1) / chains)
    close = (np.abs(result - expected) < np.maximum(error, 0.03 * expected)).all()
    assert close == (not wrong)


@pytest.mark.slow
def test_weights_of_zero_change_no_bit(getkey):
    """And none is there without seeds: what they do is an addition."""
    key_init, key_run = getkey(), getkey()
    positions = []
    for given in (None, Seeds(np.array([0]), np.array([1]), np.float32(0))):
        built, stream = lda.build(device.to_device(TEXT), (2, 4), seeds=given)
        state = built.init(key_init, jnp.ones((2, 4)))
        positions.append(run(key_run, built, state, stream, 5)[0].position)
    np.testing.assert_array_equal(*positions)


def test_means_and_variances_are_those_of_the_prior():
    """Of topics given labels: Dirichlet(beta + n + seeds), in closed form."""
    counts = np.array([[3, 0, 1], [0, 5, 2]])
    a = SEEDED + counts
    total = a.sum(axis=1, keepdims=True)
    memory = Memory(jnp.zeros(0, jnp.uint8), jnp.asarray(counts, jnp.int32))
    inner = scir.State(jnp.zeros(SHAPE), jnp.int32(0), memory, None)
    state = kernel._outer(inner, jnp.asarray(ALPHA), jnp.asarray(BETA))
    given = Seeds(TOPICS, WORDS, np.float32(WEIGHT))
    tokens = jnp.asarray(counts.sum(axis=1), jnp.float32)
    sample = posterior.read(state, tokens, given, chains=1, memoised=True)
    mean = a / total
    np.testing.assert_allclose(sample.mean[0], mean, rtol=1e-5)
    np.testing.assert_allclose(sample.variance[0], mean * (1 - mean) / (total + 1), rtol=1e-5)
    np.testing.assert_allclose(model.mean_topics(state, given), mean, rtol=1e-5)


def test_a_file_has_a_line_for_each_topic(tmp_path):
    path = tmp_path / "seeds.txt"
    path.write_text("economy:  tax budget tax\n\nnew york, war\n  chr1:17 x\n\n\n")
    given = lda.Options(4, seed_words=path)
    assert given.seed_words == ("economy:  tax budget tax", "", "new york, war", "chr1:17 x")
    assert lda.Options(4, seed_words=list(given.seed_words)) == given
    economy, empty, *others = seeds.parsed(given.seed_words)
    assert (economy, empty) == (Line("economy", ("tax", "budget")), Line("", ()))
    assert [line.words for line in others] == [("new york", "war"), ("chr1:17", "x")]
    every = ["tax", "budget", "new york", "war", "chr1:17", "x"]
    assert seeds.names(given.seed_words, 5, every) == [
        *("economy", "", "new york war", "chr1:17 x", ""),
    ]
    assert seeds.names(given.seed_words, 4, ["war", "x"]) == ["", "", "war", "x"]
    assert seeds.names(None, 2, every) == ["", ""]


@pytest.mark.parametrize("line", ["economy:", "economy: ", ",", "economy: ,"])
def test_a_line_without_a_word_is_named(tmp_path, line):
    path = tmp_path / "seeds.txt"
    path.write_text(f"tax\n\n{line}\nwar\n")
    with pytest.raises(ValueError, match=rf"seeds\.txt:3: '{line.strip()}' "):
        lda.Options(4, seed_words=path)
    with pytest.raises(ValueError, match=r"^seed_words:2: .* has no word"):
        lda.Options(4, seed_words=["tax", line])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"seed_words": ["x y"]},
            r"first is 'x', .* 'w0': .*--keep-case",
        ),
        ({"seed_words": ["w0"] * 3}, r"^seed_words .*3 lines, .* 2 topics"),
        ({"seed_words": ["", " "]}, r"^seed_words: no seed word"),
        ({"seed_words": 3}, r"^seed_words .*, such as 'economy: tax budget'"),
        ({"seed_words": [["w0"]]}, r"^seed_words .*, such as 'economy: tax budget'"),
        ({"seed_words": "no/such/file"}, "no such file"),
        ({"seed_weight": 3}, "seed_weight requires seed_words"),
        ({"seed_words": ["w0"], "seed_weight": 0}, "finite and positive"),
        ({"seed_words": ["w0"], "seed_weight": 1e40}, r"seed_weight .* 16,777,216"),
        ({"seed_words": ["w0"], "beta": "learn"}, r"^beta "),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        lda.resolve(TEXT, 2, **given)


def test_the_weight_is_settled_by_the_corpus():
    settled = lda.resolve(from_counts(1000 * TEXT), 2, seed_words=["w0"])
    assert settled.seed_weight == round(0.01 * 1000 * TEXT.sum() / 2)
    assert (
        options.resolve_options(from_counts(TEXT), None, settled).seed_weight == settled.seed_weight
    )


def test_words_that_are_not_in_the_vocabulary_are_named():
    named = topic_fit(
        np.full((2, 2), 0.5),
        ("war", "tax"),
        settings=lda.Options(2, chains=1, seed_words=["economy: tax dollar", "war, new york"]),
    )
    (sentence,) = (x for x in lda.MODEL.warn(named) if "Seed" in x)
    assert sentence.endswith(": dollar, new york.")


def test_accented_letters_are_found_as_one_character_or_several():
    """A pair of the two forms is one seed, and the word itself goes before its other form."""
    one, several = "caf\u00e9", "cafe\u0301"
    settings = lda.Options(2, seed_words=[f"{several} {one}", several], seed_weight=1.0)
    for vocabulary, expected in (
        (["tea", one], [(0, 1), (1, 1)]),
        (["tea", several], [(0, 1), (1, 1)]),
        ([one, several], [(0, 1), (0, 0), (1, 1)]),
    ):
        placed = seeds.to_pseudocounts(settings, vocabulary)
        assert list(zip(placed.topics, placed.words, strict=True)) == expected
        assert seeds.unknown(settings.seed_words, vocabulary) == []


@pytest.mark.slow
def test_a_topic_whose_seed_words_are_all_unknown_has_no_seed(tmp_path):
    """It is neither named nor announced as if it had some."""
    lines = ["economy: dollar", "war, new york"]
    fitted = lda.fit(
        from_counts(TEXT, ["war", "tax", "river", "tree"]), 2, steps=2, seed_words=lines
    )
    (sentence,) = (x for x in fitted.warnings if "Seed" in x)
    assert ": dollar, new york. " in sentence
    assert sentence.endswith("1 topic without a seed: 0.")
    assert any(x.endswith("without a seed: 1.") for x in fitted.reorder([1, 0]).warnings)
    merged = fitted.merge([0, 1]).warnings
    assert not any("without a seed" in x for x in merged)
    shown = commands._outcome(fitted)
    assert "[war]" in shown
    assert "economy" not in shown
    page = fitted.report(tmp_path / "report.html").read_text()
    assert "<bdi>war</bdi>" in page
    assert "<bdi>economy</bdi>" not in page
    planned = pipeline.plan(
        lda.MODEL,
        from_counts(TEXT, ["war", "tax", "river", "tree"]),
        Arguments(2, seed_words=lines),
    )
    assert "of topics 1 war\n" in commands._announce(planned) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        {"chains": 2},
        {"counts": "subsampled", "batch_size": 10},
        {"sampler": "sgrhmc"},
        {"alpha": "learn-asymmetric"},
        {"local": "blocked"},
    ],
    ids=str,
)
def test_seeds_decide_which_topic_is_which(how):
    """In 8 runs; without seeds, or with them in the other topic, half of the runs would differ."""
    for seed in range(8):
        fitted = lda.fit(
            TEXT, 2, passes=30, seed=seed, seed_words=["a: w2", "w0"], seed_weight=20, **how
        )
        # The other way round they would be some 0.1 and 0.9.
        assert fitted.topics[0, 2:].sum() > 0.6 > 0.4 > fitted.topics[1, 2:].sum()


@pytest.mark.slow
def test_devices_that_share_the_documents_have_the_same_seeds():
    """The samples of two devices are those of one, to the bit."""
    script = """
import numpy as np, scipy.sparse as sp
from simplex_jax import lda
counts = sp.csr_array(np.random.default_rng(0).poisson(1.0, (20, 7)).astype(np.int32))
given = {"seed_words": ["w0", "w3 w5"], "batch_size": 4, "steps": 12, "engine": "xla"}
one, two = (lda.fit(counts, 2, devices=n, **given).topics for n in (1, 2))
np.testing.assert_array_equal(one, two)
"""
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "2", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


@pytest.mark.slow
def test_resumed_saved_and_loaded(tmp_path):
    given = {"seed_words": ["economy: w2 w9", "w0"], "chains": 2, "eval_every": 5, "holdout": 4}
    whole = lda.fit(TEXT, 2, steps=20, **given)
    lda.fit(TEXT, 2, steps=10, checkpoint=tmp_path / "kept", **given)
    resumed = lda.fit(TEXT, 2, steps=20, checkpoint=tmp_path / "kept", resume=True, **given)
    np.testing.assert_array_equal(whole.state.position, resumed.state.position)
    changed = given | {"seed_words": ["w3"]}
    with pytest.raises(ValueError, match="seed_words"):
        lda.fit(TEXT, 2, steps=20, checkpoint=tmp_path / "kept", resume=True, **changed)
    whole.save(tmp_path / "run")
    loaded = lda.load(tmp_path / "run")
    assert loaded.settings == whole.settings
    assert_same(loaded, whole, "state", "samples")
    html = (tmp_path / "run" / "report.html").read_text()
    assert "<bdi>economy</bdi>" in html


@pytest.mark.slow
def test_an_estimator_takes_the_names_of_its_columns(tmp_path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(TEXT.toarray(), columns=["a", "b", "c", "d"])
    seeded = LDA(2, passes=30, seed_words=["c d", "a"], seed_weight=20, random_state=0)
    assert (seeded.fit(table).components_[0, 2:] > 0.3).all()
    seeded.save(tmp_path / "lda.npz")
    for _ in range(30):
        seeded.partial_fit(table)
    stream = LDA(2, seed_words=["c d", "a"], seed_weight=2000, total_samples=20, random_state=0)
    for _ in range(20):
        stream.partial_fit(table)
    assert (stream.components_[0, 2:] > 0.3).all()
    with pytest.raises(ValueError, match="give partial_fit a number"):
        LDA(2, seed_words=["c d"]).partial_fit(table)


@pytest.mark.slow
def test_a_stream_goes_by_the_words_in_a_file(tmp_path):
    """Not by its name: words that have changed are refused. And it is saved."""
    path = tmp_path / "seeds.txt"
    path.write_text("w2 w3\nw0\n")
    stream = LDA(2, seed_words=path, seed_weight=np.float32(2000), total_samples=20, random_state=0)
    stream.partial_fit(TEXT).partial_fit(TEXT)
    stream.save(tmp_path / "lda.npz")
    again = LDA.load(tmp_path / "lda.npz").partial_fit(TEXT)
    np.testing.assert_array_equal(again.components_, stream.partial_fit(TEXT).components_)
    path.write_text("w2 w3\nw1\n")
    with pytest.raises(ValueError, match=r"^seed_words .*partial_fit"):
        stream.partial_fit(TEXT)


@pytest.mark.slow
def test_seeded_topics_of_real_texts_hold_their_words():
    """Each seed word is likelier in its topic than in any other; without seeds hardly any is."""
    corpus = embedded_corpus()
    lines = [
        *("economy: inflation unemployment wages prices", "war: soviet nuclear weapons missiles"),
        *("health: doctors medicare patients insurance", "farming: farmers crops farm agriculture"),
    ]
    number = {word: column for column, word in enumerate(corpus.vocabulary)}

    def held(mean):
        return [
            mean[:, number[word]].argmax() == topic
            for topic, line in enumerate(seeds.parsed(lines))
            for word in line.words
        ]

    seeded = lda.fit(corpus, 20, passes=40, seed_words=lines)
    assert all(held(seeded.topics))
    assert sum(held(lda.fit(corpus, 20, passes=40).topics)) < 6


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ([[0], [2], 1.0], r"^seeds .*list$"),
        (([2], [0], 1.0), r"^the topics .* 0 to 1; .* 2$"),
        (([0], [-1], 1.0), r"^the words .* 0 to 3; .* -1$"),
        (([0.0], [1], 1.0), r"^the topics .*float64 \(1,\)"),
        ((0, [1], 1.0), r"^the topics .*\(\)"),
        (([0, 1], [2], 1.0), r"^seeds .*\(2,\), \(1,\) and \(\)"),
        (([0, 1], [2, 3], [1.0]), r"^seeds .*\(1,\)"),
        (([0], [2], -1.0), r"^weight .*-1\.0"),
    ],
)
def test_pseudo_counts_that_no_prior_has_are_refused(seeds, message):
    with pytest.raises(ValueError, match=message):
        lda.build(TEXT, (2, 4), seeds=seeds)


@pytest.mark.slow
def test_counts_in_the_memory_are_those_of_the_corpus(getkey):
    """Seeds are no tokens: shares of topics, and the evidence of alpha, do not see them."""
    given = Seeds(np.array([0]), np.array([2]), np.float32(1000))
    built, stream = lda.build(device.to_device(TEXT), (2, 4), seeds=given)
    state = built.init(getkey(), jnp.ones((2, 4)))
    state, info = built.update(getkey(), state, stream(getkey(), jnp.int32(0)))
    assert int(state.sampler.memory.counts.sum()) == TEXT.sum()
    assert float(jax.tree.leaves(info)[0].sum()) == TEXT.sum()
