"""Topics merged, left out, reordered and named after a fit: exactly what its draws say."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from support.fits import assert_same

from simplex_jax import evaluate
from simplex_jax._src.corpus import from_counts
from simplex_jax._src.evaluate import diagnostics, matching
from simplex_jax._src.models import lda
from simplex_jax._src.models.topics import editing

WORDS, TOPICS, CHAINS = 20, 5, 2


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(3)
    topics = rng.dirichlet(np.full(WORDS, 0.1), TOPICS)
    shares = rng.dirichlet(np.full(TOPICS, 0.2), 60)
    return sp.csr_array(np.array([rng.multinomial(40, p) for p in shares @ topics]))


@pytest.fixture(scope="module")
def fitted(counts):
    names = [f"d{i}" for i in range(counts.shape[0])]
    corpus = from_counts(counts, [f"w{i}" for i in range(WORDS)], names)
    options = {"alpha": "learn-asymmetric", "chains": CHAINS, "passes": 60, "seed": 1}
    return lda.fit(corpus, TOPICS, **options)


def corpus_of(fitted, counts):
    return from_counts(counts, list(fitted.vocabulary), list(fitted.names))


def by_hand(fitted, parts):
    """Words, prevalence and alpha of a merged topic in each kept draw, [S, chains, ...]."""
    kept = fitted.samples
    number = len(kept["step"])
    words = np.zeros((number, CHAINS, WORDS))
    alpha = np.zeros((number, CHAINS))
    for s in range(number):
        for c in range(CHAINS):
            rows = fitted.order[c][list(parts)]
            weights = kept["prevalence"][s, c, rows]
            words[s, c] = weights.astype(float) @ kept["topics"][s, c, rows]
            words[s, c] /= sum(weights)
            alpha[s, c] = kept["alpha"][s, c, rows].sum()
    return words, alpha


def test_a_merged_topic_is_what_the_draws_say(fitted, counts):
    merged = fitted.merge([3, 1])
    assert merged.trained.parts == ((0,), (1, 3), (2,), (4,))
    words, alpha = by_hand(fitted, (1, 3))
    chains = merged.shared[:, 1]
    assert chains[0]
    own = words[:, chains].reshape(-1, WORDS)
    np.testing.assert_allclose(merged.topics[1], own.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(merged.topics_sd[1], own.std(axis=0, ddof=1), rtol=1e-4)
    means = words.mean(axis=0)
    np.testing.assert_allclose(merged.topics_range[0, 1], means.min(axis=0), rtol=1e-5)
    np.testing.assert_allclose(merged.topics_range[1, 1], means.max(axis=0), rtol=1e-5)
    np.testing.assert_allclose(merged.alpha[1], fitted.alpha[1] + fitted.alpha[3])
    np.testing.assert_allclose(merged.alpha_sd[1], alpha[:, chains].std(ddof=1), rtol=1e-5)
    assert merged.stability[1] == pytest.approx(matching.affinity(means[:1], means[1:])[0, 0])
    # All samples of the run, not only those kept, have the prevalence.
    summed = fitted.prevalence_draws[..., 1] + fitted.prevalence_draws[..., 3]
    assert len(summed) > len(fitted.samples["step"])
    np.testing.assert_allclose(merged.prevalence_draws[..., 1], summed, rtol=1e-6)
    assert merged.prevalence[1] == fitted.prevalence[1] + fitted.prevalence[3]
    own = summed[:, chains].astype(float)
    np.testing.assert_allclose(merged.prevalence_sd[1], own.std(ddof=1), rtol=1e-5)
    expected = diagnostics.summary({"x": own.T})["x"]
    assert merged.diagnostics["prevalence 1"] == pytest.approx(expected, rel=1e-4, nan_ok=True)
    np.testing.assert_array_equal(
        merged.proportions[:, 1], fitted.proportions[:, 1] + fitted.proportions[:, 3]
    )
    tree = evaluate.to_arviz(merged)["posterior"]
    np.testing.assert_allclose(tree["topics"][:, :, 1], words.swapaxes(0, 1), rtol=1e-5)
    assert merged.again == f"{fitted.again}.merge([[1, 3]])"


def test_the_draws_of_prevalence_are_those_of_the_summary(fitted):
    """What a merged topic is computed from gives the results that the run reports."""
    order = np.tile(np.arange(TOPICS), (CHAINS, 1))
    for k in range(TOPICS):
        own = fitted.prevalence_draws[:, fitted.shared[:, k], k].astype(float)
        np.testing.assert_allclose(own.mean(), fitted.prevalence[k], rtol=1e-5)
        np.testing.assert_allclose(own.std(ddof=1), fitted.prevalence_sd[k], rtol=1e-3)
    traced = {"prevalence": fitted.prevalence_draws.astype(float)}
    again = matching.diagnose(traced, order, fitted.shared)
    for name, entry in again.items():
        assert fitted.diagnostics[name] == pytest.approx(entry, rel=1e-3, nan_ok=True)
    np.testing.assert_allclose(fitted.prevalence_draws.sum(axis=2), 1, rtol=1e-5)


def test_other_topics_keep_their_results_to_the_bit(fitted):
    merged, rest, places = fitted.merge([[1, 3]]), [0, 2, 4], [0, 2, 3]
    for name in ("topics", "topics_sd", "prevalence", "prevalence_sd", "alpha", "alpha_sd"):
        new, old = getattr(merged, name), getattr(fitted, name)
        np.testing.assert_array_equal(new[places], old[rest], err_msg=name)
    for name in ("proportions", "shared", "prevalence_range", "prevalence_draws"):
        new, old = getattr(merged, name), getattr(fitted, name)
        np.testing.assert_array_equal(new[..., places], old[..., rest], err_msg=name)
    assert merged.diagnostics["prevalence 3"] == fitted.diagnostics["prevalence 4"]
    assert merged.examples[2] == fitted.examples[2]


@pytest.mark.parametrize("change", ["merge", "drop", "reorder"])
def test_nothing_to_change_changes_nothing(fitted, change):
    assert getattr(fitted, change)([]) is fitted
    assert fitted.merge([[2]]) is fitted.merge([[0], [4]]) is fitted
    back = fitted.reorder([4, 3, 2, 1, 0]).reorder([4, 3, 2, 1, 0])
    assert_same(back, fitted, "again", "trained", "verdict", "diagnostics", "effects")
    assert back.diagnostics == fitted.diagnostics


def test_no_share_is_lost(fitted, counts):
    merged = fitted.merge([[0, 1], [2, 3]])
    assert merged.num_topics == 3
    assert merged.prevalence.sum() == pytest.approx(fitted.prevalence.sum(), rel=1e-12)
    np.testing.assert_allclose(merged.proportions.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(merged.topics.sum(axis=1), 1, rtol=1e-5)
    assert merged.alpha.sum() == pytest.approx(fitted.alpha.sum())
    everything = fitted.merge(range(TOPICS))
    np.testing.assert_allclose(everything.prevalence_draws, 1, rtol=1e-5)
    assert everything.num_topics == 1
    # Predictions are those of the model, which has not changed.
    assert merged.score(counts) == fitted.score(counts)
    whole = fitted.transform(counts)
    np.testing.assert_array_equal(merged.transform(counts)[:, 2], whole[:, 4])
    np.testing.assert_allclose(merged.transform(counts)[:, 0], whole[:, 0] + whole[:, 1])


def test_merging_in_two_steps_is_merging_in_one(fitted, counts):
    once = fitted.merge([1, 3, 4], corpus=corpus_of(fitted, counts))
    twice = fitted.merge([3, 4]).merge([1, 3], corpus=corpus_of(fitted, counts))
    assert once.trained.parts == twice.trained.parts
    for name in ("topics", "topics_sd", "stability", "prevalence", "prevalence_sd", "coherence"):
        np.testing.assert_allclose(getattr(once, name), getattr(twice, name), rtol=1e-5)
    for one, two in zip(once.examples, twice.examples, strict=True):
        assert [entry["name"] for entry in one] == [entry["name"] for entry in two]


def test_topics_split_differently_by_two_chains_are_stable_together():
    """Two words that a topic of one chain has are in two topics of the other."""
    chains = np.array(
        [
            [[0.5, 0.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5]],
            [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]],
        ]
    )
    alignment = matching.align(list(chains))
    assert not alignment.shared[1].any()
    both = editing.Trained(chains[0], np.ones(2), np.full(2, 0.5), ((0, 1),))
    mixed = [both.mixed(topics, np.array([0.5, 0.5])) for topics in chains]
    np.testing.assert_allclose(mixed, 0.25)
    assert matching.align(mixed).shared.all()


def test_dropped_topics_are_left_out_of_results_only(fitted, counts):
    left = fitted.drop([1, 4])
    assert (left.num_topics, left.dropped, left.leaves_rest) == (3, [1, 4], True)
    np.testing.assert_array_equal(left.topics, fitted.topics[[0, 2, 3]])
    np.testing.assert_array_equal(left.proportions, fitted.proportions[:, [0, 2, 3]])
    assert left.prevalence.sum() < 1
    np.testing.assert_array_equal(left.transform(counts), fitted.transform(counts)[:, [0, 2, 3]])
    assert left.score(counts) == fitted.score(counts)
    assert left.drop([0]).dropped == [0, 1, 4]


def test_coherence_and_documents_of_a_merged_topic_need_the_corpus(fitted, counts):
    corpus = corpus_of(fitted, counts)
    merged, without = fitted.merge([1, 3], corpus=corpus), fitted.merge([1, 3])
    assert np.isnan(without.coherence).tolist() == [False, True, False, False]
    np.testing.assert_array_equal(merged.coherence, evaluate.coherence(merged.topics, counts))
    best = np.argsort(-merged.proportions[:, 1], kind="stable")[:10]
    for one in (merged, without):
        assert [entry["name"] for entry in one.examples[1]] == [f"d{d}" for d in best]
    nothing = {"proportions": fitted.proportions[:0], "proportions_error": np.zeros(0), "names": ()}
    streamed = dataclasses.replace(fitted, **nothing, examples=[]).merge([1, 3], corpus=corpus)
    np.testing.assert_array_equal(streamed.coherence, merged.coherence)
    assert not any("of 0 documents" in sentence for sentence in streamed.warnings)
    with pytest.raises(ValueError, match="names differ"):
        fitted.merge([1, 3], corpus=counts)
    with pytest.raises(ValueError, match="tokens differ"):
        fitted.merge([1, 3], corpus=corpus_of(fitted, 2 * counts))


def test_documents_of_one_name_do_not_have_the_words_of_another(fitted):
    names = tuple(f"d{d // 2}" for d in range(len(fitted.names)))
    examples = [[entry | {"name": "d0"} for entry in entries] for entries in fitted.examples]
    twice = dataclasses.replace(fitted, names=names, examples=examples)
    assert not any(entry["words"] for entry in twice.merge([1, 3]).examples[1])


def test_effects_of_a_merged_topic_are_the_sums(fitted, counts):
    """Of topics that all chains have: the same draws are then summarised."""
    columns = {"group": ["a", "b"] * 30}
    pair = np.flatnonzero(fitted.shared.all(axis=0))[:2]
    merged = fitted.merge(pair)
    (place,) = (k for k, part in enumerate(merged.trained.parts) if len(part) == 2)
    assert merged.shared[:, place].all()
    whole = lda.effects(fitted, counts, columns, seed=4)
    effects = lda.effects(merged, counts, columns, seed=4)
    np.testing.assert_allclose(effects.mean[place], whole.mean[pair].sum(axis=0), atol=1e-6)
    for k, part in enumerate(merged.trained.parts):
        if k != place:
            np.testing.assert_allclose(effects.mean[k], whole.mean[part[0]], atol=1e-12)


def test_names_follow_their_topics(fitted, tmp_path):
    named = fitted.rename({1: "Farms", 3: "Fields", 4: "Boats"})
    merged = named.merge([1, 3])
    assert merged.titles == ["", "Farms, Fields", "", "Boats"]
    assert merged.reorder([3]).rename({0: ""}).titles == ["", "", "Farms, Fields", ""]
    assert "[Boats] w" in "\n".join(merged.lines())
    seeded = dataclasses.replace(fitted.settings, seed_words=["Sea: w1", "", "", "Sky: w2"])
    assert dataclasses.replace(merged, settings=seeded, topic_names={}).titles[:2] == ["Sea", "Sky"]


def test_an_edited_fit_is_saved_and_loaded(fitted, counts, tmp_path):
    corpus = corpus_of(fitted, counts)
    edited = fitted.merge([1, 3], corpus=corpus).drop([0]).rename({0: "Farms"})
    loaded = lda.Fit.load(edited.save(tmp_path / "run"))
    assert_same(loaded, edited, "state", "samples", "interrupted", "examples")
    np.testing.assert_array_equal(loaded.transform(counts), edited.transform(counts))
    assert "Farms" in (tmp_path / "run" / "report.html").read_text()
    again = loaded.merge([0, 2], samples=tmp_path / "run" / "samples", corpus=corpus)
    np.testing.assert_allclose(again.topics, edited.merge([0, 2]).topics, rtol=1e-6)
    with np.load(tmp_path / "run" / "doc_topics.npz") as shares:
        np.testing.assert_allclose(shares["other"], fitted.proportions[:, 0], atol=1e-6)
    with pytest.raises(ValueError, match="has no samples"):
        loaded.merge([0, 2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda fit: fit.merge([1, 5]), r"merge: topic 5 .* 0 to 4"),
        (lambda fit: fit.merge([[0, 1], [1, 2]]), "merge: topic 1 is given twice"),
        (lambda fit: fit.merge([[1, 2], 0]), r"^merge: .*list"),
        (lambda fit: fit.merge(["a"]), "merge: 'a'"),
        (lambda fit: fit.merge(0), r"^merge: .*list"),
        (lambda fit: fit.drop(0), r"^drop: .*list.* 0$"),
        (lambda fit: fit.drop(np.array(0)), r"^drop: .*list"),
        (lambda fit: fit.reorder("10"), r"^reorder: .*list"),
        (lambda fit: fit.drop([-1]), "drop: topic -1"),
        (lambda fit: fit.drop(range(5)), r"^drop: keep"),
        (lambda fit: fit.reorder([2, 2]), "reorder: topic 2 is given twice"),
        (lambda fit: fit.rename({9: "a"}), "rename: topic 9"),
    ],
)
def test_what_cannot_be_done_is_refused(fitted, change, message):
    with pytest.raises(ValueError, match=message):
        change(fitted)
