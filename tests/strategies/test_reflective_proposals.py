"""What becomes of proposals: turned away for free, failing, crashing, and what is asked next."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from burnish.core.cases import Case
from burnish.core.errors import ProposerFailed, RoleFailed
from burnish.core.leaks import WITHHELD
from burnish.core.surfaces import Candidate, TextSurface
from burnish.core.trials import Verdict
from burnish.journal.limits import Budget
from burnish.models.answers import text_mark
from burnish.models.roles import in_force
from burnish.runs.roles import GIVE_UP_AFTER
from burnish.runs.setup import Setup
from burnish.strategies.reflective.attempts import ReflectiveSettings
from burnish.strategies.reflective.reflection import ROLE, ReflectRequest, reflector
from burnish.strategies.reflective.search import IDLE_ROUNDS
from burnish.testing import CallCounter
from tests.strategies.coordinate_runs import driven
from tests.strategies.reflection_world import World, setup
from tests.strategies.reflective_runs import CLASSIC, START, Rewrite, Talk, says, scripted

pytestmark = pytest.mark.slow

KEPT = TextSurface(id="system", placeholders=("{who}",), max_chars=120)
HELD_OUT = "Question number 006 of somebody"


def no(text: str) -> str:
    del text
    return "no"


def yes_if(word: str) -> Callable[[str], str]:
    return lambda text: "yes" if word in text else "no"


def with_answer(setup: Setup, answer: str) -> Setup:
    """The same run, whose first train case wants an answer that no other has."""
    first, *others = setup.dataset.train
    train = (Case.single(first.input, answer, name=first.id), *others)
    return replace(setup, dataset=replace(setup.dataset, train=train))


def appended(words: str) -> Rewrite:
    """The text with these words, and a number so that no two are the same."""
    return lambda request, draw: f"{request.current_text} {draw} {words}"


def unchanged(request: ReflectRequest, draw: int) -> str:
    del draw
    return request.current_text


def replaced(request: ReflectRequest, draw: int) -> str:
    return f"Another text for {request.field}, number {draw}."


@pytest.mark.parametrize(
    ("rewrite", "why"),
    [
        (unchanged, "changes nothing"),
        (replaced, "{who}"),
        (appended("long " * 40), "120 are allowed"),
        (appended("never any such answer"), "answer to training case"),
        (appended(HELD_OUT), "held out"),
    ],
)
@pytest.mark.parametrize("settings", [ReflectiveSettings(), CLASSIC])
def test_what_is_not_worth_it_is_turned_away_for_free(
    tmp_path: Path, rewrite: Rewrite, why: str, settings: ReflectiveSettings
) -> None:
    counter = CallCounter(path=tmp_path / "calls")
    made = scripted(
        says(no),
        Talk(rewrite=rewrite),
        settings=settings,
        surface=KEPT,
        counter=counter,
        budget=Budget(max_trials=4),
    )
    run = driven(with_answer(made, "never any such answer"), tmp_path / "run")
    baseline = run.rows[0].trial.candidate.id
    assert [row.trial.proposals[0].error for row in run.rows[1:]] == [""] * 4
    for row in run.rows[1:]:
        assert any(why in str(problem) for problem in row.trial.problems), row.trial.problems
    runs = [call for call in counter.calls() if call.startswith("run")]
    assert all(call.split()[1] == baseline for call in runs)


def test_other_failures_of_the_same_text_are_at_hand_for_a_second_request(tmp_path: Path) -> None:
    talk = Talk(rewrite=lambda _, draw: f"{START} Number {draw}.")
    made = scripted(says(no), talk, settings=CLASSIC, budget=Budget(max_trials=3))
    driven(made, tmp_path / "run")
    first, *later = talk.asked
    assert first.other_records == "", "nothing else is known yet"
    shown, others = set[str](), set[str]()
    for request in later:
        shown, others = _inputs(request.records), _inputs(request.other_records)
        assert not shown & others
    assert len(others) == len(shown) == 3


def _inputs(records: str) -> set[str]:
    return {line for line in records.splitlines() if line.startswith("Input: ")}


def test_a_text_that_was_tried_before_is_not_tried_again(tmp_path: Path) -> None:
    talk = Talk(rewrite=lambda r, _: f"{START} Now.")
    run = driven(scripted(says(no), talk, budget=Budget(max_trials=3)), tmp_path / "run")
    told = ["; ".join(map(str, row.trial.problems)) for row in run.rows[1:]]
    assert told[0] == ""
    assert all("was tried before" in each for each in told[1:])


def test_the_same_proposal_twice_in_a_round_is_run_once(tmp_path: Path) -> None:
    talk = Talk(rewrite=lambda r, _: f"{START} Now.")
    settings = ReflectiveSettings(proposals_per_round=3)
    made = scripted(says(no), talk, settings=settings, budget=Budget(max_trials=3))
    run = driven(made, tmp_path / "run")
    told = ["; ".join(map(str, row.trial.problems)) for row in run.rows[1:]]
    assert told == ["", *["another proposal of this round is the same"] * 2]


def test_a_search_in_which_nothing_new_comes_ends(tmp_path: Path) -> None:
    talk = Talk(rewrite=unchanged)
    run = driven(scripted(says(no), talk, budget=Budget()), tmp_path / "run")
    assert run.why == "nothing_new"
    assert len(run.rows) == 1 + IDLE_ROUNDS


def test_the_reflector_is_told_what_was_turned_down_and_why(tmp_path: Path) -> None:
    talk = Talk(rewrite=lambda r, draw: f"{START} Try {draw}.")
    driven(scripted(says(no), talk, budget=Budget(max_trials=3)), tmp_path / "run")
    assert talk.asked[0].rejected == ""
    assert "idea 1 → sum over 3 cases 0.000 = parent's 0.000" in talk.asked[2].rejected
    assert "idea 2 → " in talk.asked[2].rejected
    assert talk.asked[0].must_keep == "{who}"
    assert talk.asked[0].labels == "yes", "what train expects again and again"


def test_a_diagnosis_with_text_that_is_held_out_is_not_told_again(tmp_path: Path) -> None:
    def rewrite(request: ReflectRequest, draw: int) -> str:
        assert HELD_OUT not in request.rejected
        return f"{START} {HELD_OUT} {draw}"

    talk = Talk(rewrite=rewrite, diagnosis=f"it knows nothing of '{HELD_OUT}'")
    run = driven(scripted(says(no), talk, budget=Budget(max_trials=3)), tmp_path / "run")
    assert len(run.rows) == 4
    assert f"it knows nothing of {WITHHELD}" in talk.asked[-1].rejected


def test_a_reflector_who_never_answers_fails_the_run_with_the_reason(tmp_path: Path) -> None:
    def fail(request: ReflectRequest, draw: int) -> str:
        raise RoleFailed("HTTP 500 from the reflection model")

    counter = CallCounter(path=tmp_path / "calls")
    made = scripted(says(no), Talk(rewrite=fail), counter=counter)
    with pytest.raises(ProposerFailed, match="HTTP 500 from the reflection model"):
        driven(made, tmp_path / "run")
    assert sum(call.startswith("role") for call in counter.calls()) == GIVE_UP_AFTER


def test_a_reflector_who_fails_at_times_is_asked_again(tmp_path: Path) -> None:
    def now_and_then(request: ReflectRequest, draw: int) -> str:
        if draw % 2:
            raise RoleFailed("cut off")
        return f"{START} {'Say yes.' if draw == 4 else draw}"

    made = scripted(says(yes_if("Say yes.")), Talk(rewrite=now_and_then))
    run = driven(made, tmp_path / "run")
    failed = [row.trial for row in run.rows if row.trial.proposals and row.trial.proposals[0].error]
    assert [str(trial.problems[0]) for trial in failed][:2] == ["cut off"] * 2
    assert run.ending.best.values["system"] == f"{START} Say yes."
    assert run.why == "no_failures"


def test_a_reflector_who_stops_answering_ends_the_search(tmp_path: Path) -> None:
    def once(request: ReflectRequest, draw: int) -> str:
        if draw > 1:
            raise RoleFailed("out of credit")
        return f"{START} Say yes."

    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        good = "Say yes." in str(candidate.values["system"])
        return "yes" if good and case.id != "q0" else "no"

    run = driven(scripted(respond, Talk(rewrite=once), train=3), tmp_path / "run")
    assert run.why == "reflector_failed"
    assert run.ending.best.values["system"] == f"{START} Say yes."


def test_an_agents_error_reaches_the_reflector(tmp_path: Path) -> None:
    def crash(candidate: Candidate, case: Case, draw: int) -> str:
        if "Use JSON." in str(candidate.values["system"]):
            return "yes"
        return json.loads("no JSON")

    talk = Talk(rewrite=lambda r, draw: f"{START} Use JSON.")
    run = driven(scripted(crash, talk, budget=Budget(max_trials=1)), tmp_path / "run")
    assert "The agent failed: JSONDecodeError: Expecting value" in talk.asked[0].records
    assert run.ending.best.values["system"] == f"{START} Use JSON."


@pytest.mark.parametrize("settings", [ReflectiveSettings(), CLASSIC])
def test_a_candidate_that_crashes_on_most_cases_never_leads(
    tmp_path: Path, settings: ReflectiveSettings
) -> None:
    """It answers the train cases, and falls over on holdout."""

    def fragile(candidate: Candidate, case: Case, draw: int) -> str:
        changed = str(candidate.values["system"]) != START
        if changed and int(case.id[1:]) >= 6:
            raise ValueError("boom")
        return "yes" if changed or case.id in {"q6", "q7"} else "no"

    talk = Talk(rewrite=lambda r, draw: f"{r.current_text} {draw}.")
    made = scripted(fragile, talk, settings=settings, budget=Budget(max_trials=3))
    run = driven(made, tmp_path / "run")
    assert run.ending.best.values["system"] == START
    assert not any(row.trial.accepted for row in run.rows[1:])


@pytest.mark.parametrize("settings", [ReflectiveSettings(), CLASSIC])
def test_a_candidate_that_is_mostly_missing_never_leads_nor_is_it_built_on(
    tmp_path: Path, settings: ReflectiveSettings
) -> None:
    """On holdout only its good cases come back."""

    def unplugged(candidate: Candidate, case: Case, draw: int) -> str:
        changed = str(candidate.values["system"]) != START
        if changed and int(case.id[1:]) >= 9:
            raise ConnectionError("nobody there")
        return "yes" if changed else "no"

    talk = Talk(rewrite=lambda r, draw: f"{START} {draw}.")
    made = scripted(unplugged, talk, settings=settings, budget=Budget(max_trials=3))
    run = driven(made, tmp_path / "run")
    held = [row.trial for row in run.rows[1:] if row.trial.holdout is not None]
    assert held
    for trial in held:
        assert trial.decision is not None
        assert trial.decision.verdict is Verdict.CANNOT_TELL
    assert run.ending.best.values["system"] == START


def test_every_text_of_an_attempt_is_asked_for_under_a_draw_of_its_own(tmp_path: Path) -> None:
    world = World(rules=4, fields=3, train=6, holdout=6)
    settings = CLASSIC.model_copy(update={"field_selection": "all", "proposals_per_round": 2})
    counter = CallCounter(path=tmp_path / "calls")
    made = setup(world, settings, budget=Budget(max_trials=6), counter=counter)
    driven(made, tmp_path / "run")
    asked = [call for call in counter.calls() if call.startswith("role")]
    assert len(asked) == 6 * 3
    assert len(set(asked)) == len(asked)


def test_history_shows_the_best_replies_of_earlier_candidates(tmp_path: Path) -> None:
    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        return f"reply under {candidate.id}"

    talk = Talk(rewrite=lambda r, draw: f"{START} {draw}.")
    settings = ReflectiveSettings(history_top_k=1, minibatch=6)
    run = driven(
        scripted(respond, talk, settings=settings, budget=Budget(max_trials=2)), tmp_path / "run"
    )
    assert "Earlier answer" not in talk.asked[0].records
    tried = run.rows[1].trial.candidate.id
    assert f"Earlier answer, worth 0.00: reply under {tried}" in talk.asked[1].records


def test_a_request_knows_the_texts_that_were_proposed_before(tmp_path: Path) -> None:
    talk = Talk(rewrite=lambda r, draw: f"{START} {draw}.")
    made = scripted(says(no), talk, budget=Budget(max_trials=3))
    run = driven(made, tmp_path / "run")
    marks = [text_mark(str(row.trial.candidate.values["system"])) for row in run.rows[1:]]
    asked = [request.tried for request in talk.asked]
    assert asked == ["", marks[0], " ".join(marks[:2])]
    assert [request.astray for request in talk.asked] == [False, True, True], "the first is free"
    assert all(request.loose for request in talk.asked)


def test_a_long_search_keeps_the_marks_of_its_last_texts_only(tmp_path: Path) -> None:
    """Each request is stored with its trial: with every text, a search would grow as its square."""
    talk = Talk(rewrite=lambda r, draw: f"{START} {draw}.")
    run = driven(scripted(says(no), talk, budget=Budget(max_trials=104)), tmp_path / "run")
    marks = [text_mark(str(row.trial.candidate.values["system"])) for row in run.rows[1:]]
    assert talk.asked[-1].tried.split() == marks[-101:-1]
    assert len(talk.asked[-1].tried) == len(talk.asked[-2].tried)


def request_for(**parts: str | int) -> ReflectRequest:
    blank = {"field": "system", "current_text": "Say it.", "records": "", "rejected": ""}
    blank |= {"other_texts": "", "must_keep": ""}
    return ReflectRequest.model_validate({**blank, "max_chars": "", **parts})


_ONLY = "Answer with exactly one of these, and nothing else: NEG, POS"


@pytest.mark.parametrize(
    ("parts", "text", "line"),
    [
        ({"labels": "NEG, POS"}, "Say NEG if bad.", "Answer with exactly one of these"),
        ({"labels": "NEG, POS"}, "Say NEG if bad, else POS.", ""),
        ({"labels": "NEG, POS", "loose": True}, "It is NEG if bad, else POS.", _ONLY),
        ({"labels": "NEG, POS", "loose": True}, "Say only NEG or POS.", ""),
        ({"labels": "NEG, POS", "loose": True}, "One word: NEG or POS.", ""),
        ({"labels": "NEG, POS", "astray": True}, "Say NEG or POS.", "and nothing else: NEG, POS"),
        ({"labels": "NEG, POS", "current_text": f"Judge. {_ONLY}"}, "Say NEG or POS.", _ONLY),
        ({"labels": "NEG, POS", "astray": True}, f"Judge. {_ONLY}", ""),
        ({"labels": "NEG, POS", "other_texts": "The text b:\n…"}, "Say NEG.", ""),
        ({"labels": "NEG, POS", "max_chars": 40}, "Say NEG if it is bad.", ""),
        ({"form": "LYON|12|cups"}, "Write city|amount|goods.", "form, with part 1 in CAPITALS,"),
        ({"form": "LYON|12|cups"}, "Write it as in OSLO|3|red pens.", ""),
        ({"form": "LYON|12|cups", "astray": True}, "As in OSLO|3|pens.", "in exactly this form"),
        (
            {"form": "LYON|12|cups", "records": "Case a\nExpected answer: OSLO|3|pens"},
            "Answer: OSLO|3|pens",
            "in exactly this form",
        ),
        ({"form": "2021/07/03"}, "Write the date.", "in exactly this form, and nothing else"),
        ({}, "Be brief.", ""),
    ],
)
def test_a_rewrite_says_what_answers_look_like(
    parts: dict[str, str | int], text: str, line: str
) -> None:
    rewrite = reflector(cast("Any", None), in_force(ROLE, Path("nowhere"))).rewrite
    assert rewrite is not None
    assert rewrite.completed(request_for(**parts), f"{text}\n").endswith("\n")
    whole = rewrite.completed(request_for(**parts), text)
    assert whole.startswith(text)
    assert (line in whole.removeprefix(text)) if line else whole == text
