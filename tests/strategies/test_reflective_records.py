"""What the reflector is shown: turns, tools, verdicts and reasons, and never what is held out."""

from collections.abc import Sequence

from burnish.core.cases import (
    Case,
    Failure,
    FailureKind,
    Outcome,
    Split,
    Step,
    ToolCall,
    Trace,
    Turn,
)
from burnish.core.content import Json
from burnish.core.evaluations import CaseResult, Evaluation, Score
from burnish.strategies.partial_evaluations import Reply, SearchMemory
from burnish.strategies.reflective.reflection import MOST_IN_ALL, RecordWriter, worst_runs
from tests.strategies.reflective_parts import ONE, result

WEATHER = Case(
    name="weather",
    turns=(
        Turn(input="Weather in Shanghai?", expected='{"city": "Shanghai"}'),
        Turn(input="And tomorrow?", expected=None),
    ),
)


def recorder(*cases: Case) -> RecordWriter:
    train = cases or (WEATHER,)
    return RecordWriter(
        cases={case.id: case for case in train},
        objective=ONE,
        thresholds={"m": 1.0},
    )


def said(*replies: str, scores: Sequence[Score] = (), **more: object) -> CaseResult:
    outcome = Outcome(replies=replies, **more)  # pyright: ignore[reportArgumentType]
    return CaseResult(case="weather", outcome=outcome, scores=tuple(scores))


def single(n: int) -> Case:
    return Case.single(f"question number {n}", "yes", name=f"c{n}")


def test_a_record_goes_turn_by_turn_with_the_tools_and_verdicts_of_each() -> None:
    look = ToolCall(name="look", arguments={"city": "Shanghai"}, result={"celsius": 18})
    broken = ToolCall(name="ask", arguments={}, error="no route")
    trace = Trace(
        steps=(
            Step(id="s1", node="agent", turn=0, tools=(look,)),
            Step(id="s2", node="agent", turn=1, tools=(broken,)),
        )
    )
    scores = [
        Score(metric="m", value=0.0, passed=False, reason="not byte-equal", turn=0),
        Score(metric="m", value=1.0, passed=True, turn=1),
        Score(metric="free", value=0.25, reason="rather short"),
        Score.of_nothing("judge", "503 from the judge"),
    ]
    text = recorder().record(said("Shanghai", "Rain", scores=scores, trace=trace))
    assert text.splitlines() == [
        "Case weather",
        "Turn 1",
        "Input: Weather in Shanghai?",
        'Expected answer: {"city": "Shanghai"}',
        "The agent's answer: Shanghai",
        "Tools it used:",
        '- look({"city":"Shanghai"}) → {"celsius":18}',
        "Wrong by m: not byte-equal",
        "Turn 2",
        "Input: And tomorrow?",
        "The agent's answer: Rain",
        "Tools it used:",
        "- ask({}) → failed: no route",
        "Right by m",
        "Worth 0.25 by free: rather short",
        "Not judged by judge: 503 from the judge",
    ]


def test_each_rubric_has_a_line() -> None:
    rubrics: list[Json] = [
        {"id": "no_emoji", "verdict": "yes", "reason": ""},
        {"id": "polite", "verdict": "no", "reason": "it is curt"},
    ]
    score = Score(metric="m", value=0.5, passed=False, details={"rubrics": rubrics})
    text = recorder().record(said("Hi", scores=[score]))
    assert "Not good enough by m (worth 0.50, 1.00 is needed)\n- no_emoji is met\n" in text
    assert "- polite is not met (it is curt)" in text


def test_the_agents_own_error_is_shown() -> None:
    failure = Failure(kind=FailureKind.AGENT, message="KeyError: 'city'")
    text = recorder().record(said(scores=[Score.of_failure("m", "boom")], failure=failure))
    assert "The agent failed: KeyError: 'city'" in text
    assert "The agent's answer: (nothing)" in text
    assert "Wrong by m: boom" in text


def test_what_was_asked_on_the_way_is_shown_as_it_was_asked() -> None:
    text = recorder().record(said("Hm", "Bye", asked=("Hello you", "Go on")))
    assert "Input: Hello you" in text
    assert "Input: Go on" in text


def test_what_was_said_before_is_shown_in_the_order_given() -> None:
    history = [Reply(score=1.0, text="best"), Reply(score=0.5, text="other")]
    text = recorder().record(said("now"), history)
    assert text.splitlines()[-2:] == [
        "Earlier answer, worth 1.00: best",
        "Earlier answer, worth 0.50: other",
    ]


def test_a_long_text_loses_its_middle() -> None:
    text = recorder().record(said("begin " + "x" * 9000 + " end"))
    assert len(text) < 2500
    assert "begin" in text
    assert text.rstrip().endswith(" end") or " end\n" in text


def test_what_has_no_room_is_left_out_and_counted_but_never_everything() -> None:
    cases = [single(n) for n in range(40)]
    writer = recorder(*cases)
    long = [CaseResult(case=case.id, outcome=Outcome(replies=("y" * 1400,))) for case in cases]
    records, left_out = writer.records(long, {})
    shown = records.count("Case c")
    assert 0 < shown < 40
    assert shown + left_out == 40
    assert len(records) <= MOST_IN_ALL + 2 * shown
    turns = tuple(Turn(input=f"turn {n} " + "z" * 1400, expected=None) for n in range(40))
    huge = Case(name="huge", turns=turns)
    result = CaseResult(case="huge", outcome=Outcome(replies=("no",)))
    assert recorder(huge).records([result], {})[1] == 0


def test_of_each_case_the_worst_run_is_shown_and_the_missing_not() -> None:
    runs = (
        result("a", 0, m=1.0),
        result("a", 1, m=0.2),
        result("b", 0, m=1.0),
        result("b", 1, m=1.0),
        result("c", 0, m=None),
    )
    found = Evaluation(candidate="x", split=Split.TRAIN, results=runs)
    assert [(r.case, r.draw) for r in worst_runs(found, ONE, below=1.0)] == [("a", 1)]
    assert [r.case for r in worst_runs(found, ONE, below=None)] == ["a", "b"]


# -- memory ------------------------------------------------------------------------------------


def replied(case: str, draw: int, score: float | None, text: str) -> CaseResult:
    scores = (Score(metric="m", value=score),)
    return CaseResult(case=case, draw=draw, outcome=Outcome(replies=(text,)), scores=scores)


def seen(*results: CaseResult, candidate: str = "x") -> Evaluation:
    return Evaluation(candidate=candidate, split=Split.TRAIN, results=results)


def test_the_next_draw_is_one_that_no_case_of_the_look_had() -> None:
    memory = SearchMemory(objective=ONE)
    a, b, c = (single(n) for n in range(3))
    assert memory.next_draw("x", [a, b]) == 0
    memory.add(seen(replied("c0", 0, 1.0, "r"), replied("c0", 1, 1.0, "r")))
    assert memory.next_draw("x", [a, b]) == 2
    assert memory.next_draw("x", [b, c]) == 0
    assert memory.next_draw("y", [a]) == 0


def test_a_case_fails_where_the_mean_of_its_runs_is_too_low() -> None:
    memory = SearchMemory(objective=ONE)
    memory.add(
        seen(replied("a", 0, 1.0, "r"), replied("b", 0, 1.0, "r"), replied("c", 0, None, ""))
    )
    memory.add(seen(replied("b", 1, 0.0, "r")))
    assert memory.failing("x", below=1.0) == {"b"}
    assert memory.failing("x", below=0.5) == set()


def test_a_run_is_remembered_once_however_often_it_is_seen() -> None:
    memory = SearchMemory(objective=ONE)
    for _ in range(3):
        memory.add(seen(replied("a", 0, 0.5, "only")))
    assert len(memory.replies["a"]) == 1


def test_the_best_replies_come_first_each_once_whoever_said_them() -> None:
    memory = SearchMemory(objective=ONE)
    memory.add(seen(replied("a", 0, 0.0, "bad"), replied("a", 1, 0.5, "twice")))
    memory.add(seen(replied("a", 0, 1.0, "good"), replied("a", 1, 0.9, "twice"), candidate="y"))
    memory.add(seen(replied("a", 2, 0.7, ""), candidate="y"))
    best = memory.best_replies("a", 5)
    assert [(r.text, r.score) for r in best] == [("good", 1.0), ("twice", 0.9), ("bad", 0.0)]
    assert [r.text for r in memory.best_replies("a", 1)] == ["good"]
    assert [r.text for r in memory.best_replies("a", 1, besides="good")] == ["twice"]
    assert memory.best_replies("a", 0) == []


def test_the_last_rewrites_that_were_turned_down_are_told() -> None:
    memory = SearchMemory(objective=ONE)
    assert memory.rejections("x", "system") == ""
    for n in range(5):
        memory.rejected["x", "system"].append(f"- d{n} → r{n}")
    assert memory.rejections("x", "system").splitlines() == ["- d2 → r2", "- d3 → r3", "- d4 → r4"]
