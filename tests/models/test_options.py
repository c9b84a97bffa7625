"""An option is declared once: signature, docstring, command, estimator and table agree."""

import dataclasses
import importlib
import inspect
import math

import click
import numpy as np
import pytest
from click.testing import CliRunner

import simplex_jax
from simplex_jax import sklearn
from simplex_jax._src import options as declared
from simplex_jax._src.cli import main
from simplex_jax._src.models import NAMES, pipeline
from simplex_jax._src.models import options as common
from simplex_jax._src.models.lda import regression
from simplex_jax._src.options import checked, declarations, flag_of, option, options

# By model: `lda` of `simplex_jax._src.models.lda.estimator`.
ESTIMATORS = {
    estimator.__module__.split(".")[3]: estimator
    for estimator in (getattr(sklearn, name) for name in sklearn.__all__)
}


@options
class Example:
    """Example options."""

    count: int = option("A count.", default=3, kw_only=False, least=2)
    size: float | None = option(
        "A size.", default=None, most=2e3, unset="chosen", parameter="extent"
    )
    kind: str = option("A kind.", default="a", choices=("a", "b"))
    parts: tuple[str, ...] = option("Parts.", default=(), choices=("x", "y"))
    secret: bool = option("A switch.", default=False, command=False, parameter=None)


@declared.with_options(Example)
def fit(rows, given):
    """Fit.

    Args:
        rows: The rows.
        {options}
    """
    return rows, given


def model_of(name):
    return importlib.import_module(f"simplex_jax._src.models.{name}").MODEL


def click_options(name):
    command = main.get_command(None, name).commands["fit"]
    return {entry.name: entry for entry in command.params if isinstance(entry, click.Option)}


def test_values_are_checked_and_named():
    assert dataclasses.astuple(Example(2, size=1, parts=["y"])) == (2, 1.0, "a", ("y",), False)
    for given, message in [
        ({"count": 1}, r"count .* 2; it is 1"),
        ({"count": 2.5}, r"^count .*2\.5$"),
        ({"count": True}, r"^count .*True$"),
        ({"size": 0}, r"^size .*0$"),
        ({"size": 2001}, r"size .* 2,000; it is 2001"),
        ({"size": math.nan}, r"^size .*nan$"),
        ({"size": "long"}, r"size .* 'long'"),
        ({"kind": "c"}, r"kind .* 'c'"),
        ({"parts": ("x", "z")}, r"^parts .*'z'$"),
        ({"secret": "no"}, r"^secret .*'no'$"),
    ]:
        with pytest.raises(ValueError, match=message):
            Example(**given)


def test_rules_of_a_class_see_checked_values():
    @options
    class Ruled(Example):
        """More."""

        def __post_init__(self):
            if self.size == 2.0:
                raise ValueError("not 2")

    assert Ruled(size="1").size == 1.0
    with pytest.raises(ValueError, match="not 2"):
        Ruled(size="2")


def test_a_function_has_the_options_one_by_one():
    assert str(inspect.signature(fit)) == (
        "(rows, count: int = 3, *, size: float | None = None, kind: str = 'a', "
        "parts: tuple[str, ...] = (), secret: bool = False)"
    )
    assert "    count: A count. Default: 3.\n" in fit.__doc__
    assert "    size: A size. Default: chosen.\n" in fit.__doc__
    assert "    kind: A kind. One of a, b. Default: 'a'.\n" in fit.__doc__
    rows, given = fit([1], 4, kind="b")
    assert (rows, given) == ([1], Example(4, kind="b"))
    assert fit(rows=[1], count=4, kind="b") == (rows, given)
    with pytest.raises(TypeError, match=r"^fit\(\) .* 'rows'$"):
        fit([1], rows=[1])
    with pytest.raises(TypeError, match=r"^fit\(\) .* 'rows'$"):
        fit(kind="b")
    with pytest.raises(TypeError, match=r"^fit\(\) .* 'sizes'$"):
        fit([1], sizes=3)


def test_options_go_into_json_and_back_or_are_refused():
    given = Example(5, size=2, parts=("x", "y"))
    values = common.as_json(given)
    assert values["parts"] == ["x", "y"]
    assert common.from_json(Example, values) == given
    for wrong in ({}, values | {"more": 1}, [], values | {"count": 0}):
        with pytest.raises(ValueError, match=r"missing or unknown|count must be"):
            common.from_json(Example, wrong)


def test_the_table_has_every_option():
    lines = declared.table(Example).splitlines()
    assert lines[2] == "| `count`, `--count` | integer, at least 2 | 3 | A count. |"
    assert lines[3] == "| `size`, `--size` | number, positive, at most 2,000 | chosen | A size. |"
    assert lines[4] == "| `kind`, `--kind` | a, b | a | A kind. |"
    assert lines[-1] == "| `secret` | True, False | False | A switch. |"


@pytest.mark.parametrize("name", NAMES)
def test_fit_and_resolve_are_explicit(name):
    room, model = importlib.import_module(f"simplex_jax._src.models.{name}"), model_of(name)
    names = [entry for entry, _, _ in declarations(model.options)]
    session = {entry for entry, _, _ in declarations(pipeline.Session)}
    if name in ("dpm", "hdp"):  # whose samples stay in memory
        session.remove("samples_dir")
    functions = [(room.fit, {*names, *session})]
    if hasattr(room, "resolve"):  # not where the options do not depend on the data
        functions.append((room.resolve, set(names)))
    for function, wanted in functions:
        own = {"family", "kinds", "weights", "times", "groups", "slices", "predict"}
        parameters = list(inspect.signature(function).parameters.values())[1:]
        assert {parameter.name for parameter in parameters} - own == wanted
        assert not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        assert all(f"\n    {entry}: " in function.__doc__ for entry in wanted)
        assert "{options}" not in function.__doc__
    with pytest.raises(TypeError, match=r"fit\(\) .* 'nonsense'"):
        room.fit([[1, 2]], nonsense=1)


@pytest.mark.parametrize("name", NAMES)
def test_the_command_has_what_is_declared(name):
    shown = click_options(name)
    for entry, declaration, _ in declarations(model_of(name).options):
        if not declaration.command:
            assert entry not in shown
            continue
        assert flag_of(entry, declaration) in shown[entry].opts
        assert shown[entry].help.startswith(declaration.help)
        default = getattr(model_of(name).options(), entry)
        assert shown[entry].default == default or shown[entry].default in (None, ())
        if declaration.choices and isinstance(shown[entry].type, click.Choice):
            assert set(shown[entry].type.choices) <= set(declaration.choices)
    result = CliRunner().invoke(main, [name, "--help-all"])
    assert result.exit_code == 0
    assert "unset" not in result.output


@pytest.mark.parametrize("name", NAMES)
def test_the_estimator_has_what_is_declared(name):
    assert name in ESTIMATORS, "give its estimator a line in scikit/__init__.py"
    estimator = ESTIMATORS[name]()
    parameters = estimator.get_params()
    wanted = {
        declaration.parameter or entry
        for entry, declaration, _ in declarations(model_of(name).options)
        if declaration.parameter is not None
    }
    assert wanted <= set(parameters)
    for parameter in parameters:
        assert f"    {parameter}: " in type(estimator).__doc__, parameter
    assert "{options}" not in type(estimator).__doc__
    for entry, declaration, _ in declarations(model_of(name).options):
        if entry == "sampler":
            choices = ", ".join(declaration.choices)
            line = f"    sampler: {declaration.help} One of {choices}. Default: "
            assert line in type(estimator).__doc__
    with pytest.raises(TypeError):
        ESTIMATORS[name](nonsense=1)


@pytest.mark.parametrize("name", NAMES)
def test_out_of_range_is_the_same_everywhere(name):
    """Below the least number each option has: refused by the class, and by the command."""
    model = model_of(name)
    for entry, declaration, kind in declarations(model.options):
        plain = declared.plain_type(kind)
        if plain not in (int, float) or declaration.check is not None:
            continue
        below = 0 if declaration.least is None else declaration.least - 1
        with pytest.raises(ValueError, match=f"^{entry} must be"):
            checked(entry, below, declaration, kind)
        if declaration.command and declaration.parse is None:
            flag = flag_of(entry, declaration)
            result = CliRunner().invoke(main, [name, flag, str(below)])
            assert result.exit_code == 2
            assert f"'{flag}'" in result.stderr


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, None, np.nan])
def test_seeds_are_those_of_a_key(seed):
    """JAX takes them modulo 2^32: a larger one would be another name for a small one."""
    for name in NAMES:
        with pytest.raises(ValueError, match=r"^seed must be"):
            model_of(name).options(seed=seed)
        assert model_of(name).options(seed=2**32 - 1).seed == 2**32 - 1
    with pytest.raises(ValueError, match=r"^seed must be"):
        regression.Question(seed=seed)
    if seed is not None:  # that of the fit
        with pytest.raises(ValueError, match=r"^holdout_seed must be"):
            pipeline.Session(holdout_seed=seed)


def test_help_says_only_what_the_command_can_do():
    shown = {name: CliRunner().invoke(main, [name, "--help-all"]).stdout for name in ("hdp", "lda")}
    assert "Blocked sweeps" not in shown["hdp"]
    assert "run by xla" in " ".join(shown["lda"].split())
    assert "Python one per topic" in " ".join(shown["lda"].split())
    effects = CliRunner().invoke(main, ["lda", "effects", "--help"]).stdout
    assert "0<x<1" in effects


@pytest.mark.parametrize("flag", ["--seed", "--holdout-seed"])
@pytest.mark.parametrize("name", NAMES)
def test_the_command_refuses_seeds_that_are_too_large(name, flag):
    result = CliRunner().invoke(main, [name, flag, str(2**32)])
    assert result.exit_code == 2
    assert f"'{flag}': 4294967296 " in result.stderr


def test_every_model_is_offered_where_the_others_are():
    for name in NAMES:
        commands = importlib.import_module(f"simplex_jax._src.models.{name}.commands").COMMANDS
        assert commands.model is model_of(name) is getattr(simplex_jax, name).Fit.MODEL
        assert commands.model.name == name
        assert name in main.list_commands(None)
        assert name in simplex_jax.__all__, "name it in simplex_jax/__init__.py, for type checkers"
