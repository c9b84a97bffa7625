"""The sources of the notebooks run with small settings; `notebooks/build.py` makes them in full."""

import json
import runpy
import warnings

import matplotlib
import pytest
from support.paths import ROOT

FOLDER = ROOT / "notebooks"
SOURCES = sorted(FOLDER.glob("[0-9]_*.py"))


QUICK = ("1_sparse_simplex", "6_larger_programs")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(source, id=source.stem, marks=() if source.stem in QUICK else pytest.mark.slow)
        for source in SOURCES
    ],
)
def test_it_runs(source, monkeypatch, tmp_path, capsys):
    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = []
    monkeypatch.setattr(pyplot, "show", lambda: shown.append(len(pyplot.get_fignums())))
    monkeypatch.setenv("SIMPLEX_JAX_QUICK", "1")
    monkeypatch.setenv("MSWEB", str(tmp_path / "none"))
    if "numpyro" in source.stem:
        pytest.importorskip("numpyro.infer.gibbs")
    with warnings.catch_warnings():
        # Of chains that are far too short to be looked at.
        warnings.simplefilter("ignore", UserWarning)
        try:
            runpy.run_path(str(source), run_name="__main__")
        finally:
            pyplot.close("all")
    assert shown
    assert capsys.readouterr().out


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_the_notebook_is_of_this_source(source):
    """Every cell of the source is in the notebook, executed, with pictures."""
    notebook = json.loads(source.with_suffix(".ipynb").read_text("utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"]]
    text = source.read_text("utf-8")
    for kind, cell in zip((c["cell_type"] for c in notebook["cells"]), cells, strict=True):
        if kind == "code":
            assert cell.strip() in text
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(code) == text.count("\n# %%\n") + text.startswith("# %%\n")
    assert all(cell["execution_count"] for cell in code)
    outputs = [output for cell in code for output in cell["outputs"]]
    assert not any(output["output_type"] == "error" for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in outputs)
