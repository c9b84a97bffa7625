"""Samples as ArviZ has them, and ArviZ's numbers of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax._src import base, batches, estimators
from simplex_jax._src.evaluate import diagnostics, exports, fits
from simplex_jax._src.models import hdp, lda
from simplex_jax._src.runtime.driver import run
from simplex_jax._src.samplers import scir
from simplex_jax.sklearn import LDA, DirichletProcessMixture, HierarchicalDirichletProcess

pytest.importorskip("arviz_base")


@pytest.fixture
def traced(getkey):
    """Four chains of SCIR, 200 steps each, with their infos."""
    one = scir.build(estimators.categorical(size=4), alpha=0.5, step_size=1.0)
    kernel = base.chains(one, 4)
    state = kernel.init(getkey(), jnp.ones(3))
    stream = batches.full(jnp.array([0, 0, 1, 2]))
    both = {"collect": lambda state, info: (state.position, info)}
    return run(getkey(), kernel, state, stream, 200, **both)[1]


def test_a_run_of_chains(traced):
    positions, info = traced
    tree = exports.run_to_arviz(
        positions, info, chains=True, dims={"position": ["colour"]}, coords={"colour": list("rgb")}
    )
    result = tree["posterior"]["position"]
    assert result.dims == ("chain", "draw", "colour")
    np.testing.assert_array_equal(result.sel(chain=2, draw=17, colour="g"), positions[17, 2, 1])
    assert set(tree["sample_stats"].data_vars) == {*info._fields}
    np.testing.assert_array_equal(tree["sample_stats"]["smallest"][1], info.smallest[:, 1])


def test_rank_normalised_diagnostics_are_those_of_arviz(traced):
    """Of the tree by ArviZ's accessor-free functions, and ours of the plain array."""
    from arviz_stats.base import array_stats

    positions, _ = traced
    values = exports.run_to_arviz(positions, chains=True)["posterior"]["position"].values
    ours = diagnostics.summary({str(j): positions[:, :, j].T for j in range(3)})
    for j in range(3):
        rhat = array_stats.rhat(values[:, :, j], chain_axis=0, draw_axis=1)
        ess = array_stats.ess(values[:, :, j], chain_axis=0, draw_axis=1)
        assert ours[str(j)] == pytest.approx({"rhat": float(rhat), "ess": float(ess)}, rel=1e-6)


def test_names_are_paths_and_a_single_chain_gets_an_axis():
    trace = {"weights": np.zeros((6, 2)), "atoms": [np.zeros(6), np.ones((6, 2, 3))]}
    tree = exports.run_to_arviz(trace)
    assert {name: tuple(array.shape) for name, array in tree["posterior"].data_vars.items()} == {
        "weights": (1, 6, 2),
        "atoms.0": (1, 6),
        "atoms.1": (1, 6, 2, 3),
    }


def kept_fit(chains=2):
    """Three samples of each chain, whose topics are numbered the other way round in the second."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.ones(4), size=(3, chains, 2))
    steps = np.array([5, 10, 15])
    metrics = [
        {"step": step, "perplexity": 9.0, **{f"perplexity_chain_{c}": step + c for c in range(2)}}
        for step in range(1, 16)
    ]
    kept = {
        "topics": topics,
        "alpha": np.arange(12.0)[: 6 * chains].reshape(3, chains, 2),
        "beta": np.ones((3, chains, 4)),
        "step": steps,
    }
    order = np.array([[0, 1], [1, 0]])[:chains]
    return fits.Topics(topics.mean(axis=(0, 1)), metrics, kept, order)


def test_a_fit_with_its_topics_matched():
    fitted = kept_fit()
    tree = exports.to_arviz(fitted, ["a", "b", "c", "d"])
    posterior, stats = tree["posterior"], tree["sample_stats"]
    assert posterior["topics"].dims == ("chain", "draw", "topic", "word")
    np.testing.assert_array_equal(posterior["topics"][0, 2], fitted.samples["topics"][2, 0])
    np.testing.assert_array_equal(posterior["topics"][1, 2], fitted.samples["topics"][2, 1][::-1])
    np.testing.assert_array_equal(posterior["alpha"][1, 0], fitted.samples["alpha"][0, 1][::-1])
    assert posterior["beta"].dims == ("chain", "draw", "word")
    np.testing.assert_array_equal(stats["step"], [[5, 10, 15]] * 2)
    np.testing.assert_array_equal(stats["perplexity"], [[5, 10, 15], [6, 11, 16]])


def test_a_fit_of_one_chain_and_without_held_out_documents():
    fitted = kept_fit(chains=1)
    assert exports.to_arviz(fitted)["sample_stats"]["perplexity"].shape == (1, 3)
    bare = fitted._replace(metrics=[])
    assert set(exports.to_arviz(bare)["sample_stats"].data_vars) == {"step"}


def test_a_spherical_fit_has_scalar_concentrations():
    fitted = kept_fit()
    kept = {"topics": fitted.samples["topics"], "sigma": np.ones((3, 2)), "step": np.arange(3)}
    metrics = [{"step": i, "log_perplexity_chain_0": -1.0} for i in range(3)]
    tree = exports.to_arviz(fitted._replace(samples=kept, metrics=metrics))
    assert tree["posterior"]["sigma"].dims == ("chain", "draw")
    assert np.isnan(tree["sample_stats"]["log_perplexity"][1]).all()


def kept_mixture():
    """Six evaluations of two chains, after which two partitions of three rows are kept."""
    traces = {"alpha": np.arange(12.0).reshape(6, 2), "occupied": np.full((6, 2), 3.0)}
    labels = np.arange(12).reshape(2, 2, 3)
    partitions = {"labels": labels, "alpha": np.ones((2, 2)), "step": np.array([10, 20])}
    return fits.Mixture(traces, partitions)


def test_a_mixture_has_its_traces_and_apart_from_them_its_partitions():
    fitted = kept_mixture()
    tree = exports.to_arviz(fitted)
    np.testing.assert_array_equal(tree["posterior"]["alpha"], fitted.traces["alpha"].T)
    result = tree["partitions"]
    assert result["labels"].dims == ("chain", "draw", "row")
    np.testing.assert_array_equal(result["labels"][1, 0], [3, 4, 5])
    np.testing.assert_array_equal(result["step"], [[10, 20]] * 2)


def test_what_is_measured_at_evaluations_is_apart_from_the_traces_of_samples():
    """Side by side, the third evaluation would be at the third of six samples, and others NaN."""
    fitted = kept_mixture()
    fitted.traces["log_predictive"] = np.array([[-1.0, -2.0], [-3.0, -4.0], [-5.0, -6.0]])
    tree = exports.to_arviz(fitted)
    assert set(tree["posterior"].data_vars) == {"alpha", "occupied"}
    result = tree["sample_stats"]["log_predictive"]
    np.testing.assert_array_equal(result, fitted.traces["log_predictive"].T)
    fitted.traces["log_predictive"] = np.zeros((0, 2))  # it ended before its second half
    assert "sample_stats" not in exports.to_arviz(fitted).children


def test_a_mixture_that_was_interrupted_early_has_a_partition_without_a_step():
    fitted = kept_mixture()
    del fitted.partitions["step"]
    assert set(exports.to_arviz(fitted)["partitions"].data_vars) == {"labels", "alpha"}


@pytest.mark.slow
def test_a_fit_of_hdp_has_its_traces_and_the_topics_of_its_tokens():
    counts = sp.csr_array([[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 8, 9]])
    fitted = hdp.fit(counts, passes=8, chains=2, keep_samples=3, seed=1)
    tree = exports.to_arviz(fitted)
    np.testing.assert_array_equal(tree["posterior"]["gamma"], fitted.traces["gamma"].T)
    partitions = tree["partitions"]
    assert partitions["labels"].dims == ("chain", "draw", "token")
    assert partitions["labels"].shape == (2, 3, counts.sum())
    assert partitions["concentrations"].dims == ("chain", "draw", "label")
    np.testing.assert_array_equal(partitions["labels"][1, 2], fitted.partitions["labels"][2, 1])
    estimator = HierarchicalDirichletProcess(passes=8, keep_samples=3, random_state=1)
    labels = exports.to_arviz(estimator.fit(counts))["partitions"]["labels"]
    assert (labels.dims, labels.shape) == (("chain", "draw", "token"), (2, 3, counts.sum()))


def test_samples_of_topics_need_their_order_in_each_chain():
    chains = kept_fit().samples["topics"].shape[1]
    with pytest.raises(ValueError, match=f"^order .* {chains} chains"):
        exports.to_arviz(kept_fit()._replace(order=()))


def test_the_words_are_those_of_the_fit_or_those_given():
    fitted = kept_fit()._replace(vocabulary=list("abcd"))
    for tree in (exports.to_arviz(fitted), exports.to_arviz(kept_fit(), list("abcd"))):
        shown = tree["posterior"]["topics"].sel(word="c")
        np.testing.assert_array_equal(shown, kept_topics(fitted)[..., 2])
    assert exports.to_arviz(fitted, list("wxyz"))["posterior"]["word"].values[0] == "w"


@pytest.mark.slow
def test_estimators_say_what_their_fit_was():
    counts, words = [[3, 0, 1], [0, 4, 0]] * 4, ["oak", "sun", "elm"]
    frame = pytest.importorskip("pandas").DataFrame(counts, columns=words)
    tree = exports.to_arviz(LDA(2, passes=4, keep_samples=2, random_state=0).fit(frame))
    assert tree["posterior"]["topics"].sel(word="elm").shape == (1, 2, 2)
    mixture = DirichletProcessMixture("gaussian", passes=20, keep_samples=2, random_state=0)
    tree = exports.to_arviz(mixture.fit(np.random.default_rng(0).normal(size=(10, 2))))
    assert tree["partitions"]["labels"].shape == (1, 2, 10)


def kept_topics(fitted):
    return exports.to_arviz(fitted)["posterior"]["topics"].values


def test_errors():
    with pytest.raises(ValueError, match="keep_samples"):
        exports.to_arviz(fits.Topics(np.eye(2)))
    with pytest.raises(ValueError, match="keep_samples"):
        exports.to_arviz(fits.Mixture({}, {}))
    with pytest.raises(ValueError, match=r"\[draws, chains"):
        exports.run_to_arviz(np.zeros(5), chains=True)
    with pytest.raises(ValueError, match="leaves"):
        exports.run_to_arviz({"a": np.zeros(5), "b": np.zeros(6)})
    with pytest.raises(ValueError, match=r"^dims .* w, .* position$"):
        exports.run_to_arviz(np.zeros((5, 2)), dims={"w": ["colour"]})


def test_without_arviz_base_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "arviz_base", None)
    with pytest.raises(ImportError, match=r"arviz_base: pip install 'simplex-jax\[arviz\]'"):
        exports.run_to_arviz(np.zeros(5))


@pytest.mark.slow
def test_a_real_fit():
    counts = sp.csr_array([[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 8, 9]])
    fitted = lda.fit(
        counts, 2, passes=40, chains=2, keep_samples=5, heldout=(counts, counts), eval_every=1
    )
    tree = exports.to_arviz(fitted)
    means = tree["posterior"]["topics"].mean(["chain", "draw"]).values
    assert np.abs(means - fitted.topics).max() < 0.1
    assert np.isfinite(tree["sample_stats"]["perplexity"]).all()
    jax.block_until_ready(fitted.state)
