"""Parts of back-propagation: losses, the walk, answers of roles, values, schemas."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import (
    Case,
    ExpectedTool,
    Failure,
    FailureKind,
    Outcome,
    Split,
    Step,
    Trace,
    Turn,
)
from burnish.core.errors import RoleFailed
from burnish.core.evaluations import CaseResult, Evaluation, Score
from burnish.core.surfaces import (
    ChoiceSurface,
    Demonstration,
    DemosSurface,
    NumberSurface,
    Surface,
    TextSurface,
    Value,
)
from burnish.journal.once import DirectEffects
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.models.roles import in_force
from burnish.strategies.backprop.backward import Walk
from burnish.strategies.backprop.packets import (
    BadValue,
    CaseLoss,
    Losses,
    LossHint,
    Packet,
    TerminalLoss,
    bounds_of,
    terminal_steps,
    trace_of,
    value_from,
    value_schema,
)
from burnish.strategies.backprop.prompts import (
    BACKWARDER,
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergedRemark,
    MergeRequest,
    NumberedRemark,
    PatchAnswer,
    PatchRequest,
    Remark,
    ShownStep,
    ShownSurface,
    backward_schema,
    backwarder,
    merge_schema,
    nothing_left,
    patch_schema,
    sanitised,
    unfit,
    why_useless,
)
from burnish.testing import ScriptedBackend

CASE = Case(
    turns=(
        Turn(input="hello", expected="hi"),
        Turn(input="weather?", expected="sunny", expected_tools=(ExpectedTool(name="lookup"),)),
    ),
    name="talk",
)


def step(name: str, *before: str, turn: int = 0, node: str = "") -> Step:
    return Step(id=name, node=node or name, predecessors=before, turn=turn)


def result(*scores: Score, steps: tuple[Step, ...] = (), failure: str = "") -> CaseResult:
    broken = Failure(kind=FailureKind.AGENT, message=failure) if failure else None
    outcome = Outcome(replies=("hi",), trace=Trace(steps=steps), failure=broken)
    return CaseResult(case="talk", outcome=outcome, scores=scores)


def losses(found: CaseResult, **changes: Any) -> list[TerminalLoss]:
    reader = Losses(cases={"talk": CASE}, **changes)
    evaluation = Evaluation(candidate="c", split=Split.TRAIN, results=(found,))
    return [loss for case in reader.of(evaluation, ["s"]) for loss in case.losses]


def bad(metric: str = "m", value: float = 0.0, turn: int | None = None) -> Score:
    return Score(metric=metric, value=value, passed=False, reason="it rains", turn=turn)


def test_a_loss_says_score_threshold_reason_and_what_was_expected() -> None:
    (loss,) = losses(result(bad(value=0.25), steps=(step("a"),)), thresholds={"m": 0.5})
    assert loss.text.splitlines() == [
        "m failed: score 0.250, 0.5 is wanted",
        "Reason: it rains",
        "Expected: sunny",
        "Expected tools: lookup",
    ]
    assert (loss.step, loss.severity) == ("a", "P2")


def test_a_loss_says_that_no_tool_should_have_been_used() -> None:
    none = replace(CASE, turns=(Turn(input="hello", expected_tools=()),))
    reader = Losses(cases={"talk": none})
    evaluation = Evaluation(candidate="c", split=Split.TRAIN, results=(result(bad()),))
    (found,) = [loss for case in reader.of(evaluation, ["s"]) for loss in case.losses]
    assert found.text.splitlines()[-1] == "Expected tools: none"


def test_each_turn_has_ends_and_expectations_of_its_own() -> None:
    steps = (step("a"), step("b", "a", turn=1), step("c", "a", turn=1))
    found = losses(result(bad(turn=0), bad("n", turn=1), bad("o", turn=7), steps=steps))
    assert [(loss.metric, loss.step) for loss in found] == [
        ("m", "a"),
        ("n", "b"),
        ("n", "c"),
        ("o", "b"),
        ("o", "c"),
    ]
    assert "Expected: hi" in found[0].text
    assert "Expected" not in found[-1].text


def test_a_crash_is_the_worst_and_needs_no_score() -> None:
    (loss,) = losses(result(steps=(step("a"),), failure="ValueError: no"))
    assert loss.severity == "P0"
    assert "The agent failed: ValueError: no" in loss.text


def test_a_loss_target_is_the_last_visit_of_its_node_unless_the_agent_crashed() -> None:
    steps = (
        step("w1", node="writer"),
        step("r1", "w1", node="reviewer"),
        step("w2", "r1", node="writer"),
        step("end", "w2"),
    )
    goal = {"m": "writer"}
    assert [loss.step for loss in losses(result(bad(), steps=steps), targets=goal)] == ["w2"]
    crash = result(bad(), steps=steps, failure="KeyError")
    assert [loss.step for loss in losses(crash, targets=goal)] == ["end"]
    assert losses(result(bad(), steps=steps), targets={"m": "editor"}) == []


def test_a_hint_is_told_at_every_step_of_its_loss_and_of_no_other() -> None:
    hints = [LossHint(case="talk", metric=name, reason="ask me") for name in ("m", "n")]
    fine = Score(metric="n", value=1.0, passed=True)
    found = losses(result(bad(), fine, steps=(step("a"), step("b"))), hints=hints)
    told = [(loss.step, loss.text == "ask me", loss.severity) for loss in found]
    assert told == [("a", True, "P1"), ("a", False, "P1"), ("b", True, "P1"), ("b", False, "P1")]


def test_without_a_verdict_only_what_counts_is_a_loss() -> None:
    scores = [Score(metric="m", value=0.9), Score(metric="seconds", value=0.1)]
    found = losses(result(*scores, Score.of_nothing("n", "judge down")), weighted=["m", "n"])
    assert [loss.metric for loss in found] == ["m"]


def test_a_trace_in_circles_ends_where_it_ended() -> None:
    trace = Trace(steps=(step("a", "b"), step("b", "a")))
    assert [found.id for found in terminal_steps(trace)] == ["b"]
    assert terminal_steps(Trace()) == []


def test_a_run_without_steps_is_a_graph_of_one_with_everything_in_force() -> None:
    made = trace_of(result(failure="boom"), CASE, ["s"])
    assert [(s.input, s.output, s.error, s.surfaces) for s in made.steps] == [
        ("hello", "hi", "", ("s",)),
        ("weather?", "", "boom", ("s",)),
    ]


# -- the walk ------------------------------------------------------------------------------


def walk(*steps: Step, at: str) -> Walk:
    loss = TerminalLoss(case="talk", draw=0, metric="m", step=at, severity="P1", text="bad")
    return Walk(loss=CaseLoss(case="talk", draw=0, losses=(loss,)), trace=Trace(steps=tuple(steps)))


def test_a_step_is_visited_once_after_all_that_followed_it_with_all_their_packets() -> None:
    made = walk(step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c"), at="d")
    visited: list[tuple[str, list[str]]] = []
    while (found := made.next()) is not None:
        here, packets = found
        visited.append((here.id, [packet.text for packet in packets]))
        for before in made.earlier(here):
            severity = "P0" if here.id == "c" else "?"
            packet = Packet(source=here.id, severity=severity, text=f"from {here.id}")
            made.inbox.setdefault(before.id, []).append(packet)
    assert visited == [
        ("d", ["bad"]),
        ("c", ["from d"]),
        ("b", ["from d"]),
        ("a", ["from c", "from b"]),
    ]


def test_predecessors_that_are_unknown_or_come_later_are_left_out() -> None:
    made = walk(step("a"), step("b", "gone", "a", "b", "c", "a"), step("c", "b"), at="b")
    found = made.next()
    assert found is not None
    assert [each.id for each in made.earlier(found[0])] == ["a"]


# -- what roles answer ---------------------------------------------------------------------


def about(surfaces: tuple[str, ...] = ("s",), steps: tuple[str, ...] = ("a",)) -> BackwardRequest:
    return BackwardRequest(
        node="n",
        input="in",
        output="out",
        surfaces=tuple(ShownSurface(id=name, type="text", value="v") for name in surfaces),
        predecessors=tuple(ShownStep(id=name, node=name, output="o") for name in steps),
        incoming=(Remark(gradient="bad"),),
    )


def said(**parts: Any) -> BackwardAnswer:
    return BackwardAnswer.model_validate_json(json.dumps(parts))


def test_made_up_names_and_blanks_are_dropped_and_lists_are_merged() -> None:
    answer = said(
        gradients=[
            {"surface": "s", "severity": " p0", "gradient": "clearer"},
            {"surface": "invented", "gradient": "x"},
            {"surface": "s", "gradient": "  "},
        ],
        upstream=[
            {"predecessor": "a", "gradients": [{"gradient": "one"}]},
            {"predecessor": "zz", "gradients": [{"gradient": "two"}]},
            {"predecessor": "", "gradients": [{"gradient": "three"}]},
        ],
    )
    kept = sanitised(answer, about())
    assert [(r.surface, r.severity.value, r.gradient) for r in kept.gradients] == [
        ("s", "P0", "clearer")
    ]
    assert [(u.predecessor, [r.gradient for r in u.gradients]) for u in kept.upstream] == [
        ("a", ["one", "three"])
    ]


def test_a_name_left_out_is_not_guessed_among_several() -> None:
    answer = said(gradients=[{"gradient": "clearer"}])
    assert not why_useless(about(), answer)
    assert "the surfaces are: s, t" in why_useless(about(("s", "t")), answer)


def test_the_schema_names_only_what_was_shown() -> None:
    schema: Any = backward_schema(about(("s", "t")))
    assert schema["$defs"]["SurfaceRemark"]["properties"]["surface"]["enum"] == ["s", "t"]
    assert schema["$defs"]["Upstream"]["properties"]["predecessor"]["enum"] == ["a"]
    assert "surface" in schema["$defs"]["SurfaceRemark"]["required"]
    first: Any = backward_schema(about(steps=()))
    assert first["properties"]["upstream"]["maxItems"] == 0
    between: Any = backward_schema(about(surfaces=()))
    assert between["properties"]["gradients"]["maxItems"] == 0
    assert between["properties"]["upstream"]["minItems"] == 1


def test_a_merged_answer_cites_what_was_given_and_is_not_empty() -> None:
    surface = ShownSurface(id="s", type="text", value="v")
    remarks = (NumberedRemark(number=1, gradient="x"), NumberedRemark(number=2, gradient="y"))
    request = MergeRequest(surface=surface, gradients=remarks)
    schema: Any = merge_schema(request)
    cited = schema["$defs"]["MergedRemark"]["properties"]["sources"]["items"]
    assert (cited["minimum"], cited["maximum"]) == (1, 2)
    assert schema["properties"]["gradients"]["minItems"] == 1
    assert "2 remarks were given" in nothing_left(request, MergeAnswer())
    assert not nothing_left(request, MergeAnswer(gradients=[MergedRemark(gradient="z")]))


# -- values --------------------------------------------------------------------------------

TEXT = TextSurface(id="s", max_chars=20, placeholders=("{who}",))
NUMBER = NumberSurface(id="s", low=0, high=8, integer=True)
CHOICE = ChoiceSurface(id="s", choices=("a", 2, True))
DEMOS = DemosSurface(id="s", max_demos=1)


@pytest.mark.parametrize(
    ("surface", "data", "value"),
    [
        (TEXT, "Hi {who}", "Hi {who}"),
        (NUMBER, 3.0, 3),
        (CHOICE, 2, 2),
        (DEMOS, [{"input": "q", "output": "a"}], (Demonstration(input="q", output="a"),)),
    ],
)
def test_what_a_role_wrote_becomes_a_value(surface: Surface, data: Any, value: Value) -> None:
    assert value_from(data, surface) == value
    assert not surface.problems(value)


@pytest.mark.parametrize(
    ("surface", "data"),
    [
        (TEXT, 3),
        (TEXT, None),
        (NUMBER, "3"),
        (NUMBER, True),
        (CHOICE, ["a"]),
        (DEMOS, "q"),
        (DEMOS, [{"input": "q"}]),
    ],
)
def test_what_is_no_value_is_refused(surface: Surface, data: Any) -> None:
    with pytest.raises(BadValue):
        value_from(data, surface)


@pytest.mark.parametrize(
    ("surface", "kind", "words"),
    [
        (TEXT, {"type": "string"}, "at most 20 characters; keep word for word: {who}"),
        (NUMBER, {"type": "integer", "minimum": 0, "maximum": 8}, "a number from 0 to 8"),
        (CHOICE, {"enum": ["a", 2, True]}, "one of: a, 2, True"),
    ],
)
def test_bounds_are_in_the_schema_and_in_words(surface: Surface, kind: Any, words: str) -> None:
    assert value_schema(surface) == kind
    assert bounds_of(surface) == words


@pytest.mark.parametrize(
    ("value", "reason", "words"),
    [
        ("Hello {who}", "", "the reason is empty"),
        ("", "x", "the text is empty"),
        ("Hello you", "x", "placeholder '{who}' is gone"),
        ("Hello {who}" * 9, "x", "20 are allowed"),
        ("Hi {who}", "x", "nothing is changed"),
        (7, "x", "must be a text"),
        ("Hello {who}", "x", ""),
    ],
)
def test_a_patch_that_does_not_fit_is_sent_back_with_words(
    value: Any, reason: str, words: str
) -> None:
    request = PatchRequest(
        surface=ShownSurface(id="s", type="instruction", value="Hi {who}"),
        kind="text",
        bounds="",
        gradients=(Remark(gradient="longer"),),
        limits=TEXT,
    )
    found = unfit(request, PatchAnswer(value=value, reason=reason))
    assert words in found
    assert bool(words) is bool(found)
    schema: Any = patch_schema(request)
    assert schema["properties"]["value"] == {"type": "string"}


# -- a role that is a model ----------------------------------------------------------------


async def test_a_model_that_makes_up_names_is_sent_back_once_with_the_names_there_are() -> None:
    replies = iter(
        [
            '{"gradients": [{"surface": "invented", "gradient": "x"}]}',
            '{"gradients": [{"surface": "s", "severity": "P1", "gradient": "clearer"}]}',
        ]
    )
    backend = ScriptedBackend(respond=lambda _request, _draw: next(replies))
    models = Models(backends={"openai": backend})
    prompt = in_force(BACKWARDER, Path("/nonexistent"))
    role = backwarder(models.client(ModelRef.parse("openai:any")), prompt)
    receipt = await role.answer(about(), draw=0, effects=DirectEffects())
    assert receipt.value.gradients[0].surface == "s"
    first, second = backend.asked
    assert first.schema == backward_schema(about())
    assert "the surfaces are: s; the predecessors are: a" in second.messages[-1].content


async def test_a_model_that_says_nothing_twice_has_failed() -> None:
    backend = ScriptedBackend(respond=lambda _request, _draw: "{}")
    models = Models(backends={"openai": backend})
    prompt = in_force(BACKWARDER, Path("/nonexistent"))
    role = backwarder(models.client(ModelRef.parse("openai:any")), prompt)
    with pytest.raises(RoleFailed, match="answered twice without a valid answer"):
        await role.answer(about(), draw=0, effects=DirectEffects())
