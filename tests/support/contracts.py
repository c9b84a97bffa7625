"""All cases of `contract_*.py`, by module and name."""

import importlib

from support.paths import TESTS

MODULES = sorted({path.stem for path in (TESTS / "support").glob("contract_*.py")})
MODULES.remove("contract_case")
CASES = {
    (module, name): build
    for module in MODULES
    for name, build in importlib.import_module(f"support.{module}").CASES.items()
}
# A name of several words is a variant of a kernel that differs in few lines.
VARIANTS = sorted(case for case in CASES if " " in case[1])
KERNELS = [case for case in CASES if case not in VARIANTS]
