"""The command `simplex-jax`, also available as `python -m simplex_jax`."""

import gc
import os
import sys

from simplex_jax._src.extras import needed

# Light: they must be set up before JAX is imported.
from simplex_jax._src.runtime.ending import Ending
from simplex_jax._src.runtime.streams import outlast


def main() -> None:
    """Run the command line."""
    # The products of NumPy here are small. More threads take longer, waiting for one another busily
    # where cores have other work. NumPy reads this when it is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Importing and tracing make many objects and hardly any cycles: looking for these after every
    # 700 objects takes half a second.
    gc.set_threshold(50_000)
    outlast()
    with Ending():
        try:
            with needed("the command simplex-jax"):
                from simplex_jax._src import cli
        except ImportError as error:
            sys.exit(f"simplex-jax: error: {error}")
        try:
            try:
                cli.main(prog_name="simplex-jax")
            finally:
                sys.stdout.flush()
        except OSError as error:  # of standard output: the commands catch their own
            print(f"simplex-jax: error: standard output: {error.strerror}", file=sys.stderr)
            sys.stdout = None  # Python would flush it again
            sys.exit(1)


if __name__ == "__main__":
    main()
