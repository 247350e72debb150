"""The artifact loop on real files: a slow function gets better while its tests pass."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from burnish.core.evaluations import Constraint, Objective
from burnish.journal.limits import Budget
from burnish.metrics.computed import DistinctPhrases, Length
from burnish.metrics.turns import ComputedMetric, Exchange, Verdict
from burnish.reports.rendering import render
from burnish.runs.directory import RunRecord
from burnish.runs.setup import Setup
from burnish.strategies.edits.attempts import EditsSettings
from burnish.strategies.edits.editors import Edit, EditRequest, Replacement, WholeFile
from burnish.strategies.edits.strategy import Edits
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.artifacts.task import HeldOut, Runner, Scoring, Task
from burnish.testing.doubles import ScriptedRole
from tests.strategies.edit_world import Script, driven
from tests.targets.artifacts.task_folders import opened, seen, write

pytestmark = pytest.mark.slow

SLOW = """\
steps = 0


def total(numbers):
    global steps
    found = 0
    for place in range(len(numbers)):
        for other in range(len(numbers)):
            steps += 1
            if place == other:
                found += numbers[place]
    return found
"""
FAST = """\
steps = 0


def total(numbers):
    global steps
    steps += len(numbers)
    return sum(numbers)
"""
BY_HEART = FAST.replace("return sum(numbers)", "return {10: 45, 3: 6}[len(numbers)]").replace(
    "steps += len(numbers)", "steps += 1"
)
TESTS = """
import sys
import code_under_test as code
cases = {"train": [list(range(10)), [1, 2, 3]], "holdout": [[5, 5], [7] * 4]}[sys.argv[1]]
wrong = sum(code.total(list(case)) != sum(case) for case in cases)
print(f"ran {sys.argv[1]}")
print(wrong, code.steps)
"""
SCORE = """
import json, os
said = open(os.environ["BURNISH_RUNNER_STDOUT"]).read().split()
wrong, steps = map(int, said[-2:])
print(json.dumps({"score": 1 / (1 + steps), "metrics": {"wrong": wrong, "steps": steps}}))
"""
FILE = "code_under_test.py"


def task_in(folder: Path) -> Task:
    write(folder, {FILE: SLOW, "tests.py": TESTS, "score.py": SCORE})
    return Task(
        folder=folder,
        include=(FILE,),
        runner=Runner(command="python tests.py train", timeout_seconds=120),
        scoring=Scoring(command="python score.py"),
    )


def setup(target: ArtifactsTarget, edits: list[Edit]) -> Setup:
    script = Script(edits=edits)
    editor = ScriptedRole(
        name="editor", respond=script.answer, request_type=EditRequest, answer_type=Edit
    )
    settings = EditsSettings(task="make total() take fewer steps", max_changed_lines=40)
    return Setup(
        target=target,
        metrics=(),
        objective=Objective(
            weights={}, constraints=(Constraint(metric="wrong", op="<=", value=0),)
        ),
        dataset=target.dataset(),
        strategy=Edits(editor=editor, settings=settings),
        budget=Budget(max_trials=len(edits)),
        notes=target.notes,
        resources=(target,),
    )


def whole(text: str, rationale: str) -> Edit:
    return Edit(rationale=rationale, files=[WholeFile(path=FILE, content=text)])


EDITS = [
    whole(FAST.replace("return sum", "return max"), "the largest will do"),
    whole(FAST.replace("return", "retrun"), "a faster loop, misspelt"),
    whole(FAST, "one pass"),
    Edit(
        rationale="count less",
        replacements=[Replacement(path=FILE, search="steps += len(numbers)", replace="steps += 0")],
    ),
    Edit(rationale="look elsewhere", files=[WholeFile(path="score.py", content="print(1)")]),
]


async def test_a_function_gets_better_while_its_tests_pass(tmp_path: Path) -> None:
    target = opened(task_in(tmp_path / "project"))
    before = seen(tmp_path / "project")
    ending = await driven(setup(target, EDITS), tmp_path / "run")
    assert seen(tmp_path / "project") == before
    record = RunRecord.read(tmp_path / "run")
    told = [row.trial.details.get("decision") for row in record.rows[1:]]
    assert told == ["discard", "crash", "keep", "keep", "discard"]
    assert "steps += 0" in str(ending.best.values[FILE])
    assert (tmp_path / "run/candidates/best" / FILE).read_text() == ending.best.values[FILE]
    assert "SyntaxError" in str(record.rows[2].trial.decision)


async def test_the_report_says_what_the_score_is_worth(tmp_path: Path) -> None:
    target = opened(task_in(tmp_path / "project"))
    await driven(setup(target, EDITS), tmp_path / "run")
    report = render(RunRecord.read(tmp_path / "run"))
    for part in (
        "training score",
        "limits only",
        "| 3 | 3 | one pass | +2 −7 |",
        "keep",
        "discard",
        "crash",
        "wrong <= 0",
        "+    return sum(numbers)",
    ):
        assert part in report, part


async def test_what_was_learnt_by_heart_is_caught_by_the_holdout(tmp_path: Path) -> None:
    task = replace(
        task_in(tmp_path / "project"),
        holdout=HeldOut(runner=Runner(command="python tests.py holdout", timeout_seconds=120)),
    )
    edits = [whole(BY_HEART, "by heart"), whole(FAST, "one pass")]
    made = setup(opened(task), edits)
    ending = await driven(made, tmp_path / "run")
    record = RunRecord.read(tmp_path / "run")
    told = [row.trial.details.get("decision") for row in record.rows[1:]]
    assert told == ["crash", "keep"]
    assert ending.best.values[FILE] == FAST
    asked = str(record.rows[2].trial.proposals)
    assert "KeyError" not in asked
    assert "ran holdout" not in asked
    report = render(record)
    assert "training score" not in report
    assert "holdout decided" in report


EASY = """
import json, pathlib
cases = [json.loads(path.read_text()) for path in pathlib.Path("cases").glob("*.json")]
easy = [case for case in cases if case == {}]
print(json.dumps({"score": 1.0 if easy else 1 / len(cases), "metrics": {"wrong": 0}}))
"""


async def test_a_candidate_that_adds_an_easy_case_is_not_kept(tmp_path: Path) -> None:
    project = tmp_path / "project"
    write(project, {f"cases/{name}.json": '{"hard": true}' for name in ("a", "b", "c")})
    task = replace(task_in(project), runner=Runner(command=f"python {FILE}", timeout_seconds=120))
    write(project, {"score.py": EASY})
    easy = 'open("cases/z.json", "w").write("{}")\n'
    await driven(setup(opened(task), [whole(easy, "one more case")]), tmp_path / "run")
    _, row = RunRecord.read(tmp_path / "run").rows
    assert row.trial.train is not None
    assert row.trial.train.measurement.values["score"] == pytest.approx(1 / 3)
    assert row.trial.details.get("decision") == "discard"
    assert "; left behind: cases/z.json (" in str(row.trial.decision)


async def test_what_the_best_leaves_behind_too_is_not_said_of_a_candidate(tmp_path: Path) -> None:
    project = tmp_path / "project"
    log = 'open("log.txt", "w").write("done")\n'
    write(project, {"cases/a.json": '{"hard": true}'})
    task = replace(task_in(project), runner=Runner(command=f"python {FILE}", timeout_seconds=120))
    write(project, {"score.py": EASY, FILE: log})
    await driven(setup(opened(task), [whole(f"{log}# {log}", "a remark")]), tmp_path / "run")
    record = RunRecord.read(tmp_path / "run")
    assert any("left behind: log.txt" in str(event.data) for event in record.events)
    assert "left behind" not in str(record.rows[1].trial.decision)


@dataclass(frozen=True, kw_only=True)
class Keywords(ComputedMetric):
    """A judge that is easily pleased: it counts words that it likes."""

    name: str = "keywords"

    def compute(self, exchange: Exchange) -> Verdict:
        return Verdict(value=min(1.0, exchange.reply.count("clear") / 10))


@dataclass(frozen=True, kw_only=True)
class Sections(ComputedMetric):
    """A rule about the structure."""

    name: str = "sections"

    def compute(self, exchange: Exchange) -> Verdict:
        return Verdict.of(held="## Steps" in exchange.reply, reason="there is no '## Steps'")


async def test_a_skill_that_is_long_stuffed_or_without_its_parts_is_not_kept(
    tmp_path: Path,
) -> None:
    start = "# Skill\n\n## Steps\n\nBe clear.\n"
    better = start.replace("Be clear.", "Be clear; a clear text has one idea, and clear words.")
    stuffed = start + "clear and concise and " * 4
    long = better + "".join(f"clear{n} more{n} words{n} follow{n} here{n}\n" for n in range(30))
    write(tmp_path / "project", {"SKILL.md": start})
    task = Task(
        folder=tmp_path / "project",
        include=("SKILL.md",),
        scoring=Scoring(kind="metrics", reads="SKILL.md"),
    )
    texts = [stuffed, long, better.replace("## Steps", "## Notes"), better]
    edits = [
        Edit(rationale=text[:20], files=[WholeFile(path="SKILL.md", content=text)])
        for text in texts
    ]
    made = setup(opened(task), edits)
    metrics = (
        Keywords(),
        DistinctPhrases(),
        Length(max=400),
        Sections(),
    )
    asked = {"distinct_phrases": 0.8, "length": 1, "sections": 1}
    constraints = tuple(Constraint(metric=m, op=">=", value=least) for m, least in asked.items())
    assert isinstance(made.strategy, Edits)
    strategy = replace(made.strategy, settings=EditsSettings(primary="keywords"))
    made = replace(
        made,
        metrics=metrics,
        strategy=strategy,
        objective=Objective(weights={"keywords": 1.0}, constraints=constraints),
    )
    ending = await driven(made, tmp_path / "run")
    rows = RunRecord.read(tmp_path / "run").rows
    assert [row.trial.details.get("decision") for row in rows[1:]] == [*["discard"] * 3, "keep"]
    for row, broken in zip(rows[1:], ("distinct_phrases", "length", "sections"), strict=False):
        assert broken in str(row.trial.decision)
    assert ending.best.values["SKILL.md"] == better


FORGED = f"""\
import os, sys
if "check" in sys.argv[0]:
    print('{{"score": 9, "metrics": {{"wrong": 0}}}}', flush=True)
    os._exit(0)
{SLOW}"""
