"""Where chains of a mixture start."""

import itertools
import os

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.cut_runs import Cut, look_after_every_step

from simplex_jax._src.models import dpm
from simplex_jax._src.models.dpm import families, fitting, starts
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.models.dpm.options import Options, of_size
from simplex_jax._src.runtime import devices
from simplex_jax._src.runtime.checkpoint import CheckpointError

# The rows of test_dpm.
COUNTS = np.kron(np.eye(3, dtype=int), [4, 3])[np.repeat(np.arange(3), [20, 14, 8])]
ROWS, FAMILY = families.multinomial_rows(COUNTS), families.multinomial(6)


def groups(seed, sizes, spread):
    """Rows of round clusters in the plane, and their clusters."""
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(len(sizes)) / len(sizes)
    truth = np.repeat(np.arange(len(sizes)), sizes)
    centres = 10 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rows = centres[truth] + spread * rng.normal(size=(len(truth), 2))
    return jnp.asarray(rows, jnp.float32), truth


def family():
    return families.gaussian(np.zeros(2, np.float32), np.eye(2))


def searched(key, family, rows, most):
    raise AssertionError("the start was searched for")


def at_random(key, family, rows, most):
    return jax.random.randint(key, (family_rows.size(rows),), 0, most)


def found_apart(clusters, seed, key):
    """Whether of clusters far from each other few share a label: none of one, at most one pair."""
    rows, truth = groups(seed, [60] * clusters, 0.3)
    # A fresh function: a compiled one would not see what was changed.
    start = jax.jit(lambda *arguments: starts.predictive_labels.__wrapped__(*arguments, 60))
    labels = np.asarray(start(key, family(), rows))
    result = [set(labels[truth == k]) for k in range(clusters)]
    return sum(bool(a & b) for a, b in itertools.combinations(result, 2)) <= 1


@pytest.mark.parametrize("clusters", [1, 4, 9])
def test_clusters_that_are_apart_are_kept_apart(clusters, seed, getkey) -> None:
    """No failure in 150 seeds each, and so at a rate below 3% with a probability of 0.99."""
    assert found_apart(clusters, seed, getkey())


def of_chance(key, number, family, rows, *_):
    labels = jax.random.randint(key, (len(rows),), 0, number)
    return jax.random.normal(key, (len(rows),)), labels, ()


def unmoved(rows, ids):
    """Rows as they are, whose labels are then given to others."""
    return rows[: len(ids)]


MUTANTS = {
    "labels of chance": (starts, "_candidate", of_chance),
    "order": (starts.family_rows, "take", unmoved),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_are_rejected(mutant, seed, getkey, monkeypatch) -> None:
    monkeypatch.setattr(*MUTANTS[mutant])
    assert not found_apart(4, seed, getkey())


def test_rows_that_are_left_out_are_not_learned_from(getkey) -> None:
    rows, _ = groups(0, [50, 50], 0.5)
    key = getkey()
    begin, new = (jnp.zeros(100, jnp.int32), ()), jnp.bool_(True)
    density, labels, _ = starts._candidate(key, jnp.int32(4), family(), rows, 10, begin, new)
    moved = rows.at[80:].add(3.0)
    other, again, _ = starts._candidate(key, jnp.int32(4), family(), moved, 10, begin, new)
    np.testing.assert_array_equal(labels[:80], again[:80])
    np.testing.assert_array_equal(density[:80], other[:80])
    assert (density[80:] != other[80:]).all()


def test_rows_that_are_left_out_have_no_share(getkey) -> None:
    """Also not that of a cluster beyond those tried: 16 fill their block, 10 do not."""
    rows, _ = groups(0, [100], 0.5)
    key, begin = getkey(), (jnp.zeros(100, jnp.int32), ())
    ten, sixteen = (
        starts._candidate(key, jnp.int32(1), family(), rows, most, begin, jnp.bool_(True))[0]
        for most in (10, 16)
    )
    np.testing.assert_allclose(ten, sixteen, atol=0.1)


def test_clusters_are_numbered_by_their_size() -> None:
    labels = fitting._numbered(jnp.array([7, 2, 7, 7, 5, 5]))
    assert labels.tolist() == [0, 2, 0, 0, 1, 1]


def test_rows_beyond_those_compared_choose_too(seed, getkey, monkeypatch) -> None:
    monkeypatch.setattr(starts, "_ROWS", 200)
    rows, truth = groups(seed, [300, 500], 0.3)
    # A fresh function, since the number of rows is a constant of the compiled one.
    start = jax.jit(lambda *arguments: starts.predictive_labels.__wrapped__(*arguments, 30))
    labels = start(getkey(), family(), rows)
    sides = [set(np.unique(np.asarray(labels)[truth == k])) for k in (0, 1)]
    assert labels.shape == (800,)
    assert not sides[0] & sides[1]


def by_number(densities):
    """Candidates whose rows are all in the last cluster, with a density for each number."""

    def candidate(key, number, family, rows, *_):
        density = jnp.zeros(())
        for of, value in densities.items():
            density = jnp.where(number == of, value, density)
        size = len(rows)
        return jnp.full(size, density), jnp.full(size, number - 1, jnp.int32), ()

    return candidate


@pytest.mark.parametrize(
    ("densities", "chosen"),
    [
        ({1: -3.0, 2: -2.0, 4: -1.0, 8: 0.0}, 8),
        ({1: -3.0, 2: -2.0, 4: -1.0, 8: -2.0}, 4),
        ({1: -3.0, 2: -1.0, 4: -2.0, 8: 0.0}, 2),  # 8 is not tried, as 4 is worse than 2,
        ({1: -1.0, 2: -2.0, 4: 0.0, 8: 0.0}, 1),  # nor 4, as 2 is worse than 1
    ],
)
def test_more_clusters_are_tried_where_the_most_are_best(
    densities, chosen, getkey, monkeypatch
) -> None:
    monkeypatch.setattr(starts, "_NUMBERS", (1, 2))
    monkeypatch.setattr(starts, "_MORE", (4, 8))
    monkeypatch.setattr(starts, "_candidate", by_number(densities))
    rows, _ = groups(0, [60], 0.3)
    labels = jax.jit(lambda key: starts.predictive_labels.__wrapped__(key, family(), rows, 8))(
        getkey()
    )
    assert set(labels.tolist()) == {chosen - 1}


def test_eight_clusters_are_found_beyond_two(seed, getkey, monkeypatch) -> None:
    """With candidates of 1, 2, 4 and 8: the last is chosen, and so all were tried."""
    monkeypatch.setattr(starts, "_NUMBERS", (1, 2))
    monkeypatch.setattr(starts, "_MORE", (4, 8))
    rows, _ = groups(seed, [60] * 8, 0.3)
    start = jax.jit(lambda *arguments: starts.predictive_labels.__wrapped__(*arguments, 8))
    assert len(np.unique(start(getkey(), family(), rows))) > 4


@pytest.mark.parametrize("size", [1, 2, 5, 11])
def test_few_rows(size, getkey) -> None:
    rows, _ = groups(0, [size], 1.0)
    most = max(1, size // 5)
    labels = starts.predictive_labels(getkey(), family(), rows, most)
    assert labels.shape == (size,)
    assert ((labels >= 0) & (labels < most)).all()


def test_of_level_partitions_the_one_with_the_most_clusters() -> None:
    noise = np.random.default_rng(0).normal(size=(4, 400))
    densities = noise * 0.1 + np.array([[-5.0], [-3.0], [-3.0], [-4.0]])
    assert starts._chosen(jnp.asarray(densities)) == 2


def test_each_chain_has_a_search_of_its_own(getkey, monkeypatch) -> None:
    monkeypatch.setattr(starts, "predictive_labels", at_random)
    settings = of_size(42, Options(chains=3))
    labels = fitting._start(getkey(), FAMILY, ROWS, settings)
    assert len(np.unique(labels, axis=0)) == 3


def test_chains_start_from_half_to_twice_as_many(getkey, monkeypatch) -> None:
    monkeypatch.setattr(
        fitting.model, "random_labels", lambda key, rows, number: np.array([number])
    )
    for chains, numbers in ((1, [100]), (2, [50, 200]), (3, [50, 100, 200])):
        settings = of_size(600, Options(chains=chains, initial_clusters=100))
        assert fitting._start(getkey(), FAMILY, ROWS, settings).ravel().tolist() == numbers


@pytest.mark.filterwarnings("ignore:the run takes")
def test_a_large_alpha_is_told_where_memory_is_too_small(monkeypatch) -> None:
    monkeypatch.setattr(devices, "memory", lambda: 2**20)
    with pytest.raises(ValueError, match=r"MiB: alpha = 1e\+06 needs some .* sticks: .*--alpha"):
        dpm.fit(ROWS, FAMILY, alpha=1e6, steps=1, initial_clusters=2)


@pytest.mark.slow
def test_a_run_that_is_resumed_does_not_search(tmp_path, monkeypatch) -> None:
    def fit(**options):
        # The search finds more clusters than there is room for: a resumed run begins with less.
        options = {"steps": 20, "eval_every": 5, "capacity": 8, "keep_samples": 5} | options
        return dpm.fit(ROWS, FAMILY, **options)

    monkeypatch.setattr(starts, "predictive_labels", at_random)
    whole = fit()
    assert whole.state.occupancy.shape[-1] > 16
    look_after_every_step(monkeypatch)
    fit(checkpoint=tmp_path, hooks=[Cut(11)])
    monkeypatch.setattr(starts, "predictive_labels", searched)
    with pytest.raises(CheckpointError, match=r"seed is 0 .* 8 "):
        fit(checkpoint=tmp_path, resume=True, seed=8)
    resumed = fit(checkpoint=tmp_path, resume=True)
    for name in ("state", "partitions", "traces"):
        chex.assert_trees_all_equal(getattr(resumed, name), getattr(whole, name))
    for file in tmp_path.glob("*/manifest.json"):
        file.write_text("")
    with (
        pytest.warns(match="is damaged"),
        pytest.raises(CheckpointError, match=r"checkpoints in .* are damaged"),
    ):
        fit(checkpoint=tmp_path, resume=True)


def test_a_run_without_a_checkpoint_yet_searches(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(starts, "predictive_labels", searched)
    (tmp_path / ".000001-step-5.0123abcd.tmp").mkdir()  # what a crash leaves
    (tmp_path / "000001-step-5-copy2").mkdir()  # and a user
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(AssertionError, match="searched for"):
            dpm.fit(ROWS, FAMILY, steps=3, checkpoint=place, resume=True)


class Late:
    """A hook whose last call would be missed."""

    def __call__(self, event):
        pass

    def finish(self, event):
        pass


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"heldout": families.multinomial_rows(np.eye(7, dtype=int))}, ValueError, "category 6"),
        ({"heldout": COUNTS}, ValueError, "must come from multinomial_rows"),
        (
            {"family": FAMILY._replace(simplex=None), "sampler": "scir"},
            ValueError,
            r"^sampler 'scir' ",
        ),
        (
            {"family": FAMILY._replace(log_evidence=None), "split_merge": 1},
            ValueError,
            r"^split_merge .*log_evidence",
        ),
        ({"chains": 10**9}, ValueError, r"TiB of memory .*or fewer chains"),
        ({"capacity": 2 * 10**9}, ValueError, r"GiB of memory .*--capacity"),
        ({"resume": True}, ValueError, r"^checkpoint "),
        ({"hooks": [Late()]}, TypeError, "runtime.Hook"),
        ({"checkpoint": "file"}, CheckpointError, r"^'file' is a file"),
        ({"checkpoint": "file/below"}, CheckpointError, r"^'file' is a file"),
        ({"checkpoint": "file", "resume": True}, CheckpointError, r"^'file' is a file"),
    ],
)
def test_bad_input_is_found_before_the_search(
    options, error, message, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(starts, "predictive_labels", searched)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(error, match=message):
        dpm.fit(ROWS, **({"family": FAMILY, "steps": 3} | options))


def test_so_is_a_directory_that_cannot_be_written_to(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(starts, "predictive_labels", searched)
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)  # root may write
    with pytest.raises(CheckpointError, match=r"^cannot save checkpoints: "):
        dpm.fit(ROWS, FAMILY, steps=3, checkpoint=tmp_path / "run")


@pytest.mark.slow
def test_a_tight_prior_does_not_freeze_the_start() -> None:
    """From 60 random labels without moves a chain does not leave them."""
    rng = np.random.default_rng(1)
    truth = np.repeat(np.arange(5), 60)
    rows = 10 * rng.normal(size=(5, 5))[truth] + rng.normal(size=(300, 5))
    narrow = families.gaussian(np.zeros(5, np.float32), 0.2 * np.eye(5))

    def result(**options):
        fitted = dpm.fit(jnp.asarray(rows, jnp.float32), narrow, passes=40, seed=3, **options)
        labels = fitted.point.labels
        share = sum(np.bincount(labels[truth == k]).max() for k in range(5)) / len(truth)
        return len(np.unique(labels)), share

    clusters, share = result(alpha=1.0)
    assert 5 <= clusters <= 8
    assert share > 0.95
    clusters, share = result(alpha=1.0, initial_clusters=60, split_merge=0)
    assert clusters > 30
    assert share < 0.8


@pytest.mark.slow
def test_a_run_from_a_searched_start_is_resumed(tmp_path, monkeypatch) -> None:
    rows, _ = groups(2, [30, 40], 0.5)
    options = {"alpha": 1.0, "seed": 4, "keep_samples": 5, "steps": 30, "eval_every": 5}
    whole = dpm.fit(rows, family(), chains=2, **options)
    assert whole.settings.initial_clusters is None
    assert not any("of the start" in text for text in whole.warnings)
    look_after_every_step(monkeypatch)
    dpm.fit(rows, family(), chains=2, checkpoint=tmp_path, hooks=[Cut(15)], **options)
    monkeypatch.setattr(starts, "predictive_labels", searched)
    resumed = dpm.fit(rows, family(), chains=2, checkpoint=tmp_path, resume=True, **options)
    np.testing.assert_array_equal(resumed.partitions["labels"], whole.partitions["labels"])
