"""The public surface: what it is, and that it costs nothing to import."""

import subprocess
import sys

import burnish


def test_the_public_names() -> None:
    assert burnish.__all__ == sorted(burnish.__all__)
    assert all(getattr(burnish, name) is not None for name in burnish.__all__)
    assert dir(burnish) == burnish.__all__


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(burnish, "optimise")


def test_importing_burnish_loads_nothing_heavy() -> None:
    code = (
        "import burnish, sys; "
        "print([m for m in ('pydantic', 'rich', 'typer', 'asyncio', 'sqlite3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys, burnish.cli; "
        "print([m for m in ('pydantic', 'ruamel', 'asyncio', 'sqlite3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
