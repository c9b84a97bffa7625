"""Fitting directions: the summary, chains, interruption and resumption, bad input."""

import dataclasses
import inspect
import signal

import chex
import jax
import numpy as np
import pytest
import scipy.sparse as sp
from support.cut_runs import Cut, look_after_every_step
from support.fits import assert_same
from support.settled import resolve

from simplex_jax._src import corpus
from simplex_jax._src.corpus import vectors
from simplex_jax._src.evaluate import matching
from simplex_jax._src.models import files, sam
from simplex_jax._src.models.sam import fitting, joint, model, report, variational
from simplex_jax._src.runtime import gathering
from simplex_jax._src.runtime.checkpoint import CheckpointError
from simplex_jax._src.runtime.equilibrium import energy_warnings
from simplex_jax._src.runtime.saved import RunError

# Three groups of documents, each with two words of its own and without those of the others.
RNG = np.random.default_rng(0)
GROUPS = np.repeat(np.arange(3), 14)
TABLE = np.kron(np.eye(3), [1.0, 1.0])[GROUPS] + 0.1 * RNG.random((42, 6))
DATA = vectors.from_array(TABLE, list("abcdef"), normalise=True)
HELDOUT = vectors.select(DATA, np.arange(0, 42, 7))
STEPS = 24
FIXED = {"kappa1": 60.0, "kappa1_prior": None}
OPTIONS = {
    **{"alpha": 0.5, "sigma": 5.0, "kappa0": 5.0},
    **{"kappa1": "learn", "kappa1_prior": (1.0, 1 / 60)},
    **{"steps": STEPS, "eval_every": 3, "sample_every": 3, "batch_size": 14, "seed": 7},
    "keep_samples": 2,
    "start": "prior",  # It compiles nothing.
}


def fit(**options):
    return sam.fit(DATA, 3, heldout=HELDOUT, **(OPTIONS | options))


@pytest.fixture(scope="module")
def whole():
    return fit()


def test_the_summary(whole):
    np.testing.assert_allclose(np.linalg.norm(whole.topics, axis=1), 1, rtol=1e-5)
    assert ((whole.length > 0) & (whole.length <= 1)).all()
    assert (whole.topics_sd > 0).all()
    assert whole.num_samples == 5
    np.testing.assert_allclose(whole.proportions.sum(axis=1), 1, rtol=1e-5)
    assert whole.proportions.shape == (42, 3)
    assert whole.prevalence.sum() == pytest.approx(1, abs=1e-5)
    assert (whole.kappa1_sd > 0, whole.alpha_sd, whole.alpha) == (True, 0.0, 0.5)
    assert {"log_perplexity", "kappa1", "prevalence 0"} <= set(whole.diagnostics)
    assert "alpha" not in whole.diagnostics
    last = whole.metrics[-1]
    assert (last["step"], last["documents"], last["passes"]) == (STEPS, STEPS * 14, 8.0)
    assert {"kinetic", "thermostat", "local_acceptance", "fit"} <= set(last)
    assert np.isfinite(last["log_perplexity_average"])
    assert 1 <= last["heldout_ess"] <= 256
    assert whole.samples["topics"].shape == (2, 1, 3, 6)
    assert whole.settings.steps == STEPS


@pytest.mark.slow
def test_an_exact_sampler_finds_the_groups():
    fitted = fit(sampler="gmc-bgibbs", batch_size=None, steps=150, **FIXED)
    best = fitted.proportions.argmax(axis=1)
    assert len({tuple(sorted(set(best[group == GROUPS]))) for group in range(3)}) == 3
    own = [set(np.argsort(-topic)[:2]) for topic in fitted.topics]
    assert sorted(map(sorted, own)) == [[0, 1], [2, 3], [4, 5]]
    assert 0 < fitted.metrics[-1]["acceptance"] <= 1
    again = sam.transform(fitted.topics, DATA, alpha=0.5, kappa1=60.0, seed=7)
    np.testing.assert_array_equal(again, fitted.proportions)


def of_one_topic_each(words=1_000, topics=3, documents=60):
    """Documents of the model, most of a single topic, at the concentration that is the default."""
    rng = np.random.default_rng(0)
    directions = rng.normal(1, 1, (topics, words))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    shares = rng.dirichlet(np.full(topics, 0.3), documents)
    means = shares @ directions
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    noise = rng.normal(size=means.shape)
    noise -= (noise * means).sum(axis=1, keepdims=True) * means
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    cosine = 0.92
    return cosine * means + np.sqrt(1 - cosine**2) * noise


def shares_that_never_moved(fitted):
    return float((fitted.state.ratios == 0).all(axis=1).mean())


@pytest.mark.slow
@pytest.mark.parametrize("local", ["hmc", "laplace"])
def test_chains_of_documents_begin_near_their_modes(local):
    """From equal shares, far in a tail, most documents would never move: see the mutant."""
    fitted = sam.fit(of_one_topic_each(), 3, alpha=0.3, steps=40, seed=1, local=local)
    assert shares_that_never_moved(fitted) == 0
    assert not [text for text in fitted.warnings if "moves of documents" in text]


@pytest.mark.slow
def test_chains_that_begin_at_equal_shares_stay_there_and_a_warning_says_so(monkeypatch):
    jax.clear_caches()
    original = model.local.Start
    monkeypatch.setattr(model.local, "Start", lambda ratios, fresh: original(ratios, False))
    fitted = sam.fit(of_one_topic_each(), 3, alpha=0.3, steps=40, seed=1)
    jax.clear_caches()
    assert shares_that_never_moved(fitted) > 0.5
    assert [text for text in fitted.warnings if "moves of documents" in text]


@pytest.mark.slow
def test_one_topic_is_the_direction_of_the_documents():
    """Their sum, times kappa1, beside which the prior is nothing: within its own spread of it."""
    changed = FIXED | {"kappa1": 1e4, "batch_size": None, "start": "variational"}
    fitted = sam.fit(DATA, 1, **OPTIONS | changed)
    total = DATA.values.sum(axis=0)
    assert fitted.topics[0] @ total > (1 - 1e-3) * np.linalg.norm(total)
    np.testing.assert_array_equal(fitted.proportions, np.ones((42, 1)))
    assert {record["local_acceptance"] for record in fitted.metrics} == {1.0}
    assert not [text for text in fitted.warnings if "moves of documents" in text]


@pytest.mark.slow
def test_a_variational_start_has_the_groups():
    hyper = joint.hyperparameters(
        DATA.values.mean(axis=0) / np.linalg.norm(DATA.values.mean(axis=0)),
        **{name: OPTIONS[name] for name in ("alpha", "sigma", "kappa0")},
        kappa1=60.0,
    )
    given = joint.to_device(DATA.values), hyper, 3
    topics = variational.start(jax.random.key(1), *given, "variational")
    np.testing.assert_allclose(np.linalg.norm(topics, axis=1), 1, rtol=1e-5)
    own = [set(np.argsort(-topic)[:2].tolist()) for topic in np.asarray(topics)]
    assert sorted(map(sorted, own)) == [[0, 1], [2, 3], [4, 5]]
    prior = variational.start(jax.random.key(1), *given, "prior")
    assert (np.ptp(np.asarray(prior), axis=0) > 0).all()
    assert resolve(sam, DATA, 3).start == "variational"


@pytest.mark.parametrize("step", [1, 11, 17])
def test_an_interrupted_run_ends_as_the_whole_one(step, whole, tmp_path, monkeypatch):
    look_after_every_step(monkeypatch)
    cut = fit(checkpoint=tmp_path, hooks=[Cut(step)])
    assert cut.state.step == step
    assert_same(fit(checkpoint=tmp_path, resume=True), whole)


def test_a_run_that_forgot_its_samples_would_be_noticed(whole, tmp_path, monkeypatch):
    look_after_every_step(monkeypatch)
    monkeypatch.setattr(gathering.Posterior, "load", lambda self, saved: None)
    fit(checkpoint=tmp_path, hooks=[Cut(20)])
    resumed = fit(checkpoint=tmp_path, resume=True)
    with pytest.raises(AssertionError):
        chex.assert_trees_all_equal(resumed.topics, whole.topics)


def test_a_signal_ends_a_run_with_a_summary(tmp_path, monkeypatch, capfd):
    look_after_every_step(monkeypatch)
    cut = fit(checkpoint=tmp_path / "run", hooks=[Cut(5, signal.SIGINT)])
    assert cut.interrupted is signal.SIGINT
    assert cut.num_samples == 1
    assert np.isnan(cut.topics_sd).all()
    np.testing.assert_allclose(cut.length, 1, rtol=1e-5)
    with pytest.raises(CheckpointError, match=r"seed is 7 .* 8"):
        fit(checkpoint=tmp_path / "run", resume=True, seed=8)
    other = vectors.from_array(DATA.values[::-1], list("abcdef"))
    with pytest.raises(CheckpointError, match="data"):
        sam.fit(other, 3, heldout=HELDOUT, checkpoint=tmp_path / "run", resume=True, **OPTIONS)
    with pytest.raises(CheckpointError, match="heldout"):
        sam.fit(DATA, 3, checkpoint=tmp_path / "run", resume=True, **OPTIONS)


@pytest.mark.slow
def test_chains_are_matched():
    fitted = fit(chains=2, steps=12)
    assert fitted.order.shape == (2, 3)
    assert (np.abs(fitted.stability) <= 1).all()
    assert fitted.num_samples == 2 * 3
    assert {"log_perplexity_chain_0", "log_perplexity_chain_1"} <= set(fitted.metrics[-1])
    one, two = (np.eye(3, 6) + 0.01, -np.eye(3, 6)[[2, 0, 1]])
    order, stability, _ = matching.align([one, -two], matching.cosine)
    assert order.tolist() == [[0, 1, 2], [1, 2, 0]]
    assert (stability > 0.9).all()
    with pytest.raises(ValueError, match="no direction"):
        matching.cosine(one, 0 * two)


def test_topics_that_only_have_the_common_direction_are_not_the_same():
    random = np.random.default_rng(0)
    common, topics, noise = random.normal(size=50), *random.normal(size=(2, 4, 50))
    chains = np.stack([3 * common + topics, (3 * common + topics + 0.1 * noise)[::-1]])
    order, _, shared = matching.align(list(chains), matching.cosine)
    assert shared.all()
    assert fitting.deviate_alike(chains, order).all()
    blurred = np.stack([chains[0], 3 * common + 0.01 * noise])
    order, _, shared = matching.align(list(blurred), matching.cosine)
    assert shared.all()
    assert not fitting.deviate_alike(blurred, order).any()
    equal = np.broadcast_to(common, (2, 4, 50))
    assert not fitting.deviate_alike(equal, order).any()
    assert fitting.deviate_alike(blurred[:, :1], np.zeros((2, 1), int)).all()


def test_a_run_of_the_default_length_has_samples_enough_for_intervals():
    for documents in (100, 5_000, 15_000):
        data = sp.csr_array(np.tile(np.eye(2, dtype=int), (documents // 2, 1)))
        settled = resolve(sam, data, num_topics=2)
        first = settled.steps // 2
        assert (settled.steps - first) // settled.sample_every >= 75


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (DATA, {"num_topics": 7}, r"num_topics .* 6"),
        (DATA, {"num_topics": 0}, "num_topics"),
        (np.ones((5, 1)), {"num_topics": 1}, "at least 2"),
        (DATA, {"kappa1": -1.0}, "kappa1"),
        (DATA, {"alpha": 0.0}, "alpha"),
        (DATA, {"sigma": float("nan")}, "sigma"),
        (DATA, {"kappa0": "learn"}, r"^kappa0 .*'learn'$"),
        (DATA, {"kappa1": "sample"}, r"kappa1 .* 'sample'"),
        (DATA, {"sigma": 3.0, "sigma_prior": (1, 1)}, r"^sigma_prior .*fixed sigma"),
        (DATA, {"sampler": "hmc"}, r"^sampler .*'hmc'$"),
        (DATA, {"local": "gibbs"}, r"^local .*'gibbs'$"),
        (DATA, {"start": "zero"}, r"^start .*'zero'$"),
        (DATA, {"batch_size": 99}, "batch_size"),
        (DATA, {"step_size": lambda step: 0.1}, r"^step_size .*`build`"),
        (DATA, {"sampler": "gmc-bgibbs", "batch_size": 5}, "leave batch_size out"),
        (DATA, {"sampler": "gmc-bgibbs", "friction": 1.0}, r"^sampler='gmc-bgibbs' .*friction"),
        (DATA, {"passes": 1, "steps": 2}, "passes, steps"),
        (DATA, {"seed": -1}, "seed"),
        (DATA, {"heldout": sp.csr_array(np.eye(2))}, r"^heldout: its 2 words .* 6 "),
        (sp.csr_array(np.eye(2) * 0), {}, "zero vector"),
        (sp.csr_array([[1.0, 1.0]]), {}, "length 1.41421, not 1"),
        # Their sum is not 0 but 1e-7, of rounding.
        (np.repeat([[0.8, 0.6], [-0.8, -0.6]], 10, axis=0), {}, "sum to zero"),
    ],
)
def test_bad_input_is_one_clear_error(given, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        sam.fit(given, **({"num_topics": 2} | options))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("topics", "options", "message"),
    [
        (np.eye(2, 5), {}, r"6 words .* 5: "),
        (np.zeros((2, 6)), {}, r"^topics .*finite"),
        (np.eye(2, 6), {"alpha": -1.0}, r"^alpha .*-1\.0$"),
        (np.eye(2, 6), {"samples": 0}, "samples"),
        (np.eye(2, 6), {"seed": 2**32}, r"seed .* 4294967295"),
    ],
)
def test_bad_transforms(topics, options, message):
    with pytest.raises(ValueError, match=message):
        sam.transform(topics, DATA, **({"alpha": 1.0, "kappa1": 9.0} | options))


@pytest.mark.slow
def test_shards_change_only_the_draws():
    near = np.kron(np.eye(3), [1.0, 1.0])
    one = sam.transform(near, DATA, alpha=0.5, kappa1=200.0)
    two = sam.transform(near, DATA, alpha=0.5, kappa1=200.0, shard=16)
    assert np.abs(one - two).max() < 0.2
    assert (one.argmax(axis=1) == GROUPS).all()


def test_warnings():
    hot = [{"kinetic": 40.0, "log_perplexity": 5.0}, {"kinetic": 30.0, "log_perplexity": 6.0}]
    result = fitting.topic_warnings(hot, [[1.0, 0.0], [1.0, 0.01]], [0.9, 0.9])
    assert ["did not fall" in result[0], "nearly the same" in result[1]] == [True, True]
    few = [{"heldout_ess": 300.0}] * 2 + [{"heldout_ess": size} for size in (2.0, 3.0)]
    result = fitting.topic_warnings(few, np.eye(2), [0.9, 0.9])
    assert len(result) == 1
    assert "2.5 effective draws" in result[0]
    assert not fitting.topic_warnings(few[::-1], np.eye(2), [0.9, 0.9])
    noisy = [{"log_perplexity": value} for value in [5.0, 5.2, 4.9, 5.1] * 10]
    assert not fitting.topic_warnings(noisy, np.eye(2), [0.9, 0.9])


def coverage(fitted, samples):
    """Share of the samples in the intervals of the largest loadings: topics.csv, the report."""
    rows = report.rows_of_words(fitted)
    written = [(k, word, low, high) for k, rank, word, _, low, high, _ in rows if rank == 1]
    shown = report.context(fitted, 6)["by_number"]
    first = [(row["number"], row["words"][0]) for row in shown]
    drawn = [(k, one["word"], *one["interval"]) for k, one in first]
    shares = []
    for intervals in (written, drawn):
        for k, word, low, high in intervals:
            x = samples[:, k, "abcdef".index(word)]
            shares.append(np.mean((x >= float(low)) & (x <= float(high))))
    return shares


def test_intervals_of_loadings_cover_the_samples(whole):
    """Of topics that vary much; about the mean direction, of length 1, they are off centre."""
    rng = np.random.default_rng(3)
    samples = 1.5 * np.eye(3, 6) + 0.5 + rng.normal(size=(4000, 3, 6))
    samples /= np.linalg.norm(samples, axis=-1, keepdims=True)
    mean, sd = samples.mean(axis=0), samples.std(axis=0)
    length = np.linalg.norm(mean, axis=1)
    assert (length < 0.8).all()
    changes = {
        "topics": mean / length[:, None],
        "topics_sd": sd,
        "length": length,
        "diagnostics": {},
    }
    fitted = dataclasses.replace(whole, **changes)
    assert min(coverage(fitted, samples)) > 0.93
    assert max(coverage(dataclasses.replace(fitted, length=np.ones(3)), samples)) < 0.9


def test_only_words_whose_interval_has_both_signs_are_faint(whole, tmp_path):
    """Without intervals, as after a short run, all words were faint."""

    def faint(**changes):
        fitted = dataclasses.replace(whole, **changes)
        rows = report.context(fitted, 6)["by_number"]
        words = [word for row in rows for word in row["words"] + row["absent"]]
        html = files.report(sam.MODEL, fitted, tmp_path / "page.html", 6).read_text("utf-8")
        assert html.count('class="unsure"') == sum(word["unsure"] for word in words)
        return {word["unsure"] for word in words}

    few = {f"prevalence {k}": {"rhat": 1.0, "ess": 12.0} for k in range(3)}
    wide, narrow = np.full((3, 6), 9.0), np.full((3, 6), 1e-9)
    assert faint(diagnostics=few, topics_sd=wide) == {False}
    assert faint(diagnostics={}, topics_sd=wide) == {True}
    assert faint(diagnostics={}, topics_sd=narrow) == {False}


LINES = ["river water stream boat", "goal match team ball", "violin sonata opera quartet"] * 8
CORPUS = corpus.from_texts([*LINES, "rare ball", "alone"], options=corpus.TextOptions(min_df=1))
COUNTED = {"steps": 12, "eval_every": 3, "start": "prior", "seed": 3}


@pytest.fixture(scope="module")
def counted():
    """A fit of counts, of which one is left out, and some are held out."""
    return sam.fit(vectors.cut(CORPUS, min_df=2), 3, holdout=5, **COUNTED)


@pytest.mark.slow
def test_held_out_documents_do_not_enter_the_weights(counted):
    cut = vectors.cut(CORPUS, min_df=2)
    out = corpus.split.held_out(26, 5, 3)
    trained = corpus.Corpus(cut.counts[np.flatnonzero(~out)], cut.vocabulary, ())
    np.testing.assert_array_equal(
        counted.idf, vectors.idf_weights(trained._replace(names=(0,) * 21))
    )
    assert (counted.idf != vectors.idf_weights(cut)).any()
    assert (counted.excluded, counted.corpus["excluded"], counted.corpus["held_out"]) == (
        ("25",),
        1,
        5,
    )
    assert counted.proportions.shape == (26, 3)
    np.testing.assert_allclose(counted.proportions[25], 1 / 3, rtol=1e-6)
    assert any("topics: 25 (summary.json" in one for one in counted.warnings)
    assert np.isfinite(counted.metrics[-1]["log_perplexity"])
    smooth = sam.weigh(cut, "smooth")
    train, heldout = sam.MODEL.hold_out(smooth, 5, 3)
    assert train.weighting == "smooth"
    assert (len(train.names), heldout.shape) == (21, (5 - out[25], 12))
    assert sam.MODEL.digest(smooth) != sam.MODEL.digest(sam.weigh(cut))


@pytest.mark.parametrize("container", ["array", "DataFrame", "lists"])
def test_tables_of_integers_are_counts_whatever_they_are_in(container):
    form = {"array": np.asarray, "lists": np.ndarray.tolist}.get(container)
    form = form or pytest.importorskip("pandas").DataFrame
    table = np.kron(np.eye(4, dtype=int), [[1, 2], [3, 1]])
    data = sam.MODEL.as_data(form(table))
    np.testing.assert_array_equal(data.counts.counts.toarray(), table)
    np.testing.assert_array_equal(
        sam.MODEL.as_data(form(1.0 * table)).counts.counts.toarray(), table
    )
    assert sam.MODEL.as_data(form(table[:, ::2] > 2)).counts is not None
    assert sam.MODEL.as_data(form(np.eye(4))).counts is None
    directions = sam.MODEL.as_data(form(table / np.linalg.norm(table, axis=1, keepdims=True)))
    assert directions.counts is None


def test_held_out_documents_may_have_no_direction():
    alone = sam.weigh(corpus.from_counts(np.eye(4, 3, dtype=int)))
    sizes = {}
    for seed in range(9):
        train, heldout = sam.MODEL.hold_out(alone, 1, seed)
        sizes[heldout is None] = len(train.names), seed
    assert (sizes[True][0], sizes[False][0]) == (4, 3)
    with pytest.raises(ValueError, match=r"^holdout 1: "):
        sam.fit(alone, 1, holdout=1, holdout_seed=sizes[True][1])


def test_no_document_need_have_a_direction_but_to_be_predicted(whole):
    """One document of words without a weight was an error, beside others it was not."""
    fitted = dataclasses.replace(whole, idf=np.arange(6.0), weighting="log")
    counts = corpus.from_counts([[2, 0, 0, 0, 0, 0]], list("abcdef"))
    np.testing.assert_allclose(fitted.transform(counts), [[1 / 3] * 3], rtol=1e-6)
    everywhere = corpus.from_counts(np.array([[1, 1, 0], [1, 0, 1], [1, 1, 1], [1, 0, 0]]))
    with pytest.raises(ValueError, match=r"^heldout: no document"):
        sam.fit(everywhere, 1, heldout=corpus.from_counts([[3, 0, 0]]), steps=1)


@pytest.mark.slow
def test_a_fit_is_saved_loaded_and_used(counted, tmp_path):
    place = counted.save(tmp_path / "run")
    loaded = sam.Fit.load(place)
    assert_same(loaded, counted, "state", "diagnostics", "samples")
    names = {"report.html", *sam.MODEL.files.names} - {"trained.npz"}  # that of an edited fit
    assert {path.name for path in place.iterdir()} >= names
    assert loaded.report(tmp_path / "one.html").read_text() == (place / "report.html").read_text()
    order = np.random.default_rng(0).permutation(len(CORPUS.vocabulary))
    words = [CORPUS.vocabulary[i] for i in order]
    shuffled = corpus.from_counts(CORPUS.counts[:, order], words)
    shares = loaded.transform(shuffled, seed=5)
    np.testing.assert_array_equal(shares, counted.transform(CORPUS, seed=5))
    np.testing.assert_allclose(shares[25], 1 / 3, rtol=1e-6)
    table = sam.weigh(vectors.cut(CORPUS, min_df=2))._replace(idf=counted.idf).vectors
    assert loaded.transform(table).shape == (25, 3)
    unknown = loaded.transform(corpus.from_counts([[1]], ["zebra"]))
    np.testing.assert_allclose(unknown, [[1 / 3] * 3], rtol=1e-6)
    wrong = dataclasses.replace(counted, topics=0.5 * counted.topics).save(tmp_path / "wrong")
    with pytest.raises(RunError, match=r"topics.npz: .*length 1"):
        sam.Fit.load(wrong)


def test_a_fit_of_unit_vectors_knows_no_weights(whole, tmp_path):
    loaded = sam.Fit.load(whole.save(tmp_path / "run"))
    assert_same(loaded, whole, "state", "diagnostics", "samples")
    assert (loaded.weighting, loaded.idf.tolist()) == (None, [1.0] * 6)
    np.testing.assert_array_equal(loaded.transform(DATA, seed=7), whole.proportions)
    with pytest.raises(ValueError, match=r"^documents: .*--format vectors"):
        loaded.transform(corpus.from_counts([[1, 2]], ["a", "b"]))
    with pytest.raises(ValueError, match=r"its 2 words .* 6 "):
        loaded.transform(np.eye(2))


@pytest.mark.parametrize(
    ("records", "damping", "said"),
    [
        ([1.0, 30.0, 1.02, 0.98], None, ()),  # the first half is another matter
        ([0.0, 0.0, 1.19, 1.21], None, ("too hot",)),
        ([0.0, 0.0, 0.79, 0.81], None, ("too cold",)),
        ([0.0, 0.0, 1.0, 1.4], None, ()),  # within three standard errors
        ([0.85] * 8, 1.0, ()),  # x / sinh(x)
        ([1.0] * 8, 1.0, ("should be 0.851",)),
        ([3.0], None, ()),
    ],
)
def test_the_rule_of_equilibrium(records, damping, said):
    result = energy_warnings([{"kinetic": value} for value in records], damping)
    assert len(result) == len(said)
    assert all(word in one for word, one in zip(said, result, strict=True))


def test_what_else_the_rule_looks_at():
    thermostat = {"kinetic": 1.0, "step_size": 0.1, "thermostat": 7.0}
    assert not energy_warnings([thermostat] * 4, 0.5), "its energy is 1, and 7 is below 1.5 C"
    assert "1.6 of its setting" in energy_warnings([thermostat | {"thermostat": 8.0}] * 4, 0.5)[0]
    assert "too hot" in energy_warnings([{"kinetic": 1.0}] * 4, 1e3)[0], "which expects 0"
    assert "is 0.6 of" in energy_warnings([{"kinetic": 1.0, "gradient_noise": 0.6}] * 4)[0]
    metropolis = {"kinetic": 40.0, "gradient_noise": 0.9}
    assert not energy_warnings([metropolis | {"acceptance": 0.8}] * 4)
    still = energy_warnings([metropolis | {"acceptance": 0.01}] * 4)
    assert ["1.0% of the moves" in one for one in still] == [True]


@pytest.mark.slow
def test_a_fit_says_that_it_is_too_hot(whole):
    assert {"gradient_noise", "step_size"} <= set(whole.metrics[-1])
    hot = fit(sampler="sggmc", step_size=0.3, friction=0.05, eval_every=1)
    assert any("too hot" in one for one in hot.warnings), hot.metrics


def test_defaults_are_the_same_everywhere():
    built, resolved = (inspect.signature(f).parameters for f in (sam.build, sam.Options))
    assert built["sampler"].default == resolved["sampler"].default == "gsgnht"
    assert resolve(sam, DATA, 3).batch_size == model.check_batch_size(None, 42, "gsgnht") == 42
    settled = resolve(sam, DATA, 3)
    assert settled.steps == 300


@pytest.mark.parametrize("sampler", ["gsgnht", "sggmc", "gmc-bgibbs"])
def test_settled_options_stay(sampler):
    """A run that goes on settles them again."""
    settled = resolve(sam, DATA, 3, sampler=sampler, seconds=5.0)
    assert sam.MODEL.resolve_options(sam.MODEL.as_data(DATA), None, settled) == settled


def test_embeddings_have_no_coherence():
    rows = np.random.default_rng(0).normal(size=(40, 6))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    values = sp.csr_array(rows)
    assert np.isnan(fitting._coherence(rows[:2], values)).all()
    assert np.isfinite(fitting._coherence(abs(rows[:2]), abs(values))).all()
