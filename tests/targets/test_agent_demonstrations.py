"""Worked examples of an agent file: in the request as they happened, in files as they were."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnish.core.cases import Case
from burnish.core.errors import ConfigError
from burnish.core.surfaces import DemonstratedCall, Demonstration, DemosSurface
from burnish.journal.once import DirectEffects
from burnish.models.chat import ChatReply, ChatRequest
from burnish.targets.agent.blocks import demonstrations_of
from burnish.targets.agent.files import load_agent
from burnish.targets.agent.target import AgentTarget
from burnish.testing import ScriptedBackend
from tests.targets.agent_world import PLAIN, target, uses, with_values, write_agent

SURFACE = DemosSurface(id="demonstrations")
TOOL = """\
tools:
  - {name: subtract, type: function, description: a - b, file: tools/maths.py, function: subtract}
"""
SHOWN = """\
demonstrations:
  - input: 9 - 4 - 1?
    calls:
      - {tool: subtract, arguments: {a: 9, b: 4}, result: '5.0'}
      - {tool: subtract, arguments: {a: 5, b: 1}, result: '4.0'}
    output: '4'
    case: nine
  - {input: 1 - 1?, output: '0'}
"""
DEMOS = (
    Demonstration(
        input="9 - 4 - 1?",
        output="4",
        case="nine",
        calls=(
            DemonstratedCall.of("subtract", {"a": 9, "b": 4}, "5.0"),
            DemonstratedCall.of("subtract", {"a": 5, "b": 1}, "4.0"),
        ),
    ),
    Demonstration(input="1 - 1?", output="0"),
)


def made(folder: Path, text: str = PLAIN + TOOL) -> tuple[AgentTarget, ScriptedBackend]:
    """The analyst, who uses a tool first and then says what it gave."""

    def respond(request: ChatRequest, draw: int) -> str | ChatReply:
        del draw
        last = request.messages[-1]
        return last.content if last.role == "tool" else uses("subtract", a=7, b=5)

    return target(write_agent(folder, text), respond, surfaces=[SURFACE])


async def asked(
    agent: AgentTarget, backend: ScriptedBackend, name: str = "seven", **values: object
) -> ChatRequest:
    """The first request of a case."""
    candidate = with_values(agent.baseline, **values)  # pyright: ignore[reportArgumentType]
    case = Case.single("7 - 5?", name=name)
    await agent.run(candidate, case, draw=0, effects=DirectEffects())
    return backend.asked[-2]


async def test_a_trace_is_shown_as_it_happened(tmp_path: Path) -> None:
    request = await asked(*made(tmp_path), demonstrations=DEMOS)
    told = [
        (message.role, message.content, [use.id for use in message.uses], message.answers)
        for message in request.messages[1:]
    ]
    assert told == [
        ("user", "9 - 4 - 1?", [], ""),
        ("assistant", "", ["demo-1-1"], ""),
        ("tool", "5.0", [], "demo-1-1"),
        ("assistant", "", ["demo-1-2"], ""),
        ("tool", "4.0", [], "demo-1-2"),
        ("assistant", "4", [], ""),
        ("user", "1 - 1?", [], ""),
        ("assistant", "0", [], ""),
        ("user", "7 - 5?", [], ""),
    ]
    (use,) = request.messages[2].uses
    assert (use.name, use.arguments) == ("subtract", {"a": 9, "b": 4})


async def test_a_case_sees_neither_the_answer_nor_the_calls_of_its_own(tmp_path: Path) -> None:
    request = await asked(*made(tmp_path), name="nine", demonstrations=DEMOS)
    assert [message.content for message in request.messages[1:]] == ["1 - 1?", "0", "7 - 5?"]
    assert not any(message.uses for message in request.messages)


async def test_calls_that_were_shown_are_not_calls_that_were_made(tmp_path: Path) -> None:
    agent, _ = made(tmp_path)
    candidate = with_values(agent.baseline, demonstrations=DEMOS)
    receipt = await agent.run(candidate, Case.single("7 - 5?"), draw=0, effects=DirectEffects())
    calls = [call for step in receipt.value.trace.steps for call in step.tools]
    assert [call.arguments for call in calls] == [{"a": 7.0, "b": 5.0}]


def written(agent: AgentTarget, home: Path, demos: tuple[Demonstration, ...]) -> Path:
    candidate = with_values(agent.baseline, demonstrations=demos)
    assert not agent.check(candidate)
    home.mkdir(parents=True, exist_ok=True)
    for name, content in agent.export(candidate, home).items():
        (home / name).write_bytes(content)
    return home / "agent.yaml"


async def test_an_exported_file_asks_the_same(tmp_path: Path) -> None:
    agent, backend = made(tmp_path)
    before = await asked(agent, backend, demonstrations=DEMOS)
    path = written(agent, tmp_path / "results" / "best", DEMOS)
    again, heard = target(path, lambda _, __: "2")
    await again.run(again.baseline, Case.single("7 - 5?"), draw=0, effects=DirectEffects())
    assert heard.asked[0] == before


def test_a_file_may_have_traces(tmp_path: Path) -> None:
    agent, _ = made(tmp_path, PLAIN + TOOL + SHOWN)
    assert demonstrations_of(agent.agent.block) == DEMOS
    assert agent.baseline.values == {"demonstrations": DEMOS}
    text = (tmp_path / "agent.yaml").read_text(encoding="utf-8")
    assert agent.export(agent.baseline, tmp_path) == {"agent.yaml": text.encode()}


def test_none_may_be_shown(tmp_path: Path) -> None:
    agent, _ = made(tmp_path, PLAIN + TOOL + SHOWN)
    path = written(agent, tmp_path / "out", ())
    assert load_agent(path).block.demonstrations == []
    bare, _ = made(tmp_path)
    assert bare.export(bare.baseline, tmp_path) == {"agent.yaml": (PLAIN + TOOL).encode()}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("arguments: {a: 9", "argument: {a: 9", "did you mean 'arguments'?"),
        ("calls:", "call:", "did you mean 'calls'?"),
        ("{a: 9, b: 4}", "[9, 4]", "demonstrations[0].calls[0].arguments"),
        (
            "subtract, arguments: {a: 5",
            "substract, arguments: {a: 5",
            "demonstrations[0].calls[1].tool: the agent has no tool 'substract' — "
            "did you mean 'subtract'?",
        ),
    ],
)
def test_what_is_wrong_with_a_trace_is_said(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in SHOWN
    with pytest.raises(ConfigError) as caught:
        load_agent(write_agent(tmp_path, PLAIN + TOOL + SHOWN.replace(old, new)))
    assert words in str(caught.value)


def test_a_tool_that_is_gone_is_named_with_what_to_do(tmp_path: Path) -> None:
    agent, backend = made(tmp_path, PLAIN)
    (problem, _) = agent.check(with_values(agent.baseline, demonstrations=DEMOS))
    assert str(problem) == (
        "demonstrations[0].calls[0].tool: the agent has no tool 'subtract' — "
        "remove the call, or add the tool; the agent has none"
    )
    assert backend.asked == []


@pytest.mark.parametrize(
    ("load", "name", "known"),
    [
        ("true", "anything", True),
        ("[stock]", "stock", True),
        ("[stock]", "anything", False),
        ("false", "anything", False),
    ],
)
def test_what_a_server_offers_is_known_once_it_runs(
    tmp_path: Path, load: str, name: str, known: bool
) -> None:
    server = f"""\
tools:
  - {{name: shop, type: mcp, description: d, command: "true", load_tools: {load}}}
"""
    agent, _ = made(tmp_path, PLAIN + server)
    demo = Demonstration(input="a", output="b", calls=(DemonstratedCall(tool=name),))
    assert (not agent.check(with_values(agent.baseline, demonstrations=(demo,)))) is known


def test_a_search_is_known_by_the_name_that_the_model_uses(tmp_path: Path) -> None:
    search = """\
tools:
  - {name: archive, type: hierarchical_document, description: d, source: data/*.md,
     search_mode: keyword}
"""
    agent, _ = made(tmp_path, PLAIN + search)
    for name, known in (("archive_search", True), ("archive", False)):
        demo = Demonstration(input="a", output="b", calls=(DemonstratedCall(tool=name),))
        assert (not agent.check(with_values(agent.baseline, demonstrations=(demo,)))) is known


lines = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8) | st.sampled_from(
    ["${NOT_SET}", "yes", "1", "<<", "a: b\n  c", "\ttab ", "- x\n\n", "#", "\u2028", "null", "😀"]
)
arguments = st.dictionaries(
    lines, st.none() | st.booleans() | st.integers() | st.floats(-9, 9) | lines
)
calls = st.builds(DemonstratedCall.of, st.just("subtract"), arguments, lines)


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    demo=st.builds(
        Demonstration,
        input=lines,
        output=lines,
        case=lines,
        calls=st.lists(calls, max_size=2).map(tuple),
    )
)
def test_whatever_was_said_is_read_as_it_was_written(tmp_path: Path, demo: Demonstration) -> None:
    agent, _ = made(tmp_path)
    path = written(agent, tmp_path / "out", (demo,))
    assert demonstrations_of(load_agent(path).block) == (demo,)
