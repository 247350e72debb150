"""An agent under a case: turns, tools, structured answers, failures, and the trace of it all."""

import json
from pathlib import Path

import pytest

from burnish.core.cases import Case, Message, Outcome, Scenario, Turn
from burnish.core.surfaces import Demonstration, DemosSurface, NumberSurface, TextSurface
from burnish.journal.once import DirectEffects
from burnish.metrics.turns import NextRemark, TalkSoFar
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.errors import ModelRefused, ModelRejected, ModelUnavailable
from burnish.targets.agent.files import load_agent
from burnish.targets.agent.target import AgentTarget
from burnish.testing import check_target
from burnish.testing.doubles import ScriptedRole
from tests.targets.agent_world import (
    PLAIN,
    Respond,
    scripted,
    target,
    uses,
    with_values,
    write_agent,
)

FUNCTION = """\
tools:
  - {name: subtract, type: function, description: a - b, file: tools/maths.py, function: subtract}
  - {name: broken, type: function, description: breaks, file: tools/maths.py, function: broken}
"""


async def run(
    path: Path, case: Case, respond: Respond, *, effects: DirectEffects | None = None
) -> Outcome:
    made, _ = target(path, respond)
    try:
        receipt = await made.run(made.baseline, case, draw=0, effects=effects or DirectEffects())
    finally:
        await made.close()
    return receipt.value


async def test_a_turn_is_instructions_and_what_is_said(tmp_path: Path) -> None:
    made, backend = target(write_agent(tmp_path, PLAIN), lambda _, __: "2")
    receipt = await made.run(made.baseline, Case.single("7 - 5?"), draw=0, effects=DirectEffects())
    assert receipt.value.replies == ("2",)
    assert [(m.role, m.content) for m in backend.asked[0].messages] == [
        ("system", "You are an analyst."),
        ("user", "7 - 5?"),
    ]
    assert backend.asked[0].tools == ()


async def test_turns_are_one_conversation(tmp_path: Path) -> None:
    def respond(request: ChatRequest, draw: int) -> str:
        return " / ".join(m.content for m in request.messages if m.role != "system")

    case = Case(turns=(Turn(input="a"), Turn(input="b"), Turn(input="c")))
    outcome = await run(write_agent(tmp_path, PLAIN), case, respond)
    assert outcome.replies == ("a", "a / a / b", "a / a / b / a / a / b / c")
    assert [step.turn for step in outcome.trace.steps] == [0, 1, 2]
    assert [step.predecessors for step in outcome.trace.steps] == [(), ("step-0",), ("step-1",)]


async def test_a_tool_is_used_and_written_down(tmp_path: Path) -> None:
    def respond(request: ChatRequest, draw: int) -> str | ChatReply:
        last = request.messages[-1]
        return last.content if last.role == "tool" else uses("subtract", a=7, b=5)

    outcome = await run(write_agent(tmp_path, PLAIN + FUNCTION), Case.single("7 - 5?"), respond)
    assert outcome.replies == ("2.0",)
    first, second = outcome.trace.steps
    assert [(c.name, c.arguments, c.result, c.error) for c in first.tools] == [
        ("subtract", {"a": 7.0, "b": 5.0}, 2.0, "")
    ]
    assert (first.input, second.input, second.output) == ("7 - 5?", "subtract: 2.0", "2.0")
    assert outcome.usage.requests == 2


async def test_the_models_sees_the_schema_of_type_hints(tmp_path: Path) -> None:
    made, backend = target(write_agent(tmp_path, PLAIN + FUNCTION))
    await made.run(made.baseline, Case.single("hi"), draw=0, effects=DirectEffects())
    tool = backend.asked[0].tools[0]
    assert (tool.name, tool.description) == ("subtract", "a - b")
    assert tool.parameters["required"] == ["a", "b"]


async def test_a_tool_that_raises_tells_the_model_and_is_no_crash(tmp_path: Path) -> None:
    def respond(request: ChatRequest, draw: int) -> str | ChatReply:
        last = request.messages[-1]
        return last.content if last.role == "tool" else uses("broken", a=1)

    outcome = await run(write_agent(tmp_path, PLAIN + FUNCTION), Case.single("go"), respond)
    assert outcome.failure is None
    assert outcome.replies == ("the tool failed: RuntimeError: the abacus fell",)
    assert outcome.trace.steps[0].tools[0].error == "RuntimeError: the abacus fell"


async def test_arguments_that_do_not_fit_may_be_mended(tmp_path: Path) -> None:
    def respond(request: ChatRequest, draw: int) -> str | ChatReply:
        answers = [m for m in request.messages if m.role == "tool"]
        if not answers:
            return uses("subtract", "c1", a="seven", b=5)
        return uses("subtract", "c2", a=7, b=5) if len(answers) == 1 else answers[-1].content

    outcome = await run(write_agent(tmp_path, PLAIN + FUNCTION), Case.single("7 - 5?"), respond)
    assert outcome.replies == ("2.0",)


async def test_a_tool_nobody_has_is_the_agents_failure_in_the_end(tmp_path: Path) -> None:
    outcome = await run(
        write_agent(tmp_path, PLAIN + FUNCTION), Case.single("go"), lambda _, __: uses("divide")
    )
    assert outcome.failed
    assert outcome.failure is not None
    assert "retries" in outcome.failure.message
    assert outcome.replies == ()


async def test_structured_answers(tmp_path: Path) -> None:
    text = PLAIN + (
        "response_format: {type: object, properties: {answer: {type: number}}, required: [answer]}"
    )
    said = iter(["not json", '{"answer": 2}'])
    outcome = await run(
        write_agent(tmp_path, text), Case.single("7 - 5?"), lambda _, __: next(said)
    )
    assert outcome.data == {"answer": 2}
    assert json.loads(outcome.output) == {"answer": 2}
    assert outcome.usage.requests == 2


async def test_a_response_format_may_be_a_file(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    (tmp_path / "answer.json").write_text(json.dumps(schema), encoding="utf-8")
    path = write_agent(tmp_path, f"{PLAIN}response_format: answer.json\n")
    made, backend = target(path, lambda _, __: '{"answer": "x"}')
    await made.run(made.baseline, Case.single("hi"), draw=0, effects=DirectEffects())
    assert backend.asked[0].schema is not None
    assert backend.asked[0].schema["properties"] == schema["properties"]


async def test_what_was_said_before_comes_first(tmp_path: Path) -> None:
    made, backend = target(write_agent(tmp_path, PLAIN))
    case = Case(
        turns=(Turn(input="And now?"),),
        history=(
            Message(role="user", content="Hello"),
            Message(role="assistant", content="Good day"),
        ),
    )
    await made.run(made.baseline, case, draw=0, effects=DirectEffects())
    assert [m.content for m in backend.asked[0].messages] == [
        "You are an analyst.",
        "Hello",
        "Good day",
        "And now?",
    ]


DEMOS = (
    Demonstration(input="3 - 1?", output="2", case="three"),
    Demonstration(input="9 - 9?", output="0", case="nine"),
)


async def test_demonstrations_are_shown_but_never_a_cases_own(tmp_path: Path) -> None:
    surface = DemosSurface(id="demonstrations")
    made, backend = target(write_agent(tmp_path, PLAIN), surfaces=[surface])
    candidate = with_values(made.baseline, demonstrations=DEMOS)
    for name in ("other", "nine"):
        case = Case.single("9 - 9?", name=name)
        await made.run(candidate, case, draw=0, effects=DirectEffects())
    first, second = ([m.content for m in r.messages[1:]] for r in backend.asked)
    assert first == ["3 - 1?", "2", "9 - 9?", "0", "9 - 9?"]
    assert second == ["3 - 1?", "2", "9 - 9?"]


async def test_a_candidate_changes_what_is_asked(tmp_path: Path) -> None:
    surfaces = [
        TextSurface(id="instructions"),
        TextSurface(id="tools[name=subtract].description"),
        NumberSurface(id="model.temperature", low=0, high=1),
    ]
    made, backend = target(write_agent(tmp_path, PLAIN + FUNCTION), surfaces=surfaces)
    candidate = with_values(
        made.baseline,
        instructions="Be brief.",
        **{"tools[name=subtract].description": "minus", "model.temperature": 0.9},
    )
    await made.run(candidate, Case.single("hi"), draw=0, effects=DirectEffects())
    asked = backend.asked[0]
    assert asked.messages[0].content == "Be brief."
    assert asked.tools[0].description == "minus"
    assert made.client.ref.settings.temperature == 0.3


async def test_a_model_that_is_away_is_missing_never_0(tmp_path: Path) -> None:
    def away(request: ChatRequest, draw: int) -> str:
        raise ModelUnavailable("nobody answered")

    outcome = await run(write_agent(tmp_path, PLAIN), Case.single("hi"), away)
    assert outcome.missing
    assert not outcome.failed


async def test_a_request_that_will_never_do_is_the_agents_failure(tmp_path: Path) -> None:
    def long(request: ChatRequest, draw: int) -> str:
        raise ModelRejected("the prompt is too long")

    outcome = await run(write_agent(tmp_path, PLAIN), Case.single("hi"), long)
    assert outcome.failed
    assert outcome.failure is not None
    assert "the prompt is too long" in outcome.failure.message


async def test_a_refused_key_stops_everything(tmp_path: Path) -> None:
    def refused(request: ChatRequest, draw: int) -> str:
        raise ModelRefused("the key was refused")

    with pytest.raises(ModelRefused):
        await run(write_agent(tmp_path, PLAIN), Case.single("hi"), refused)


async def test_a_failure_in_a_later_turn_keeps_the_trace(tmp_path: Path) -> None:
    def respond(request: ChatRequest, draw: int) -> str | ChatReply:
        last = request.messages[-1]
        if last.role == "tool":
            raise ModelRejected("too long now")
        return "fine" if last.content == "a" else uses("subtract", a=2, b=1)

    case = Case(turns=(Turn(input="a"), Turn(input="b")))
    outcome = await run(write_agent(tmp_path, PLAIN + FUNCTION), case, respond)
    assert outcome.failed
    assert [step.turn for step in outcome.trace.steps] == [0, 1]
    assert outcome.trace.steps[1].tools[0].name == "subtract"
    assert outcome.usage.requests == 2


async def test_every_answer_is_an_effect_of_its_own(tmp_path: Path) -> None:
    def respond(request: ChatRequest, draw: int) -> str | ChatReply:
        last = request.messages[-1]
        return "2" if last.role == "tool" else uses("subtract", a=7, b=5)

    effects = DirectEffects()
    path = write_agent(tmp_path, PLAIN + FUNCTION)
    await run(path, Case.single("7 - 5?"), respond, effects=effects)
    assert effects.spent.calls == 2


async def test_a_scenario_is_played(tmp_path: Path) -> None:
    def next_remark(request: TalkSoFar, draw: int) -> NextRemark:
        over = "Oslo it is" in request.conversation
        return NextRemark(thought="t", done=over, remark="" if over else "Oslo")

    user = ScriptedRole(
        name="user_simulator",
        respond=next_remark,
        request_type=TalkSoFar,
        answer_type=NextRemark,
    )
    models, _ = scripted(lambda r, _: "Oslo it is" if len(r.messages) > 2 else "Where to?")
    made = AgentTarget(load_agent(write_agent(tmp_path, PLAIN)), models, user=user)
    case = Case(turns=(Turn(input="A flight, please"),), scenario=Scenario(plan="to Oslo"))
    outcome = (await made.run(made.baseline, case, draw=0, effects=DirectEffects())).value
    assert outcome.asked == ("A flight, please", "Oslo")
    assert outcome.replies == ("Where to?", "Oslo it is")


async def test_prompt_tools_fill_their_template(tmp_path: Path) -> None:
    tool = (
        "tools:\n  - name: brief\n    type: prompt\n    description: d\n"
        "    template: 'Write on {{topic}} for {reader}.'\n"
        "    parameters: {topic: {type: string}, reader: {type: string, default: all}}\n"
    )

    def respond(request: ChatRequest, draw: int) -> str | ChatReply:
        last = request.messages[-1]
        return last.content if last.role == "tool" else uses("brief", topic="rain", reader="us")

    outcome = await run(write_agent(tmp_path, PLAIN + tool), Case.single("go"), respond)
    assert outcome.replies == ("Write on rain for us.",)


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("{name: t, type: function, description: d, file: no.py, function: f}", "no.py"),
        (
            "{name: t, type: function, description: d, file: tools/maths.py, function: add}",
            "has no function 'add'",
        ),
        (
            "{name: t, type: prompt, description: d, template: 'On {{x}}', parameters: {}}",
            "a place for 'x', which is not a parameter",
        ),
        (
            "{name: t, type: mcp, description: d, command: no-such-program-here}",
            "is not installed",
        ),
    ],
)
def test_tools_that_cannot_be_had_are_said_before_anything_is_paid(
    tmp_path: Path, tool: str, words: str
) -> None:
    with pytest.raises(Exception, match=words):
        target(write_agent(tmp_path, f"{PLAIN}tools:\n  - {tool}\n"))


async def test_the_contract(tmp_path: Path) -> None:
    surfaces = [TextSurface(id="instructions"), DemosSurface(id="demonstrations")]
    made, _ = target(write_agent(tmp_path, PLAIN), lambda _, __: "fine", surfaces)
    cases = [Case.single("hi"), Case(turns=(Turn(input="a"), Turn(input="b")))]
    await check_target(made, cases)
