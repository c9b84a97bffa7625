"""Build of the native local step of LDA, where there is a compiler; pyproject.toml has the rest."""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

_FOLDER = "simplex_jax/models/lda/native"
_SOURCES = ("handlers", "plain", "avx2", "avx512")
_HEADERS = ("task.h", "threads.h", "random.inl", "search.inl", "dense.inl", "sparse.inl")


class BuildOptional(build_ext):
    """Build what can be built: without a compiler the package works, by XLA alone."""

    def run(self) -> None:
        """Build, and say in one line where that failed."""
        try:
            import jaxlib

            for extension in self.extensions:
                extension.include_dirs.append(str(Path(jaxlib.__file__).parent / "include"))
            super().run()
        except Exception as error:
            _say(error)

    def build_extension(self, extension: Extension) -> None:
        """Build a library without Python's interface; `optional` would hide what went wrong."""
        try:
            super().build_extension(extension)
        except Exception as error:
            _say(error)


def _say(error: Exception) -> None:
    reason = " ".join(str(error).split()) or type(error).__name__
    print(
        f"simplex-jax: the native local step of LDA was not built, and XLA does its work: {reason}",
        file=sys.stderr,
    )


setup(
    cmdclass={"build_ext": BuildOptional},
    ext_modules=[
        Extension(
            "simplex_jax.models.lda.native._engine",
            sources=[f"{_FOLDER}/{name}.cc" for name in _SOURCES],
            depends=[f"{_FOLDER}/{name}" for name in _HEADERS],
            language="c++",
            # Contracted operations would round differently from machine to machine.
            extra_compile_args=["-std=c++17", "-O3", "-ffp-contract=off", "-g0"]
            if os.name != "nt"
            else ["/std:c++17", "/O2"],
            optional=True,
        )
    ],
)
