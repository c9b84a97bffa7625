"""README says what is so: its Python runs, its links lead somewhere, and CI runs its tests."""

import re
import subprocess

import jax.numpy as jnp
from support.paths import ROOT

README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    lines = "".join(blocks("sh")).splitlines()
    return [line.partition(" #")[0].strip() for line in lines if line.strip()]


def python_block(word: str) -> str:
    (block,) = [block for block in blocks("python") if word in block]
    return block


def test_kernel_example():
    """The mean is that of the Dirichlet posterior, within far more than its Monte Carlo error."""
    scope: dict = {}
    exec(python_block("scir.build"), scope)
    mean = scope["mean"]
    posterior = (jnp.array([800, 100, 100, *[0] * 7]) + 0.1) / 1001
    assert mean.shape == (10,)
    assert jnp.abs(mean - posterior).max() < 0.02


def test_lda_example(tmp_path, monkeypatch, capsys):
    """Sixty documents on three themes that share no word."""
    themes = (
        "rivers mountains valleys forests",
        "violin sonata opera quartet",
        "goal match penalty",
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("\n".join(f"{themes[i % 3]} " * 3 for i in range(60)))
    exec(python_block("lda.fit"), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 20
    assert set(lines[0].split()) <= set(" ".join(themes).split())


def test_every_python_block_is_run():
    assert len(blocks("python")) == 2


def test_two_commands_do_all_the_set_up():
    set_up = [command for command in commands() if "-m venv" in command]
    assert len(set_up) == 2
    assert set_up[0].endswith("simplex-jax lda")
    assert set_up[1].endswith("-m pytest -n 2")


def test_ci_runs_the_test_command_of_the_readme():
    """CI takes the command from README; here its own lines find exactly one."""
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    (line,) = re.findall(r"^command=\$\((grep .*)\)$", script, flags=re.MULTILINE)
    result = subprocess.run(
        ["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (command,) = result.stdout.splitlines()
    assert command in commands()
    assert command.count(" && ") == 2
    subprocess.run(["bash", "-n", ROOT / ".ci" / "run"], check=True)


def test_it_is_short():
    assert len(README.splitlines()) <= 120


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("https://") or (ROOT / target).exists(), target
