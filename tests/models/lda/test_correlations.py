"""Which topics rise and fall together: intervals hold what is true, and 0 for unrelated topics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from support.fits import topic_fit

from simplex_jax._src import draws
from simplex_jax._src.models import files, lda
from simplex_jax._src.models.lda import correlations

TOPICS, WORDS, DOCUMENTS, TOKENS, ALPHA = 4, 24, 80, 100, 0.5
VOCABULARY = tuple(f"w{i}" for i in range(WORDS))


def phi():
    """Topics that share some words."""
    own = np.repeat(np.eye(TOPICS), WORDS // TOPICS, axis=1)
    return (0.9 * own / own.sum(axis=1, keepdims=True) + 0.1 / WORDS).astype(np.float32)


def fit(draws=6, **changes):
    """A fit whose kept draws have the true topics."""
    alpha = np.full(TOPICS, ALPHA)
    samples = {
        "topics": np.tile(phi(), (draws, 1, 1, 1)),
        "alpha": np.tile(alpha, (draws, 1, 1)),
        "prevalence": np.full((draws, 1, TOPICS), 1 / TOPICS),
        "step": np.arange(draws),
    }
    traced = {"prevalence_draws": np.random.default_rng(0).dirichlet([9.0] * TOPICS, (draws, 1))}
    return topic_fit(phi(), VOCABULARY, alpha=alpha, samples=samples, **traced | changes)


def corpus(rng, shares):
    return sp.csr_array(np.array([rng.multinomial(TOKENS, p / p.sum()) for p in shares @ phi()]))


def test_unrelated_topics_have_intervals_with_0(seed):
    """Of 240 pairs about 12 have none; the bounds fail a correct program once in 10,000."""
    rng, fitted, repeats = np.random.default_rng(seed), fit(), 40
    missed, plain = 0, 0
    for repeat in range(repeats):
        shares = rng.dirichlet(np.full(TOPICS, ALPHA), DOCUMENTS)
        result = fitted.correlate(corpus(rng, shares), seed=repeat)
        rows = list(result.rows())
        missed += sum(row["lower"] > 0 or row["upper"] < 0 for row in rows)
        # What correlations of the proportions themselves would say.
        z = np.arctanh(np.corrcoef(shares.T)[np.triu_indices(TOPICS, k=1)])
        plain += int((np.abs(z) > 1.96 / np.sqrt(DOCUMENTS - 3)).sum())
    low, high = stats.binom.ppf([0.5e-4, 1 - 0.5e-4], repeats * 6, 0.05)
    assert low <= missed <= high, missed
    assert plain > 3 * high


def test_topics_made_to_occur_together_are_found(seed):
    rng = np.random.default_rng(seed)
    three, part = rng.dirichlet(np.full(3, ALPHA), DOCUMENTS), rng.beta(20, 20, DOCUMENTS)
    shares = np.column_stack([three[:, 0] * part, three[:, 0] * (1 - part), three[:, 1:]])
    result = fit().correlate(corpus(rng, shares))
    assert result.lower[0, 1] > 0.3
    assert np.nanmax(result.mean) == result.mean[0, 1]
    np.testing.assert_array_equal(result.mean, result.mean.T)
    assert result.plot().axes[0].get_yticklabels()[0].get_text()
    # Merged topics are one.
    merged = fit().merge([0, 1])
    assert merged.correlate(corpus(rng, shares)).mean.shape == (3, 3)


def naive(shares):
    """The definition, one pair at a time."""
    number = shares.shape[1]
    result = np.full((number, number), np.nan)
    for i in range(number):
        for j in range(number):
            if i != j:
                one = np.corrcoef(shares[:, i], shares[:, j] / (1 - shares[:, i]))[0, 1]
                two = np.corrcoef(shares[:, j], shares[:, i] / (1 - shares[:, j]))[0, 1]
                result[i, j] = (one + two) / 2
    return result


def test_the_correlation_and_its_error_are_those_defined():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([0.5, 1.0, 2.0, 1.0], 300).astype(np.float32)
    r, error = map(np.asarray, correlations._correlate(shares))
    pairs = np.triu_indices(4, k=1)
    np.testing.assert_allclose(r[pairs], naive(shares.astype(float))[pairs], atol=1e-5)
    left_out = [naive(np.delete(shares, d, axis=0).astype(float))[pairs] for d in range(300)]
    jackknife = np.sqrt(299 / 300 * ((left_out - np.mean(left_out, axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(error[pairs], jackknife, rtol=0.05)


def test_documents_of_one_topic_alone_are_no_error():
    """In float32 the rest of such a document is 0 or nearly so."""
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.full(4, 0.01), 500).astype(np.float32)
    shares[:5] = np.eye(4, dtype=np.float32)[0]
    r, error = map(np.asarray, correlations._correlate(shares))
    pairs = np.triu_indices(4, k=1)
    assert np.isfinite(r[pairs]).all()
    assert (np.abs(r[pairs]) <= 4 * error[pairs] + 1e-3).all()


def test_a_rest_that_underflows_does_not_pull_topics_apart(monkeypatch):
    """A quarter of the documents have nothing left of it; taken as 0, all pairs were negative.

    The bound fails a correct program once in 2,500.
    """
    log_gamma = draws.loggamma(jax.random.key(0), jnp.full((20_000, 4), 0.005))
    shares = jnp.exp(log_gamma - jax.nn.logsumexp(log_gamma, axis=1, keepdims=True))
    r, error = map(np.asarray, correlations._correlate(shares))
    pairs = np.triu_indices(4, k=1)
    assert (np.abs(r[pairs]) <= 4 * error[pairs]).all()

    def as_zero(shares, rest):
        return shares / jnp.maximum(rest, jnp.finfo(rest.dtype).tiny), jnp.ones_like(rest, bool)

    monkeypatch.setattr(correlations, "_relative", as_zero)
    r, error = map(np.asarray, correlations._correlate.__wrapped__(shares))
    assert (r[pairs] < -4 * error[pairs]).all()


def test_a_chain_without_a_topic_says_nothing_of_it(seed):
    rng = np.random.default_rng(seed)
    counts = corpus(rng, rng.dirichlet(np.full(TOPICS, ALPHA), DOCUMENTS))
    fitted = fit(shared=np.array([[True, True, False, True]]))
    result = fitted.correlate(counts)
    assert np.isnan(result.mean[2]).all()
    assert len(list(result.rows())) == 3


def test_the_rest_of_a_document_has_topics_that_are_left_out(seed):
    rng = np.random.default_rng(seed)
    counts = corpus(rng, rng.dirichlet(np.full(TOPICS, ALPHA), DOCUMENTS))
    whole, left = fit().correlate(counts), fit().drop([3]).correlate(counts)
    np.testing.assert_allclose(left.mean, whole.mean[:3, :3], atol=1e-5)


def test_records_follow_their_topics_into_files_and_the_report(tmp_path, seed):
    rng = np.random.default_rng(seed)
    counts = corpus(rng, rng.dirichlet(np.full(TOPICS, ALPHA), DOCUMENTS))
    fitted = fit(prevalence=np.array([0.1, 0.2, 0.3, 0.4]))
    records = list(fitted.correlate(counts).rows())
    records[0] |= {"mean": 0.4, "lower": 0.2, "upper": 0.6}
    fitted = fit(correlations=records).rename({0: "<b>"})
    moved = fitted.reorder([3, 1])
    assert records[0] | {"first": 1, "second": 2} in moved.correlations
    assert fitted.merge([0, 1]).correlations == []
    page = files.report(lda.MODEL, fitted, tmp_path / "report.html").read_text()
    text = page[page.index('<section id="together">') :]
    assert "+0.40 <span class" in text
    assert "<b>0" not in text
    assert text.count("<rect ") == 6
    assert 'id="together"' not in files.report(lda.MODEL, fit(), tmp_path / "x.html").read_text()
    fitted.save(tmp_path / "run")
    assert lda.Fit.load(tmp_path / "run").correlations == records
    first = (tmp_path / "run" / "topic_correlations.csv").read_text().splitlines()[:2]
    assert first == [
        "first,second,correlation,lower,upper,stable,first_name,second_name",
        "0,1,0.4,0.2,0.6,,<b>,",
    ]


def test_two_topics_have_no_correlation():
    counts = sp.csr_array(np.ones((6, WORDS), int))
    with pytest.raises(ValueError, match="three or more"):
        fit().merge([[0, 1], [2, 3]]).correlate(counts)
    with pytest.raises(ValueError, match="5 documents"):
        fit().correlate(counts[:3])
    assert not correlations.Pairs.possible(fit().merge([[0, 1], [2, 3]]), 6)
    assert fit().as_trained().parts == ((0,), (1,), (2,), (3,))
