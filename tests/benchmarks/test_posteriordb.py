"""Reference draws for posteriordb: the exact sum over labels, the comparison, and the format."""

import hashlib
import io
import itertools
import json
import zipfile
from importlib.util import find_spec

import kept
import numpy as np
import posteriordb
import pytest
from posteriordb import Posterior, Samples
from scipy.special import gammaln
from support.paths import ROOT

COUNTS = np.array([[3, 1, 0], [0, 2, 0], [0, 0, 2]])
"""Three documents with the words of the exact posterior, and 256 labels."""


@pytest.fixture(autouse=True)
def short(monkeypatch):
    for name, value in (("CHAINS", 4), ("DRAWS", 1000), ("WARMUP", 50), ("WORDS_WATCHED", 3)):
        monkeypatch.setattr(posteriordb, name, value)


def log_weights():
    """Yield the labels of all tokens and their log probability with the words."""
    documents, words = (np.repeat(at, COUNTS[np.nonzero(COUNTS)]) for at in np.nonzero(COUNTS))
    for labels in itertools.product((0, 1), repeat=len(words)):
        of_documents, of_topics = np.zeros((3, 2)), np.zeros((2, 3))
        np.add.at(of_documents, (documents, list(labels)), 1)
        np.add.at(of_topics, (list(labels), words), 1)
        log_p = (
            gammaln(1 + of_documents).sum()
            - gammaln(2 + of_documents.sum(axis=1)).sum()
            + gammaln(1 + of_topics).sum()
            - gammaln(3 + of_topics.sum(axis=1)).sum()
        )
        yield of_documents, of_topics, log_p


def test_enumeration_sums_over_all_labels():
    found = posteriordb.enumeration(COUNTS)
    assert found.total.shape == (4, 4, 3)
    weights = np.zeros_like(found.total)
    for of_documents, of_topics, log_p in log_weights():
        i, k, l = of_topics[0].astype(int)  # noqa: E741
        assert of_documents[2, 0] == l
        weights[i, k, l] += np.exp(log_p)
    np.testing.assert_allclose(np.exp(found.total), weights)
    modes = posteriordb.mode_weights(found)
    assert sum(10**value for value in modes.values()) == pytest.approx(1)


def test_exact_draws_have_the_moments_of_the_sum():
    """Of 40,000 draws: 4.5 standard errors, once in 10,000 runs."""
    draws = posteriordb.enumerated(posteriordb.enumeration(COUNTS), 40_000, seed=0)
    inner = (draws.theta[:, :, 0] * draws.theta[:, :, 1]).sum(axis=-1)
    total = expected = 0.0
    for of_documents, _, log_p in log_weights():
        mean = (1 + of_documents) / (2 + of_documents.sum(axis=1, keepdims=True))
        total += np.exp(log_p)
        expected += np.exp(log_p) * (mean[0] * mean[1]).sum()
    assert abs(inner.mean() - expected / total) < 4.5 * inner.std() / 200


def of_exact(number):
    """Return the quantities of exact draws."""
    exact = posteriordb.enumerated(posteriordb.enumeration(COUNTS), number, seed=0)
    return posteriordb.traced(map(Samples, *exact), COUNTS, Posterior("", 2, 1.0))[0]


@pytest.mark.parametrize(
    "sampler",
    [
        "gibbs",
        pytest.param(
            "by_tomotopy",
            marks=pytest.mark.skipif(
                find_spec("tomotopy") is None, reason="tomotopy is not installed"
            ),
        ),
    ],
)
def test_another_model_is_noticed(sampler):
    """A bound that the right model exceeds once in 250 times."""
    exact = of_exact(4000)
    z = []
    for concentration in (1.0, 1.3):
        chains = getattr(posteriordb, sampler)(COUNTS, Posterior("", 2, concentration), seed=1)
        traces, _ = posteriordb.traced(chains, COUNTS, Posterior("", 2, 1.0))
        z.append(posteriordb.largest_z(exact, traces))
    assert z[0] < posteriordb.large_z(len(exact)) < z[1]


def test_log_joint_density_of_rare_words_is_finite():
    """In float32 one of ten thousand gamma draws of shape 0.1 is 0."""
    rng = np.random.default_rng(0)
    documents, topics = np.zeros((1000, 3, 2)), np.zeros((1000, 2, 50))
    samples = posteriordb._given_labels(documents, topics, 0.1, rng)
    traces = posteriordb.quantities(samples, np.ones((3, 50), int), Posterior("", 2, 0.1))
    assert samples.phi.min() < np.finfo(np.float32).tiny
    assert np.isfinite(traces["log joint density"]).all()


def test_relabelling_keeps_what_does_not_depend_on_labels():
    rng = np.random.default_rng(0)
    samples = Samples(rng.dirichlet([1] * 3, (2, 50, 4)), rng.dirichlet([1] * 6, (2, 50, 3)))
    moved = posteriordb.relabelled(samples, seed=1)
    np.testing.assert_allclose(moved.theta @ moved.phi, samples.theta @ samples.phi)
    same = (moved.theta == samples.theta).all(axis=(2, 3)).mean()
    assert 0.05 < same < 0.4  # one order in six


def test_format_of_posteriordb(tmp_path):
    draws = posteriordb.enumerated(posteriordb.enumeration(COUNTS), 4000, seed=0)
    draws = posteriordb.relabelled(draws, seed=2)
    row = {"r_hat": 1.0, "ess_bulk": 4000, "ess_tail": 4000, "second_largest_z": 1.0}
    info = posteriordb.information_of(posteriordb.EXACT, draws, row)
    digest = posteriordb.write(tmp_path, posteriordb.EXACT, info, draws)
    assert posteriordb.write(None, posteriordb.EXACT, info, draws) == digest
    packed = (tmp_path / "draws" / f"{posteriordb.EXACT}.json.zip").read_bytes()
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        text = archive.read(f"{posteriordb.EXACT}.json")
    chains = json.loads(text)
    assert json.dumps(chains, separators=(",", ":")).encode() == text
    assert hashlib.sha256(text).hexdigest() == digest
    assert [len(chain) for chain in chains] == [12] * 4
    assert list(chains[0]) == info["diagnostics"]["diagnostic_information"]["names"]
    assert list(chains[0])[:3] == ["theta[1,1]", "theta[1,2]", "theta[2,1]"]
    assert len(chains[0]["phi[2,3]"]) == 1000
    checks = info["checks_made"]
    assert not checks.pop("ndraws_is_10k")
    assert all(checks.values())


def test_the_page_has_the_kept_diagnostics():
    page = (ROOT / "docs" / "exactness.md").read_text("utf-8")
    result = kept.read(kept.RESULTS / "posteriordb.json")
    assert {row["state"] for row in result["rows"]} == {"done"}
    for row in result["rows"]:
        line = next(line for line in page.splitlines() if line.startswith(f"| {row['posterior']} "))
        for number in ("ess_bulk", "ess_tail", "second_ess_bulk", "second_ess_tail"):
            assert f"{row[number]:,.0f}" in line
        assert f"{row['r_hat']:.4f}" in line
        assert f"{row['second_largest_z']:.1f} of {2 * row['quantities']:,}" in line


def test_the_kept_draws_are_those_of_the_digest():
    rows = kept.read(kept.RESULTS / "posteriordb.json")["rows"]
    digest = next(row["sha256"] for row in rows if row["posterior"] == posteriordb.EXACT)
    packed = kept.RESULTS / "posteriordb" / f"{posteriordb.EXACT}.json.zip"
    with zipfile.ZipFile(packed) as archive:
        text = archive.read(f"{posteriordb.EXACT}.json")
    assert hashlib.sha256(text).hexdigest() == digest
