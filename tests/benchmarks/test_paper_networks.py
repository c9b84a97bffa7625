"""The models of the experiments that the SCIR paper names and does not show.

Counts are compared with enumeration, and means over batches with the counts of all data; what the
scripts measure is compared with laws that are known.
"""

import importlib
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from support import statistics_checks as checks
from support.paths import BENCHMARKS
from test_papers import run


@pytest.fixture(autouse=True)
def scripts_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS / "papers"))


def small_network(networks):
    """Ten nodes, some pairs of which are held out, and a point of the model."""
    network, other = networks.split(networks.drawn_network(1, 10), 0)
    generator = np.random.default_rng(2)
    pi = generator.dirichlet(np.full(3, 0.5), 10)
    beta = generator.beta(2, 2, 3)
    parts = (pi, np.stack([beta, 1 - beta], axis=1))
    return network, other, networks.Params(*(jnp.log(jnp.asarray(p, jnp.float32)) for p in parts))


def enumerated(networks, network, params):
    """Expected counts of all pairs, by all labels of each: [N, K] and [K, 2]."""
    pi, beta = np.exp(np.asarray(params.pi)), np.exp(np.asarray(params.beta[:, 0]))
    status = np.asarray(network.status)
    size, kinds = pi.shape
    nodes, strengths = np.zeros((size, kinds)), np.zeros((kinds, 2))
    for i, j in itertools.combinations(range(size), 2):
        if status[i, j] == networks.HIDDEN:
            continue
        linked = status[i, j] == networks.LINKED
        joint = np.zeros((kinds, kinds))
        for k, m in itertools.product(range(kinds), repeat=2):
            rate = beta[k] if k == m else networks.EPSILON
            joint[k, m] = pi[i, k] * pi[j, m] * (rate if linked else 1 - rate)
        joint /= joint.sum()
        nodes[i] += joint.sum(axis=1)
        nodes[j] += joint.sum(axis=0)
        strengths[:, 0 if linked else 1] += np.diag(joint)
    return nodes, strengths


def test_counts_of_a_network_are_those_of_all_labels():
    networks = importlib.import_module("scir_networks")
    network, _, params = small_network(networks)
    nodes, strengths = enumerated(networks, network, params)
    pairs = networks.pairs_of(jax.random.key(0), jnp.arange(10), network, None)
    result = networks.membership_counts(jnp.exp(params.pi), params, pairs)
    np.testing.assert_allclose(result, nodes, rtol=1e-4)
    np.testing.assert_allclose(networks.strength_counts(params, pairs), strengths, rtol=1e-4)
    # Held-out pairs are scored, and in no count.
    assert set(np.asarray(network.status)[tuple(np.asarray(network.pairs).T)]) == {networks.HIDDEN}


@pytest.mark.slow
def test_an_update_moves_the_nodes_of_its_batch_alone():
    networks = importlib.import_module("scir_networks")
    network, _, params = small_network(networks)
    for method in networks.METHODS.values():
        options = {"build": method.build, "updates": 1, "nodes": 4, "others": 3, "every": 1}
        *_, end = networks.sampled(jax.random.key(0), network, params, 0.1, 1.0, **options)
        moved = np.abs(np.asarray(end.pi - params.pi)).max(axis=1) > 1e-4
        assert moved.sum() == 4
        np.testing.assert_allclose(jnp.exp(end.pi).sum(axis=1), 1, rtol=1e-5)
        assert np.abs(np.asarray(end.beta - params.beta)).max(axis=1).min() > 1e-4


def test_counts_of_batches_of_nodes_are_unbiased(seed):
    """Rate 1e-3 over all counts; those that forget to halve pairs are rejected."""
    networks = importlib.import_module("scir_networks")
    network, _, params = small_network(networks)
    nodes, strengths = enumerated(networks, network, params)

    def batch(key):
        key_nodes, key_pairs = jax.random.split(key)
        ids = jax.random.permutation(key_nodes, 10)[:4]
        pairs = networks.pairs_of(key_pairs, ids, network, 3)
        own = networks.membership_counts(jnp.exp(params.pi)[ids], params, pairs)
        whole = jnp.full((10, 3), jnp.nan).at[ids].set(own)
        return whole, networks.strength_counts(params, pairs)

    keys = jax.random.split(jax.random.key(seed), 20_000)
    whole, pairs = (np.asarray(leaf, float) for leaf in jax.jit(jax.vmap(batch))(keys))

    def rejected(scale):
        z = {}
        for i, k in np.ndindex(10, 3):
            drawn = whole[:, i, k][np.isfinite(whole[:, i, k])]
            z[i, k] = checks.mean_z(drawn, nodes[i, k], drawn.var())
        for k, y in np.ndindex(3, 2):
            drawn = scale * pairs[:, k, y]
            z["pairs", k, y] = checks.mean_z(drawn, strengths[k, y], drawn.var())
        return checks.family(z)

    assert not rejected(1)
    assert rejected(2)


def test_drawn_labels_of_a_network_have_the_expected_counts(seed):
    networks = importlib.import_module("scir_networks")
    network, _, params = small_network(networks)
    nodes, strengths = enumerated(networks, network, params)
    keys = jax.random.split(jax.random.key(seed), 4000)
    drawn = jax.jit(jax.vmap(lambda key: networks.drawn_counts(key, params, network)))(keys)
    z = {}
    for name, leaf, expected in zip("nk", drawn, (nodes, strengths), strict=True):
        values = np.asarray(leaf, float)
        for index in np.ndindex(*expected.shape):
            column = values[:, *index]
            z[name, index] = checks.mean_z(column, expected[index], column.var() + 1e-6)
    assert not checks.family(z)


def point_of_a_chain(hmm):
    generator = np.random.default_rng(3)
    rows = {"transitions": (3, 3), "symbols": (3, 4)}
    laws = {name: generator.dirichlet(np.full(shape[1], 0.5), 3) for name, shape in rows.items()}
    symbols = generator.integers(0, 4, 6).astype(np.int32)
    return {k: jnp.log(jnp.asarray(v, jnp.float32)) for k, v in laws.items()}, laws, symbols


@pytest.mark.slow
def test_counts_of_a_hidden_chain_are_those_of_all_paths():
    """With a buffer as long as the text the subsequences have the counts of the whole."""
    hmm = importlib.import_module("scir_hmm")
    position, laws, symbols = point_of_a_chain(hmm)
    transitions, seen, total = np.zeros((3, 3)), np.zeros((3, 4)), 0.0
    for path in itertools.product(range(3), repeat=6):
        weight = 1 / 3
        for t, state in enumerate(path):
            weight *= laws["transitions"][path[t - 1], state] if t else 1
            weight *= laws["symbols"][state, symbols[t]]
        total += weight
        for t, state in enumerate(path):
            seen[state, symbols[t]] += weight
            if t:
                transitions[path[t - 1], state] += weight
    for window in (6, 3, 2):
        cut = hmm.windows(symbols, window, 6)
        estimator = hmm.subsequences(len(cut), 6)
        result, _ = estimator.estimate(jax.random.key(0), (), position, jnp.asarray(cut))
        np.testing.assert_allclose(result["transitions"], transitions / total, atol=1e-5)
        np.testing.assert_allclose(result["symbols"], seen / total, atol=1e-5)
    log_density = hmm.filtered(position, jnp.asarray(symbols))[1].sum()
    assert float(log_density) == pytest.approx(np.log(total), abs=1e-5)
    # Without a buffer they are others.
    cut = hmm.windows(symbols, 2, 0)
    other, _ = hmm.subsequences(3, 0).estimate(jax.random.key(0), (), position, jnp.asarray(cut))
    assert np.abs(np.asarray(other["symbols"]) - seen / total).max() > 0.01


def test_drawn_states_have_the_expected_counts(seed):
    hmm = importlib.import_module("scir_hmm")
    position, _, symbols = point_of_a_chain(hmm)
    cut = jnp.asarray(hmm.windows(symbols, 6, 6))
    expected, _ = hmm.subsequences(1, 6).estimate(jax.random.key(0), (), position, cut)
    keys = jax.random.split(jax.random.key(seed), 20_000)
    draw = jax.jit(jax.vmap(lambda key: hmm.drawn_states(key, position, jnp.asarray(symbols))))
    states = np.asarray(draw(keys))
    z = {}
    for j, k in np.ndindex(3, 3):
        pairs = ((states[:, :-1] == j) & (states[:, 1:] == k)).sum(axis=1)
        mean = float(expected["transitions"][j, k])
        z[j, k] = checks.mean_z(pairs, mean, pairs.var() + 1e-6)
    assert not checks.family(z)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["rates", "no events", "precisions"])
def test_full_batches_give_the_gamma_posterior(case):
    """Every draw of CIR at a step of 10 is almost independent; SGLD of logs is not that law.

    The chance of a false alarm is 1e-3 over all numbers of a case.
    """
    rates = importlib.import_module("scir_rates")
    data = rates.data(case, [1])
    lengths = {"burn_in": 20, "kept": 4000}

    def rejected(name, step):
        method = rates.METHODS[name]._replace(step_sizes=(step,))
        theta = rates.sample([1], case, method, data, rates.SIZE, **lengths)[0, 0]
        p = {
            j: stats.kstest(
                theta[:, j], stats.gamma(data.shape[0, j], scale=1 / data.rate[0, j]).cdf
            ).pvalue
            for j in range(rates.NUMBER)
        }
        return checks.family(p)

    assert not rejected("CIR", 10.0)
    assert rejected("reflected Euler", 1.0)


def test_the_predicted_moments_are_those_of_the_library_and_of_simulation(seed):
    rates = importlib.import_module("scir_rates")
    transitions = importlib.import_module("baselines.transitions")
    generator = np.random.default_rng(seed)
    b, h = 3.0, 0.4
    shapes = generator.gamma(4.0, 0.5, 20_000)
    mean, variance = rates.predicted(shapes, np.full_like(shapes, b), h, sigma=1.1)
    added = transitions.stationary_inflation(shapes.var(), h, rate=b, sigma=1.1)
    assert mean == pytest.approx(shapes.mean() / b, rel=1e-6)
    assert variance == pytest.approx(shapes.mean() / b**2 + float(added), rel=1e-4)

    # Of both estimated there is no formula in the library: simulate chains.
    rate = generator.gamma(2.0, 2.0, 20_000) + 0.1
    mean, variance = rates.predicted(shapes, rate, h, sigma=1.1)
    theta = np.full(100_000, mean)
    for _ in range(60):
        i = generator.integers(0, len(shapes), len(theta))
        e = np.exp(-(1.1**2) * rate[i] * h / 2)
        ahead = 2 * rate[i] * theta * e / (1 - e)
        chi = generator.noncentral_chisquare(2 * shapes[i], ahead)
        theta = (1 - e) / (2 * rate[i]) * chi
    p = {
        "mean": checks.mean_z(theta, mean, variance),
        "square": checks.mean_z((theta - mean) ** 2, variance, ((theta - mean) ** 2).var()),
    }
    assert not checks.family(p)
    assert abs(mean - shapes.mean() / rate.mean()) > 10 * np.sqrt(variance / len(theta))


def test_the_predicted_moments_of_log_theta_are_those_of_simulation(seed):
    lognormal = importlib.import_module("scir_lognormal")
    generator = np.random.default_rng(seed)
    p, time = np.full(20_000, 3.0), 0.2
    centre = generator.normal(0.5, 0.4, len(p))
    mean, variance = lognormal.predicted(centre * p, p, time)
    assert mean == pytest.approx(centre.mean(), rel=1e-6)
    added = centre.var() * np.tanh(3.0 * time / 2)  # as `samplers.gbm` says
    assert variance == pytest.approx(1 / 3 + added, rel=1e-4)

    p = generator.gamma(2.0, 1.0, len(p)) + 0.1
    mean, variance = lognormal.predicted(centre * p, p, time)
    x = np.full(100_000, mean)
    for _ in range(60):
        i = generator.integers(0, len(p), len(x))
        e = np.exp(-p[i] * time)
        noise = generator.standard_normal(len(x)) * np.sqrt((1 - e**2) / p[i])
        x = e * x + (1 - e) * centre[i] + noise
    found = {
        "mean": checks.mean_z(x, mean, variance),
        "square": checks.mean_z((x - mean) ** 2, variance, ((x - mean) ** 2).var()),
    }
    assert not checks.family(found)
    # Without the covariance of the estimates the variance would be another.
    assert abs(variance - 1 / p.mean()) > 10 * variance * np.sqrt(2 / len(x))


@pytest.mark.slow
def test_lognormal_targets_run(tmp_path):
    rows, settings = run("scir_lognormal", tmp_path)
    found = {row["method"]: row for row in rows}
    ours, theirs = found["mean-reverting GBM"], found["the paper's GBM"]
    assert float(ours["sd"]) == pytest.approx(float(ours["predicted sd"]), rel=0.15)
    assert float(theirs["KS, later"]) > float(theirs["KS mean"]) + 0.05
    assert not set(settings["seeds"]) & set(settings["tuning_seeds"])


@pytest.mark.slow
def test_rates_run(tmp_path):
    rows, settings = run("scir_rates", tmp_path)
    distance = {row["method"]: float(row["KS mean"]) for row in rows if row["case"] == "no events"}
    assert distance["CIR"] < 1.5 * distance["exact draws"]
    assert min(distance[name] for name in distance if name not in ("CIR", "exact draws")) > 0.1
    assert not set(settings["seeds"]) & set(settings["tuning_seeds"])


@pytest.mark.slow
def test_networks_run(tmp_path):
    rows, _ = run("scir_networks", tmp_path)
    assert [row["method"] for row in rows][-2:] == ["Gibbs", "the share of links alone"]
    assert all(float(row["averaged"]) > 1 for row in rows)


@pytest.mark.slow
def test_hidden_chains_run(tmp_path):
    rows, _ = run("scir_hmm", tmp_path)
    small = {row["method"]: float(row["symbols below 1e-6"]) for row in rows}
    assert small["SGRLD"] < 0.05 < small["SCIR"]
