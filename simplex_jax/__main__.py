"""The program `simplex-jax`, which is `python -m simplex_jax` as well."""

from simplex_jax.runtime.ending import Ending  # nothing heavy: it has to stand before JAX does


def main() -> None:
    """Run the command line."""
    with Ending():
        from simplex_jax import cli

        cli.main(prog_name="simplex-jax")


if __name__ == "__main__":
    main()
