"""The command `simplex-jax`, also available as `python -m simplex_jax`."""

from simplex_jax.runtime.ending import Ending  # light: must be set up before JAX is imported


def main() -> None:
    """Run the command line."""
    with Ending():
        from simplex_jax import cli

        cli.main(prog_name="simplex-jax")


if __name__ == "__main__":
    main()
