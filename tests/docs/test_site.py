"""Pages say what is so: commands parse, links lead somewhere, and blocks of Python run.

Pages with files of their own in this folder have their blocks run there.
"""

import re
import shlex
from pathlib import Path

import click
import jax
import jax.numpy as jnp
import pytest
from support.marks import slow_but
from support.pages import DOCS, parse
from support.paths import ROOT

from simplex_jax._src import cli, samplers

PAGES = sorted(path.stem for path in DOCS.glob("*.md"))
OWN = {"coming_from", "design", "numpyro", "options", "recipes", "single_cell"}


def text(page: str) -> str:
    return (DOCS / f"{page}.md").read_text("utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text(page), re.DOTALL | re.MULTILINE)


def commands() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for line in "".join(blocks(page, "sh")).splitlines():
            command = line.partition(" #")[0].strip()
            if command.startswith("simplex-jax "):
                found.append((page, command))
    return found


CODE = [
    (page, number)
    for page in PAGES
    if page not in OWN
    for number in range(len(blocks(page, "python")))
]


FITS = {"lda", "hdp", "sam", "dpm", "dtm"}
LONG = ("getting_started", 1)
QUICK = [place for place in CODE if place[0] not in FITS and place != LONG]


@pytest.mark.parametrize(("page", "number"), slow_but(CODE, *QUICK))
def test_python(page, number, tmp_path, monkeypatch):
    """In an empty folder; what they say of numbers is tested with the code that it is about."""
    block = blocks(page, "python")[number]
    if "numpyro" in block:
        pytest.importorskip("numpyro")
    monkeypatch.chdir(tmp_path)
    scope: dict = {}
    exec(compile(block, f"{page}.md", "exec"), scope)
    if "SCIR(" in block:  # the posterior is known; 1,000 independent draws are good to 0.001
        posterior = (jnp.array([800, 100, 100, *[0] * 7]) + 0.1) / 1001
        assert jnp.abs(scope["weights"].mean(axis=0) - posterior).max() < 0.005
    jax.clear_caches()


@pytest.mark.parametrize(("page", "command"), commands())
def test_command_is_understood(page, command, tmp_path, monkeypatch):
    """Options and values only; tests/cli runs the command line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    for name in re.findall(r"\S+\.(?:txt|csv|npz|npy|gz|h5ad)\b", command):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    _, name, *arguments = shlex.split(command)
    group = cli.main.get_command(click.Context(cli.main), name)
    if "--help" in arguments:
        with pytest.raises(click.exceptions.Exit, match="0"):
            parse(group, arguments)
    else:
        parse(group, arguments)


def test_a_wrong_option_of_a_verb_is_noticed():
    for arguments in (["--no-such", "texts"], ["report", "--no-such", "run"], ["transform", "x"]):
        with pytest.raises(click.UsageError):
            parse(cli.main.get_command(click.Context(cli.main), "lda"), arguments)


@pytest.mark.parametrize("name", samplers.__all__)
def test_every_sampler_has_a_place(name):
    assert f"`{name}`" in text("which_sampler"), "give it a place in a table of the page"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", text(page)):
        # The site has the notebooks as tutorials, and makes a page of each public module.
        made = re.sub(r"^api/(\w+)\.rst$", r"simplex_jax/\1.py", target)
        places = DOCS / target, ROOT / target.replace("tutorials/", "notebooks/"), ROOT / made
        web = target.startswith(("https://", "http://", "mailto:"))
        assert web or any(place.exists() for place in places), target


def test_every_page_is_on_the_site():
    assert {*re.findall(r"^(\w+)$", text("index"), re.MULTILINE)} >= {*PAGES} - {"index"}


def test_the_citation_has_the_version():
    version = re.search(
        r"^version: (.*)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE
    )
    pyproject = Path(ROOT / "simplex_jax" / "_src" / "version.py").read_text("utf-8")
    assert version is not None
    assert version[1] in pyproject
