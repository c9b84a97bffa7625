"""Help of a model, which must not wait for JAX."""

import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from simplex_jax._src.cli import HELP, main
from simplex_jax._src.cli.groups import page_of
from simplex_jax._src.models import NAMES

PROGRAM = """
import sys
from simplex_jax.__main__ import main
try:
    main()
finally:
    print([name for name in ("jax", "numpy", "scipy") if name in sys.modules])
"""


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_a_model_is_what_its_options_say(name):
    page = (HELP / f"{name}.txt").read_text("utf-8")
    assert page == page_of(main, name), "run `python docs/options.py`"
    assert CliRunner().invoke(main, [name, "--help"], prog_name="simplex-jax").output == page


def test_help_imports_nothing_slow():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "lda", "--help"],
        env=os.environ | {"COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--topics" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_narrow_terminal_gets_narrow_help(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    with click.Context(main, info_name="simplex-jax", **main.context_settings) as ctx:
        group = main.get_command(ctx, "lda")
        lines = click.Context(group, parent=ctx, info_name="lda").get_help().splitlines()
    assert "Usage: simplex-jax lda" in lines[0]
    assert sum(len(line) > 60 for line in lines) < 5, "only examples, which are not broken"
