"""The kernel that is recommended: by chains whose effective sizes are known, and on models."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS
from support import numpyro_cases as cases

from simplex_jax._src.numpyro import chooser, reference
from simplex_jax._src.numpyro.chooser import Chain, recommend
from simplex_jax._src.numpyro.scir import SCIR


def chain(memory: float, seconds: float = 1.0, steps: int = 4000, numbers: int = 3) -> Chain:
    """Autoregressive numbers, worth (1 - memory) / (1 + memory) of their number."""
    rng = np.random.default_rng(0)
    result = [rng.normal(size=numbers)]
    for noise in rng.normal(size=(steps - 1, numbers)) * (1 - memory**2) ** 0.5:
        result.append(memory * result[-1] + noise)
    return Chain(np.array(result), seconds)


def judged(**chains):
    return chooser._choose({name: NUTS(cases.mixture) for name in chains}, chains)


def test_the_most_effective_samples_a_second_win() -> None:
    result = judged(slow=chain(0.9), fast=chain(0.5), costly=chain(0.5, seconds=10.0))
    assert result.choice == "fast"
    assert result.kernel is result.candidates[1].kernel
    rates = [candidate.slowest for candidate in result.candidates]
    # 4,000 / 19, 4,000 / 3, and a tenth of that.
    np.testing.assert_allclose(rates, [211, 1333, 133], rtol=0.3)
    assert "per second of" in result.reason
    lines = str(result).splitlines()
    assert len(lines) == 5
    assert lines[-1] == f"fast: {result.reason}"


def test_what_a_pilot_cannot_tell_is_said() -> None:
    assert "cannot tell" in judged(one=chain(0.5), other=chain(0.52)).reason
    assert "cannot tell" not in judged(one=chain(0.5), other=chain(0.9)).reason
    assert "samples: sample longer" in judged(one=chain(0.95, steps=200)).reason
    shifted = chain(0.5)._replace(watched=chain(0.5).watched + 1)
    assert "has not converged" in judged(one=chain(0.2), other=shifted).reason


def test_numbers_that_never_move_count() -> None:
    stuck = chain(0.0)
    stuck.watched[:, 1] = 1e-38
    result = judged(stuck=stuck, moving=chain(0.9))
    assert result.choice == "moving"
    assert result.candidates[0].note.startswith("1 of")
    standing = Chain(np.ones((100, 3)), 1.0)
    result = judged(standing=standing, moving=chain(0.9))
    assert result.choice == "moving"
    assert result.reason == "the only candidate that moved all numbers"
    other = chain(0.0)
    other.watched[:, 0] = 1e-38
    reason = judged(stuck=stuck, other=other).reason
    assert reason.startswith("no candidate moved all the numbers")
    assert "inf" not in reason


def test_candidates_that_are_still_warming_up() -> None:
    result = judged(late="still warming up", early=chain(0.5))
    assert (result.choice, result.candidates[0].note) == ("early", "still warming up")
    with pytest.raises(RuntimeError, match=r"patience, .*\(late: .*\)"):
        judged(late="still warming up")


def rate(x):
    numpyro.sample("x", dist.Poisson(numpyro.sample("rate", dist.Gamma(2.0, 1.0))), obs=x)


@pytest.mark.parametrize("late", [False, True])
def test_candidates_without_a_start_are_noted(monkeypatch, late) -> None:
    """And the pilot of a reference is as short as others, if they came that far."""

    def run_pilot(kernel, *_, **__):
        if isinstance(kernel, NUTS) and kernel.model is rate:
            raise RuntimeError("no start")
        return None if late and isinstance(kernel, SCIR) else chain(0.5)

    asked = []

    def learn(*_, num_warmup, num_samples, **__):
        asked.append((num_warmup, num_samples))
        return {"rate": reference.GammaReference(2.0)}

    monkeypatch.setattr(chooser, "run_pilot", run_pilot)
    monkeypatch.setattr(reference, "learn_reference", learn)
    inputs = {"model_args": (jnp.array(2),), "num_warmup": 30}
    if late:
        with pytest.raises(RuntimeError, match="SCIR: still warming up; NUTS: no start; NUTS in "):
            recommend(jax.random.key(0), rate, **inputs)
        assert not asked
    else:
        result = recommend(jax.random.key(0), rate, **inputs)
        assert [candidate.note for candidate in result.candidates] == ["", "no start", ""]
        assert asked == [(30, 100)]


@pytest.mark.slow
def test_minibatches_are_refused() -> None:
    with pytest.raises(ValueError, match="minibatches, which NUTS cannot sample"):
        recommend(jax.random.key(0), cases.categorical, model_args=(cases.LABELS, 5))


@pytest.mark.parametrize("function", [recommend, reference.learn_reference])
def test_arguments_of_a_model_are_a_tuple(function) -> None:
    with pytest.raises(ValueError, match=r"^model_args .*\(x,\).* ndarray$"):
        function(jax.random.key(0), lambda x: None, model_args=np.zeros(3))


@pytest.mark.parametrize("name", ["seconds", "patience"])
def test_times_are_positive(name) -> None:
    with pytest.raises(ValueError, match=f"^{name} .* -1"):
        recommend(jax.random.key(0), lambda: None, **{name: -1})


@pytest.mark.slow
def test_sparse_weights() -> None:
    """SCIR and NUTS in normal scores are far ahead of NUTS on the simplex as it is."""
    x = jnp.asarray(cases.POINTS, jnp.float32)
    result = recommend(jax.random.key(0), cases.empties, model_args=(x,), seconds=2.0)
    names = [candidate.name for candidate in result.candidates]
    assert names == ["SCIR", "NUTS", "NUTS in normal scores"]
    assert result.choice != "NUTS"
    mcmc = MCMC(result.kernel, num_warmup=200, num_samples=500, progress_bar=False)
    mcmc.run(jax.random.key(1), x)
    np.testing.assert_allclose(mcmc.get_samples()["w"][:, 2:].mean(), 0.1 / 30.8, rtol=0.6)


@pytest.mark.slow
def test_sites_within_scan_have_no_scores() -> None:
    short = {"model_args": (jnp.array([0, 6]),), "num_warmup": 200, "seconds": 0.2}
    result = recommend(jax.random.key(0), cases.rates, **short)
    assert [candidate.name for candidate in result.candidates] == ["SCIR", "NUTS"]


@pytest.mark.slow
def test_other_sites() -> None:
    """Those that SCIR does not move are NUTS's; where there are no others, NUTS is all there is."""
    pytest.importorskip("numpyro.infer.gibbs", reason="the Gibbs kernel came with numpyro 0.22")

    def centres():
        return numpyro.sample("centres", dist.Normal(jnp.array([-1.0, 1.0]), 1.0).to_event(1))

    def model(x):
        w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
        parts = dist.Normal(centres(), 1.0)
        with numpyro.plate("rows", len(x)):
            numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(w), parts), obs=x)

    def known(x):
        with numpyro.plate("rows", len(x)):
            numpyro.sample("x", dist.Normal(centres().sum(), 1.0), obs=x)

    data = (jnp.asarray(cases.POINTS, jnp.float32),)
    short = {"model_args": data, "num_warmup": 200, "seconds": 0.2}
    result = recommend(jax.random.key(0), model, **short)
    names = [candidate.name for candidate in result.candidates]
    assert names == ["SCIR for ['w'], NUTS", "NUTS", "NUTS in normal scores"]
    result = recommend(jax.random.key(0), known, **short)
    assert (result.choice, len(result.candidates)) == ("NUTS", 1)
