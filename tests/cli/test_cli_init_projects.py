"""`burnish init`: a project for every kind of file, from any cases, that never overwrites."""

import json
import os
import pty
import shutil
import subprocess
import sys
from collections import Counter
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from burnish.core.cases import Split
from burnish.core.statistics import paired_interval
from burnish.datasets.splits import split
from burnish.models.providers import BUILT_IN
from burnish.projects.dialects import Document, dialect_of
from burnish.projects.starters.files import StarterCases
from burnish.projects.starters.kinds import STARTERS
from tests.cli.console import START, Burnish, Said, finish, forked, refused, tree

MODEL = ("--model", "ollama:llama3.2")
FUNCTION = "def answer(query: str) -> str:\n    return 'billing'\n"
AGENT = "name: mine\nmodel: {provider: ollama, name: llama3.2}\ninstructions: {inline: Sort it.}\n"
LIBRARIES = {
    "langgraph": ("from langgraph.graph import StateGraph\ngraph = StateGraph(dict).compile()\n",
                  "await graph.ainvoke("),
    "pydantic-ai": ("from pydantic_ai import Agent\ndesk = Agent('test')\n", "await desk.run("),
    "openai-agents": ("from agents import Agent\ndesk = Agent(name='x')\n",
                      "Runner.run(desk, query)"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name in (name for row in BUILT_IN for name in row.key_variables):
        monkeypatch.delenv(name, raising=False)


def prepared(folder: Path) -> None:
    """What somebody has who has a program, a prompt or an agent file."""
    (folder / "prompts").mkdir()
    (folder / "prompts/system.md").write_text("Sort the ticket.\n", encoding="utf-8")
    (folder / "mine.py").write_text(FUNCTION, encoding="utf-8")


def commands(said: Said) -> list[str]:
    """The commands to go on with."""
    lines = said.lines
    start = next(place for place, line in enumerate(lines) if line.startswith("next "))
    return [line[9:] for line in lines[start:]]


FLAGS = {
    "agent": ("--program", "mine.yaml"),
    "python": ("--program", "mine:answer"),
    "optimizer": ("--program", "mine:answer"),
    "http": ("--url", "http://127.0.0.1:9/", "--response-path", "reply"),
    "command": ("--command", "python mine.py '{input}'"),
}


@pytest.mark.parametrize("have", [name for name in STARTERS if name not in LIBRARIES])
def test_the_commands_of_every_starter_work(burnish: Burnish, tmp_path: Path, have: str) -> None:
    prepared(tmp_path)
    (tmp_path / "mine.yaml").write_text(AGENT, encoding="utf-8")
    said = burnish("init", "--yes", "--have", have, *MODEL, *FLAGS.get(have, ()))
    assert said.code == 0, said
    assert len(commands(said)) == 3
    plans = [line for line in commands(said) if line.endswith(("--dry-run", "--suggest-axes"))]
    if have == "agent":
        plans = plans[:1]  # the last one waits for the block that the second one prints
    assert plans
    for line in plans:
        plan = burnish(*line.replace("'", "").split()[1:])
        assert plan.code == 0, plan


def test_every_kind_of_file_has_a_starter(burnish: Burnish, tmp_path: Path) -> None:
    written: set[str] = set()
    ways = [(name, FLAGS.get(name, ())) for name in STARTERS if name not in LIBRARIES]
    for have, flags in ways:
        for prompts in (True, False):
            folder = tmp_path / f"{have}-{prompts}"
            folder.mkdir()
            prepared(folder)
            (folder / "mine.yaml").write_text(AGENT, encoding="utf-8")
            if not prompts:
                (folder / "prompts/system.md").unlink()
            before = set(tree(folder))
            place = ("--folder", str(folder))
            if burnish("init", "--yes", "--have", have, *MODEL, *flags, *place).code:
                assert (have, prompts) == ("optimizer", False)
            files = [folder / name for name in {*tree(folder)} - before]
            for file in files:
                described = file.suffix in (".yaml", ".json") and "schema" not in file.name
                if described and file.name != "metrics.yaml":
                    written.add(dialect_of(Document.read(file)).kind)
    ours = {
        point.name
        for point in entry_points(group="burnish.projects")
        if point.value.startswith("burnish.projects.")
    }
    assert written == ours - {"framework"}, "an agent of a framework needs no file"


@pytest.mark.parametrize("library", list(LIBRARIES))
def test_a_program_of_a_library_is_found_and_called(
    burnish: Burnish, tmp_path: Path, library: str
) -> None:
    text, call = LIBRARIES[library]
    (tmp_path / "desk.py").write_text(text, encoding="utf-8")
    said = burnish("init", "--yes", *MODEL)
    assert said.code == 0, said
    assert call in (tmp_path / "call_agent.py").read_text(encoding="utf-8")
    assert '"call_agent:call_agent"' in (tmp_path / "burnish.yaml").read_text(encoding="utf-8")
    assert "put it into a file that the agent reads on each call" in said.out


def test_the_only_module_with_a_function_is_found(burnish: Burnish, tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(FUNCTION, encoding="utf-8")
    (tmp_path / "words.py").write_text("WORDS = ['billing']\n", encoding="utf-8")
    made = burnish("init", "--yes", "--have", "python", *MODEL)
    assert made.code == 0, made
    assert "desk:answer" in (tmp_path / "burnish.yaml").read_text(encoding="utf-8")


def test_cases_with_any_columns(burnish: Burnish, tmp_path: Path) -> None:
    rows = "".join(f"{n};Subject {n};The text of message {n};{n % 3}\n" for n in range(30))
    (tmp_path / "export.csv").write_text(f"Nr;Subject;Body;Queue\n{rows}", encoding="utf-8")
    said = burnish("init", "--yes", *MODEL)
    assert "30 cases from " in said.out
    assert said.out.count('input = "Body" ("The text of message 0"), expected = "Queue" ("0")') == 1
    assert 'name = "Nr" ("0")' in said.out
    train = (tmp_path / "cases/train.jsonl").read_text(encoding="utf-8").splitlines()
    assert list(json.loads(train[0])) == ["name", "input", "expected", "Subject"]
    other = burnish("init", "--yes", *MODEL, "--folder", "other", "--cases", "export.csv",
                    "--input", "Subject")  # fmt: skip
    assert 'input = "Subject" ("Subject 0"), expected = "Queue" ("0")' in other.out


@pytest.mark.parametrize(
    ("answers", "metric"),
    [
        ([f"{n}.5" for n in range(30)], "metric: numeric"),
        (["yes", "no", "maybe"] * 10, "metric: equality"),
        ([f"It is the long answer number {n} to that" for n in range(30)], "metric: rouge"),
        ([""] * 30, "type: geval"),
    ],
)
def test_the_metric_fits_the_answers(
    burnish: Burnish, tmp_path: Path, answers: list[str], metric: str
) -> None:
    rows = (
        {"input": f"question {n}", **({"expected": answer} if answer else {})}
        for n, answer in enumerate(answers)
    )
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert burnish("init", "--yes", *MODEL).code == 0
    assert metric in (tmp_path / "agent.yaml").read_text(encoding="utf-8")
    assert burnish("optimize", "agent.yaml", "--dry-run").code == 0


def test_what_exists_is_never_overwritten(burnish: Burnish, tmp_path: Path) -> None:
    (tmp_path / "instructions.md").write_text("mine", encoding="utf-8")
    before = tree(tmp_path)
    said = burnish("init", "--yes", *MODEL, "--have", "nothing")
    assert said.code == 1
    assert "these files already exist: instructions.md — name another folder" in said.err
    assert tree(tmp_path) == before


def test_a_model_that_is_not_there_yet_is_the_first_step(burnish: Burnish, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("ANTHROPIC_API_KEY=x1234567890\n", encoding="utf-8")
    said = burnish("init", "--yes")
    assert "model    anthropic:" in said.out
    assert "ANTHROPIC_API_KEY is set" in said.out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--have", "htpp"), ("burnish has no starter for 'htpp'", "did you mean 'http'?")),
        (("--model", "opnai:x"), ("unknown provider 'opnai'", "did you mean 'openai'?")),
        (("--cases", "no.csv"), ("there is no such file", "check the path")),
        (("--have", "http"), ("an endpoint needs an address", "add --url")),
        (("--program", "none:x"), ("there is no none.py", "--program module:name")),
        (("--prompt", "no.md", "--command", "cat"), ("there is no file", "name another file")),
        (("--url", "http://x", "--body", "{"), ("it is not JSON", "write it as")),
        (("--have", "agent"), ("there is no agent.yaml", "--have nothing")),
    ],
)
def test_what_is_wrong_is_said_with_a_remedy(
    burnish: Burnish, tmp_path: Path, args: tuple[str, ...], words: tuple[str, ...]
) -> None:
    own = () if "--model" in args else MODEL
    refused(burnish("init", "--yes", *own, *args), *words)
    assert tree(tmp_path) == {}


def test_without_a_terminal_it_does_not_guess(tmp_path: Path) -> None:
    said = finish(forked("init", cwd=tmp_path))
    assert said.code == 1
    assert "add --yes to take what is likeliest" in said.err
    assert tree(tmp_path) == {}


@pytest.mark.slow
def test_it_asks_at_a_terminal(tmp_path: Path) -> None:
    """The program, the cases, the columns and the model; the rest by Enter."""
    tickets = Path("src/burnish/projects/starters/tickets.csv")
    shutil.copy(tickets, tmp_path / "tickets.csv")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", START, "init", "--model", "ollama:m"],
        cwd=tmp_path,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.write(ours, b"1\n1\n\n\n")
    try:
        ended = finish(process)
    finally:
        os.close(ours)
        os.close(theirs)
    assert ended.code == 0, ended
    said = ended.out
    assert "What do you have?" in said
    assert "1  nothing yet: start with a model and instructions" in said
    assert "1  tickets.csv" in said
    assert "column of the input [ticket]" in said
    assert (tmp_path / "agent.yaml").is_file()


def test_the_sample_data_can_show_a_gain() -> None:
    """Also if one of the sealed cases, which pass or fail, gets worse."""
    examples = StarterCases.examples()
    parts = examples.dataset
    assert [len(parts.cases(part)) for part in Split] == [60, 36, 24]
    for part in Split:
        counts = Counter(case.expected for case in parts.cases(part))
        assert set(counts) == set(examples.labels)
        assert len(set(counts.values())) == 1
    assert split(examples.cases, seed=1).notes == ()
    better, worse = [1.0] * 7, [-1.0]
    gain = paired_interval([*better, *worse, *[0.0] * (len(parts.test) - 8)])
    assert gain is not None
    assert gain.low > 0
