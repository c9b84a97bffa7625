"""Execute the notebooks: every `N_name.py` here becomes `N_name.ipynb`, with its pictures.

    pip install -e '..[notebooks]'
    python notebooks/build.py            # all of them, some minutes each
    python notebooks/build.py 1 5        # those that begin so
    python notebooks/build.py --quick    # small settings, to see that they run; writes nothing

The text sources are what is edited (jupytext's percent format); the notebooks are made from them.
"""

import os
import time
from pathlib import Path

import click
import jupytext
from nbclient import NotebookClient

HERE = Path(__file__).parent


@click.command(help=__doc__)
@click.argument("numbers", nargs=-1)
@click.option("--quick", is_flag=True, help="Small settings; write nothing.")
def main(numbers: tuple[str, ...], quick: bool) -> None:
    """Execute those notebooks whose names begin with a number; all without one."""
    sources = sorted(HERE.glob("[0-9]_*.py"))
    chosen = [path for path in sources if not numbers or path.name[0] in numbers]
    if not chosen:
        raise click.BadParameter(f"there are {', '.join(path.stem for path in sources)}")
    os.environ["SIMPLEX_JAX_QUICK"] = "1" if quick else ""
    for path in chosen:
        started = time.perf_counter()
        notebook = jupytext.read(path)
        notebook.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        client = NotebookClient(
            notebook,
            timeout=600,
            record_timing=False,
            resources={"metadata": {"path": HERE}},
        )
        client.execute()
        if not quick:
            for number, cell in enumerate(notebook.cells):
                cell["id"] = f"cell-{number}"  # random ones would differ every time
            text = jupytext.writes(notebook, fmt="ipynb")
            path.with_suffix(".ipynb").write_text(text + "\n", "utf-8")
        click.echo(f"{path.stem}: {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
