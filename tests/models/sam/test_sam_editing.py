"""Topics that are directions, left out, named and reordered; merging is refused."""

import numpy as np
import pytest
from click.testing import CliRunner
from support.fits import assert_same

from simplex_jax import evaluate
from simplex_jax._src.cli import main
from simplex_jax._src.corpus import vectors
from simplex_jax._src.models import sam

RNG = np.random.default_rng(0)
GROUPS = np.repeat(np.arange(3), 14)
TABLE = np.kron(np.eye(3), [1.0, 1.0])[GROUPS] + 0.1 * RNG.random((42, 6))
DATA = vectors.from_array(TABLE, list("abcdef"), normalise=True)


@pytest.fixture(scope="module")
def fitted():
    options = {"alpha": 0.5, "kappa1": 60.0, "steps": 24, "chains": 2, "start": "prior"}
    return sam.fit(DATA, 3, seed=7, keep_samples=4, **options)


@pytest.mark.slow
def test_topics_are_left_out_and_reordered_in_results_only(fitted, tmp_path):
    left = fitted.drop([1]).reorder([1]).rename({0: "Last"})
    assert left.trained.parts == ((2,), (0,))
    assert (left.dropped, left.leaves_rest) == ([1], True)
    rows = [2, 0]
    for name in ("topics", "topics_sd", "length", "prevalence", "stability", "coherence"):
        np.testing.assert_array_equal(getattr(left, name), getattr(fitted, name)[rows])
    np.testing.assert_array_equal(left.proportions, fitted.proportions[:, rows])
    np.testing.assert_array_equal(left.transform(DATA), fitted.transform(DATA)[:, rows])
    assert left.score(DATA) == fitted.score(DATA)
    drawn = evaluate.to_arviz(left)["posterior"]["topics"]
    whole = evaluate.to_arviz(fitted)["posterior"]["topics"]
    np.testing.assert_array_equal(drawn, whole[:, :, rows])
    loaded = sam.Fit.load(left.save(tmp_path / "run"))
    assert_same(loaded, left, "state", "samples", "interrupted", "examples")
    np.testing.assert_array_equal(loaded.transform(DATA), left.transform(DATA))
    assert "Last" in (tmp_path / "run" / "topics.csv").read_text()
    assert "1 topic was left" in (tmp_path / "run" / "report.html").read_text()


def test_merging_is_refused(fitted):
    with pytest.raises(ValueError, match=r"^merge: .*sam"):
        fitted.merge([0, 1])


@pytest.mark.slow
def test_the_command(tmp_path):
    pairs = ["river water stream boat", "goal match team ball", "bread oven cake flour"]
    (tmp_path / "x.txt").write_text("\n".join(pairs[i % 3] for i in range(60)))
    made = ["--topics", 3, "--steps", 12, "--min-df", 1, "--max-df", 1, "--quiet"]

    def invoke(*arguments):
        return CliRunner().invoke(main, ["sam", *map(str, arguments)])

    run, file = tmp_path / "run", tmp_path / "edits.txt"
    result = invoke(tmp_path / "x.txt", *made, "--out", run)
    assert result.exit_code == 0, result.stderr
    file.write_text("drop 1\n2 Second\n")
    result = invoke("edit", run, file)
    assert result.exit_code == 0, result.stderr
    assert "[Second]" in result.stdout
    assert "2 topics, 1 topic left out" in result.stdout
    out = tmp_path / "other.npz"
    result = invoke(
        "transform", tmp_path / "x.txt", "--model", tmp_path / "run-edited", "--out", out
    )
    assert result.exit_code == 0, result.stderr
    with np.load(out) as shares:
        np.testing.assert_allclose(
            shares["proportions"].sum(axis=1) + shares["other"], 1, atol=1e-5
        )
    file.write_text("0+1 Both\n")
    result = invoke("edit", run, file, "--out", tmp_path / "merged")
    assert result.exit_code == 1
    assert "directions" in result.stderr
    assert not (tmp_path / "merged").exists()
    file.write_text("1 First\n")
    assert invoke("report", run, "--topic-names", file).exit_code == 0
    # A run that goes on keeps the names of its topics.
    result = invoke("--resume", run, "--steps", 18, "--quiet")
    assert result.exit_code == 0, result.stderr
    assert sam.Fit.load(run).titles == ["", "First", ""]
