"""Fits of corpora: their law, files and reports, and rows of other vocabularies."""

import dataclasses

import chex
import numpy as np
import pytest

from simplex_jax._src.corpus import from_counts
from simplex_jax._src.models import dpm
from simplex_jax._src.models.dpm import families, report, tables, variables
from simplex_jax._src.models.dpm.clusters import assign
from simplex_jax._src.models.dpm.variables import Words

# The rows of test_dpm: three groups, each with two words of its own, and one row without a word.
COUNTS = np.kron(np.eye(3, dtype=int), [4, 3])[np.repeat(np.arange(3), [20, 14, 8])]
COUNTS[-1] = 0
WORDS = tuple("abcdef")
FAMILY = families.multinomial(6)
OPTIONS = {"steps": 150, "eval_every": 5, "initial_clusters": 4, "seed": 2, "keep_samples": 8}


@pytest.fixture(scope="module")
def held_out():
    """A fit of a corpus, of which rows are held out."""
    return dpm.fit(from_counts(COUNTS, WORDS), holdout=6, **OPTIONS)


@pytest.mark.slow
def test_a_corpus_decides_its_law(held_out):
    """The fit is that of its rows, with their numbers, and of the multinomial law."""
    assert held_out.variables == Words(WORDS)
    assert held_out.held_out.sum() == 6
    train = families.multinomial_rows(COUNTS[~held_out.held_out])
    heldout = families.multinomial_rows(COUNTS[held_out.held_out])
    core = dpm.fit(train, FAMILY, heldout=heldout, **OPTIONS)
    chex.assert_trees_all_equal(core.partitions, held_out.partitions)
    chex.assert_trees_all_equal(core.clusters, held_out.clusters)
    assigned = assign(core.clusters.samples, FAMILY, heldout)
    np.testing.assert_array_equal(held_out.proportions[held_out.held_out], assigned.proportions)
    np.testing.assert_array_equal(
        held_out.proportions[~held_out.held_out], core.clusters.proportions
    )
    assert held_out.examples[0][0]["values"] == ["a", "b"]
    facts = {"rows": 42, "empty": 1, "observations": 287, "variables": 1, "values": 6}
    assert facts.items() <= held_out.corpus.items()
    short = dpm.fit(from_counts(COUNTS, WORDS), concentration=2.0, **OPTIONS | {"steps": 1})
    assert short.variables.concentration == short.settings.concentration == 2


@pytest.mark.slow
def test_a_fit_is_saved_and_loaded(held_out, tmp_path):
    place = held_out.save(tmp_path / "run")
    loaded = dpm.load(place)
    every = {field.name for field in dataclasses.fields(dpm.Fit)}
    for name in every - {"state", "traces", "partitions", "clusters", "family", "diagnostics"}:
        ours, theirs = getattr(loaded, name), getattr(held_out, name)
        if isinstance(ours, np.ndarray):
            np.testing.assert_array_equal(ours, theirs)
        elif name != "point":
            assert ours == theirs, name
    chex.assert_trees_all_equal(loaded.clusters, held_out.clusters)
    assert loaded.point._replace(labels=0) == held_out.point._replace(labels=0)
    np.testing.assert_array_equal(loaded.point.labels, held_out.point.labels)
    pages = [one.report(tmp_path / f"{i}.html") for i, one in enumerate((loaded, held_out))]
    assert pages[0].read_text() == pages[1].read_text() == (place / "report.html").read_text()
    with pytest.raises(FileExistsError):
        held_out.save(place)


@pytest.mark.slow
def test_other_rows_are_put_to_the_words_of_the_fit(held_out):
    table = np.array([[3, 2, 0, 0, 0, 0], [0, 0, 0, 0, 4, 4]])
    shares = held_out.transform(table)
    np.testing.assert_array_equal(shares.argmax(axis=1), [0, 2])
    more = np.concatenate([table[:, ::-1], [[7], [7]]], axis=1)
    other = from_counts(more, [*WORDS[::-1], "unknown"])
    np.testing.assert_array_equal(held_out.transform(other), shares)
    with pytest.raises(ValueError, match=r"^the rows .*of counts"):
        held_out.transform({"a": ["x"]})


def test_a_family_of_ones_own_is_not_saved(held_out, tmp_path):
    whole = dataclasses.replace(held_out, variables=None)
    place = held_out.save(tmp_path / "run")
    for write in (
        lambda: whole.save(place, overwrite=True),
        lambda: whole.report(tmp_path / "x.html"),
    ):
        with pytest.raises(ValueError, match=r"custom family .*dpm\.fit"):
            write()
    assert dpm.load(place).samples == held_out.samples, "the earlier run is left as it was"
    table = families.multinomial_rows(COUNTS)
    np.testing.assert_array_equal(
        whole.transform(table), assign(whole.clusters.samples, FAMILY, table).proportions
    )


def test_words_through_json():
    both = Words(("a", "b"), 0.25)
    assert variables.from_json(both._asdict()) == both
    for wrong in ({"vocabulary": []}, {"vocabulary": 1}, {"concentration": -1.0}, {"kind": "x"}):
        with pytest.raises(ValueError, match="variables of"):
            variables.from_json(both._asdict() | wrong)


def test_over_represented_words_weigh_ratio_and_frequency():
    overall = np.array([0.5, 0.4, 0.099, 0.001])
    profile = np.array([[0.2, 0.49, 0.3, 0.01]])
    words = Words(tuple("abcd"))
    (result,) = report.estimates(words, profile, np.full((1, 4), 0.01), overall, 9)
    names = [one.name for one in result]
    assert names == ["c", "b", "d"], "neither the rarest nor the most frequent comes first"


def test_values_leave_the_lines_of_keys_whole(held_out, tmp_path):
    odd = Words(("a\tb", "c\nd", "e\rf", "g\x85h", "i\u2028j", "k\ud800l"))
    tables.write(dataclasses.replace(held_out, variables=odd), tmp_path)
    lines = (tmp_path / "cluster_keys.txt").read_bytes().decode().splitlines()
    assert len(lines) == len(held_out.clusters.sizes)
    assert [len(line.split("\t")) for line in lines] == [3] * len(lines)
    assert lines[0].split("\t")[2].split(", ")[:2] == ["a b", "c d"]


def test_the_report_of_chains_has_a_curve_each(held_out, tmp_path):
    one = {"alpha": 2.0, "num_clusters": 3.0, "largest": 0.5, "log_predictive": -9.0}
    each = {f"{name}_chain_{c}": value + c for name, value in one.items() for c in range(2)}
    fitted = dataclasses.replace(
        held_out,
        metrics=[{"passes": t, "seconds": t / 9} | one | each for t in range(4)],
        settings=dataclasses.replace(held_out.settings, chains=2, loss="binder"),
        variables=Words(("<i>", *WORDS[1:])),
    )
    html = fitted.report(tmp_path).read_text()
    assert html.count("chain 1<") == 3
    assert "in 2 chains" in html
    assert "Binder&#39;s loss" in html
    assert "<i>" not in html
    assert "&lt;i&gt;" in html
