"""Demonstrations: where they come from, how many fit, and what the search makes of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.cases import Attachment, Case, Message, Outcome, Split, Turn
from burnish.core.evaluations import CaseResult, Evaluation, Score
from burnish.core.surfaces import Candidate, Demonstration, DemosSurface
from burnish.runs.setup import Setup
from burnish.strategies.coordinate import demonstrations
from burnish.strategies.coordinate.trials import CoordinateSettings, PhaseLimits
from tests.strategies.coordinate_runs import driven, scripted, with_agent, with_settings

SURFACE = DemosSurface(id="demos", max_demos=4)
CASES = [Case.single(f"question {n}", f"answer {n}", name=f"q{n}") for n in range(6)]


def measured(**passed: str) -> Evaluation:
    """An evaluation in which these cases passed with these replies."""
    results = [
        CaseResult(
            case=case.id,
            draw=0,
            outcome=Outcome(replies=(passed.get(case.id, "no idea"),)),
            scores=(Score(metric="m", value=float(case.id in passed), passed=case.id in passed),),
        )
        for case in CASES
    ]
    return Evaluation(candidate="c", split=Split.TRAIN, results=tuple(results))


def pool(
    cases: list[Case] = CASES,
    surface: DemosSurface = SURFACE,
    shown: tuple[Demonstration, ...] = (),
    **passed: str,
) -> tuple[Demonstration, ...]:
    return demonstrations.pool_of(cases, measured(**passed), ["m"], surface, shown=shown)


def test_what_the_agent_got_right_comes_first_in_its_own_words_then_the_labels() -> None:
    found = pool(q4="it is answer 4, I am sure")
    assert [demo.case for demo in found] == ["q4", "q0", "q1", "q2", "q3", "q5"]
    assert found[0].output == "it is answer 4, I am sure"
    assert found[1] == Demonstration(input="question 0", output="answer 0", case="q0")


def test_every_demonstration_names_its_case_so_that_it_can_be_left_out() -> None:
    assert [demo.case for demo in pool(q1="yes")] == ["q1", "q0", "q2", "q3", "q4", "q5"]


def test_what_is_shown_now_stays_in_the_pool() -> None:
    own = Demonstration(input="by hand", output="as it should be")
    before = Demonstration(input="question 2", output="said in an earlier cycle", case="q2")
    found = pool(shown=(own, before), q2="said otherwise now")
    assert found[:2] == (own, before)
    assert [demo.case for demo in found].count("q2") == 1


LONG = "a very long question " * 20


@pytest.mark.parametrize(
    "case",
    [
        Case(name="two turns", turns=(Turn(input="a"), Turn(input="b", expected="c"))),
        Case(name="no label", turns=(Turn(input="a"),)),
        Case(
            name="a file",
            turns=(Turn(input="a", expected="b", attachments=(Attachment(kind="pdf"),)),),
        ),
        Case(
            name="history",
            turns=(Turn(input="a", expected="b"),),
            history=(Message(role="user", content="before"),),
        ),
        Case.single(LONG, "b", name="too long for the room there is"),
    ],
    ids=lambda case: case.name,
)
def test_what_cannot_be_shown_as_a_question_and_an_answer_is_left_out(case: Case) -> None:
    assert pool([case], replace(SURFACE, max_chars=200)) == ()


def test_there_are_sixteen_to_choose_from_at_most() -> None:
    many = [Case.single(f"ask {n}", "yes", name=f"m{n}") for n in range(40)]
    assert len(pool(many)) == 16


def test_a_point_shows_each_demonstration_once_and_in_order() -> None:
    demos = pool()
    point = {"count": 3, "place-1": 5, "place-2": 0, "place-3": 5, "place-4": 1}
    assert [d.case for d in demonstrations.shown(demos, point, SURFACE)] == ["q5", "q0"]


def test_no_more_is_shown_than_there_is_room_for() -> None:
    demos = pool()
    room = replace(SURFACE, max_chars=2 * len("question 0answer 0") + 5)
    point = {"count": 4, "place-1": 0, "place-2": 1, "place-3": 2, "place-4": 3}
    found = demonstrations.shown(demos, point, room)
    assert [demo.case for demo in found] == ["q0", "q1"]
    assert not room.problems(found)


def test_the_point_of_what_is_shown_shows_it() -> None:
    demos = pool()
    now = (demos[3], demos[1])
    point = demonstrations.point_of(demos, now, SURFACE)
    assert point is not None
    assert demonstrations.shown(demos, point, SURFACE) == now
    assert demonstrations.space_of(demos, SURFACE).contains(point)
    assert demonstrations.point_of(demos[:2], now, SURFACE) is None


def test_showing_none_is_a_point_too() -> None:
    demos = pool()
    point = demonstrations.point_of(demos, (), SURFACE)
    assert point is not None
    assert demonstrations.shown(demos, point, SURFACE) == ()
    assert demonstrations.space_of(demos, SURFACE).contains(point)


def test_where_some_are_shown_the_first_point_is_to_show_none() -> None:
    demos = pool()
    (point,) = demonstrations.first_points(demos, SURFACE, shown=demos[:2])
    assert demonstrations.shown(demos, point, SURFACE) == ()


def test_the_first_points_ask_whether_any_demonstrations_help() -> None:
    demos = pool()
    counts = [point["count"] for point in demonstrations.first_points(demos, SURFACE)]
    assert counts == [2, 4]
    assert [point["count"] for point in demonstrations.first_points(demos[:1], SURFACE)] == [1]


@pytest.mark.parametrize(("size", "most", "ways"), [(1, 4, 2), (2, 2, 5), (3, 2, 10), (3, 8, 16)])
def test_subsets_in_every_order_are_counted(size: int, most: int, ways: int) -> None:
    assert demonstrations.ways_to_show(pool()[:size], replace(SURFACE, max_demos=most)) == ways


def taught(candidate: Candidate, case: Case, draw: int) -> str:
    """An agent that has seen the light once two other demonstrations are shown."""
    del draw
    demos = candidate.values["demos"]
    assert isinstance(demos, tuple)
    return "yes" if len([demo for demo in demos if demo.case != case.id]) >= 2 else "no"


def made(surface: DemosSurface = SURFACE, *, train: int = 6, patience: int = 4) -> Setup:
    settings = CoordinateSettings(
        demonstrations="demos",
        repeats=1,
        max_cycles=1,
        demonstration_phase=PhaseLimits(max_trials=12, patience=patience),
    )
    return scripted(taught, (surface,), {"demos": ()}, settings, train=train)


def test_the_search_finds_demonstrations_and_all_are_from_train(tmp_path: Path) -> None:
    setup = made()
    run = driven(setup, tmp_path / "run")
    demos = run.ending.best.values["demos"]
    assert isinstance(demos, tuple)
    assert len(demos) >= 3, "two would leave their own cases with one"
    names = {case.id for case in setup.dataset.train}
    tried = [row.trial.candidate.values["demos"] for row in run.rows]
    assert all(demo.case in names for value in tried if isinstance(value, tuple) for demo in value)
    assert run.ends() == {(1, "demonstrations"): "nothing_to_gain"}
    assert [r.trial.candidate.origin.note for r in run.of_phase("demonstrations")[:2]] == [
        "2 demos",
        "4 demos",
    ]


def test_every_candidate_keeps_the_bounds(tmp_path: Path) -> None:
    surface = DemosSurface(id="demos", max_demos=2, max_chars=30)
    run = driven(made(surface), tmp_path / "run")
    trials = run.of_phase("demonstrations")
    assert trials
    assert not any(surface.problems(row.trial.candidate.values["demos"]) for row in trials)


def test_showing_the_same_again_is_known_from_the_ledger_and_ends_a_small_space(
    tmp_path: Path,
) -> None:
    run = driven(made(train=2, patience=40), tmp_path / "run")
    assert run.ends() == {(1, "demonstrations"): "space_exhausted"}
    paid = {row.trial.candidate.id for row in run.of_phase("demonstrations") if row.trial.train}
    assert len(paid) == 4, "(0), (1), (0, 1), (1, 0)"


BAD = Demonstration(input="by hand", output="and wrong")
TWICE = CoordinateSettings(
    demonstrations="demos",
    repeats=1,
    max_cycles=2,
    demonstration_phase=PhaseLimits(max_trials=3, patience=3),
)


def test_what_the_ledger_knows_of_showing_none_is_not_tried_again(tmp_path: Path) -> None:
    def never_all(candidate: Candidate, case: Case, draw: int) -> str:
        return "no" if case.id == "q0" else taught(candidate, case, draw)

    setup = with_settings(with_agent(made(), respond=never_all), TWICE)
    run = driven(setup, tmp_path / "run")
    assert any(row.trial.accepted for row in run.of_phase("demonstrations", 1))
    assert len(run.of_phase("demonstrations", 2)) == 3
    assert not any(row.trial.candidate.values["demos"] == () for row in run.rows[1:])


def test_demonstrations_that_harm_are_taken_out_and_none_is_tried_first(tmp_path: Path) -> None:
    def misled(candidate: Candidate, case: Case, draw: int) -> str:
        del case, draw
        demos = candidate.values["demos"]
        assert isinstance(demos, tuple)
        return "yes" if BAD not in demos else "no"

    setup = with_agent(made(), respond=misled, values={"demos": (BAD,)})
    run = driven(setup, tmp_path / "run")
    assert run.ending.best.values["demos"] == ()
    (only,) = run.of_phase("demonstrations")
    assert (only.trial.candidate.origin.note, only.trial.accepted) == ("no demos", True)


def test_without_examples_the_phase_is_over_at_once(tmp_path: Path) -> None:
    setup = made()
    unlabelled = tuple(
        Case(name=case.name, turns=(Turn(input=case.input),)) for case in setup.dataset.train
    )
    labelled = Case.single("a labelled question that is far too long", "yes", name="long")
    data = replace(setup.dataset, train=(*unlabelled, labelled))
    tight = with_agent(setup, surfaces=(replace(SURFACE, max_chars=20),))
    run = driven(replace(tight, dataset=data), tmp_path / "run")
    assert run.ends() == {(1, "demonstrations"): "no_examples"}
    assert len(run.rows) == 1
