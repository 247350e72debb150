"""The public surface: what it is, and that it costs nothing to import."""

import subprocess
import sys
from importlib import import_module
from importlib.metadata import version

import pytest

import burnish
from burnish.version import VERSION


def test_the_public_names() -> None:
    assert burnish.__all__ == sorted(burnish.__all__)
    assert all(getattr(burnish, name) is not None for name in burnish.__all__)
    assert dir(burnish) == burnish.__all__


@pytest.mark.parametrize("package", ["", ".server", ".system", ".testing"])
def test_a_name_that_loads_late_is_listed_where_it_is_defined(package: str) -> None:
    listed: dict[str, tuple[str, ...]] = vars(import_module(f"burnish{package}"))["_HOMES"]
    for home, names in listed.items():
        module = import_module(f"burnish{package}.{home}")
        for name in names:
            defined = getattr(getattr(module, name), "__module__", None) or module.__name__
            is_here = defined.startswith((module.__name__, "typing"))  # aliases are of typing
            assert is_here, f"{name} is defined in {defined}"


def test_the_version_has_one_home() -> None:
    assert burnish.__version__ == VERSION == version("burnish")


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(burnish, "optimise")


def test_importing_burnish_loads_nothing_heavy() -> None:
    assert loaded_by("import burnish", {"pydantic", "rich", "typer", "asyncio", "sqlite3"}) == []


def test_the_command_line_loads_nothing_heavy() -> None:
    heavy = {"pydantic", "ruamel", "asyncio", "sqlite3"}
    assert loaded_by("import burnish.cli.program", heavy) == []


def test_help_loads_nothing_heavy() -> None:
    heavy = {"pydantic", "pydantic_ai", "ruamel", "asyncio", "sqlite3", "rich.live"}
    assert loaded_by(ended("--help"), heavy) == []


def test_the_list_of_commands_loads_none_of_them() -> None:
    assert loaded_by(ended("--help"), {"burnish.cli.options"}) == []


def test_help_of_a_measurement_loads_no_strategy_that_searches() -> None:
    heavy = {"pydantic_ai", "burnish.delegation.plugin", "burnish.strategies.reflective.search"}
    assert loaded_by(ended("eval", "--help"), heavy) == []


def test_the_plug_ins_of_agents_load_no_pydantic_ai_before_there_is_an_agent() -> None:
    plugins = "burnish.projects.agent.plugin, burnish.projects.graph"
    code = f"import {plugins}, burnish.delegation.plugin"
    assert loaded_by(code, {"pydantic_ai", "openai"}) == []


def test_the_version_loads_no_command_and_no_typer() -> None:
    heavy = {"typer", "rich", "pydantic", "burnish.cli.program"}
    assert loaded_by(ended("--version"), heavy) == []


def ended(*arguments: str) -> str:
    """Code that runs a command line and goes on."""
    command = f"main({list(arguments)})"
    return f"from burnish.cli import main\ntry: {command}\nexcept SystemExit: pass\n"


def loaded_by(code: str, heavy: set[str]) -> list[str]:
    """The heavy modules that a fresh Python has loaded after this code."""
    told = f"{code}\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return sorted(heavy.intersection(done.stdout.split()))
