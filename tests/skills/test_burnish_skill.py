"""The skill for coding agents: every command in it is run, beside a scripted model."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.cli.served_echo import hosted
from tests.docs.docs_console import commands, run_in_shell
from tests.docs.docs_pages import ROOT, Block, blocks

from burnish.testing.servers import HttpRequest, ScriptedServer

pytestmark = pytest.mark.slow

SKILL = ROOT / "skills" / "burnish" / "SKILL.md"
LABELS = ("invoice", "parcel", "login")
RULES = "Answer with one word: invoice, parcel or login."
AGENT = """\
import re
from pathlib import Path

RULES = Path(__file__).parent / "prompts" / "rules.md"


def answer(ticket: str) -> str:
    label = re.findall(r"invoice|parcel|login", ticket)[0]
    return label if "one word" in RULES.read_text() else f"This is about your {label}."
"""
ENDS = {"burnish eval burnish.yaml": 1}
"""Where a case fails."""


def _answer(request: HttpRequest) -> str:
    return json.dumps({"diagnosis": "one word is expected", "new_text": RULES})


@dataclass(frozen=True, kw_only=True)
class Place:
    """A folder with an agent, and a model beside it."""

    folder: Path
    url: str

    def run(self, line: str, *, code: int = 0) -> str:
        """Run a command, and return what it prints."""
        exported = {
            "BURNISH_HOME": str(self.folder.parent / "home"),
            "OPENAI_API_KEY": "none-is-needed-offline",
            "OPENAI_BASE_URL": self.url,
        }
        ended, told = run_in_shell(line, self.folder, exported)
        assert ended == code, f"{line}: {told}"
        return told

    @property
    def rules(self) -> str:
        """The prompt of the agent."""
        return (self.folder / "prompts" / "rules.md").read_text(encoding="utf-8")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "agent"
    (folder / "prompts").mkdir(parents=True)
    (folder / "prompts" / "rules.md").write_text("Sort the ticket.\n", encoding="utf-8")
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    rows = [f"Where is my {label} {n}?,{label}" for n in range(32) for label in LABELS]
    text = "\n".join(["ticket,label", *rows])
    (folder / "cases.csv").write_text(text, encoding="utf-8")
    with hosted(ScriptedServer(answers=_answer)) as url:
        yield Place(folder=folder, url=url)


def _lines() -> list[str]:
    shown = (block for block in blocks(SKILL) if block.language == "console")
    return [command.line for block in shown for command in commands(block)]


def _program(word: str) -> Block:
    return next(each for each in blocks(SKILL) if each.language == "python" and word in each.text)


def test_the_commands_lead_from_a_prompt_to_its_improvement(place: Place) -> None:
    *lines, last = _lines()
    assert last == "python improve.py"
    told = {line: place.run(line, code=ENDS.get(line, 0)) for line in lines}
    assert [line.split()[1] for line in lines] == [
        *("data", "init", "eval", "optimize", "optimize", "runs", "why", "adopt", "adopt")
    ]
    assert "at least" in told[lines[3]]
    assert "reserved" in told[lines[3]]
    assert "can show" in told[lines[3]]
    assert "claim" in told[lines[4]]
    assert "improved" in told[lines[4]]
    assert "Sort the ticket." in told[lines[7]]
    assert place.rules.strip() == RULES
    place.run("burnish adopt first --undo")
    assert place.rules == "Sort the ticket.\n"


def test_a_rule_of_ones_own_is_a_function(place: Place) -> None:
    init = next(line for line in _lines() if line.startswith("burnish init"))
    place.run(init)
    (place.folder / "metric.py").write_text(_program("def right").text, encoding="utf-8")
    project = place.folder / "burnish.yaml"
    said = re.search(r"set `metrics: (.+?)`", SKILL.read_text(encoding="utf-8"))
    assert said is not None
    settings = yaml.safe_load(project.read_text(encoding="utf-8"))
    settings["metrics"] = yaml.safe_load(said[1])
    project.write_text(yaml.safe_dump(settings), encoding="utf-8")
    assert "right" in place.run("burnish eval burnish.yaml", code=1)


def test_no_gain_has_the_exit_code_that_the_skill_names(place: Place) -> None:
    for line in _lines()[:5]:
        if line.startswith("burnish init"):
            place.run(line)
        if "--require improved" in line:
            agent = place.folder / "agent.py"
            agent.write_text(AGENT.replace("one word", "no rule says so"), encoding="utf-8")
            told = place.run(line, code=4)
            assert "required: improved" in told
            place.run("burnish runs resume results/first --require improved", code=4)
    assert "| 4 | finished, and no gain is shown |" in SKILL.read_text(encoding="utf-8")


def test_the_program_of_the_skill(place: Place) -> None:
    (place.folder / "improve.py").write_text(_program("burnish.optimize").text, encoding="utf-8")
    assert "improved" in place.run(_lines()[-1])


def test_the_front_matter_says_what_it_is_for() -> None:
    text = SKILL.read_text(encoding="utf-8")
    _, front, _ = text.split("---\n", maxsplit=2)
    fields = yaml.safe_load(front)
    assert set(fields) == {"name", "description"}
    assert fields["name"] == SKILL.parent.name
    assert len(fields["description"]) <= 1024
    assert len(text.splitlines()) <= 200
