"""What wrong configurations are told: every message and exit code, for each file kind."""

import sys
from pathlib import Path

import pytest

from tests.cli.console import Burnish
from tests.goldens.harness import HOME, Goldens, shown
from tests.goldens.mistakes import KINDS
from tests.projects.prompts.prompt_world import KEY

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", KINDS)
def test_errors(
    name: str, tmp_path: Path, burnish: Burnish, goldens: Goldens, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, pages = KINDS[name], list[str]()
    for number, (title, mistake) in enumerate(kind.mistakes.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        command = kind.prepare(folder, mistake)
        with monkeypatch.context() as here:
            here.chdir(folder)
            _forget_agents(here, tmp_path.parent)
            keys = {"OPENAI_API_KEY": KEY, "P2B_TEST_API_KEY": KEY}
            for variable, value in (keys if mistake.environ is None else mistake.environ).items():
                here.setenv(variable, value)
            page = shown(burnish(*command)).replace(str(folder), "<HERE>")
        pages.append(f"=== {title} ===\n{page}")
    goldens.check(f"errors/{name}", {"errors.txt": "\n".join(pages)})


def test_nothing_else_is_frozen() -> None:
    assert {folder.name for folder in (HOME / "errors").iterdir()} == {*KINDS}


def _forget_agents(here: pytest.MonkeyPatch, folder: Path) -> None:
    """Whoever imported an agent of another test's folder: this one looks in its own."""
    here.setattr(sys, "path", [path for path in sys.path if not path.startswith(str(folder))])
    here.delitem(sys.modules, "numbers_agent", raising=False)
