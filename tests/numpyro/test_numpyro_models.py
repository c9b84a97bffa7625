"""The models of the benchmark, small: SCIR and NUTS agree on what is watched.

Means are compared by 20 batches of each chain, with Student's law of 19 degrees of freedom; a chain
that has not mixed makes batches differ, and so the check lenient, never severe.
"""

import importlib

import jax
import numpy as np
import pytest
from scipy import stats
from support.paths import BENCHMARKS
from support.statistics_checks import family

from simplex_jax._src.numpyro import density

pytestmark = pytest.mark.slow

pytest.importorskip("numpyro.infer.gibbs", reason="one of the models needs numpyro 0.22")

SMALL = {
    "dirichlet_multinomial": {"size": 6, "rows": 4},
    "hidden_markov": {"length": 40, "states": 3},
    "factorisation": {"rows": 5, "columns": 4, "factors": 2},
    "hierarchical": {"groups": 3, "size": 4},
    "directions": {"rows": 30, "parts": 3},
}


@pytest.fixture(autouse=True)
def scripts_can_be_imported(monkeypatch, request):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def p_values(one: np.ndarray, other: np.ndarray) -> dict[object, float]:
    """P-values of equal means of two chains, [n, d]."""
    batches = [
        chain[: len(chain) // 20 * 20].reshape(20, -1, chain.shape[1]).mean(axis=1)
        for chain in (one, other)
    ]
    error = np.sqrt(sum(means.var(axis=0, ddof=1) for means in batches) / 20)
    moving = error > 0
    z = (batches[0].mean(axis=0) - batches[1].mean(axis=0))[moving] / error[moving]
    return dict(enumerate(2 * stats.t.sf(np.abs(z), 19)))


def check(example) -> None:
    # Two chunks each, whatever the time: the numbers are those of the seed.
    ours, theirs = importlib.import_module("numpyro_ess").compare(example, 2000, 0, 2000)
    assert not family(p_values(ours.watched, theirs.watched))
    shifted = theirs.watched + theirs.watched.std(axis=0)
    assert family(p_values(ours.watched, shifted))


@pytest.mark.parametrize("name", SMALL)
def test_posteriors_agree(name) -> None:
    models = importlib.import_module("numpyro_models")
    check(getattr(models, name)(**SMALL[name]))


@pytest.mark.parametrize("name", ["NUTS, ILR", "NUTS, softmax", "NUTS, gammas"])
def test_nuts_in_other_coordinates(name) -> None:
    """The law is Dirichlet, and one with half an observation more is told from it."""
    example = importlib.import_module("numpyro_models").dirichlet_multinomial(size=4, rows=2)
    script = importlib.import_module("numpyro_ess")
    p = script.sample(example, script.rivals(example)[name], 500, 0, 4000).watched
    counts = 0.1 + np.asarray(example.args[0]).sum(axis=0)
    right, wrong = (np.random.default_rng(0).dirichlet(a, len(p)) for a in (counts, counts + 0.5))
    assert not family(p_values(p, right))
    assert family(p_values(p, wrong))


def test_other_coordinates_of_log_probabilities() -> None:
    """Of sites in plates, whose concentrations are learned: values of the same shapes."""
    example = importlib.import_module("numpyro_models").hierarchical(groups=2, size=4)
    script = importlib.import_module("numpyro_ess")
    rivals = script.rivals(example)
    assert tuple(rivals) == script.RIVALS
    ours = script.sample(example, example.kernel, 2000, 0, 20_000).watched
    for name in ("NUTS, softmax", "NUTS, gammas"):
        theirs = script.sample(example, rivals[name], 1000, 0, 4000).watched
        assert not family(p_values(ours, theirs))
        assert family(p_values(ours, theirs + 0.5 * theirs.std(axis=0)))


def test_empty_parts_of_a_mixture() -> None:
    """Their law is known; NUTS keeps the first of them at the smallest number there is."""
    example = importlib.import_module("numpyro_models").mixture(rows=60, parts=5)
    script = importlib.import_module("numpyro_ess")
    result = script.sample(example, example.kernel, 500, 0, 4000).watched[:, [0, 3, 4]]
    law = stats.beta(0.05, 60.2)
    z = (result.mean(axis=0) - law.mean()) / (law.std() / len(result) ** 0.5)
    # Draws are all but independent, and have heavy tails.
    assert (np.abs(z) < 4).all()
    assert (np.abs(result.mean(axis=0) - 0.1 / 60.2) > 0.3 * law.mean()).all()


def test_groups_that_can_be_summed_out() -> None:
    """At the size of the benchmark, where NUTS on all groups is not done in any time."""
    models, script = (importlib.import_module(f"numpyro_{name}") for name in ("models", "ess"))
    whole, part = models.hierarchical(), models.hierarchical(summed_out=True)
    ours = script.sample(whole, whole.kernel, 2000, 0, 20_000).watched[:, :21]
    theirs = script.sample(part, part.rival, 500, 0, 2000).watched
    assert not family(p_values(ours, theirs))
    assert family(p_values(ours, theirs + 0.3 * theirs.std(axis=0)))


def test_a_network(shared_data) -> None:
    models = importlib.import_module("numpyro_models")
    links = models.adjacency(shared_data, 100)
    assert (links == links.T).all()
    assert not links.diagonal().any()
    check(models.memberships(shared_data, 20, 2))
    check(models.blocks(shared_data, 12, 3))


@pytest.mark.parametrize("name", ["SCIR", "SGMCMC with SGRLD"])
def test_the_cost_of_a_minibatch_does_not_grow(name, monkeypatch) -> None:
    """The program of 50 rows of 100,000 does what that of 50 of 1,000 does, in as much memory."""
    script = importlib.import_module("numpyro_ess")

    def cost(rows: int, batch: int) -> tuple[float, int]:
        run, _ = script.on_minibatches(name, rows, batch)
        return run.cost_analysis()["flops"], run.memory_analysis().temp_size_in_bytes

    few = cost(1_000, 50)
    assert cost(100_000, 50) == few
    monkeypatch.setattr(
        density.batches,
        "permutation",
        lambda key, places, size: jax.random.permutation(key, size)[places],
    )
    assert cost(100_000, 50) > few
