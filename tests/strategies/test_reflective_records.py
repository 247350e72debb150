"""What the reflector is shown: turns, tools, verdicts and reasons, and never what is held out."""

from collections.abc import Sequence

from burnish.core.cases import Case, Dataset, LeakWatch, Split, Turn
from burnish.core.content import Json
from burnish.core.evaluations import CaseResult, Evaluation, Score
from burnish.core.outcomes import Failure, FailureKind, Outcome, Step, ToolCall, Trace
from burnish.strategies.reflective.pool import SearchMemory, TurnedDown
from burnish.strategies.reflective.records import MOST_IN_ALL, RecordWriter, Reply, worst_runs
from tests.strategies.reflective_parts import ONE, result

WEATHER = Case(
    name="weather",
    turns=(
        Turn(input="Weather in Shanghai?", expected='{"city": "Shanghai"}'),
        Turn(input="And tomorrow?", expected=None),
    ),
)
SECRET = Case.single("What will the gate number of flight 0937 be?", "gate twenty-two", name="held")


def recorder(*cases: Case) -> RecordWriter:
    train = cases or (WEATHER,)
    return RecordWriter(
        cases={case.id: case for case in train},
        objective=ONE,
        thresholds={"m": 1.0},
        secrets=LeakWatch(Dataset(train=train, holdout=(SECRET,))),
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
        "### case weather (score 0.5000)",
        "#### Turn 1",
        "**User**: Weather in Shanghai?",
        '**Expected**: {"city": "Shanghai"}',
        "**Agent Response**: Shanghai",
        "**Tool Trace**:",
        '- look({"city":"Shanghai"}) → {"celsius":18}',
        "[FAIL] m: score=0.0000, threshold=1.0000",
        "  reason: not byte-equal",
        "#### Turn 2",
        "**User**: And tomorrow?",
        "**Agent Response**: Rain",
        "**Tool Trace**:",
        "- ask({}) → failed: no route",
        "[PASS] m: score=1.0000, threshold=1.0000",
        "[SCORE] free: score=0.2500",
        "  reason: rather short",
        "[UNKNOWN] judge: 503 from the judge",
    ]


def test_each_rubric_has_a_line() -> None:
    rubrics: list[Json] = [
        {"id": "no_emoji", "verdict": "yes", "reason": ""},
        {"id": "polite", "verdict": "no", "reason": "it is curt"},
    ]
    score = Score(metric="m", value=0.5, passed=False, details={"rubrics": rubrics})
    text = recorder().record(said("Hi", scores=[score]))
    assert "  · rubric[no_emoji]: PASS\n  · rubric[polite]: FAIL (it is curt)" in text


def test_the_agents_own_error_is_shown() -> None:
    failure = Failure(kind=FailureKind.AGENT, message="KeyError: 'city'")
    text = recorder().record(said(scores=[Score.of_failure("m", "boom")], failure=failure))
    assert "The agent failed: KeyError: 'city'" in text
    assert "**Agent Response**: (nothing)" in text
    assert "(score 0.0000)" in text


def test_what_was_asked_on_the_way_is_shown_as_it_was_asked() -> None:
    text = recorder().record(said("Hm", "Bye", asked=("Hello you", "Go on")))
    assert "**User**: Hello you" in text
    assert "**User**: Go on" in text


def test_what_was_said_before_is_shown_in_the_order_given() -> None:
    history = [Reply(score=1.0, text="best"), Reply(score=0.5, text="other")]
    text = recorder().record(said("now"), history)
    assert text.splitlines()[-2:] == [
        "Said before, score 1.0000: best",
        "Said before, score 0.5000: other",
    ]


def test_a_long_text_loses_its_middle() -> None:
    text = recorder().record(said("begin " + "x" * 9000 + " end"))
    assert len(text) < 2500
    assert "begin" in text
    assert text.rstrip().endswith(" end") or " end\n" in text


def test_what_a_holdout_case_says_is_left_out_and_counted() -> None:
    leaking = said("I was once asked: What will the gate number of flight 0937 be?")
    records = recorder().of([leaking, said("fine")], {})
    assert records.left_out == 1
    assert "0937" not in records.text
    assert "fine" in records.text


def test_what_has_no_room_is_left_out_and_counted_but_never_everything() -> None:
    cases = [single(n) for n in range(40)]
    writer = recorder(*cases)
    long = [CaseResult(case=case.id, outcome=Outcome(replies=("y" * 1400,))) for case in cases]
    records = writer.of(long, {})
    shown = records.text.count("### case")
    assert 0 < shown < 40
    assert shown + records.left_out == 40
    assert len(records.text) <= MOST_IN_ALL + 2 * shown
    turns = tuple(Turn(input=f"turn {n} " + "z" * 1400, expected=None) for n in range(40))
    huge = Case(name="huge", turns=turns)
    alone = recorder(huge).of([CaseResult(case="huge", outcome=Outcome(replies=("no",)))], {})
    assert alone.left_out == 0


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
    assert memory.draws("x", [a, b]) == 0
    memory.saw(seen(replied("c0", 0, 1.0, "r"), replied("c0", 1, 1.0, "r")))
    assert memory.draws("x", [a, b]) == 2
    assert memory.draws("x", [b, c]) == 0
    assert memory.draws("y", [a]) == 0


def test_a_case_fails_where_the_mean_of_its_runs_is_too_low() -> None:
    memory = SearchMemory(objective=ONE)
    memory.saw(
        seen(replied("a", 0, 1.0, "r"), replied("b", 0, 1.0, "r"), replied("c", 0, None, ""))
    )
    memory.saw(seen(replied("b", 1, 0.0, "r")))
    assert memory.failing("x", below=1.0) == {"b"}
    assert memory.failing("x", below=0.5) == set()


def test_a_run_is_remembered_once_however_often_it_is_seen() -> None:
    memory = SearchMemory(objective=ONE)
    for _ in range(3):
        memory.saw(seen(replied("a", 0, 0.5, "only")))
    assert len(memory.replies["a"]) == 1


def test_the_best_replies_come_first_each_once_whoever_said_them() -> None:
    memory = SearchMemory(objective=ONE)
    memory.saw(seen(replied("a", 0, 0.0, "bad"), replied("a", 1, 0.5, "twice")))
    memory.saw(seen(replied("a", 0, 1.0, "good"), replied("a", 1, 0.9, "twice"), candidate="y"))
    memory.saw(seen(replied("a", 2, 0.7, ""), candidate="y"))
    best = memory.best_replies("a", 5)
    assert [(r.text, r.score) for r in best] == [("good", 1.0), ("twice", 0.9), ("bad", 0.0)]
    assert [r.text for r in memory.best_replies("a", 1)] == ["good"]
    assert [r.text for r in memory.best_replies("a", 1, besides="good")] == ["twice"]
    assert memory.best_replies("a", 0) == []


def test_the_last_rewrites_that_were_turned_down_are_told() -> None:
    memory = SearchMemory(objective=ONE)
    assert memory.rejections("x", "system") == "(none)"
    for n in range(5):
        memory.turned_down["x", "system"].append(TurnedDown(diagnosis=f"d{n}", reason=f"r{n}"))
    assert memory.rejections("x", "system").splitlines() == ["- d2 → r2", "- d3 → r3", "- d4 → r4"]
