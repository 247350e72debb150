"""The artifact loop: stages, keep, discard, crash, bounds, what the editor is told."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from burnish.core.cases import Case, Outcome, Split
from burnish.core.content import Json
from burnish.core.errors import BaselineUnmeasured, ProposerFailed, RoleFailed
from burnish.core.evaluations import (
    CaseResult,
    Constraint,
    Evaluation,
    Objective,
    Score,
    TieBreaker,
)
from burnish.core.surfaces import Candidate
from burnish.core.trials import TrialRow
from burnish.journal.limits import Budget
from burnish.reports.rendering import render
from burnish.runs.directory import RunRecord
from burnish.runs.events import Warned, read_all
from burnish.runs.setup import Setup
from burnish.strategies.edits.attempts import (
    EditsSettings,
    disagreement,
    disagreements,
    file_change,
    remarks_on,
)
from burnish.strategies.edits.editors import Edit, EditRequest, Replacement, WholeFile, carried_out
from burnish.testing.doubles import CallCounter
from tests.strategies.edit_world import PATH, START, Script, driven, failed, respond, setup, whole

STAGES = [
    "mutate_artifacts",
    "run_candidate",
    "score_candidate",
    "validate_constraints",
    "decide",
    "log_iteration",
]


def words(rows: Sequence[TrialRow]) -> list[object]:
    return [row.trial.details.get("decision") for row in rows[1:]]


async def test_only_what_is_clearly_better_is_kept(tmp_path: Path) -> None:
    edits = [whole("2\n1\n1\n"), whole("1\n1\n1\n0\n"), whole("2\n2\n1\n"), whole("boom")]
    ending = await driven(setup(Script(edits=edits)), tmp_path / "run")
    record = RunRecord.read(tmp_path / "run")
    assert words(record.rows) == ["keep", "discard", "keep", "crash"]
    assert ending.best.values[PATH] == "2\n2\n1\n"
    assert record.rows[2].trial.candidate.parents == (record.rows[1].trial.candidate.id,)


async def test_the_eight_stages_are_told_in_their_order(tmp_path: Path) -> None:
    await driven(setup(Script(edits=[whole("3\n")])), tmp_path / "run")
    told = [
        (event.data["iteration"], event.data["stage"])
        for event in RunRecord.read(tmp_path / "run").events
        if event.kind == "stage"
    ]
    assert told[:2] == [(0, "load_task"), (0, "snapshot_baseline")]
    assert told[2:] == [(1, stage) for stage in STAGES]


async def test_constraints_come_before_the_primary_number(tmp_path: Path) -> None:
    objective = Objective(weights={}, constraints=(Constraint(metric="lines", op="<=", value=3),))
    made = setup(Script(edits=[whole("9\n9\n9\n9\n"), whole("2\n1\n1\n")]), objective=objective)
    await driven(made, tmp_path / "run")
    rows = RunRecord.read(tmp_path / "run").rows
    assert words(rows) == ["discard", "keep"]
    assert rows[1].trial.decision is not None
    assert rows[1].trial.decision.code == "constraint"


async def test_tie_breakers_speak_only_at_a_tie(tmp_path: Path) -> None:
    breakers = (TieBreaker(metric="lines", prefer="lower"),)
    edits = [whole("3\n"), whole("1\n1\n1\n0\n"), whole("2\n")]
    made = setup(Script(edits=edits), objective=Objective(weights={}, tie_breakers=breakers))
    await driven(made, tmp_path / "run")
    assert words(RunRecord.read(tmp_path / "run").rows) == ["keep", "discard", "discard"]


def downhill(candidate: Candidate, case: Case, draw: int) -> Outcome:
    """A score that falls by 0.04 with every line that goes; repeats of it differ a little."""
    del case
    lines = len(str(candidate.values[PATH]).split())
    score = 1.0 - 0.04 * (30 - lines) + (0.0, 0.01, -0.01)[draw]
    return Outcome(replies=("ran",), measures={"score": score, "lines": float(lines)})


SHORTER = Objective(weights={}, tie_breakers=(TieBreaker(metric="lines", prefer="lower"),))
SHORTENED = [whole("1\n" * (29 - n)) for n in range(20)]


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        (EditsSettings(tolerance=0.05), 1),
        (EditsSettings(repeats=3, accept_sigma=5.0), 1),
        (EditsSettings(repeats=3, accept_sigma=10.0), 2),
    ],
)
@pytest.mark.parametrize("holdout", [False, True])
async def test_tie_breakers_do_not_walk_the_score_downhill(
    tmp_path: Path, settings: EditsSettings, kept: int, holdout: bool
) -> None:
    made = setup(
        Script(edits=SHORTENED),
        settings,
        objective=SHORTER,
        agent=downhill,
        text="1\n" * 30,
        holdout=holdout,
    )
    await driven(made, tmp_path / "run")
    rows = RunRecord.read(tmp_path / "run").rows
    assert words(rows) == ["keep"] * kept + ["discard"] * (20 - kept)
    decision = rows[kept + 1].trial.decision
    assert decision is not None
    assert decision.numbers["primary_best"] == pytest.approx(1.0)
    assert "but not with the best so far" in decision.reason


class InTurn(Script):
    """The answer for each trial, whichever process asks."""

    def answer(self, request: EditRequest, draw: int) -> Edit:
        del request
        edit = self.edits[(draw - 1) % len(self.edits)]
        assert isinstance(edit, Edit)
        return edit


async def test_the_best_so_far_survives_a_resume(tmp_path: Path) -> None:
    def made(trials: int) -> Setup:
        return setup(
            InTurn(edits=SHORTENED),
            EditsSettings(tolerance=0.05),
            objective=SHORTER,
            agent=downhill,
            text="1\n" * 30,
            budget=Budget(max_trials=trials),
        )

    await driven(made(6), tmp_path / "whole")
    for trials in (1, 2, 6):
        await driven(made(trials), tmp_path / "run")
    rows, uninterrupted = (RunRecord.read(tmp_path / name).rows for name in ("run", "whole"))
    assert [row.trial for row in rows] == [row.trial for row in uninterrupted]
    assert words(rows) == ["keep", *["discard"] * 5]


async def test_a_number_to_be_minimised(tmp_path: Path) -> None:
    settings = EditsSettings(direction="minimize")
    made = setup(Script(edits=[whole("1\n"), whole("2\n")]), settings)
    await driven(made, tmp_path / "run")
    assert words(RunRecord.read(tmp_path / "run").rows) == ["keep", "discard"]


async def test_an_edit_beyond_its_bounds_costs_no_run(tmp_path: Path) -> None:
    counter = CallCounter(path=tmp_path / "calls")
    settings = EditsSettings(max_changed_lines=2)
    edits = [
        whole("7\n7\n7\n"),
        Edit(rationale="a new file", files=[WholeFile(path="other.txt", content="9")]),
        Edit(rationale="elsewhere", replacements=[Replacement(path=PATH, search="5", replace="6")]),
        Edit(rationale="which?", replacements=[Replacement(path=PATH, search="1", replace="6")]),
        whole(START),
        RoleFailed("the editor's answer was cut off"),
        whole("1\n1\n2\n"),
    ]
    script = Script(edits=edits)
    await driven(setup(script, settings, counter=counter), tmp_path / "run")
    rows = RunRecord.read(tmp_path / "run").rows
    assert words(rows) == ["discard"] * 6 + ["keep"]
    reasons = [str(row.trial.problems[0]) for row in rows[1:7]]
    for part, reason in zip(
        ["6 lines", "other.txt", "is not there", "3 times", "changes nothing", "cut off"],
        reasons,
        strict=True,
    ):
        assert part in reason
    assert sum(call.startswith("run") for call in counter.calls()) == 2
    assert "6 lines" in script.seen[1].turned_down


async def test_the_editor_reads_logs_and_numbers_and_never_holdout(tmp_path: Path) -> None:
    script = Script(edits=[whole("boom", "try boom"), whole("2\n1\n1\n1\n1\n"), whole("2\n1\n1\n")])
    await driven(setup(script, holdout=True), tmp_path / "run")
    rows = RunRecord.read(tmp_path / "run").rows
    assert words(rows) == ["crash", "discard", "keep"]
    assert rows[2].trial.decision is not None
    assert rows[2].trial.decision.code == "holdout_worse"
    assert "score: 3" in script.seen[0].feedback
    assert "ran task" in script.seen[0].feedback
    assert "exit code 1: boom" in script.seen[1].turned_down
    asked = "".join(request.model_dump_json() for request in script.seen)
    assert "ran holdout" not in asked


async def test_crashes_are_counted_and_end_the_loop(tmp_path: Path) -> None:
    edits = [whole(f"boom {number}") for number in range(5)]
    settings = EditsSettings(max_failures=2)
    await driven(setup(Script(edits=edits), settings), tmp_path / "run")
    record = RunRecord.read(tmp_path / "run")
    assert words(record.rows) == ["crash", "crash"]
    assert record.search_end == "max_failures"


async def test_a_crash_ends_the_loop_if_the_task_says_so(tmp_path: Path) -> None:
    edits = [whole("2\n1\n1\n"), whole("boom"), whole("9\n1\n1\n")]
    settings = EditsSettings(on_failure="stop")
    ending = await driven(setup(Script(edits=edits), settings), tmp_path / "run")
    record = RunRecord.read(tmp_path / "run")
    assert words(record.rows) == ["keep", "crash"]
    assert record.search_end == "failure"
    assert ending.best.values[PATH] == "2\n1\n1\n"


@pytest.mark.parametrize(
    ("goal", "direction", "kept"),
    [(5.0, "maximize", 2), (3.0, "maximize", 0), (2.0, "minimize", 1)],
)
async def test_a_number_that_is_good_enough_ends_the_loop(
    tmp_path: Path, goal: float, direction: str, kept: int
) -> None:
    """The files as they are may be good enough already."""
    worse = [whole("1\n1\n"), whole("1\n")]
    edits = [whole(f"{n}\n1\n1\n") for n in (2, 3, 4)] if direction == "maximize" else worse
    settings = EditsSettings.model_validate({"target_score": goal, "direction": direction})
    await driven(setup(Script(edits=edits), settings), tmp_path / "run")
    record = RunRecord.read(tmp_path / "run")
    assert words(record.rows) == ["keep"] * kept
    assert record.search_end == "target_score"


async def test_a_target_counts_only_while_the_constraints_hold(tmp_path: Path) -> None:
    objective = Objective(weights={}, constraints=(Constraint(metric="lines", op="<=", value=2),))
    settings = EditsSettings(target_score=3)
    edits = [whole("2\n1\n")]
    await driven(setup(Script(edits=edits), settings, objective=objective), tmp_path / "run")
    record = RunRecord.read(tmp_path / "run")
    assert words(record.rows) == ["keep"]
    assert record.search_end == "target_score"


async def test_files_that_do_not_run_yet_can_be_made_to(tmp_path: Path) -> None:
    made = setup(Script(edits=[whole("still boom"), whole("1\n")]), text="boom\n")
    ending = await driven(made, tmp_path / "run")
    assert ending.best.values[PATH] == "1\n"
    assert words(RunRecord.read(tmp_path / "run").rows) == ["crash", "keep"]


async def test_tampering_is_turned_down_loudly(tmp_path: Path) -> None:
    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        if "9" in str(candidate.values[PATH]):
            return failed("tampering: the run changed score.py", "Tampering")
        return respond(candidate, case, draw)

    await driven(setup(Script(edits=[whole("9\n")]), agent=agent), tmp_path / "run")
    record = RunRecord.read(tmp_path / "run")
    assert words(record.rows) == ["discard"]
    warned = [event for event in record.events if event.kind == "warning"]
    assert any("score.py" in str(event.data["message"]) for event in warned)


async def test_a_difference_within_the_noise_is_a_tie(tmp_path: Path) -> None:
    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        found = respond(candidate, case, draw)
        return Outcome(measures={"score": found.measures["score"] + (3 if draw else 0)})

    settings = EditsSettings(repeats=2, accept_sigma=1.0)
    made = setup(Script(edits=[whole("2\n1\n1\n"), whole("9\n")]), settings, agent=agent)
    await driven(made, tmp_path / "run")
    assert words(RunRecord.read(tmp_path / "run").rows) == ["discard", "keep"]


async def test_candidates_side_by_side_are_decided_on_in_order(tmp_path: Path) -> None:
    edits = [whole("2\n1\n1\n"), whole("3\n1\n1\n"), whole("1\n1\n1\n0\n")]
    settings = EditsSettings(candidates_per_iteration=3)
    made = setup(Script(edits=edits), settings, budget=Budget(max_trials=3))
    ending = await driven(made, tmp_path / "run")
    rows = RunRecord.read(tmp_path / "run").rows
    assert words(rows) == ["keep", "keep", "discard"]
    assert {row.trial.cycle for row in rows[1:]} == {1}
    assert ending.best.values[PATH] == "3\n1\n1\n"


@pytest.mark.parametrize("most", [1, 2, 4, 5])
async def test_the_last_iteration_makes_no_more_edits_than_there_are_trials_left(
    tmp_path: Path, most: int
) -> None:
    edits = [whole(f"{number}\n") for number in range(20, 29)]
    settings = EditsSettings(candidates_per_iteration=3)
    made = setup(Script(edits=edits), settings, budget=Budget(max_trials=most))
    ending = await driven(made, tmp_path / "run")
    rows = RunRecord.read(tmp_path / "run").rows
    assert len(rows) == 1 + most
    assert ending.reason.code == "max_trials"
    longer = setup(Script(edits=edits[most:]), settings, budget=Budget(max_trials=most + 1))
    await driven(longer, tmp_path / "run")
    again = RunRecord.read(tmp_path / "run").rows
    assert [row.trial for row in again[: 1 + most]] == [row.trial for row in rows]
    assert len(again) == 2 + most


async def test_edits_start_from_a_pool_of_the_best(tmp_path: Path) -> None:
    # 20 leads; 17 is rejected, but stays in the pool, and an edit of it becomes the best.
    edits = [whole("20\n"), whole("17\n"), whole("2\n"), whole("30\n")]
    script = Script(edits=edits)
    settings = EditsSettings(incumbents=2, candidates_per_iteration=2)
    made = setup(script, settings, budget=Budget(max_trials=4))
    ending = await driven(made, tmp_path / "run")
    rows = RunRecord.read(tmp_path / "run").rows
    assert words(rows) == ["keep", "discard", "discard", "keep"]
    assert [request.texts[PATH] for request in script.seen] == [START, START, "20\n", "17\n"]
    assert ending.best.values[PATH] == "30\n"
    parents = [row.trial.candidate.parents for row in rows[3:]]
    assert parents == [(rows[1].trial.candidate.id,), (rows[2].trial.candidate.id,)]


async def test_what_crashed_or_breaks_a_constraint_is_no_place_to_start_from(
    tmp_path: Path,
) -> None:
    edits = [whole("boom"), whole("9\n9\n9\n9\n9\n"), whole("8\n"), whole("7\n")]
    objective = Objective(weights={}, constraints=(Constraint(metric="lines", op="<=", value=4),))
    script = Script(edits=edits)
    made = setup(
        script, EditsSettings(incumbents=3), objective=objective, budget=Budget(max_trials=4)
    )
    await driven(made, tmp_path / "run")
    assert [request.texts[PATH] for request in script.seen] == [START, START, START, "8\n"]


def test_a_pool_of_one_is_the_loop_as_it_was() -> None:
    assert "incumbents" not in EditsSettings().deciding()
    assert EditsSettings(incumbents=2).deciding() != EditsSettings(incumbents=3).deciding()


async def test_a_run_that_goes_on_pays_for_nothing_twice(tmp_path: Path) -> None:
    counter = CallCounter(path=tmp_path / "calls")
    edits = [whole("2\n1\n1\n"), whole("boom"), whole("3\n1\n1\n")]
    short = setup(Script(edits=edits), counter=counter, budget=Budget(max_trials=2))
    await driven(short, tmp_path / "run")
    longer = setup(Script(edits=edits[2:]), counter=counter, budget=Budget(max_trials=3))
    ending = await driven(longer, tmp_path / "run")
    assert ending.best.values[PATH] == "3\n1\n1\n"
    assert len(counter.calls()) == len(set(counter.calls())) == 7


def test_replacements_are_carried_out_after_whole_files() -> None:
    edit = Edit(
        rationale="",
        files=[WholeFile(path="a", content="x y")],
        replacements=[Replacement(path="a", search="x", replace="z")],
    )
    assert carried_out(edit, {"a": "old"}) == ({"a": "z y"}, [])


def test_line_ends_of_windows_survive_a_model() -> None:
    old = {"a": "one\r\ntwo\r\nthree\r\n", "b": "one\n"}
    edit = Edit(
        rationale="",
        files=[WholeFile(path="b", content="1\n")],
        replacements=[Replacement(path="a", search="one\ntwo", replace="1\n2")],
    )
    assert carried_out(edit, old) == ({"a": "1\r\n2\r\nthree\r\n", "b": "1\n"}, [])
    whole_file = Edit(rationale="", files=[WholeFile(path="a", content="1\n2\n")])
    assert carried_out(whole_file, old)[0]["a"] == "1\r\n2\r\n"
    assert carried_out(whole_file, old, keep_line_ends=False)[0]["a"] == "1\n2\n"


def test_changed_lines_are_counted_on_both_sides() -> None:
    found = file_change("a", "1\n2\n3\n", "1\nb\n3\n4\n")
    assert (found.added, found.removed) == (2, 1)


def test_judges_who_do_not_agree_are_told_of() -> None:
    judges: list[Json] = [
        {"judge": "one", "value": 1.0, "reason": ""},
        {"judge": "other", "value": 0.25, "reason": "no example"},
    ]
    score = Score(metric="clarity", value=0.625, reason="no example", details={"judges": judges})
    ran = CaseResult(case="task", outcome=Outcome(replies=("",)), scores=(score,))
    evaluation = Evaluation(candidate="c", split=Split.TRAIN, results=(ran,))
    apart = "clarity: the judges do not agree: one 1, other 0.25"
    assert remarks_on(evaluation) == ["clarity: no example", apart]
    assert disagreements(evaluation) == (apart,)
    agreed = Score(metric="clarity", value=1.0, details={"judges": judges[:1] * 2})
    assert disagreement(agreed) == ""


async def test_numbers_and_logs_of_holdout_never_reach_the_editor(tmp_path: Path) -> None:
    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        if case.id == "holdout" and "9" in str(candidate.values[PATH]):
            return failed("the runner failed: SECRET of holdout")
        if case.id == "holdout" and "8" in str(candidate.values[PATH]):
            return Outcome(measures={"score": -7777.0, "lines": 1.0})
        return respond(candidate, case, draw)

    script = Script(edits=[whole("9\n", "nine"), whole("8\n", "eight"), whole("4\n", "four")])
    await driven(setup(script, holdout=True, agent=agent), tmp_path / "run")
    assert words(RunRecord.read(tmp_path / "run").rows) == ["crash", "discard", "keep"]
    asked = "".join(request.model_dump_json() for request in script.seen)
    assert "SECRET" not in asked
    assert "7777" not in asked
    assert "not where it is decided" in asked


SHORT = Objective(weights={}, constraints=(Constraint(metric="lines", op="<=", value=2),))


async def test_until_one_keeps_the_constraints_the_least_broken_leads(tmp_path: Path) -> None:
    """Five lines, at most two allowed: four, not five again, then two with a lower score."""
    texts = [
        "9\n1\n1\n1\n1\n",
        "1\n1\n1\n1\n",
        "9\n9\n9\n9\n",
        "1\n",
        "9\n9\n9\n",
        "2\n1\n",
        "1\n2\n",
    ]
    script = Script(edits=[whole(text, f"edit {n}") for n, text in enumerate(texts)])
    start = "1\n1\n1\n1\n1\n"
    ending = await driven(setup(script, objective=SHORT, text=start), tmp_path / "run")
    record = RunRecord.read(tmp_path / "run")
    kept = ["discard", "keep", "discard", "keep", "discard", "keep", "discard"]
    assert words(record.rows) == kept
    reasons = [row.trial.decision.reason for row in record.rows[1:] if row.trial.decision]
    assert "it is the least broken so far: lines <= 2: lines is 4 on train" in reasons[1]
    assert reasons[3] == "it keeps all constraints, and what was there did not"
    assert ending.best.values[PATH] == "2\n1\n"
    [told] = [each.message for each in read_all(record.events, Warned)]
    assert "break a constraint (lines <= 2: lines is 5 on train)" in told
    assert "the best still breaks" not in render(record)


async def test_the_report_says_that_the_best_still_breaks_a_constraint(tmp_path: Path) -> None:
    made = setup(Script(edits=[whole("1\n1\n1\n")]), objective=SHORT, text="1\n1\n1\n1\n")
    await driven(made, tmp_path / "run")
    report = render(RunRecord.read(tmp_path / "run"))
    assert "the best still breaks lines &lt;= 2: lines is 3 on train" in report


async def test_ties_are_with_the_best_that_keeps_the_constraints(tmp_path: Path) -> None:
    """The start has the best number and breaks the constraint: it is no mark for later ties."""
    breakers = (TieBreaker(metric="lines", prefer="lower"),)
    objective = Objective(weights={}, constraints=SHORT.constraints, tie_breakers=breakers)
    script = Script(edits=[whole("1\n1\n"), whole("2\n")])
    made = setup(script, objective=objective, text="9\n9\n9\n")
    ending = await driven(made, tmp_path / "run")
    assert ending.best.values[PATH] == "2\n"


async def test_a_constraint_on_a_number_that_the_scorer_does_not_return(tmp_path: Path) -> None:
    script = Script(edits=[whole("2\n")])
    objective = Objective(weights={}, constraints=(Constraint(metric="lins", op="<=", value=3),))
    with pytest.raises(BaselineUnmeasured) as raised:
        await driven(setup(script, objective=objective), tmp_path / "run")
    assert "the scorer does not return 'lins' (on train); there are: " in raised.value.message
    assert "lines, score: no edit could keep the constraints" in raised.value.message
    assert script.seen == []


async def test_a_tie_breaker_on_a_number_that_the_scorer_does_not_return(tmp_path: Path) -> None:
    breakers = (TieBreaker(metric="size", prefer="lower"),)
    made = setup(
        Script(edits=[whole("2\n")]), objective=Objective(weights={}, tie_breakers=breakers)
    )
    await driven(made, tmp_path / "run")
    assert "'size' (on train)" in render(RunRecord.read(tmp_path / "run"))


async def test_an_editor_that_cannot_be_reached_is_asked_three_times(tmp_path: Path) -> None:
    script = Script(edits=[RoleFailed("connection refused")])
    with pytest.raises(ProposerFailed, match="connection refused"):
        await driven(setup(script, budget=Budget(max_trials=50)), tmp_path / "run")
    assert len(script.seen) == 3
