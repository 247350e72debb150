"""Functions that files name: taken from their own folder, and never a program."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.system.user_code import UserFunction, load_function


@pytest.fixture(autouse=True)
def _same_imports() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    path, modules = [*sys.path], {*sys.modules}
    yield
    sys.path[:] = path
    for name in {*sys.modules} - modules:
        del sys.modules[name]


def load(folder: Path, reference: str) -> UserFunction:
    return load_function(reference, folder, what="agent", remedy="name another")


def project(folder: Path, answer: str, name: str = "own_agent.py") -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"def run():\n    return {answer!r}\n")
    return folder


def test_each_project_has_its_own_module(tmp_path: Path) -> None:
    one, two = project(tmp_path / "one", "1"), project(tmp_path / "two", "2")
    loaded = [load(folder, "own_agent:run").function() for folder in (one, two, one)]
    assert loaded == ["1", "2", "1"]


def test_a_missing_module_is_noticed_though_another_project_has_one(tmp_path: Path) -> None:
    load(project(tmp_path / "one", "1"), "own_agent:run")
    (tmp_path / "two").mkdir()
    with pytest.raises(ConfigError, match="No module named 'own_agent'"):
        load(tmp_path / "two", "own_agent:run")
    assert load(tmp_path / "one", "own_agent:run").function() == "1"


@pytest.mark.parametrize("name", ["own_agent.py", "own_package/agent.py"])
def test_a_module_whose_file_is_gone_is_noticed(tmp_path: Path, name: str) -> None:
    reference = f"{name.removesuffix('.py').replace('/', '.')}:run"
    load(project(tmp_path, "1", name), reference)
    (tmp_path / name).unlink()
    with pytest.raises(ConfigError, match="No module named"):
        load(tmp_path, reference)


def test_a_package_that_a_module_imports_must_be_installed(tmp_path: Path) -> None:
    project(tmp_path, "1")
    (tmp_path / "own_agent.py").write_text("import no_such_package.part\n")
    with pytest.raises(ConfigError, match="install the package that has the module 'no_such_pack"):
        load(tmp_path, "own_agent:run")
    with pytest.raises(ConfigError, match="name another"):
        load(tmp_path, "no_such_package:run")


def test_an_installed_module_is_found(tmp_path: Path) -> None:
    before = sys.modules["pytest"]
    assert load(tmp_path, "pytest:main").function is pytest.main
    assert load(tmp_path, "json:dumps").function(1) == "1"
    assert sys.modules["pytest"] is before


@pytest.mark.parametrize(
    "reference", ["unittest.__main__:main", "faulthandler:_sigsegv", "pytest.__main__:main"]
)
def test_programs_and_internals_are_refused(tmp_path: Path, reference: str) -> None:
    with pytest.raises(ConfigError, match="not a function to call"):
        load(tmp_path, reference)
    assert not reference.startswith("unittest") or "unittest.__main__" not in sys.modules


def test_a_module_that_ends_the_process_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "own_program.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(ConfigError, match="SystemExit"):
        load(tmp_path, "own_program:run")
