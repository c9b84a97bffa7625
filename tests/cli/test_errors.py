"""Errors of one process among several."""

import pytest
from jax.errors import JaxRuntimeError

from simplex_jax._src.cli.console import one_line_errors
from simplex_jax._src.runtime import processes

RESET = "Gloo AllGather failed: Read error [127.0.0.1]:39307: Connection reset by peer"


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (JaxRuntimeError(f"UNKNOWN: {RESET}"), True),
        (ValueError(f"UNKNOWN: {RESET}"), True),
        (ValueError("topics must be at least 1"), False),
        (JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory"), False),
    ],
)
def test_a_lost_process_is_told_from_other_errors(error, lost, monkeypatch, capsys):
    ended = []
    monkeypatch.setattr(processes, "joined", lambda: True)
    monkeypatch.setattr(processes, "number", lambda: 2)
    monkeypatch.setattr(processes, "leave", lambda status, *, lost: ended.append((status, lost)))

    @one_line_errors
    def command():
        raise error

    command(debug=False)
    assert ended == [(1, lost)]
    message = capsys.readouterr().err
    assert message.startswith("simplex-jax: process 2: error: ")
    assert ("another process" in message) == lost


@pytest.mark.parametrize(("lost", "count", "waits"), [(True, 2, 0), (True, 3, 1), (False, 2, 1)])
def test_process_0_waits_for_the_messages_of_others_unless_none_is_left(
    lost, count, waits, monkeypatch
):
    waited, ended = [], []
    monkeypatch.setattr(processes, "is_first", lambda: True)
    monkeypatch.setattr(processes, "count", lambda: count)
    monkeypatch.setattr(processes.time, "sleep", waited.append)
    monkeypatch.setattr(processes.os, "_exit", ended.append)
    processes.leave(1, lost=lost)
    assert ended == [1]
    assert len(waited) == waits


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            FileNotFoundError(2, "No such file or directory", "/a/.x.html.0123abcd.tmp"),
            "/a/x.html cannot be written (No such file or directory)",
        ),
        (
            OSError(28, "No space left on device", "/a/.x.csv.0123abcd.tmp"),
            "/a/x.csv cannot be written (No space left on device)",
        ),
        (PermissionError(13, "Permission denied", "/a/x"), "/a/x: Permission denied"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (FileExistsError("x exists: choose another"), "x exists: choose another"),
    ],
)
def test_errors_of_the_system_say_what_they_are_about(error, told, capsys):
    @one_line_errors
    def command():
        raise error

    with pytest.raises(SystemExit):
        command(debug=False)
    assert capsys.readouterr().err == f"simplex-jax: error: {told}\n"
