"""Plug-ins of somebody else's distributions keep the contracts, and work from every door."""

import json
from pathlib import Path

import pytest

from tests.cli.console import START, Said, finish, forked
from tests.testing.own_plugins import install, write_project

pytestmark = pytest.mark.slow
CHECKS = {
    "strategy": "asyncio.run(check_strategy_plugin('shout', project, Path('contract')))",
    "target": "asyncio.run(check_target_plugin('parrot', project, Path('contract')))",
    "metric": "asyncio.run(check_metric_plugin('loudness', {'enough': 0.5}, case, outcomes))",
    "dialect": "check_dialect('parrot', project, Path())",
    "provider": "check_provider(find_provider('nest'))",
}
BEFORE = """\
import asyncio
from pathlib import Path
from burnish import Case, Outcome
from burnish.models.providers import find_provider
from burnish.testing import *
from burnish.testing import check_provider
project = PluginProject(file=Path('parrot.yaml'))
case, outcomes = Case.single('speak'), [Outcome(replies=('HELLO',)), Outcome(replies=('hi',))]
"""
AGENT = """\
def reply(query):
    return query.upper()
"""


class World:
    """A folder with a project, and the distributions beside it."""

    def __init__(self, folder: Path, site: Path) -> None:
        self.folder, self.site = folder, site

    def run(self, *args: str, start: str = START, **environ: str) -> Said:
        where = {"PYTHONPATH": str(self.site), "COLUMNS": "100", "NO_COLOR": "1"}
        return finish(forked(*args, cwd=self.folder, start=start, **where, **environ), seconds=120)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")


@pytest.fixture
def world(tmp_path: Path) -> World:
    write_project(tmp_path / "work")
    return World(tmp_path / "work", install(tmp_path / "site"))


@pytest.mark.parametrize("kind", CHECKS)
def test_it_keeps_its_contract(world: World, kind: str) -> None:
    said = world.run(start=BEFORE + CHECKS[kind])
    assert (said.code, said.err) == (0, "")


@pytest.mark.parametrize(
    ("module", "old", "new", "kind", "sentence"),
    [
        ("own_strategy", 'name: ClassVar[str] = "shout"', 'name: ClassVar[str] = "loud"',
         "strategy", "it is installed as 'shout' and calls itself 'loud'"),
        ("own_strategy", '    """Words to write in capitals."""\n', "",
         "strategy", "strategy.settings.words has no help"),
        ("own_strategy", "Annotated[AtLeastOne, Door(", "Annotated[object, Door(",
         "strategy", "accepts any value"),
        ("own_strategy", 'Door(flag="*", http=Access.CLIENT)', 'Door(flag="max_trials")',
         "strategy", "every run has a flag --max-trials already"),
        ("own_strategy", 'Door(flag="*", http=Access.CLIENT)', 'Door(flag="dry_run")',
         "strategy", "the command itself has a flag --dry-run"),
        ("own_strategy", "short_id([self.name,", "short_id([self.name, id(self),",
         "strategy", "its fingerprint differs when it is built again"),
        ("own_strategy", "    def build(",
         "    def report(self, run):\n        raise KeyError(1)\n\n    def build(",
         "strategy", "the report fails on a finished run"),
        ("own_target", 'name="parrot"', 'name="bird"', "target", "has the kind 'bird'"),
        ("own_target", 'place="says"', 'place="sings"',
         "target", "parrot.yaml#sings: there is no such value in the file"),
        ("own_target", 'place="says"', 'place="words"',
         "target", "text: it is 2 now, but was 'hello dear world' in the run"),
        ("own_metric", "name=self.name(block)", 'name="volume"', "metric", "the metric 'volume'"),
        ("own_dialect", '"target.text"', '"target.texts"', "dialect",
         "the key 'says' sets 'target.texts', which no strategy or target has"),
    ],
)  # fmt: skip
def test_what_authors_get_wrong_is_caught(
    world: World, module: str, old: str, new: str, kind: str, sentence: str
) -> None:
    file = world.site / f"{module}.py"
    source = file.read_text(encoding="utf-8")
    assert old in source
    file.write_text(source.replace(old, new), encoding="utf-8")
    said = world.run(start=BEFORE + CHECKS[kind])
    assert said.code == 1
    assert sentence in said.err


def test_a_file_of_their_dialect_is_planned_run_reported_and_resumed(world: World) -> None:
    planned = world.run("optimize", "parrot.yaml", "--dry-run")
    assert planned.code == 0, planned
    said = world.run("optimize", "parrot.yaml", "--words", "3", "-o", "run")
    assert said.code == 0, said
    header = json.loads((world.folder / "run" / "run.json").read_text())
    spec = header["project"]["spec"]
    assert spec["strategy"] == {"name": "shout", "settings": {"words": 3}}
    assert spec["metrics"]["blocks"] == [{"type": "loudness", "enough": 0.5}]
    assert "HELLO DEAR" in (world.folder / "run" / "report.md").read_text()
    resumed = world.run("runs", "resume", "run")
    assert resumed.code == 0, resumed


def test_a_candidate_of_their_target_is_adopted_and_undone(world: World) -> None:
    file = world.folder / "parrot.yaml"
    text = "# ours\n" + file.read_text(encoding="utf-8")
    world.write("parrot.yaml", text)
    said = world.run("optimize", "parrot.yaml", "-o", "run")
    assert said.code == 0, said
    assert "next     burnish adopt run   (shows the diff first; can be undone)" in said.lines
    shown = world.run("adopt", "run", "--diff")
    assert (shown.code, shown.err) == (0, ""), shown
    assert "~says: [-hello-]{+HELLO+} [-dear-]{+DEAR+} world\n" in shown.out
    assert file.read_text(encoding="utf-8") == text
    adopted = world.run("adopt", "run", "--yes")
    assert adopted.lines[-2:] == ["changed  parrot.yaml", "undo     burnish adopt run --undo"]
    assert file.read_text(encoding="utf-8") == text.replace("hello dear", "HELLO DEAR")
    again = world.run("adopt", "run", "--yes")
    assert again.out.startswith("nothing to adopt: trial 2 has been adopted since"), again
    undone = world.run("adopt", "run", "--undo")
    assert (undone.code, undone.lines[-1]) == (0, "changed  parrot.yaml"), undone
    assert file.read_text(encoding="utf-8") == text
    world.write("parrot.yaml", f"{text}# edited\n")
    refused = world.run("adopt", "run", "--yes")
    assert refused.code == 1
    assert "parrot.yaml is not what the run measured" in refused.err
    moved = world.run("adopt", "run", "--yes", "--file", "parrot.yaml")
    assert "--file: these files are always adopted in place" in moved.err


def test_their_metric_measures_any_agent(world: World) -> None:
    world.write("own_agent.py", AGENT)
    world.write("metrics.json", '[{"type": "loudness"}]')
    metrics = "metrics: [{type: loudness, enough: 0.5}]\n"
    world.write(
        "agent.yaml", f"kind: python\ntarget: own_agent:reply\ncases: train.jsonl\n{metrics}"
    )
    for flags in ((), ("--metrics", "metrics.json")):
        said = world.run("eval", "agent.yaml", "--json", "report.json", "-q", *flags)
        assert said.code == 0, said
        report = json.loads((world.folder / "report.json").read_text())
        assert "loudness" in json.dumps(report)


LOADED = """
import sys
from burnish.cli import main
try:
    main(["optimize", "prompts.yaml", "--dry-run"])
except SystemExit as end:
    print(end.code, "own_metric" in sys.modules)
"""


@pytest.mark.parametrize(
    ("block", "end"), [("type: loudness", "0 True"), ("metric: equality", "0 False")]
)
def test_their_metric_is_loaded_where_a_file_names_it(world: World, block: str, end: str) -> None:
    world.write("own_agent.py", AGENT)
    world.write("system.md", "Be loud.")
    prompts = "kind: prompts\ntarget: {python: own_agent:reply}\nprompts: {system: system.md}\n"
    cases = "isolation: isolated\ntrain: train.jsonl\nholdout: holdout.jsonl\nreflector: nest:m\n"
    world.write("prompts.yaml", f"{prompts}{cases}metrics: [{{{block}}}]\n")
    said = world.run(start=LOADED, NEST_KEY="k" * 20)
    assert said.lines[-1:] == [end], said


def test_their_metric_stands_in_an_agent_file(world: World) -> None:
    world.write("agent.yaml", AGENT_FILE)
    said = world.run("eval", "agent.yaml", "--metric", "loud", NEST_KEY="k" * 20)
    assert said.code == 3
    assert "no such metric — did you mean 'loudness'?" in said.err
    world.write("agent.yaml", AGENT_FILE.replace("enough", "enuf"))
    said = world.run("eval", "agent.yaml", NEST_KEY="k" * 20)
    assert "agent.yaml:5 evaluations.metrics[0].enuf: unknown key 'enuf'" in said.err
    assert "did you mean 'enough'?" in said.err


AGENT_FILE = """\
name: clerk
model: nest:m
instructions: {inline: Answer.}
evaluations:
  metrics: [{type: loudness, enough: 0.5}]
test_cases:
  - {input: "Is it open?", ground_truth: "yes"}
"""


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("{type: loudnes}", "did you mean 'loudness'?"),
        ("{type: loudness, enuf: 1}", "did you mean 'enough'?"),
        ("{type: loudness, enough: 2}", "measured_by[0].enough: expected at most 1"),
    ],
)
def test_what_is_wrong_with_their_block_is_said_with_its_place(
    world: World, block: str, words: str
) -> None:
    text = (world.folder / "parrot.yaml").read_text()
    world.write("parrot.yaml", text.replace("{type: loudness, enough: 0.5}", block))
    said = world.run("optimize", "parrot.yaml", "--dry-run")
    assert said.code == 1, said
    assert "parrot.yaml:3 measured_by[0]" in said.err
    assert words in said.err
