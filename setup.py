"""Build of the native code, where there are compilers; pyproject.toml has the rest."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

_ROOT = Path(__file__).parent
_FOLDERS = ("simplex_jax/_src/draws/native", "simplex_jax/_src/models/topics/native")
_HEADERS = [
    str(path.relative_to(_ROOT))
    for folder in ("simplex_jax/_src/native", *_FOLDERS)
    for path in sorted((_ROOT / folder).iterdir())
    if path.suffix in (".h", ".inl", ".cuh")
]

# Machine code for Ampere and Hopper; the driver compiles the rest of what came after Turing.
_NVCC_OPTIONS = [
    *("-shared", "-Xcompiler", "-fPIC", "-w", "-std=c++17", "-O3", "--expt-relaxed-constexpr"),
    "-fmad=false",  # contracted operations would round differently from those on CPUs
    "-ftz=true",  # XLA takes subnormal numbers for 0 on CPUs
    *("-arch=compute_75", "-code=compute_75,sm_80,sm_90"),
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
        for extension in self.extensions:  # a library of an earlier version is worse than none
            self.place_for_gpus(extension).unlink(missing_ok=True)
        if nvcc := _nvcc():
            try:
                for extension in self.extensions:
                    self.build_for_gpus(nvcc, extension)
            except Exception as error:
                _say(error, "native code for GPUs")

    def get_ext_filename(self, fullname: str) -> str:
        """Return a name without Python's version: XLA calls the libraries, not Python."""
        return f"{fullname.replace('.', os.sep)}.so"

    def build_extension(self, extension: Extension) -> None:
        """Build a library without Python's interface; `optional` would hide what went wrong."""
        try:
            super().build_extension(extension)
        except Exception as error:
            _say(error)

    def place_for_gpus(self, extension: Extension) -> Path:
        """Return where the library for GPUs is put."""
        folder = Path(extension.sources[0]).parent
        return (folder if self.inplace else Path(self.build_lib, folder)) / "_cuda.so"

    def build_for_gpus(self, nvcc: Path, extension: Extension) -> None:
        """Build a library for GPUs of NVIDIA."""
        folder = Path(extension.sources[0]).parent
        place = self.place_for_gpus(extension)
        toolkit = nvcc.parent.parent
        paths = [f"-I{path}" for path in (*extension.include_dirs, toolkit / "include")]
        paths += [f"-L{toolkit / name}" for name in ("lib", "lib64")]
        command = [nvcc, *_NVCC_OPTIONS, *paths, folder / "cuda.cu", "-o", place]
        built = subprocess.run(command, capture_output=True, text=True)
        if built.returncode:
            raise RuntimeError(f"{nvcc}: {built.stderr}")


class WheelOfAnyPython(bdist_wheel):
    """A wheel for every Python on this kind of machine: no library uses Python's interface."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the wheel's tags."""
        return "py3", "none", super().get_tag()[2]


def _nvcc() -> Path | None:
    """Return CUDA's compiler: that which JAX's packages for CUDA bring, or that of the path."""
    packages = Path(sysconfig.get_path("purelib"), "nvidia", "cu13", "bin", "nvcc")
    if packages.exists():
        return packages
    found = shutil.which("nvcc")
    return Path(found).resolve() if found else None


def _say(error: Exception, what: str = "native code") -> None:
    reason = " ".join(str(error).split()) or type(error).__name__
    print(f"simplex-jax: {what} was not built, and XLA does its work: {reason}", file=sys.stderr)


setup(
    cmdclass={"bdist_wheel": WheelOfAnyPython, "build_ext": BuildOptional},
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
