"""Completion in a shell, which runs the program at each press of the tab key."""

import os
import subprocess
import sys

import pytest

from simplex_jax._src.cli import _members, main
from simplex_jax._src.models import NAMES

COMMON = ["fit", "transform", "report", "evaluate"]
PROGRAM = """
import sys
from simplex_jax.__main__ import main
try:
    main()
finally:
    print([name for name in ("jax", "numpy", "scipy", "sklearn") if name in sys.modules])
"""


def completed(words):
    """Return what bash is offered for the last of some words, and slow modules imported for it."""
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | asked | {"_SIMPLEX_JAX_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
    )
    *offered, imported = done.stdout.splitlines()
    return offered, imported


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("simplex-jax ", [f"plain,{name}" for name in NAMES]),
        ("simplex-jax l", ["plain,lda"]),
        ("simplex-jax --ver", ["plain,--version"]),
        (
            "simplex-jax lda ",
            [
                "file,",
                *(
                    f"plain,{name}"
                    for name in (*COMMON, "effects", "correlate", "edit", "export", "store")
                ),
            ],
        ),
        ("simplex-jax hdp ", ["file,", *(f"plain,{name}" for name in (*COMMON, "edit"))]),
        ("simplex-jax lda rep", ["file,rep", "plain,report"]),
    ],
)
def test_completion_of_models_and_commands_imports_none_of_them(words, offered):
    assert completed(words) == (offered, "[]")


@pytest.mark.parametrize("model", NAMES)
def test_the_commands_of_a_model_are_those_that_are_completed(model):
    group = main.get_command(None, model)
    assert list(group.commands) == list(_members(model))
    assert all(group.commands[name].name == name for name in group.commands)


def test_completion_after_a_mistyped_command():
    offered, _ = completed("simplex-jax lda tranform ")
    assert offered == [""]


def test_completion_of_the_options_of_a_model():
    offered, _ = completed("simplex-jax lda --to")
    assert offered == ["plain,--topics", "plain,--tokens", "plain,--token-pattern"]
