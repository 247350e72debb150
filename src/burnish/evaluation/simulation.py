"""Conversation scenarios: a model plays the user, so that the talk follows the agent's replies."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, model_validator

from burnish.core.cases import Case
from burnish.core.effects import Effects
from burnish.core.protocols import Role
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RolePrompt

ROLE = "user_simulator"
DEFAULT_TURNS = 20
"""Where a scenario sets no limit, or none at all: two models can be polite for ever."""

Reply = Callable[[str], Awaitable[str]]


class TalkSoFar(BaseModel):
    """What the player of the user is told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    plan: str
    conversation: str


class NextRemark(BaseModel):
    """What the user says next, or that the talk is over."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    thought: str
    done: bool
    remark: str = ""

    @model_validator(mode="after")
    def _says_something(self) -> "NextRemark":
        if not self.done and not self.remark.strip():
            raise ValueError("say the next remark, or that the talk is done")
        return self


@dataclass(frozen=True, kw_only=True)
class Talk:
    """A conversation that was had."""

    asked: tuple[str, ...]
    replies: tuple[str, ...]


def user_simulator(client: ModelClient, prompt: RolePrompt) -> ModelRole[TalkSoFar, NextRemark]:
    """The role that plays the user."""
    return ModelRole(
        name=ROLE,
        request_type=TalkSoFar,
        answer_type=NextRemark,
        prompt=prompt,
        client=client,
    )


async def converse(
    case: Case,
    reply: Reply,
    *,
    user: Role[TalkSoFar, NextRemark],
    draw: int,
    effects: Effects,
) -> Talk:
    """Have the conversation of a scenario; every remark is an effect of its own.

    Raises RoleFailed when the user cannot be played: that is nobody's answer, so missing.
    """
    assert case.scenario is not None, "only a scenario has a user to play"
    limit = case.scenario.max_turns or DEFAULT_TURNS
    asked: list[str] = []
    replies: list[str] = []
    remark: str | None = case.input.strip() or None
    while len(asked) < limit:
        if remark is None:
            remark = await _next(case, asked, replies, user=user, draw=draw, effects=effects)
        if remark is None:
            break
        asked.append(remark)
        replies.append(await reply(remark))
        remark = None
    return Talk(asked=tuple(asked), replies=tuple(replies))


async def _next(
    case: Case,
    asked: Sequence[str],
    replies: Sequence[str],
    *,
    user: Role[TalkSoFar, NextRemark],
    draw: int,
    effects: Effects,
) -> str | None:
    assert case.scenario is not None
    said = [f"user: {a}\nagent: {r}" for a, r in zip(asked, replies, strict=True)]
    request = TalkSoFar(
        plan=case.scenario.plan, conversation="\n".join(said) or "(nothing was said yet)"
    )
    answer = (await user.answer(request, draw=draw, effects=effects)).value
    signal = case.scenario.stop_signal
    over = answer.done or bool(signal and signal in answer.remark)
    return None if over else answer.remark
