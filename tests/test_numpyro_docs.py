"""Every block of Python in docs/numpyro.md runs, and does what its text says."""

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "numpyro.md").read_text("utf-8")
BLOCKS = {
    title: re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    for title, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.M)
}

pytestmark = pytest.mark.slow


def executed(title):
    (block,) = BLOCKS[title]
    scope: dict = {}
    exec(compile(block, f"numpyro.md, {title}", "exec"), scope)
    return scope


def test_alone():
    scope = executed("Alone")
    expected = (np.array([0, 30, 0, 10, 0]) + 0.1) / 40.5
    np.testing.assert_allclose(scope["weights"], expected, atol=0.04)
    assert re.fullmatch(r"weights h=[\d.]+, accepted 0\.\d\d, clamped [\d.]+%", scope["shown"])


def test_beside_nuts():
    pytest.importorskip("numpyro.infer.gibbs", reason="the Gibbs kernel came with numpyro 0.22")
    samples = executed("Beside NUTS")["mcmc"].get_samples()
    np.testing.assert_allclose(samples["weights"].mean(axis=0), [0.74, 0.01, 0.25], atol=0.05)
    np.testing.assert_allclose(samples["centres"].mean(axis=0)[::2], [-3, 3], atol=0.3)


def test_minibatches():
    """The mean, and the deviation with the noise of the minibatch."""
    p = np.asarray(executed("Minibatches")["p"], np.float64)
    share = np.array([0.7, 0.2, 0.1, 0.0])
    noise = share * (1 - share) * 1e10 / 500 * np.tanh(0.01) / 1e10
    deviation = np.sqrt(share * (1 - share) / 1e5 + noise)
    np.testing.assert_allclose(p.mean(axis=0), share, atol=0.3 * deviation.max())
    np.testing.assert_allclose(p.std(axis=0)[:3], deviation[:3], rtol=0.35)


def test_gradients():
    samples = executed("Gradients: SGLD and its relatives")["samples"]
    np.testing.assert_allclose(samples["weights"].mean(axis=0), [0.7, 0.3], atol=0.03)
    np.testing.assert_allclose(samples["centres"].mean(axis=0), [-2, 2], atol=0.1)


def test_every_block_is_run():
    source = Path(__file__).read_text("utf-8")
    for title, blocks in BLOCKS.items():
        assert len(blocks) <= 1
        assert bool(blocks) == (f'executed("{title}")' in source)
