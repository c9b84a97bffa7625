"""What users may do that a fit must notice: files of other runs, lengths already had, odd data."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import special

from simplex_jax._src.corpus import split
from simplex_jax._src.evaluate.diagnostics import chain_notes
from simplex_jax._src.models import hdp, lda, pipeline
from simplex_jax._src.models.lda import posterior
from simplex_jax._src.models.lda.estimator import LDA

COUNTS = np.array([[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 8, 9]])
GROUPS = ["a", "a", "b", "b"]


@pytest.fixture(scope="module")
def kept():
    return lda.fit(COUNTS, 2, passes=20, keep_samples=4)


def test_samples_of_another_run_are_not_mixed_in(tmp_path):
    options = {"passes": 20, "samples_dir": str(tmp_path / "samples")}
    lda.fit(COUNTS, 2, keep_samples=4, **options)
    with pytest.raises(FileExistsError, match="holds 4 samples"):
        lda.fit(COUNTS, 2, keep_samples=2, **options)
    options |= {"checkpoint": tmp_path / "none", "resume": True}
    with pytest.raises(FileExistsError, match="holds 4 samples"):
        lda.fit(COUNTS, 2, keep_samples=4, seed=1, **options)
    assert len(list((tmp_path / "samples").iterdir())) == 4
    lda.fit(COUNTS, 2, keep_samples=4, **options)  # a run that had no checkpoint yet
    lda.fit(COUNTS, 2, keep_samples=4, **options)
    assert len(list((tmp_path / "samples").iterdir())) == 4


def fit_two(**options):
    return lda.fit(COUNTS, 2, **options)


def fit_any(**options):
    return hdp.fit(COUNTS, **options)


def test_beta_of_a_single_topic_is_learned():
    fitted = lda.fit(COUNTS, 1, beta="learn", target_ess=20, time_limit=20.0)
    assert fitted.num_samples > 10
    assert fitted.beta_sd[0] > 0


def test_what_is_learned_is_not_said_to_be_given(tmp_path):
    page = lda.fit(COUNTS, 2, steps=1, alpha="learn-asymmetric").report(tmp_path / "report.html")
    text = page.read_text()
    assert "alpha, learned" in text
    assert "beta, given" in text


def test_batches_of_a_stream_are_rounded_apart():
    """Each word has an eighth; rounded alike in all batches, some would have a third, others 0."""
    model = LDA(1, fractions="draw", total_samples=1000, random_state=0)
    for _ in range(100):
        model.partial_fit(np.full((1, 8), 0.5))
    assert model.components_.min() > 0.06


@pytest.mark.parametrize("total", [-5, 2, float("nan"), "many"])
def test_documents_of_a_stream_are_checked(total):
    with pytest.raises(ValueError, match="total_samples must"):
        LDA(3, total_samples=total).partial_fit(np.eye(4, dtype=int))


@pytest.mark.parametrize("model", [lda, hdp])
def test_columns_without_names_are_as_many_as_those_of_the_fit(model):
    """Those beyond were left out, and those that lack were empty, in silence."""
    fit = model.fit(COUNTS, passes=2)
    words = COUNTS.shape[1]
    for other in (COUNTS[:, :-1], np.hstack([COUNTS, COUNTS])):
        for given in (other, other.tolist()):
            with pytest.raises(ValueError, match=rf" {other.shape[1]} columns .* {words}: "):
                fit.transform(given)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COUNTS)
    for columns in (slice(None, None, -1), [0, *range(2, words)]):
        some = np.zeros_like(COUNTS)
        some[:, columns] = COUNTS[:, columns]
        np.testing.assert_array_equal(fit.transform(frame.iloc[:, columns]), fit.transform(some))
    bags = [[(0, 1), (1, 2)], [(words + 1, 3)]]  # numbers of words, of which others may be more
    assert len(fit.transform(bags)) == 2


def test_single_tokens_predict_nothing(kept):
    alone = np.eye(20, dtype=int)
    with pytest.raises(ValueError, match=r"^holdout 5: "):
        lda.fit(alone, 2, passes=5, holdout=5)
    assert lda.fit(alone, 2, passes=2).corpus["held_out"] == 0
    with pytest.raises(ValueError, match=r"^no document "):
        LDA(2, passes=2).fit(COUNTS).score(np.eye(4, dtype=int))


@pytest.mark.parametrize("model", [lda, hdp])
def test_documents_to_learn_from_are_left(model):
    """Where the only one with words would be held out, nothing is, or that is told."""
    counts = np.zeros((10, 4), int)
    counts[7] = 20
    seed = next(seed for seed in range(99) if split.held_out(10, 1, seed)[7])
    with pytest.raises(ValueError, match=r"^holdout 1: "):
        model.fit(counts, passes=2, holdout=1, holdout_seed=seed)
    session = pipeline.Session(holdout=None, holdout_seed=seed)
    asked = model.MODEL.options()
    assert pipeline.plan_of(model.MODEL, counts, asked, session).held == 0


@pytest.mark.parametrize("heldout", [COUNTS, [COUNTS], (COUNTS, COUNTS + 0.5), "texts"])
@pytest.mark.parametrize("model", [lda, hdp])
def test_held_out_documents_are_checked(model, heldout):
    with pytest.raises(ValueError, match="heldout"):
        model.fit(COUNTS, heldout=heldout, passes=2)


@pytest.mark.parametrize("fit", [fit_two, fit_any])
def test_held_out_documents_may_have_any_type_of_counts(fit):
    """As all other counts may."""
    halves = (COUNTS, COUNTS)
    kinds = (sp.csr_array(np.asarray(COUNTS, float)), np.asarray(COUNTS).tolist())
    expected = fit(heldout=halves, passes=4, seed=0).metrics[-1]["perplexity"]
    for kind in kinds:
        fitted = fit(heldout=(kind, kind), passes=4, seed=0)
        assert fitted.metrics[-1]["perplexity"] == expected


@pytest.mark.slow
def test_a_word_of_a_million_tokens_has_a_likelihood():
    """Beside them, float32 loses beta: the difference was 0, and its gamma function infinite."""
    counts = np.array([[2_000_000, 5, 7], [2, 0, 3]])
    seen = []
    lda.fit(counts, 1, passes=3, holdout=0, hooks=[lambda event: seen.append(event.state)])
    result = posterior.log_likelihood(seen[-1], jnp.array([2_000_017.0]), chains=1)
    n, beta = counts.sum(axis=0), 0.05
    expected = (special.gammaln(beta + n) - special.gammaln(beta)).sum()
    expected += special.gammaln(3 * beta) - special.gammaln(3 * beta + n.sum())
    assert float(result[0, 0]) == pytest.approx(expected, abs=20)  # 1e-6 of gammaln(2e6)


def test_a_call_whose_time_is_up_does_nothing_more(tmp_path):
    options = {"target_ess": 1e6, "time_limit": 0.5, "chains": 1, "checkpoint": tmp_path}
    first = lda.fit(COUNTS, 2, seed=0, **options)
    again = lda.fit(COUNTS, 2, seed=0, resume=True, **options)
    assert (again.done, again.ended) == (first.done, first.ended)
    np.testing.assert_array_equal(again.topics, first.topics)


def test_covariates_may_be_columns_of_any_name(kept):
    documents, groups = np.tile(COUNTS, (2, 1)), GROUPS * 2
    for by in (0, [0], "0"):
        result = lda.effects(kept, documents, {0: groups, "x": groups}, by=by, sweeps=2)
        assert result.draws == 4
    with pytest.raises(ValueError, match=r"column 'x' .* 8 documents"):
        lda.effects(kept, documents, {"x": 5})
    with pytest.raises(ValueError, match="samples='run/samples'"):
        lda.effects(lda.fit(COUNTS, 2, passes=2, keep_samples=0), documents, {"x": groups})


def test_a_share_that_stands_still_has_no_interval_and_a_warning():
    still = {f"prevalence {k}": {"ess": float("nan")} for k in range(2)}
    (warning,) = chain_notes(still, np.ones((1, 2), bool))
    assert "few for intervals" in warning


def test_a_single_sample_of_the_process_is_not_certain(tmp_path):
    fitted = hdp.fit(COUNTS, passes=1, alpha=0.5, chains=1)
    assert np.isnan(fitted.prevalence_sd).all()
    assert np.isnan(fitted.gamma_sd)
    assert fitted.alpha_sd == 0
    loaded = hdp.Fit.load(fitted.save(tmp_path / "run"))
    assert np.isnan(loaded.gamma_interval).all()
    page = (tmp_path / "run" / "report.html").read_text()
    assert "gamma, learned" in page
    assert "alpha, given" in page
