"""What the pipeline does for every model: hold-out, files, other vocabularies, longer runs."""

import dataclasses
import json

import jax
import numpy as np
import pytest
import scipy.sparse as sp
from support.cut_runs import Cut
from support.fits import assert_same

from simplex_jax._src.corpus import from_counts, split_tokens, store
from simplex_jax._src.corpus.embedded import embedded_corpus
from simplex_jax._src.models import dpm, hdp, lda, options, pipeline, sam
from simplex_jax._src.models.lda.options import Arguments
from simplex_jax._src.models.sam import density, joint
from simplex_jax._src.models.topics import evaluation
from simplex_jax._src.runtime.checkpoint import CheckpointError
from simplex_jax._src.runtime.saved import RunError

WORDS = ["oak", "elm", "sun", "moon"]
COUNTS = np.array([[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 8, 9]] * 5)
CORPUS = from_counts(COUNTS, WORDS)
SAME = {"eval_every": 5, "seed": 3}


def plan(data=CORPUS, **options):
    return pipeline.plan(lda.MODEL, data, Arguments(2, **options))


@pytest.fixture(scope="module")
def fitted():
    return lda.fit(CORPUS, 2, steps=30, holdout=5, keep_samples=2, chains=2, **SAME)


def test_documents_held_out_are_predicted_and_have_proportions(fitted):
    assert fitted.corpus["held_out"] == 5
    assert fitted.corpus["documents"] == len(fitted.names) == len(fitted.proportions) == 20
    assert fitted.metrics[-1]["perplexity_average"] < 3
    assert fitted.metrics[-1]["documents"] == 30 * 15
    assert (
        not fitted.metrics[-1].keys()
        - lda.fit(CORPUS, 2, steps=30, chains=2, heldout=plan(holdout=5, **SAME).heldout, **SAME)
        .metrics[-1]
        .keys()
    )


def test_what_is_held_out_goes_by_its_own_seed():
    def held(**options):
        return plan(holdout=5, **options).train.names

    assert held(seed=1) == held(seed=1) == held(seed=2, holdout_seed=1)
    assert held(seed=1) != held(seed=2)
    assert held(seed=1, holdout_seed=7) == held(seed=2, holdout_seed=7)


def test_by_default_a_fit_holds_nothing_out_and_the_command_a_tenth():
    assert plan().held == 0
    assert plan(holdout=None, heldout=plan(holdout=5).heldout).held == 0
    assert plan().heldout is None
    assert plan(holdout=None).held == 2
    assert plan(embedded_corpus(), holdout=None).held <= 1000


def test_a_corpus_on_disk_holds_out_as_many(tmp_path):
    stored = store.write(tmp_path / "corpus", CORPUS)
    planned = plan(stored, holdout=5, batch_size=5)
    assert (planned.held, len(planned.train.names)) == (5, 15)
    assert planned.digest == plan().digest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"holdout": 20}, r"^holdout 20 .* 20: "),
        ({"holdout": -1}, r"holdout .* 0"),
        ({"holdout": 3, "heldout": (COUNTS, COUNTS)}, "holdout or heldout"),
        ({"holdout_seed": -1}, "holdout_seed must be"),
        ({"checkpoint_every": -1.0}, "checkpoint_every must be"),
    ],
)
def test_bad_plans_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        plan(**options)


def test_a_fit_is_loaded_as_it_was_saved(fitted, tmp_path):
    place = fitted.save(tmp_path / "run")
    loaded = lda.load(place)
    # Samples and the state are for the process that drew them.
    assert_same(loaded, fitted, "samples", "state")
    assert loaded.samples == {}
    assert loaded.state is None
    assert loaded.settings == fitted.settings
    assert json.loads((place / "config.json").read_text())["source"] is None
    assert_same(lda.load(loaded.save(tmp_path / "again")), loaded)
    assert not (tmp_path / "again" / "samples").exists()
    names = {path.name for path in place.iterdir()}
    for name in names - {"config.json", "samples"}:
        assert (place / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_chains_that_stand_still_disagree_after_loading_too(fitted, tmp_path):
    apart = {"alpha": {"rhat": np.inf, "ess": np.nan}}
    place = dataclasses.replace(fitted, diagnostics=apart).save(tmp_path / "run")
    np.testing.assert_equal(lda.load(place).diagnostics, apart)


@pytest.mark.parametrize(("every", "count"), [(1, 15), (4, 5)])
def test_a_fit_keeps_as_many_samples_as_asked_for(every, count):
    fitted = lda.fit(CORPUS, 2, steps=30, sample_every=every, keep_samples=count, seed=1)
    assert len(fitted.samples["step"]) == count


def test_a_fit_is_saved_with_the_samples_that_it_holds(fitted, tmp_path):
    """In the files that a run with a directory for them has written itself."""
    lda.fit(
        *(CORPUS, 2),
        **{"steps": 30, "holdout": 5, "keep_samples": 2, "chains": 2, **SAME},
        samples_dir=tmp_path / "straight",
    )
    place = fitted.save(tmp_path / "run")
    names = ["sample-00000.npz", "sample-00001.npz"]
    for folder in (tmp_path / "straight", place / "samples"):
        assert sorted(path.name for path in folder.iterdir()) == names
    for name in names:
        one, two = (np.load(folder / name) for folder in (place / "samples", tmp_path / "straight"))
        assert [*one.files, "run"] == two.files
        for array in one.files:
            np.testing.assert_array_equal(one[array], two[array])
    x = {"x": np.arange(20) % 2}
    held = lda.effects(fitted, CORPUS, x)
    read = lda.effects(lda.load(place), CORPUS, x, samples=place / "samples")
    np.testing.assert_array_equal(read.mean, held.mean)
    # A fit that keeps none does not leave those of an earlier one.
    dataclasses.replace(fitted, samples={}).save(place, overwrite=True)
    assert not (place / "samples").exists()


def test_a_fit_is_not_saved_over_what_is_there(fitted, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(FileExistsError, match=r"is not empty \(thesis\.txt\)"):
            fitted.save(tmp_path / "run", overwrite=overwrite)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.txt"]


def test_a_run_of_another_model_is_not_loaded(fitted, tmp_path):
    place = fitted.save(tmp_path / "run")
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | {"command": "dpm"}))
    with pytest.raises(RunError, match=r"simplex-jax dpm, .* simplex-jax lda"):
        lda.load(place)
    with pytest.raises(RunError, match="no such directory"):
        lda.load(tmp_path / "none")


@pytest.mark.parametrize(
    "change", [{"sampler": "none"}, {"alpha": -1.0}, {"more": 1}, {"steps": None, "chains": 0}]
)
def test_damaged_settings_are_one_line(fitted, tmp_path, change):
    place = fitted.save(tmp_path / "run")
    config = json.loads((place / "config.json").read_text())
    config["settings"] |= change
    (place / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunError, match=r"config\.json: "):
        lda.load(place)


def test_transform_takes_documents_of_any_vocabulary(fitted):
    """In another order, with words that the model does not know, and without most of its own."""
    trees = fitted.topics[:, 0].argmax()
    other = from_counts([[5, 3, 0], [0, 9, 7], [0, 4, 0]], ["elm", "zebra", "moon"])
    shares = fitted.transform(other, seed=4)
    assert shares[:2].argmax(axis=1).tolist() == [trees, 1 - trees]
    np.testing.assert_allclose(shares[2], fitted.alpha / fitted.alpha.sum(), rtol=1e-5)
    turned = sp.csr_array(COUNTS[:, ::-1])
    np.testing.assert_array_equal(
        fitted.transform(from_counts(turned, WORDS[::-1])), fitted.transform(CORPUS)
    )
    with pytest.raises(ValueError, match=r"seed .* 4294967295"):
        fitted.transform(CORPUS, seed=2**32)
    np.testing.assert_array_equal(fitted.transform(from_counts([[1]], ["zebra"])), shares[2:])


def test_a_report_is_a_file_or_in_a_directory(fitted, tmp_path):
    assert fitted.report(tmp_path) == tmp_path / "report.html"
    path = fitted.report(tmp_path / "other.html")
    assert path.read_bytes() == (tmp_path / "report.html").read_bytes()


def test_a_finished_run_goes_on_from_its_end_to_another_length(tmp_path):
    """The state is that of a run of this length from the start; nothing is done twice."""
    options = SAME | {"checkpoint": tmp_path, "alpha": "learn-asymmetric", "holdout": 4}
    lda.fit(CORPUS, 2, steps=20, **options)
    cut = Cut(10**9)
    longer = lda.fit(CORPUS, 2, steps=40, resume=True, hooks=[cut], **options)
    assert cut.steps == [25, 30, 35, 40]
    whole = lda.fit(CORPUS, 2, steps=40, **options | {"checkpoint": None})
    np.testing.assert_array_equal(longer.state.position, whole.state.position)
    assert [r["perplexity"] for r in longer.metrics] == [r["perplexity"] for r in whole.metrics]
    assert longer.settings.steps == 40
    assert longer.num_samples == whole.num_samples
    np.testing.assert_array_equal(longer.topics, whole.topics)
    with pytest.raises(ValueError, match=r"40 steps, .* 30: "):
        lda.fit(CORPUS, 2, steps=30, resume=True, **options)


def test_a_run_goes_on_with_its_own_data_only(tmp_path):
    options = SAME | {"checkpoint": tmp_path, "steps": 20}
    lda.fit(CORPUS, 2, hooks=[Cut(10)], **options)
    others = {
        "data": (from_counts(COUNTS[::-1], WORDS), {}),
        "words": (from_counts(COUNTS, ["ash", *WORDS[1:]]), {}),
        "held out": (CORPUS, {"heldout": (CORPUS.counts[:2], CORPUS.counts[2:4])}),
        "options": (CORPUS, {"beta": 0.5}),
        "seed": (CORPUS, {"seed": 4}),
    }
    for corpus, changed in others.values():
        with pytest.raises(CheckpointError):
            lda.fit(corpus, 2, resume=True, **options | changed)
    assert lda.fit(CORPUS, 2, resume=True, **options).metrics[-1]["step"] == 20


def test_warnings_are_those_of_the_model_and_of_the_run(fitted):
    assert fitted.warnings == lda.MODEL.warn(fitted)
    cut = lda.fit(CORPUS, 2, steps=30, hooks=[Cut(10)], **SAME)
    assert cut.interrupted is None
    assert pipeline.INTERRUPTED not in cut.warnings
    few = dataclasses.replace(fitted, num_samples=3)
    assert any("3 posterior samples only" in sentence for sentence in lda.MODEL.warn(few))


@pytest.mark.slow
def test_scores_are_what_evaluate_measures():
    halves = split_tokens(CORPUS.counts, 7)
    for fitted in (
        lda.fit(CORPUS, 2, steps=10, seed=1, chains=1),
        hdp.fit(CORPUS, passes=10, keep_samples=4, seed=1),
    ):
        perplexity = evaluation.measure_completion(fitted, *halves, seed=7)["perplexity"]
        assert fitted.score(CORPUS, seed=7) == pytest.approx(-np.log(perplexity), rel=1e-6)
        assert fitted.score(CORPUS, seed=7) != fitted.score(CORPUS, seed=8)
        assert fitted.num_topics == len(fitted.topics)
        with pytest.raises(ValueError, match=r"^no document "):
            fitted.score(from_counts(np.eye(4), WORDS))
    vectors = COUNTS / np.linalg.norm(COUNTS, axis=1, keepdims=True)
    spherical = sam.fit(vectors, 2, steps=6, seed=1)
    law = spherical.topics, spherical.alpha, spherical.kappa1
    near, far = (spherical.score(table) for table in (vectors, vectors[:, [0, 2, 1, 3]]))
    exact = density.estimate(
        jax.random.key(3), law[0], joint.to_device(sp.csr_array(vectors)), *law[1:], 20_000
    ).log_p.mean()
    assert near == pytest.approx(exact, abs=0.02)
    assert near > far
    assert spherical.num_topics == 2
    mixture = dpm.fit(CORPUS, steps=20, seed=1)
    other = from_counts(COUNTS[:, [0, 2, 1, 3]], WORDS)
    assert mixture.score(CORPUS) == mixture.score(CORPUS, seed=5) > mixture.score(other)


@pytest.mark.slow
def test_samples_are_kept_by_default_and_change_nothing_else(monkeypatch):
    vectors = COUNTS / np.linalg.norm(COUNTS, axis=1, keepdims=True)

    def fit(**more):
        yield lda.fit(CORPUS, 2, steps=60, seed=1, chains=2, **more)
        yield sam.fit(vectors, 2, steps=40, sample_every=1, eval_every=8, seed=1, **more)

    bare = list(fit(keep_samples=0))
    for fitted, without in zip(fit(), bare, strict=True):
        assert len(fitted.samples["step"]) == fitted.settings.keep_samples == options.KEPT
        assert_same(fitted, without, "samples", "again", "verdict")
    monkeypatch.setattr(options, "_MOST_KEPT", 4 * 2 * 2 * 4 * 3)
    with pytest.warns(UserWarning, match=r"keeps 3 .* 20: "):
        few = next(fit())
    assert len(few.samples["step"]) == 3
    assert len(next(fit(keep_samples=7)).samples["step"]) == 7
