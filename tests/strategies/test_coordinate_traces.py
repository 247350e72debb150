"""Demonstrations that are whole traces: made of runs that passed, and never a case's own."""

from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.cases import Case, Dataset, Outcome, Split, Step, ToolCall, ToolUse, Trace, Turn
from burnish.core.evaluations import CaseResult, Evaluation, Objective, Score
from burnish.core.surfaces import DemonstratedCall, Demonstration, DemosSurface
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.factory import Models
from burnish.runs.setup import Setup
from burnish.strategies.coordinate import demonstrations
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import CoordinateSettings, PhaseLimits
from burnish.targets.agent.blocks import demonstrations_of
from burnish.targets.agent.files import load_agent
from burnish.targets.agent.target import AgentTarget
from burnish.testing import ExpectedText, ScriptedBackend
from tests.strategies.coordinate_runs import Driven, driven

SURFACE = DemosSurface(id="demonstrations", max_demos=2)
CASE = Case.single("What is in bin 7?", "bolts", name="seven")


def run_of(*calls: ToolCall, said: str = "Bolts.") -> Outcome:
    """A run in which these tools were used, one an answer."""
    steps = [Step(id=f"s{n}", node="agent", tools=(call,)) for n, call in enumerate(calls)]
    return Outcome(replies=(said,), trace=Trace(steps=tuple(steps)))


def pool(*right: Outcome, case: Case = CASE, room: int | None = None) -> tuple[Demonstration, ...]:
    results = [
        CaseResult(
            case=case.id,
            draw=draw,
            outcome=outcome,
            scores=(Score(metric="m", value=1.0, passed=True),),
        )
        for draw, outcome in enumerate(right)
    ]
    measured = Evaluation(candidate="c", split=Split.TRAIN, results=tuple(results))
    return demonstrations.pool_of([case], measured, ["m"], replace(SURFACE, max_chars=room))


LOOK = ToolCall(name="look", arguments={"bin": 7, "all": True}, result={"item": "bolts"}, id="x1")


def test_a_run_that_passed_is_shown_with_the_tools_it_used() -> None:
    count = ToolCall(name="count", result=12)
    assert pool(run_of(LOOK, count)) == (
        Demonstration(
            input="What is in bin 7?",
            output="Bolts.",
            case="seven",
            calls=(
                DemonstratedCall.of("look", {"bin": 7, "all": True}, '{"item":"bolts"}'),
                DemonstratedCall(tool="count", result="12"),
            ),
        ),
    )


def test_of_a_long_result_the_beginning_is_shown_and_says_so() -> None:
    (demo,) = pool(run_of(ToolCall(name="read", result="a" * 599 + "b" * 1000)))
    assert demo.calls[0].result == "a" * 599 + "b" + "… [the first 600 of 1599 characters]"
    (whole,) = pool(run_of(ToolCall(name="read", result="a" * 600)))
    assert whole.calls[0].result == "a" * 600


def test_a_run_in_which_no_tool_failed_is_shown_rather_than_one_in_which_one_did() -> None:
    failed = ToolCall(name="look", error="Timeout: no answer")
    stumbled = run_of(failed, LOOK, said="Bolts, in the end.")
    assert pool(stumbled, run_of(LOOK))[0].output == "Bolts."
    (alone,) = pool(stumbled)
    assert [call.result for call in alone.calls] == [
        "the tool failed: Timeout: no answer",
        '{"item":"bolts"}',
    ]


def test_what_a_secret_was_taken_out_of_is_not_shown() -> None:
    leaky = ToolCall(name="look", arguments={"token": "[redacted]"}, result="bolts")
    assert pool(run_of(leaky)) == (
        Demonstration(input="What is in bin 7?", output="bolts", case="seven"),
    )


def test_a_trace_that_does_not_fit_gives_way_to_the_label() -> None:
    long = run_of(ToolCall(name="read", result="a" * 500))
    assert pool(long, room=100) == (
        Demonstration(input="What is in bin 7?", output="bolts", case="seven"),
    )
    assert [demo.size > 500 for demo in pool(long, room=600)] == [True]


@pytest.mark.parametrize(("result", "shown"), [("bolts", 1), (None, 0)])
def test_a_label_brings_calls_where_it_knows_what_they_give(result: str | None, shown: int) -> None:
    turn = Turn(
        input="What is in bin 7?",
        expected="bolts",
        expected_calls=(ToolCall(name="look", arguments={"bin": 7}, result=result),),
    )
    (demo,) = pool(case=Case(name="seven", turns=(turn,)))
    assert (demo.output, len(demo.calls)) == ("bolts", shown)


# -- an agent with a tool, tuned -----------------------------------------------------------

TOOL = '''\
def look(bin: int) -> str:
    """What is in a bin."""
    return f"part-{bin * bin}"
'''
AGENT = """\
name: storekeeper
model: {provider: openai, name: m}
instructions: {inline: You keep the store.}
tools:
  - {name: look, type: function, description: look into a bin, file: tool.py, function: look}
"""
BAD = """\
demonstrations:
  - {input: "What is in bin 0?", output: "I may not say."}
"""


def keeper(request: ChatRequest, draw: int) -> str | ChatReply:
    """Keeps silent once it saw that; looks where it is shown how to, and into bin 1 by itself."""
    del draw
    said = [message for message in request.messages if message.role != "system"]
    if said[-1].role == "tool":
        return said[-1].content
    if any(message.content == "I may not say." for message in said):
        return "I may not say."
    number = int(said[-1].content.removeprefix("What is in bin ").removesuffix("?"))
    if number == 1 or any(message.uses for message in said):
        use = ToolUse(id="u", name="look", arguments={"bin": number})
        return ChatReply(text="", uses=(use,), finish="tool_call")
    return "No idea."


def bins(numbers: range) -> tuple[Case, ...]:
    return tuple(
        Case.single(f"What is in bin {n}?", f"part-{n * n}", name=f"bin-{n}") for n in numbers
    )


def tuned(folder: Path, text: str) -> tuple[Driven, ScriptedBackend]:
    """A demonstration phase over the storekeeper."""
    (folder / "tool.py").write_text(TOOL, encoding="utf-8")
    (folder / "agent.yaml").write_text(text, encoding="utf-8")
    backend = ScriptedBackend(respond=keeper)
    agent = load_agent(folder / "agent.yaml")
    settings = CoordinateSettings(
        demonstrations=SURFACE.id,
        repeats=1,
        max_cycles=2,
        demonstration_phase=PhaseLimits(max_trials=6, patience=6),
    )
    setup = Setup(
        target=AgentTarget(agent, Models(backends={"openai": backend}), surfaces=(SURFACE,)),
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(train=bins(range(1, 6)), holdout=bins(range(6, 9))),
        strategy=Coordinate(settings=settings),
    )
    return driven(setup, folder / "run"), backend


def best_of(run: Driven) -> tuple[Demonstration, ...]:
    demos = run.ending.best.values[SURFACE.id]
    assert isinstance(demos, tuple)
    return demos


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> tuple[Driven, ScriptedBackend]:
    return tuned(tmp_path_factory.mktemp("store"), AGENT)


@pytest.mark.slow
def test_an_agent_learns_to_use_its_tool_from_a_trace(
    taught: tuple[Driven, ScriptedBackend],
) -> None:
    looked = [demo for demo in best_of(taught[0]) if demo.calls]
    assert looked == [
        Demonstration(
            input="What is in bin 1?",
            output="part-1",
            case="bin-1",
            calls=(DemonstratedCall.of("look", {"bin": 1}, "part-1"),),
        )
    ]


@pytest.mark.slow
def test_no_case_is_ever_asked_with_its_own_trace_in_view(
    taught: tuple[Driven, ScriptedBackend],
) -> None:
    _, backend = taught
    shown = 0
    for request in backend.asked:
        asked = [message.content for message in request.messages if message.role == "user"]
        assert asked[-1] not in asked[:-1]
        shown += len(asked) > 1
    assert shown, "some were asked with demonstrations in view"


@pytest.mark.slow
def test_bundled_demonstrations_that_harm_are_removed(tmp_path: Path) -> None:
    run, _ = tuned(tmp_path, AGENT + BAD)
    first = run.of_phase("demonstrations")[0]
    assert (first.trial.candidate.origin.note, first.trial.accepted) == ("no demos", True)
    best = load_agent(run.folder / "candidates" / "best" / "agent.yaml")
    assert demonstrations_of(best.block) == best_of(run)
    assert "I may not say." not in {demo.output for demo in best_of(run)}


@pytest.mark.slow
@pytest.mark.parametrize("bundled", ["", BAD], ids=["none bundled", "some bundled"])
def test_nothing_is_shown_at_most_once_and_no_candidate_twice(tmp_path: Path, bundled: str) -> None:
    run, _ = tuned(tmp_path, AGENT + bundled)
    notes = [row.trial.candidate.origin.note for row in run.of_phase("demonstrations", 1)]
    assert notes.count("no demos") == bool(bundled)
    tried = [row.trial.candidate.id for row in run.rows]
    assert len(set(tried)) == len(tried)
    assert not any(row.trial.problems for row in run.rows)
