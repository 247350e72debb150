"""What `pip install burnish` alone can do: a first run, from `init` to report.html."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from burnish.system.extras import install_command
from burnish.testing.servers import HttpRequest, ScriptedServer
from tests.cli.console import Said
from tests.cli.served_echo import hosted
from tests.test_core_size import core

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
absent = set(sys.argv.pop(1).split(","))

class Absent:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent)
from burnish.cli import main
main(sys.argv[1:])
"""
"""The command line where modules are absent."""
BETTER = "Name the queue of the message: billing, delivery, returns or technical."
TOOLS = """
tools:
  - {name: look, type: function, description: Looks it up., file: look.py, function: look}
"""


def _canonical(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def _absent() -> list[str]:
    """The modules that are installed here, and not with the core."""
    ours = {_canonical(name) for name in (*core(), "burnish")}
    return [
        module
        for module, packages in packages_distributions().items()
        if ours.isdisjoint(map(_canonical, packages))
    ]


@pytest.fixture(scope="module")
def absent() -> str:
    modules = _absent()
    assert {"jinja2", "pydantic_ai"}.isdisjoint(modules)
    return ",".join([*modules, "openai", "plotly"])


@pytest.fixture
def desk(tmp_path: Path, absent: str) -> Path:
    """A new project, from a folder where there is no key."""
    made = _burnish(tmp_path, absent, "init", "--yes", "--folder", "desk")
    assert made.code == 0, made
    assert "first    set OPENAI_API_KEY in the environment or in .env" in made.lines
    assert "pip install" not in made.out
    return tmp_path / "desk"


@pytest.fixture
def endpoint(desk: Path) -> Generator[str]:
    """An endpoint that knows every answer, if its instructions are the better ones."""
    answers = dict[str, str]()
    for name in ("train", "holdout", "test"):
        rows = map(json.loads, (desk / "cases" / f"{name}.jsonl").read_text("utf-8").splitlines())
        answers |= {row["input"]: row["expected"] for row in rows}

    def answer(request: HttpRequest) -> str:
        body = request.json
        assert "tools" not in body
        if "response_format" in body:
            return json.dumps({"diagnosis": "It is not told how.", "new_text": BETTER})
        system, question = (each["content"] for each in body["messages"])
        return answers[question] if BETTER in system else "billing"

    with hosted(ScriptedServer(answers=answer)) as url:
        yield url


def _burnish(folder: Path, absent: str, *words: str, **variables: str) -> Said:
    environ = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, absent, *words],
        cwd=folder,
        env=environ | {"BURNISH_HOME": str(folder.parent / "home"), "BURNISH_HTML": ""} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    return Said(code=done.returncode, out=done.stdout, err=done.stderr)


def test_only_the_key_is_missing(desk: Path, absent: str) -> None:
    for command, code in (
        (("eval", "agent.yaml"), 3),
        (("optimize", "agent.yaml", "--dry-run"), 1),
    ):
        said = _burnish(desk, absent, *command)
        assert said.code == code
        assert "there is no key for openai:gpt-4o-mini — set OPENAI_API_KEY" in said.err
        assert "install" not in said.err


@pytest.mark.parametrize("model", ["openai:gpt-5-mini", "ollama:llama3.2"])
def test_a_first_run(desk: Path, endpoint: str, absent: str, model: str) -> None:
    variables = {"OPENAI_BASE_URL": endpoint, "OPENAI_API_KEY": "a-dummy-of-nobody"}
    if model.startswith("ollama"):
        variables = {"OLLAMA_BASE_URL": endpoint}
    provider, name = model.split(":")
    file = desk / "agent.yaml"
    text = file.read_text(encoding="utf-8").replace("gpt-4o-mini", name)
    file.write_text(text.replace('provider: "openai"', f'provider: "{provider}"'), encoding="utf-8")
    if name == "gpt-5-mini":  # which takes no temperature
        file.write_text(re.sub(" *temperature: 0.0\n", "", file.read_text()), encoding="utf-8")

    measured = _burnish(desk, absent, "eval", "agent.yaml", **variables)
    assert measured.code == 1, measured
    assert "of 60 cases fail" in measured.out
    planned = _burnish(desk, absent, "optimize", "agent.yaml", "--dry-run", **variables)
    assert (planned.code, planned.err) == (0, "")
    assert "missing" not in planned.out
    done = _burnish(desk, absent, "optimize", "agent.yaml", "-o", "run", **variables)
    assert (done.code, done.err) == (0, ""), done

    page = (desk / "run" / "report.html").read_text(encoding="utf-8")
    assert "improved" in page
    assert re.search('<h3>Score by trial</h3>.{,20}<div class="scroll"', page, re.DOTALL)
    assert "data-chart=" not in page
    assert page.count("<script") == 1
    (allowed,) = re.findall("script-src ([^;]*);", page)
    assert len(allowed.split()) == 1
    for command in (("runs", "report", "run", "--html"), ("why", "run")):
        assert _burnish(desk, absent, *command).code == 0


def test_an_agent_with_tools_names_what_it_needs_in_its_plan_and_at_its_start(
    desk: Path, endpoint: str, absent: str
) -> None:
    variables = {"OPENAI_BASE_URL": endpoint, "OPENAI_API_KEY": "a-dummy-of-nobody"}
    with (desk / "agent.yaml").open("a", encoding="utf-8") as file:
        file.write(TOOLS)
    (desk / "look.py").write_text("def look(word: str) -> str:\n    return word\n")
    words = "openai:gpt-4o-mini with tools needs the extra 'openai'"
    plan = _burnish(desk, absent, "optimize", "agent.yaml", "--dry-run", **variables)
    assert plan.code == 0
    assert words in " ".join(plan.out.split())
    said = _burnish(desk, absent, "optimize", "agent.yaml", "-o", "run", **variables)
    assert said.code == 1
    assert f"{words}, which is not installed\n{install_command('openai')}\n" in said.err
    assert not (desk / "run").exists()


@pytest.mark.parametrize("kind", ["workflow", "suite"])
def test_a_project_whose_workers_have_tools_says_what_to_install_first(
    kind: str, tmp_path: Path, absent: str
) -> None:
    made = _burnish(tmp_path, absent, "init", "--yes", "--have", kind, "--folder", "team")
    assert f"first    {install_command('openai')}" in made.lines


@pytest.mark.parametrize("command", [("doctor",), ("models", "list"), ("--help",)], ids=str)
def test_what_looks_around_needs_nothing(
    command: tuple[str, ...], tmp_path: Path, absent: str
) -> None:
    said = _burnish(tmp_path, absent, *command)
    assert (said.code, said.err) == (0, "")
