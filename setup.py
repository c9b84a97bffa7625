"""Build of the native code, where there is a compiler; pyproject.toml has the rest."""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

_ROOT = Path(__file__).parent
_FOLDERS = ("simplex_jax/draws/native", "simplex_jax/models/topics/native")
_HEADERS = [
    str(path.relative_to(_ROOT))
    for folder in ("simplex_jax/native", *_FOLDERS)
    for path in sorted((_ROOT / folder).iterdir())
    if path.suffix in (".h", ".inl")
]


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
        f"simplex-jax: native code was not built, and XLA does its work: {reason}",
        file=sys.stderr,
    )


setup(
    cmdclass={"build_ext": BuildOptional},
    ext_modules=[
        Extension(
            f"{folder.replace('/', '.')}._library",
            sources=[f"{folder}/handlers.cc", f"{folder}/kernels.cc"],
            depends=_HEADERS,
            include_dirs=["."],
            language="c++",
            # Contracted operations would round differently from machine to machine.
            extra_compile_args=["-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-g0"]
            if os.name != "nt"
            else ["/std:c++17", "/O2"],
            optional=True,
        )
        for folder in _FOLDERS
    ],
)
