"""The metrics of a workflow file: expressions, assertions on files, judges, commands, budgets."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import BaseModel, ConfigDict

from burnish.core.content import Json, short_id
from burnish.core.errors import FileTrouble, RoleFailed
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RolePrompt
from burnish.targets.artifacts.numbers import NoNumbers, read_numbers
from burnish.targets.artifacts.task import Scoring
from burnish.targets.delegation.desk import Desk
from burnish.targets.delegation.evaluating import CannotScore, Final
from burnish.targets.delegation.expressions import BadExpression, evaluate
from burnish.targets.delegation.showing import contents
from burnish.targets.delegation.words import Judgement

JUDGE = "delegation_judge"


@dataclass(frozen=True, kw_only=True)
class _Weighed:
    name: str
    kind: str
    weight: float = 1.0
    threshold: float | None = None
    asks: bool = False
    settings: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @property
    def fingerprint(self) -> str:
        """Of kind, weight, threshold and settings."""
        return short_id([self.name, self.kind, self.weight, self.threshold, dict(self.settings)])


@dataclass(frozen=True, kw_only=True)
class Expression(_Weighed):
    """An expression that is true or false, or gives a number from 0 to 1."""

    expr: str

    async def score(self, final: Final, desk: Desk) -> tuple[float, str]:
        """Its value."""
        try:
            return evaluate(self.expr, _names(final, desk)), self.expr
        except BadExpression as error:
            raise CannotScore(f"{self.expr}: {error}") from error


@dataclass(frozen=True, kw_only=True)
class Assertion(_Weighed):
    """A file is there, and has or lacks a text."""

    path: str
    contains: str | None = None
    matches: str | None = None
    lacks: str | None = None

    async def score(self, final: Final, desk: Desk) -> tuple[float, str]:
        """1 where all of it holds."""
        del desk
        content = final.files.get(self.path)
        if content is None:
            return 0.0, f"there is no file {self.path}"
        text = content.decode("utf-8", "replace")
        if self.contains is not None and self.contains not in text:
            return 0.0, f"{self.path} does not contain '{self.contains}'"
        if self.lacks is not None and self.lacks in text:
            return 0.0, f"{self.path} contains '{self.lacks}'"
        if self.matches is not None and re.search(self.matches, text, re.MULTILINE) is None:
            return 0.0, f"nothing in {self.path} matches {self.matches}"
        return 1.0, ""


@dataclass(frozen=True, kw_only=True)
class CommandScore(_Weighed):
    """A command in the workspace that prints a score; what it changes there is undone."""

    command: str
    timeout_seconds: float = 300.0

    async def score(self, final: Final, desk: Desk) -> tuple[float, str]:
        """The number that it prints: `{"score": 0.7}`."""

        async def act() -> Json:
            try:
                ran = await desk.commands.run(self.command, seconds=self.timeout_seconds)
            except FileTrouble as error:
                return {"error": error.message}
            if not ran.ok:
                return {"error": desk.commands.why(ran)}
            return {"stdout": desk.commands.plain(ran.stdout)}

        request: dict[str, Json] = {"metric": self.fingerprint, "draw": final.draw}
        said = cast(
            "dict[str, str]", await desk.workspace.step("metric", request, act, leaves="litter")
        )
        if "error" in said:
            raise CannotScore(said["error"])
        try:
            numbers = read_numbers(said["stdout"], Scoring(), "score")
        except NoNumbers as error:
            raise CannotScore(str(error)) from error
        return numbers.measures["score"], numbers.feedback


@dataclass(frozen=True, kw_only=True)
class BudgetUtility(_Weighed):
    """The share of the budget that is left."""

    async def score(self, final: Final, desk: Desk) -> tuple[float, str]:
        """What is left of the limit that is nearest."""
        del desk
        return final.remaining, f"{final.remaining:.0%} of the budget is left"


@dataclass(frozen=True, kw_only=True)
class PolicyScore(_Weighed):
    """1 unless the last critiques found that a policy was broken."""

    async def score(self, final: Final, desk: Desk) -> tuple[float, str]:
        """By the category of defects."""
        del desk
        broken = [d.description for d in final.defects if d.category == "policy_violation"]
        return (0.0, broken[0]) if broken else (1.0, "")


class JudgeRequest(BaseModel):
    """What a judge is shown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rubric: str
    task: str
    result: str
    files: str


@dataclass(frozen=True, kw_only=True)
class RubricJudge(_Weighed):
    """A model that judges the deliverables by a rubric."""

    rubric: str
    role: ModelRole[JudgeRequest, Judgement]
    asks: bool = True

    async def score(self, final: Final, desk: Desk) -> tuple[float, str]:
        """What the judge says."""
        known = set(desk.workspace.files)
        delivered = [path for path in final.declared if path in known]
        delivered = delivered or [path for path in final.files if path in known]
        request = JudgeRequest(
            rubric=self.rubric,
            task=final.task,
            result=final.result,
            files=contents(desk.workspace.store, desk.workspace.state, delivered),
        )
        try:
            said = await self.role.answer(request, draw=final.draw, effects=desk.effects)
        except RoleFailed as error:
            raise CannotScore(error.message) from error
        return said.value.score, said.value.reason


def judge_role(client: ModelClient, prompt: RolePrompt) -> ModelRole[JudgeRequest, Judgement]:
    """The role that judges by a rubric."""
    return ModelRole(
        name=JUDGE,
        request_type=JudgeRequest,
        answer_type=Judgement,
        prompt=prompt,
        client=client,
    )


def _names(final: Final, desk: Desk) -> dict[str, Any]:
    """What an expression can speak of."""
    sizes = {path: len(content) for path, content in final.files.items()}
    tally = desk.tally
    return {
        "result": {
            "confidence": 0.0 if final.confidence is None else final.confidence,
            "text": final.result,
            "length": len(final.result),
        },
        "files": {"count": len(sizes), "bytes": sum(sizes.values())},
        "budget": {
            "remaining": final.remaining,
            "loops": tally.loops,
            "workers": tally.workers,
            "tool_calls": tally.tool_calls,
        },
        "exists": sizes.__contains__,
        "size": lambda path="": sizes.get(path, 0),
        "text": lambda path="": final.files.get(path, b"").decode("utf-8", "replace"),
        "len": len,
    }
