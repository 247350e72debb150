"""The sealed test of the artifact loop, and what its editor is never told."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case, Outcome
from burnish.core.evaluations import Constraint, Objective
from burnish.core.leaks import WITHHELD
from burnish.core.statistics import paired_interval
from burnish.core.surfaces import Candidate, Origin
from burnish.journal.limits import Budget
from burnish.pages.run_result import verdict_card
from burnish.reports.rendering import render
from burnish.runs.claims import claim_words, conclusion, verdict_cell
from burnish.runs.directory import RunRecord
from burnish.runs.events import SealedResult, TextWithheld, read_all
from burnish.runs.setup import Setup
from burnish.strategies.edits.attempts import EditsSettings
from burnish.strategies.edits.editors import CommandEditor, Edit, WholeFile
from burnish.strategies.edits.strategy import Edits
from burnish.targets.artifacts.safeguards import may_be_code
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.artifacts.task import RUNTIME, HeldOut, Runner, Scoring, Task
from tests.strategies import edit_world
from tests.strategies.edit_world import PATH, START, Script, driven, respond, whole
from tests.targets.artifacts.task_folders import opened, task_in, write

BETTER, BEST = "2\n2\n2\n", "3\n3\n3\n"


def on_test(score: Callable[[float, int], float]) -> Callable[[Candidate, Case, int], Outcome]:
    """The usual world, with another score on the test."""

    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        outcome = respond(candidate, case, draw)
        if case.id != "test" or outcome.failed:
            return outcome
        measures = {**outcome.measures, "score": score(outcome.measures["score"], draw)}
        return replace(outcome, measures=measures)

    return agent


async def test_the_test_is_read_once_at_the_end_and_no_editor_hears_of_it(tmp_path: Path) -> None:
    script, cases = Script(edits=[whole(BETTER), whole("1\n"), whole(BEST)]), list[str]()

    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        cases.append(case.id)
        return respond(candidate, case, draw)

    made = edit_world.setup(script, holdout=True, test=True, agent=agent)
    ending = await driven(made, tmp_path / "run")
    assert cases.count("test") == 2
    assert cases[-2:] == ["test", "test"]
    assert ending.sealed == SealedResult(
        baseline_score=3.0, best_score=9.0, gain=None, primary="score"
    )
    assert "ran test" not in str([*script.seen, *RunRecord.read(tmp_path / "run").rows])
    page = render(RunRecord.read(tmp_path / "run"))
    words = "score 3.000 → 9.000, not sure: one case that is run once shows no spread"
    assert f"**Sealed test, looked at once: {words}**" in page
    await driven(made, tmp_path / "run")
    assert cases.count("test") == 2, "a resumed run takes it from the journal"


def winner_only(score: float, draw: int) -> float:
    return score + draw if score == 3.0 else 0.0


def wavering(score: float, draw: int) -> float:
    return 5.0 + (-1) ** draw * score


def steady(score: float, draw: int) -> float:
    del draw
    return score


@pytest.mark.parametrize(
    ("score", "verdict"),
    [(winner_only, "worse"), (wavering, "not shown"), (steady, "improved")],
)
async def test_repeats_show_what_the_test_cannot_tell(
    tmp_path: Path, score: Callable[[float, int], float], verdict: str
) -> None:
    script, settings = Script(edits=[whole(BEST)]), EditsSettings(repeats=2)
    made = edit_world.setup(script, settings, test=True, agent=on_test(score))
    ending = await driven(replace(made, test_repeats=12), tmp_path / "run")
    assert ending.claim is not None
    assert (ending.claim.basis, ending.claim.verdict) == ("sealed test", verdict)


async def test_a_winner_that_breaks_a_constraint_on_the_test_is_called_worse(
    tmp_path: Path,
) -> None:
    limit = Objective(weights={}, constraints=(Constraint(metric="score", op="<=", value=20.0),))
    agent = on_test(lambda score, _: 10 * score - 20)
    made = edit_world.setup(Script(edits=[whole(BEST)]), objective=limit, test=True, agent=agent)
    ending = await driven(made, tmp_path / "run")
    assert ending.claim is not None
    assert ending.claim.verdict == "worse"
    assert ending.claim.reason.startswith("constraint score <= 20")


async def test_a_constraint_that_the_test_cannot_check_shows_no_gain(tmp_path: Path) -> None:
    def forgets(candidate: Candidate, case: Case, draw: int) -> Outcome:
        outcome = edit_world.respond(candidate, case, draw)
        if case.id != "test" or candidate.values[PATH] == START:
            return outcome
        return replace(outcome, measures={"score": outcome.measures["score"]})

    limit = Objective(weights={}, constraints=(Constraint(metric="lines", op="<=", value=20.0),))
    made = edit_world.setup(Script(edits=[whole(BEST)]), objective=limit, test=True, agent=forgets)
    ending = await driven(replace(made, test_repeats=4), tmp_path / "run")
    assert ending.claim is not None
    assert ending.claim.verdict == "not shown"
    assert "not sure: cannot tell: 'lines' of constraint" in claim_words(ending.claim)
    assert RunRecord.read(tmp_path / "run").claim == ending.claim


async def test_where_nothing_is_better_the_test_stays_sealed(tmp_path: Path) -> None:
    made = edit_world.setup(Script(edits=[whole("1\n")]), test=True)
    ending = await driven(made, tmp_path / "run")
    assert ending.best.values[PATH] == START
    assert ending.claim is not None
    assert (ending.sealed, ending.claim.verdict) == (None, "unchanged")


async def test_its_runs_are_reserved_in_the_budget(tmp_path: Path) -> None:
    script = Script(edits=[whole(BETTER), whole(BEST)])
    made = edit_world.setup(script, test=True, budget=Budget(max_calls=5))
    ending = await driven(made, tmp_path / "run")
    # The baseline, one edit and its run, and two runs of the test.
    assert (len(script.seen), ending.spent.calls) == (1, 5)
    assert ending.sealed is not None


def counted_in(folder: Path, scoring: Scoring | None = None, **more: Any) -> ArtifactsTarget:
    """A task whose score is a number that a program prints, times one in a file of data."""
    write(folder, {"value.sh": "echo 1\n", "factor.yaml": "1\n"})
    command = """printf '{"score": %s}' $(( $(sh value.sh) * $(cat factor.yaml) ))"""
    return opened(
        Task(
            folder=folder,
            include=("value.sh", "factor.yaml"),
            scoring=scoring or Scoring(command=command),
            test=HeldOut(),
            **more,
        )
    )


def writes(path: str, text: str) -> Edit:
    return Edit(rationale="larger", files=[WholeFile(path=path, content=text)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edit", "verdict", "forgeable"),
    [
        (writes("value.sh", "echo 3\n"), "not shown", ("score",)),
        (writes("factor.yaml", "3\n"), "improved", None),
    ],
)
async def test_a_number_that_the_winners_own_code_may_have_written_shows_no_gain(
    tmp_path: Path, edit: Edit, verdict: str, forgeable: tuple[str, ...] | None
) -> None:
    made = edit_world.setup(Script(edits=[edit]), EditsSettings(repeats=2))
    made = over_files(counted_in(tmp_path / "project"), replace(made, test_repeats=8))
    ending = await driven(made, tmp_path / "run")
    claim = RunRecord.read(tmp_path / "run").claim
    assert claim == ending.claim
    assert claim is not None
    assert (claim.baseline_score, claim.best_score) == (1.0, 3.0)
    assert (claim.verdict, claim.forgeable) == (verdict, forgeable)
    own = "not sure: score is measured by the candidate's own process"
    assert (own in claim_words(claim)) == (verdict == "not shown")
    meaning = verdict_card(RunRecord.read(tmp_path / "run")).meaning
    assert ("above zero" in meaning) == (verdict == "improved")


@pytest.mark.slow
async def test_such_a_number_may_still_be_worse_and_is_not_sold_as_selected(tmp_path: Path) -> None:
    made = edit_world.setup(Script(edits=[writes("value.sh", "echo 3\n")]), EditsSettings())
    target = counted_in(tmp_path / "project")
    plain = replace(over_files(target, made), confirm=True)
    plain = replace(plain, dataset=replace(plain.dataset, test=()))
    ending = await driven(plain, tmp_path / "run")
    assert ending.claim is not None
    assert ending.claim.basis == "selected on holdout"
    assert verdict_cell(ending.claim) == "not sure"
    card = verdict_card(RunRecord.read(tmp_path / "run"))
    assert card.title == "Not sure"
    assert "could have written score itself" in card.advice
    gain = paired_interval([-1.0] * 9)
    worse, _ = conclusion(gain, fault="", unchecked="", forgeable=("score",))
    assert worse == "worse"


def test_times_and_metrics_of_burnish_are_no_candidates_own(tmp_path: Path) -> None:
    target = counted_in(tmp_path / "project")
    changed = target.baseline.child({"value.sh": "echo 3\n"}, origin=Origin(by="test"))
    (test,) = target.dataset().test
    assert target.may_write(changed, test, "score")
    assert target.may_write(changed, test, RUNTIME), "without a runner, its scorer gives the number"
    timed = counted_in(tmp_path / "timed", runner=Runner(command="sh value.sh"))
    assert not timed.may_write(changed, test, RUNTIME)
    assert not target.may_write(target.baseline, test, "score")
    metrics = counted_in(tmp_path / "other", Scoring(kind="metrics", reads="value.sh"))
    assert not metrics.may_write(changed, test, "score")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("solve.py", True),
        ("run", True),
        ("templates/page.j2", True),
        ("package.json", True),
        ("CMakeLists.txt", True),
        (".agent/settings.json", True),
        ("pyproject.toml", True),
        (".agent/skills/notes/SKILL.md", False),
        ("config.YAML", False),
        ("prompts/sort.txt", False),
        ("data/cases.jsonl", False),
    ],
)
def test_what_is_not_plain_data_may_be_code(path: str, *, code: bool) -> None:
    assert may_be_code(path) == code


SECRET = "the grain ship left the old harbour of the northern island at dawn"


def leaky(folder: Path) -> ArtifactsTarget:
    """A task whose runner prints what its holdout holds."""
    write(folder, {"held/cases.txt": f"Here is one: {SECRET}.\n"})
    task = task_in(
        folder,
        runner=Runner(command=f"cat {folder}/held/cases.txt; cat value.txt > out.txt"),
        holdout=HeldOut(runner=Runner(command="cat value.txt > out.txt"), files=("held/**",)),
    )
    return opened(task)


def over_files(target: ArtifactsTarget, made: Setup) -> Setup:
    return replace(made, target=target, dataset=target.dataset(), resources=(target,))


@pytest.mark.slow
async def test_held_out_files_that_a_runner_prints_reach_no_brief(tmp_path: Path) -> None:
    target = leaky(tmp_path / "project")
    brief = CommandEditor(
        command='cat "$BURNISH_TASK_FILE"; echo 2 > value.txt', target=target, usd_per_edit=0
    )
    setup = edit_world.setup(Script(edits=[]), budget=Budget(max_trials=1))
    made = replace(over_files(target, setup), strategy=Edits(editor=brief))
    await driven(made, tmp_path / "run")
    record = RunRecord.read(tmp_path / "run")
    (said,) = [row.trial.details["rationale"] for row in record.rows[1:]]
    assert f"runner stdout:\n{WITHHELD}" in str(said)
    assert SECRET not in str(record.rows)
    (event,) = read_all(record.events, TextWithheld)
    assert (event.name, event.role) == ("held/cases.txt", "editor")
    assert "withheld from the editor" in render(record)


@pytest.mark.slow
async def test_an_edit_that_writes_held_out_text_down_is_turned_away(tmp_path: Path) -> None:
    target = leaky(tmp_path / "project")
    file = WholeFile(path="value.txt", content=f"9 {SECRET}\n")
    script = Script(edits=[Edit(rationale="by heart", files=[file])])
    made = over_files(target, edit_world.setup(script, budget=Budget(max_trials=1)))
    await driven(made, tmp_path / "run")
    (row,) = RunRecord.read(tmp_path / "run").rows[1:]
    assert str(row.trial.problems[0]) == (
        "value.txt: it contains text of 'held/cases.txt', which is held out"
    )
