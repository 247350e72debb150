"""Conversation scenarios: a played user, a bounded talk, and what metrics see of it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from burnish.core.cases import Case, Outcome, Scenario, Turn
from burnish.core.errors import RoleFailed
from burnish.journal.once import DirectEffects
from burnish.metrics.turns import (
    ComputedMetric,
    Exchange,
    NextRemark,
    Talk,
    TalkSoFar,
    Verdict,
    converse,
    exchanges,
    user_simulator,
)
from burnish.models.chat import ChatRequest
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.models.roles import in_force
from burnish.testing.doubles import ScriptedBackend, ScriptedRole

CASE = Case(
    turns=(Turn(input="I need a flight."),),
    scenario=Scenario(plan="Fly to Oslo on Friday. Content once it is booked.", max_turns=5),
)


def user(remarks: Sequence[str]) -> ScriptedRole[TalkSoFar, NextRemark]:
    """Says its remarks one after the other, then is done."""

    def respond(request: TalkSoFar, draw: int) -> NextRemark:
        said = [line for line in request.conversation.splitlines() if line.startswith("user: ")]
        left = remarks[sum(line != f"user: {CASE.input}" for line in said) :]
        done = not left
        return NextRemark(thought="…", done=done, remark="" if done else left[0])

    return ScriptedRole(
        name="user_simulator",
        respond=respond,
        answer_type=NextRemark,
        request_type=TalkSoFar,
    )


async def echo(remark: str) -> str:
    return f"You said: {remark}"


async def talk(remarks: Sequence[str], case: Case = CASE) -> Talk:
    return await converse(case, echo, user=user(remarks), draw=0, effects=DirectEffects())


async def test_the_talk_follows_the_plan_until_it_is_done() -> None:
    had = await talk(["To Oslo.", "On Friday."])
    assert had.asked == ("I need a flight.", "To Oslo.", "On Friday.")
    assert had.replies[1] == "You said: To Oslo."


async def test_the_talk_is_bounded() -> None:
    assert len((await talk(["and?"] * 50)).asked) == 5


async def test_a_limit_of_nothing_is_still_a_limit() -> None:
    endless = replace(CASE, scenario=Scenario(plan="…", max_turns=0))
    assert len((await talk(["and?"] * 50, endless)).asked) == 20


async def test_the_stop_signal_ends_it_unsaid() -> None:
    scenario = Scenario(plan="…", stop_signal="<done>", max_turns=9)
    had = await talk(["One more.", "Thanks! <done>"], replace(CASE, scenario=scenario))
    assert had.asked == ("I need a flight.", "One more.")


async def test_without_an_opening_the_user_opens() -> None:
    had = await talk(["Hello?"], replace(CASE, turns=(Turn(input=""),)))
    assert had.asked == ("Hello?",)


async def test_a_user_who_cannot_be_played_is_nobodys_answer() -> None:
    def away(request: TalkSoFar, draw: int) -> NextRemark:
        raise RoleFailed("nobody answered", missing=True)

    role = ScriptedRole(
        name="user_simulator", respond=away, answer_type=NextRemark, request_type=TalkSoFar
    )
    with pytest.raises(RoleFailed, match="nobody answered"):
        await converse(CASE, echo, user=role, draw=0, effects=DirectEffects())


async def test_the_shipped_prompt_shows_plan_and_talk_and_takes_a_typed_answer(
    tmp_path: Path,
) -> None:
    def respond(request: ChatRequest, draw: int) -> str:
        over = "agent: You said: To Oslo." in request.messages[-1].content
        return json.dumps({"thought": "t", "done": over, "remark": "" if over else "To Oslo."})

    backend = ScriptedBackend(respond=respond)
    client = Models(backends={"openai": backend}).client(ModelRef.parse("openai:m"))
    role = user_simulator(client, in_force("user_simulator", tmp_path))
    had = await converse(CASE, echo, user=role, draw=0, effects=DirectEffects())
    assert had.asked == ("I need a flight.", "To Oslo.")
    shown = backend.asked[0].messages[-1].content
    assert "Fly to Oslo on Friday." in shown
    assert "user: I need a flight.\nagent: You said: I need a flight." in shown


def test_an_empty_remark_is_no_answer() -> None:
    with pytest.raises(ValueError, match="say the next remark"):
        NextRemark(thought="…", done=False, remark=" ")


def test_metrics_see_every_turn_that_was_had() -> None:
    outcome = Outcome(asked=("I need a flight.", "To Oslo."), replies=("Where to?", "Booked."))
    seen = exchanges(CASE, outcome)
    assert [(e.index, e.asked, e.reply) for e in seen] == [
        (0, "I need a flight.", "Where to?"),
        (1, "To Oslo.", "Booked."),
    ]
    assert seen[1].earlier == (("I need a flight.", "Where to?"),)


@dataclass(frozen=True, kw_only=True)
class Says(ComputedMetric):
    word: str

    def compute(self, exchange: Exchange) -> Verdict | None:
        return Verdict.of(held=self.word in exchange.reply, reason=f"'{self.word}' is not said")


async def test_a_scenario_is_scored_turn_by_turn() -> None:
    outcome = Outcome(asked=("a", "b"), replies=("Where to?", "Booked."))
    metric = Says(name="says", word="Booked")
    found = await metric.score(CASE, outcome, effects=DirectEffects())
    assert [(s.turn, s.value, s.reason) for s in found] == [
        (0, 0.0, "'Booked' is not said"),
        (1, 1.0, ""),
    ]
