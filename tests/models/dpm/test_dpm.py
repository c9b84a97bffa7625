"""Fitting mixtures of an unknown number: the summary, chains, growth, resumption, bad input."""

import dataclasses
import signal

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.cut_runs import Cut, look_after_every_step

from simplex_jax._src.base import bind
from simplex_jax._src.corpus import from_counts
from simplex_jax._src.models import dpm, pipeline
from simplex_jax._src.models.dpm import clusters, data, families, fitting, model, starts
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.runtime.checkpoint import CheckpointError

# Three groups of rows, each with two words of its own; one row without a word.
GROUPS = np.repeat(np.arange(3), [20, 14, 8])
COUNTS = np.kron(np.eye(3, dtype=int), [4, 3])[GROUPS]
COUNTS[-1] = 0
ROWS = families.multinomial_rows(COUNTS)
FAMILY = families.multinomial(6)
HELDOUT = families.multinomial_rows(COUNTS[:-1:7])
FAR = np.array([0, 1.7e9]) + np.random.default_rng(0).normal(0, 10, (50, 2))
# Compiling is what these tests cost: few shapes, and those of test_dpm_cli.
OPTIONS = {"steps": 150, "eval_every": 5, "initial_clusters": 4, "seed": 2, "keep_samples": 8}


def fit(rows=ROWS, family=FAMILY, **options):
    return dpm.fit(rows, family, **(OPTIONS | {"heldout": HELDOUT} | options))


def numbers(fitted):
    """A fit without the clock and what arrays cannot hold."""
    clock = ("seconds", "rows_per_second")
    metrics = [{k: v for k, v in one.items() if k not in clock} for one in fitted.metrics]
    point = fitted.point._replace(source=None)
    names = ("clusters", "partitions", "traces", "diagnostics", "state", "proportions")
    names += ("num_clusters_posterior",)
    return {name: getattr(fitted, name) for name in names} | {"metrics": metrics, "point": point}


@pytest.fixture(scope="module")
def whole():
    return fit()


def test_the_summary(whole):
    result = whole.clusters
    assert [set(result.labels[g == GROUPS][:-1]) for g in range(3)] == [{0}, {1}, {2}]
    assert len(result.sizes) == 3
    np.testing.assert_allclose(result.sizes, [20, 14, 8], atol=1.5)
    assert ((result.lower <= result.sizes) & (result.sizes <= result.upper)).all()
    np.testing.assert_allclose(result.present, 1)
    np.testing.assert_allclose(result.proportions[:-1].max(axis=1), 1, atol=0.2)
    assert result.proportions[-1].max() < 1, "the row without a word may be anywhere"
    np.testing.assert_allclose(result.profiles.sum(axis=1), 1, rtol=1e-5)
    best = np.sort(np.argsort(-result.profiles, axis=1)[:, :2], axis=1)
    assert best.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert (result.profiles_sd > 0).all()
    np.testing.assert_allclose(
        result.overall, (COUNTS.sum(0) + 0.5) / (COUNTS.sum() + 3), rtol=1e-5
    )
    assert whole.num_samples == 8
    assert sum(whole.num_clusters_posterior.values()) == pytest.approx(1)
    assert min(whole.num_clusters_posterior) == 3
    assert whole.alpha_sd > 0
    assert whole.point.labels.max() >= 2
    last = whole.metrics[-1]
    assert (last["step"], last["passes"], last["capacity"]) == (150, 150.0, 64)
    assert np.isfinite(last["log_predictive_average"])
    assert last["largest"] == pytest.approx(20 / 42, abs=0.1)
    assert set(whole.traces) == {"alpha", "num_clusters", "largest", "log_predictive"}
    assert whole.partitions["labels"].shape == (8, 1, 42)
    assert "alpha" in whole.diagnostics


@pytest.mark.slow
def test_short_last_blocks_count_as_what_they_are():
    """Two blocks cover 11 rows in a pass, not 20."""
    options = {"passes": 3, "batch_size": 10, "initial_clusters": 2, "seed": 0}
    rows = (np.arange(11) % 2)[:, None]
    fitted = dpm.fit(rows, families.categorical([2]), **options)
    last = fitted.metrics[-1]
    assert (last["step"], last["passes"]) == (6, 3.0)


def test_the_profile_of_a_cluster_is_that_of_its_rows(whole):
    """A check by hand: conditional means, averaged over the partitions that were kept."""
    total = np.zeros(6)
    for labels in whole.partitions["labels"][:, 0]:
        mine = COUNTS[labels == labels[0]].sum(axis=0)
        total += (mine + 0.5) / (mine.sum() + 3) / 8
    np.testing.assert_allclose(whole.clusters.profiles[0], total, rtol=1e-5)


def test_one_chain_is_not_told_that_chains_come_together(whole):
    told = " ".join(fitting.judge(dataclasses.replace(whole, metrics=[]), "dpm.fit(...)"))
    assert "One chain cannot tell" in told
    assert "dpm.fit(...)" in told
    assert "together" not in told


@pytest.mark.parametrize(
    ("rhat", "said", "advice"),
    [
        (None, "agree on their number", None),  # the same in all samples
        (1.01, "agree on their number", None),
        (1.5, "disagree on their number (R-hat 1.50)", "brings the chains together"),
        (np.inf, "disagree on their number (R-hat inf)", "brings the chains together"),
        (np.nan, "too short to tell", "tells whether the chains agree"),
    ],
)
def test_what_is_said_of_two_chains(rhat, said, advice, whole):
    settings = dataclasses.replace(whole.settings, chains=2)
    found = {} if rhat is None else {"num_clusters": {"rhat": rhat, "ess": 20.0}}
    two = dataclasses.replace(whole, settings=settings, diagnostics=found, ended="goal")
    _, of_number, *longer = fitting.judge(two, "dpm.fit(...)")
    assert f"The chains are {said}" in of_number or f"The chains {said}" in of_number
    assert longer == ([] if advice is None else [f"A longer run {advice}: dpm.fit(...)"])


def test_new_rows(whole):
    new = families.multinomial_rows([[3, 2, 0, 0, 0, 0], [0, 0, 0, 0, 4, 4], [0] * 6])
    samples = whole.clusters.samples
    result = clusters.assign(samples, FAMILY, new)
    assert clusters.most_probable(result.proportions)[:2].tolist() == [0, 2]
    assert (result.proportions.sum(axis=1) + result.new <= 1 + 1e-5).all()
    np.testing.assert_allclose(result.log_predictive[2], 0, atol=1e-5)
    assert result.log_densities.shape == (8, 3)
    np.testing.assert_allclose(result.proportions[2], np.array([20, 14, 8]) / 43, atol=0.15)
    parts = clusters.assign(samples, FAMILY, new, shard=2)
    np.testing.assert_allclose(parts.proportions, result.proportions, atol=1e-6)
    np.testing.assert_allclose(parts.log_densities, result.log_densities, atol=1e-5)
    known = clusters.assign(samples, FAMILY, ROWS)
    assert np.abs(known.proportions[:-1] - whole.clusters.proportions[:-1]).mean() < 0.05
    with pytest.raises(ValueError, match="category 6"):
        clusters.assign(samples, FAMILY, families.multinomial_rows(np.eye(7, dtype=int)))


@pytest.mark.parametrize("step", [1, 77, 114])
def test_an_interrupted_run_ends_as_the_whole_one(step, whole, tmp_path, monkeypatch):
    look_after_every_step(monkeypatch)
    cut = fit(checkpoint=tmp_path, hooks=[Cut(step)])
    assert cut.state.step == step
    resumed = fit(checkpoint=tmp_path, resume=True)
    chex.assert_trees_all_equal(numbers(resumed), numbers(whole))


def test_a_signal_ends_a_run_with_a_summary(tmp_path, monkeypatch, capfd):
    look_after_every_step(monkeypatch)
    cut = fit(checkpoint=tmp_path, hooks=[Cut(5, signal.SIGINT)])
    assert cut.interrupted is signal.SIGINT
    assert cut.num_samples == 3
    assert 36 < cut.clusters.sizes.sum() <= 42  # but for clusters that come and go
    assert cut.warnings[-1] == pipeline.INTERRUPTED
    with pytest.raises(CheckpointError, match=r"seed is 2 .* 8"):
        fit(checkpoint=tmp_path, resume=True, seed=8)


def test_a_run_goes_on_with_its_own_rows_only(tmp_path, monkeypatch):
    look_after_every_step(monkeypatch)
    fit(checkpoint=tmp_path, hooks=[Cut(5)])
    swapped = COUNTS.copy()
    swapped[[0, -2]] = swapped[[-2, 0]]
    for other in (
        {"rows": families.multinomial_rows(swapped)},
        {"family": families.multinomial(6, 0.4)},
        {"heldout": families.multinomial_rows(COUNTS[:5])},
    ):
        with pytest.raises(CheckpointError, match=r"(data|heldout) is .* in the checkpoint"):
            fit(checkpoint=tmp_path, resume=True, **other)


@pytest.mark.slow
def test_a_run_that_grows_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    # A large concentration asks for more than 16 sticks, with which a run would begin.
    monkeypatch.setattr(
        fitting, "expected_sticks", lambda settings, rows, clusters: settings.capacity
    )
    options = {"alpha": 15.0, "steps": 12, "capacity": 16}
    grown = fit(**options)
    assert grown.state.occupancy.shape[-1] > 16
    assert (grown.alpha, grown.alpha_sd) == (15.0, 0.0)
    assert grown.metrics[-1]["capacity"] == grown.state.occupancy.shape[-1]
    look_after_every_step(monkeypatch)
    fit(checkpoint=tmp_path, hooks=[Cut(10)], **options)
    resumed = fit(checkpoint=tmp_path, resume=True, **options)
    chex.assert_trees_all_equal(numbers(resumed), numbers(grown))


def test_as_many_partitions_are_kept_as_asked_for():
    """However rare the evaluations are."""
    kept = fit(eval_every=75, keep_samples=60).partitions["step"]
    assert len(kept) == 60
    assert kept[0] >= 75


def test_few_kept_partitions_are_said_to_be_few(whole):
    few = dataclasses.replace(whole, num_samples=2)
    assert any("keep_samples" in sentence for sentence in fitting.warn(few))


@pytest.mark.slow
def test_chains():
    fitted = fit(chains=2, steps=40, keep_samples=3)
    assert fitted.num_samples == 6
    assert fitted.partitions["labels"].shape == (3, 2, 42)
    assert fitted.traces["alpha"].shape[1] == 2
    last = fitted.metrics[-1]
    assert {"log_predictive_chain_0", "log_predictive_chain_1", "alpha_chain_1"} <= set(last)
    assert len(fitted.clusters.samples.membership) == 6
    np.testing.assert_allclose(fitted.clusters.proportions.sum(axis=1), 1, atol=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"sampler": "scir", "counts": "subsampled", "batch_size": 20},
        {"loss": "binder", "alpha": 1.0},
        {"split_merge": 2},
    ],
    ids=["subsampled scir", "loss", "split-merge"],
)
def test_samplers(options):
    fitted = fit(**(options | {"steps": 9}))
    assert np.isfinite(fitted.metrics[-1]["log_predictive"])
    assert fitted.clusters.sizes.sum() <= 42 + 1e-6


@pytest.mark.slow
def test_categories_with_missing_values_and_rows_alike():
    values = {"a": ["x", "y"], "b": ["u", "v"], "c": ["r", "p", "q"]}
    table = {name: np.repeat(own[:2], 15).astype(object) for name, own in values.items()}
    for column in table.values():
        column[0] = None
    table["b"][16], table["c"][29] = None, "q"
    fitted = dpm.fit(table, **OPTIONS)
    found = fitted.variables
    labels, flat = fitted.clusters.labels, found.flat(fitted.clusters.profiles)
    assert flat.shape == (len(fitted.clusters.sizes), 7)
    assert labels[1] != labels[-1]
    first = flat[labels[1]]
    assert [found.items[i] for i in np.flatnonzero(first > 0.5)] == ["a=x", "b=u", "c=r"]
    chex.assert_trees_all_close(found.tree(flat), fitted.clusters.profiles)
    cells = found.table(table)
    assert found.of_row(cells, 16) == ["a=y", "c=p"]
    some = {"c": ["r", "q", "new"], "more": [1, 2, 3], "b": [None, "v", "u"], "a": ["x", None, "y"]}
    codes = [[0, -1, 2], [-1, 1, 1], [1, 0, -1]]
    np.testing.assert_array_equal(fitted.transform(some), fitted.transform(codes))
    with pytest.raises(ValueError, match="no column 'b'"):
        fitted.transform({"a": ["x"], "c": ["p"]})

    alike = dpm.fit(found.rows(np.ones((30, 3))), found.family(), **OPTIONS)
    assert alike.clusters.sizes[0] > 20
    assert (alike.clusters.labels == 0).all()


@pytest.mark.slow
def test_one_row():
    rows = families.multinomial_rows([[0, 2]])
    one = dpm.fit(rows, families.multinomial(2), steps=9, heldout=rows)
    assert one.clusters.sizes.tolist() == [1.0]
    assert one.num_clusters_posterior == {1: 1.0}
    assert np.isfinite(one.metrics[-1]["log_predictive_average"])


@pytest.mark.slow
def test_a_family_without_simplex():
    rows = np.random.default_rng(0).normal(size=(30, 2)) + 9 * (np.arange(30) % 2)[:, None]
    rows = rows.astype(np.float32)
    family = families.gaussian(rows.mean(axis=0), np.eye(2))
    fitted = dpm.fit(rows, family, **OPTIONS)
    assert (np.abs(fitted.clusters.sizes[:2] - 15) < 4).all()  # Means over few samples.
    assert fitted.clusters.labels[::2].max() != fitted.clusters.labels[1::2].max()
    leaves = jax.tree.leaves(fitted.clusters.profiles)
    assert all(np.isfinite(leaf).all() for leaf in leaves)


def trace_update(family, rows=ROWS):
    """Trace a first state and an update with split-merge moves."""
    labels = jax.ShapeDtypeStruct((family_rows.size(rows),), jnp.int32)
    kernel, _ = model.build(rows, family, split_merge=1)
    state = jax.eval_shape(kernel.init, jax.random.key(0), labels)
    return jax.eval_shape(kernel.update, jax.random.key(1), state, labels)


def test_a_family_of_ones_own_may_draw_by_any_function_of_jax():
    """`jax.random.poisson` takes keys of JAX's own implementation only."""

    def draw(own, key, statistics):
        key_noise, key = jax.random.split(key)
        shift = 0 * jax.random.poisson(key_noise, 1.0)
        return jax.tree.map(lambda leaf: leaf + shift, own(key, statistics))

    family = FAMILY._replace(draw=bind(draw, FAMILY.draw))
    key = jax.random.key(0)
    labels = jax.eval_shape(
        lambda key: starts.predictive_labels.__wrapped__(key, family, ROWS, 4), key
    )
    assert labels.shape == (42,)
    assert trace_update(family)[0].labels.shape == (42,)


def test_a_family_of_plain_functions():
    family = families.Family(
        draw=lambda key, sums: jax.random.normal(key, sums.shape),
        statistics=lambda x, labels, k: jnp.zeros((k, 1)).at[labels].add(x, mode="drop"),
        log_likelihood=lambda x, atoms: -0.5 * (x - atoms.T) ** 2,
        log_predictive=lambda x: -0.25 * x[:, 0] ** 2,
        log_evidence=lambda sums, given=None: -sums[:, 0],
        check=lambda x: None,
    )
    rows = np.ones((5, 1), np.float32)
    assert len(data.digest(data.as_data(data.Given(rows, family)))) == 64
    assert trace_update(family, rows)[0].labels.shape == (5,)
    log_weights = np.log([[0.75]])
    mixtures = model.Mixture(
        jnp.array(log_weights), jnp.log(jnp.array([0.25])), jnp.ones((1, 1, 1))
    )
    samples = clusters.Samples(mixtures, np.ones((1, 1, 1), np.float32))
    share = 0.75 / (0.75 + 0.25 * np.exp(-0.25))
    np.testing.assert_allclose(clusters.assign(samples, family, rows).proportions, share, rtol=1e-6)
    other = family._replace(log_predictive=lambda x: -0.2 * x[:, 0] ** 2)
    with pytest.raises(ValueError, match=r"members\[1\] .*\[0\]"):
        families.one_of([family, other])


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (ROWS, {"alpha": -1.0}, r"^alpha .*-1\.0$"),
        (ROWS, {"alpha": "sample"}, r"^alpha .*'sample'$"),
        (ROWS, {"alpha_prior": (1.0, 0.0)}, r"^alpha_prior .*0\.0$"),
        (ROWS, {"alpha_prior": 2.0}, r"^alpha_prior .*2\.0$"),
        (ROWS, {"sampler": "hmc"}, r"^sampler .*'hmc'$"),
        (ROWS, {"counts": "all"}, r"^counts .*'all'$"),
        (ROWS, {"loss": "vi2"}, r"^loss .*'vi2'$"),
        (ROWS, {"batch_size": 43}, r"^batch_size .* 42 rows"),
        (ROWS, {"batch_size": 0}, "batch_size"),
        (ROWS, {"sampler": "scir", "split_merge": 1}, "split_merge needs the exact"),
        (ROWS, {"sampler": "scir", "atom_step_size": -1.0}, "step_size"),
        (ROWS, {"sampler": "scir", "stick_step_size": lambda step: 0.1}, r"^stick_step_size "),
        (ROWS, {"atom_step_size": 0.1}, r"^atom_step_size .*exact"),
        (ROWS, {"alpha": 1.0, "alpha_prior": (1, 1)}, r"^alpha_prior .*fixed alpha"),
        (ROWS, {"concentration": 1.0}, r"^concentration "),
        (ROWS, {"family": None}, "need a family"),
        (ROWS, {"family": "multinomial"}, r"^family .*'multinomial'$"),
        (from_counts(COUNTS), {}, r"^a corpus .*family"),
        (ROWS, {"passes": 1, "steps": 2}, "passes, steps"),
        (ROWS, {"keep_samples": 0}, "keep_samples"),
        (ROWS, {"seed": -1}, "seed"),
        (families.multinomial_rows(np.eye(7, dtype=int)), {}, "category 6"),
        (np.zeros((3, 6)), {}, "multinomial_rows"),
        (FAR, {"family": families.diagonal_gaussian_of(FAR)}, r"column 1 .*1\.7e\+09 .*subtract"),
        (
            {"x": FAR},
            {"family": families.product({"x": families.gaussian(FAR.mean(axis=0), np.eye(2))})},
            r"^column 1 .* 1\.7e\+09 .*float32 ",
        ),
    ],
)
def test_bad_input_is_one_clear_error(rows, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        dpm.fit(rows, **({"family": FAMILY} | options))
    assert "\n" not in str(caught.value)


def test_there_is_no_directory_for_partitions():
    with pytest.raises(TypeError, match="unexpected keyword argument 'samples_dir'"):
        dpm.fit(ROWS, FAMILY, samples_dir="x")


@pytest.mark.parametrize(
    ("codes", "message"),
    [([[0, 2]], r"rows\[0, 1\] is 2"), ([[0.5, 0.0]], "is 0.5"), ([[0, -2]], "is -2")],
)
def test_categories_out_of_range(codes, message):
    with pytest.raises(ValueError, match=message):
        dpm.fit(np.array(codes), families.categorical([2, 2]))


def test_clusters_are_matched_by_their_rows():
    """Samples that number the same clusters otherwise, and one that lacks the smallest."""
    one = np.repeat([0, 1, 2], [20, 14, 8])
    sampled = np.stack([one, np.array([2, 0, 1])[one], np.minimum(one, 1), one])
    key = jax.random.key(0)
    result = clusters.summarise(key, FAMILY, ROWS, sampled, np.ones(4, np.float32))
    np.testing.assert_allclose(result.sizes, [20, (14 * 3 + 22) / 4, 6])
    np.testing.assert_allclose(result.present, [1, 1, 0.75])
    assert result.labels.tolist() == one.tolist()
    np.testing.assert_allclose(result.confusion[2], [0, 0.25, 0.75])
    assert (result.lower[2], result.upper[2]) == pytest.approx((0.6, 8.0), abs=0.7)
    last = clusters.summarise(key, FAMILY, ROWS, sampled[:1], np.ones(1, np.float32))
    assert np.isnan(last.profiles_sd).all()


def test_singletons_of_the_reference_are_left_out():
    base = np.zeros(42, int)
    odd = base.copy()
    odd[3] = 1
    sampled = np.stack([odd] * 1 + [base] * 3)
    result = clusters.summarise(jax.random.key(0), FAMILY, ROWS, sampled, np.ones(4, np.float32))
    assert len(result.sizes) == 1


def test_a_cluster_that_comes_and_goes_and_has_no_row_is_left_out():
    """Every sample has a third cluster of 8 of 800 rows, of which the others know nothing."""
    base = np.repeat([0, 1], [500, 300])
    rows = families.multinomial_rows(np.repeat(COUNTS[[0, 25]], [500, 300], axis=0))
    passing, staying = np.stack([base] * 5), np.stack([base] * 5)
    for sample in range(5):
        passing[sample, 8 * sample : 8 * sample + 8] = 2
        staying[sample, :8] = 2
    key, alpha = jax.random.key(0), np.ones(5, np.float32)
    assert len(clusters.summarise(key, FAMILY, rows, passing, alpha).sizes) == 2
    assert len(clusters.summarise(key, FAMILY, rows, staying, alpha).sizes) == 3


def test_warnings():
    fell = [{"log_predictive": -1.0}, {"log_predictive": -2.0}]
    fall, single, others = fitting.mixture_warnings(fell, [10.0], [1.0], 20)
    assert "did not rise" in fall
    assert "one cluster" in single
    # The sample that is shown has one cluster, and the partition that labels are from has three.
    assert len(fitting.mixture_warnings(fell, [10.0], [1.0], 20, partition=3)) == 2
    assert "50%" in others
    level = [{"log_predictive": -1.234}, {"log_predictive": -1.235}]
    assert not fitting.mixture_warnings(level, [9, 9], [1, 1], 18)
    still = [{"num_clusters_chain_0": 20.0, "num_clusters_chain_1": 12.0}] * 4
    (stuck,) = fitting.mixture_warnings(still, [9, 9], [1, 1], 18, starts=[20, 40])
    assert "the start (20)" in stuck
    assert "failed" in fitting.mixture_warnings([{"log_predictive": np.nan}], [9], [1], 9)[0]
    noisy = [{"log_predictive": value} for value in [-8.0, -8.2, -7.9, -8.1] * 10]
    assert not fitting.mixture_warnings(noisy, [9, 9], [1, 1], 18)
