"""examples/own_strategy: a strategy in a distribution of its own, installed and used at every door.

Nothing of burnish names it: one module and one entry point are all there is.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.cli.console import START, Said, finish, forked, until
from tests.docs.docs_console import commands, matches
from tests.docs.docs_pages import blocks
from tests.example_copies import EXAMPLES, copy_example
from tests.server.processes import serving

pytestmark = pytest.mark.slow
COUNTING = '''

import pathlib, time

_HERE = pathlib.Path(__file__).parent
_sort = sort_ticket


def sort_ticket(text: str) -> str:
    """The same, counted; a call waits for as long as the file `hold` names its number."""
    prompt = burnish.prompt("system")
    with (_HERE / "calls.txt").open("a") as calls:
        calls.write(f"{len(prompt)} {text}\\n")
    number = len((_HERE / "calls.txt").read_text().splitlines())
    hold = _HERE / "hold"
    while hold.exists() and number >= int(hold.read_text()):
        time.sleep(0.005)
    return _sort(text)
'''


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the distribution is installed into, as `pip install .` does."""
    source = copy_example("own_strategy", tmp_path_factory.mktemp("source") / "own_strategy")
    site = tmp_path_factory.mktemp("site")
    if _has_hatchling():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        options = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(site)]
        subprocess.run([*pip, *options, str(source)], check=True, capture_output=True)
        return site
    (site / "burnish_shorten.py").write_bytes((source / "burnish_shorten.py").read_bytes())
    meta = site / "burnish_shorten-0.1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: burnish-shorten\nVersion: 0.1.0\n")
    (meta / "entry_points.txt").write_text(
        "[burnish.strategies]\nshorten = burnish_shorten:ShortenPlugin\n"
    )
    return site


def _has_hatchling() -> bool:
    try:
        import hatchling
    except ImportError:
        return False
    return hatchling is not None


class World:
    """A copy of the example without its module, and the folder it is installed into."""

    def __init__(self, folder: Path, site: Path) -> None:
        self.folder = folder
        self.environ = {"PYTHONPATH": str(site), "COLUMNS": "200", "NO_COLOR": "1"}

    def begin(self, *args: str, **environ: str) -> "subprocess.Popen[str]":
        return forked(*args, cwd=self.folder, start=START, **self.environ, **environ)

    def run(self, *args: str, **environ: str) -> Said:
        return finish(self.begin(*args, **environ), seconds=120)

    def done(self, *args: str, **environ: str) -> Said:
        said = self.run(*args, **environ)
        assert said.code == 0, said
        return said

    def settings(self, run: str) -> Any:
        header = json.loads((self.folder / run / "run.json").read_text(encoding="utf-8"))
        return header["project"]["spec"]["strategy"]["settings"]

    def calls(self) -> list[str]:
        file = self.folder / "calls.txt"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


@pytest.fixture
def world(tmp_path: Path, site: Path) -> World:
    folder = copy_example("own_strategy", tmp_path / "work")
    (folder / "burnish_shorten.py").unlink()
    (folder / "pyproject.toml").unlink()
    with (folder / "agent.py").open("a", encoding="utf-8") as agent:
        agent.write(COUNTING)
    return World(folder, site)


def test_a_plan_a_run_its_report_and_what_is_shown_of_it(world: World) -> None:
    plan = world.done("optimize", "project.yaml", "--dry-run", "--most", "3")
    assert "strategy  shorten" in plan.out
    assert "3 may go" in plan.out
    assert world.calls() == []
    world.done("optimize", "project.yaml", "--most", "3", "-o", "run")
    assert world.settings("run") == {"most": 3}
    report = (world.folder / "run" / "report.md").read_text(encoding="utf-8")
    assert "## Length" in report
    assert "characters before" in report
    shown = world.done("runs", "show", "run")
    assert "shorten" in shown.out


def test_killed_half_way_it_is_resumed_and_pays_for_nothing_twice(world: World) -> None:
    flags = ("--concurrency", "1", "--progress", "none")
    world.done("optimize", "project.yaml", "-o", "whole", *flags)
    whole = Counter(world.calls())
    (world.folder / "calls.txt").unlink()
    held = sum(whole.values()) // 2
    (world.folder / "hold").write_text(str(held))
    process = world.begin("optimize", "project.yaml", "-o", "cut", *flags)
    until(lambda: len(world.calls()) == held)
    process.kill()
    process.communicate()
    in_flight = world.calls()[-1]
    (world.folder / "hold").unlink()
    world.done("runs", "resume", "cut")
    assert Counter(world.calls()) - whole <= Counter([in_flight])
    assert whole - Counter(world.calls()) == Counter()
    first, second = (_table(world.folder / run / "report.md") for run in ("whole", "cut"))
    assert first == second


def _table(report: Path) -> str:
    """What a report says of lengths."""
    return report.read_text(encoding="utf-8").partition("## Length")[2]


def test_the_commands_of_its_readme(site: Path, tmp_path: Path) -> None:
    copy_example("own_strategy", tmp_path / "examples" / "own_strategy")
    run_readme("own_strategy", World(tmp_path, site))
    report = (tmp_path / "shortened" / "report.md").read_text(encoding="utf-8")
    assert "| system | 272 | 163 |" in report


def run_readme(name: str, world: World) -> None:
    """Each command in a process of its own; what `pip install` does is done already."""
    for block in blocks(EXAMPLES / name / "README.md"):
        for command in commands(block) if block.language == "console" else ():
            program, *arguments = command.line.split()
            if program == "pip":
                continue
            said = world.run(*arguments)
            lines = [*said.out.splitlines(), *said.err.splitlines()]
            assert matches(command.shown, lines), (command.line, lines)


def test_help_names_its_flag(world: World) -> None:
    said = world.done("optimize", "--help")
    assert "--most" in said.out
    assert "Sentences that may be left out." in said.out


def test_a_wrong_value_is_refused_with_place_and_remedy(world: World) -> None:
    said = world.run("optimize", "project.yaml", "--most", "0", "--dry-run")
    assert said.code == 1
    assert said.err == "error: --most: expected at least 1, found 0\n"
    text = (world.folder / "project.yaml").read_text(encoding="utf-8")
    (world.folder / "project.yaml").write_text(text.replace("most: 6", "mots: 6"))
    said = world.run("optimize", "project.yaml", "--dry-run")
    assert said.code == 1
    assert "project.yaml:" in said.err
    assert "shorten.mots: unknown key 'mots' — did you mean 'most'?" in said.err


def test_a_variable_and_set_reach_it_too(world: World) -> None:
    text = (world.folder / "project.yaml").read_text(encoding="utf-8")
    (world.folder / "project.yaml").write_text(text.replace("shorten: {most: 6}\n", ""))
    planned = world.done("optimize", "project.yaml", "--dry-run", BURNISH_MOST="4")
    assert "4 may go" in planned.out
    flag = ("--set", "strategy.settings.most=2")
    world.done("optimize", "project.yaml", *flag, "-o", "run", BURNISH_MOST="4")
    assert world.settings("run") == {"most": 2}


def test_over_http_an_open_door_is_open_and_a_closed_one_is_not(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in world.environ.items():
        monkeypatch.setenv(name, value)
    with serving(world.folder, "--app", "x=project.yaml", "--data", "data") as service:
        refused = service.client.post("/apps/x/runs", json={"settings": {"tolerance": 0.1}})
        assert 400 <= refused.status_code < 500
        (problem,) = refused.json()["error"]["problems"]
        assert problem["where"] == "body.settings.tolerance"
        assert problem["remedy"] == "only the operator may set it, in the project file"
        assert [*(world.folder / "data").rglob("run.json")] == []
        run = service.post("/apps/x/runs", id="r", settings={"most": 3})
        assert run["id"] == "r"
        ended = service.until(
            "/apps/x/runs/r", lambda run: run["status"] not in ("queued", "running")
        )
        assert ended["status"] == "succeeded"
    headers = [json.loads(file.read_text()) for file in (world.folder / "data").rglob("run.json")]
    assert [each["project"]["spec"]["strategy"]["settings"] for each in headers] == [{"most": 3}]
