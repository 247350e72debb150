"""The base of judged metrics: what a judge sees, and how its answer is read."""

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import to_jsonable_python

from burnish.core.cases import Case, ToolCall
from burnish.core.content import Json, canonical, short_id
from burnish.core.errors import ConfigError, Problem, RoleFailed
from burnish.core.money import Spend
from burnish.core.protocols import Effects, Metric
from burnish.journal.executors import together
from burnish.metrics.judges import Judge, Panel, of_judges, of_samples
from burnish.metrics.turns import EPSILON, Exchange, Layered, TurnMetric, Verdict
from burnish.models.answers import Explanation
from burnish.models.roles import ModelRole, RolePrompt


class Evidence(BaseModel):
    """What a judge is shown."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class JudgeAnswer(BaseModel):
    """A judge's answer: what it says besides is left alone, NaN is no number."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        allow_inf_nan=False,
        defer_build=True,
        json_schema_extra={"additionalProperties": False},
    )


def _lowered(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


def _spelled(value: object) -> object:
    number = isinstance(value, int) and not isinstance(value, bool)
    return str(value).strip() if number or isinstance(value, str) else value


def _counted(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number is needed, not true or false")  # noqa: TRY004 - pydantic's way
    return value


YesNo: TypeAlias = Annotated[Literal["yes", "no"], BeforeValidator(_lowered)]
YesNoUnsure: TypeAlias = Annotated[Literal["yes", "no", "unsure"], BeforeValidator(_lowered)]
ItemId: TypeAlias = Annotated[str, BeforeValidator(_spelled)]
Counted = BeforeValidator(_counted)
"""Stands after the bounds of a number: before them, its schema would say `ge`, not `minimum`."""
Number: TypeAlias = Annotated[int, Counted]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1), Counted]
Lowered = BeforeValidator(_lowered)


class NumberedItem(JudgeAnswer):
    """What a judge says of one numbered item."""

    number: Number
    reason: Explanation
    verdict: YesNo


class NumberedAnswer(JudgeAnswer):
    """What a judge says of each numbered item."""

    items: list[NumberedItem]


def unmatched(expected: Sequence[str], actual: Sequence[str]) -> str:
    """What is wrong with the ids of an answer, for the judge to fix; empty if nothing."""
    counts = Counter(actual)
    faults = {
        "is missing": [each for each in expected if each not in counts],
        "is not among those asked about": [each for each in counts if each not in expected],
        "is there more than once": [each for each, count in counts.items() if count > 1],
    }
    problems = [f"{', '.join(ids)} {words}" for words, ids in faults.items() if ids]
    return f"one item for each id, please: {'; '.join(problems)}" if problems else ""


def misnumbered(count: int, numbers: Sequence[int]) -> str:
    """The same for items numbered from 1."""
    return unmatched([str(n) for n in range(1, count + 1)], [str(n) for n in numbers])


_NONE = "(none)"
EXCERPT = 160
REASON = 400
"""The number of characters of a judge's explanation that a reason keeps."""

_FILLER = r"[\s/\u200b-\u200d\u2060\ufeff]*"
"""Characters that models ignore between a bracket and a name."""


def tags_in(*templates: str) -> frozenset[str]:
    """The names of the tags in a prompt."""
    return frozenset(re.findall(r"</?([A-Za-z_][\w-]*)>", "\n".join(templates)))


def guarded(text: str, tags: Collection[str]) -> str:
    """The text with the tags of the prompt escaped, so that it cannot close one.

    Other markup is part of what is judged and stays.
    """
    if not tags:
        return text
    names = "|".join(re.escape(name) for name in sorted(tags))
    return re.sub(rf"<(?={_FILLER}(?:{names})\b)", "&lt;", text, flags=re.IGNORECASE)


def excerpt(text: str, limit: int = EXCERPT) -> str:
    """The text on one line, shortened if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def reply_text(exchange: Exchange) -> str:
    """The reply of the agent, or its structured answer if the reply is empty."""
    if exchange.reply.strip() or exchange.data is None:
        return exchange.reply
    return as_text(exchange.data)


def shown(text: str | None) -> str:
    """The text, or `(none)`."""
    return text if text is not None and text.strip() else _NONE


def context_messages(case: Case) -> str:
    """The conversation before the first turn."""
    speakers = {"assistant": "agent"}
    return _lines((speakers.get(m.role, m.role), m.content) for m in case.history)


def conversation(exchange: Exchange) -> str:
    """The turns before this one."""
    pairs = ((("user", message), ("agent", reply)) for message, reply in exchange.earlier)
    return _lines(line for pair in pairs for line in pair)


def before(exchange: Exchange) -> str:
    """Everything before this turn: context messages and earlier turns."""
    parts = [context_messages(exchange.case), conversation(exchange)]
    return "\n".join(text for text in parts if text != _NONE) or _NONE


def numbered(texts: Sequence[str]) -> str:
    """The texts as a numbered list; further lines of a text are indented."""
    return "\n".join(f"{n}. {_set_in(text)}" for n, text in enumerate(texts, 1)) or _NONE


def tool_uses(tools: Iterable[ToolCall]) -> str:
    """The tool calls with their results."""
    return numbered([_use(tool) for tool in tools])


def brought(tool: ToolCall) -> tuple[str, ...]:
    """What a tool returned: its passages, or its result as text."""
    if tool.passages:
        return tool.passages
    whole = "" if tool.result is None else as_text(tool.result)
    return (whole,) if whole.strip() else ()


def as_text(value: Json) -> str:
    """A string as it is, anything else as JSON."""
    return value if isinstance(value, str) else canonical(value).decode()


def _use(tool: ToolCall) -> str:
    call = f"{tool.name}({as_text(dict(tool.arguments))})"
    failed = [f"error: {tool.error}"] if tool.error else []
    return "\n".join([call, *(f"gave: {text}" for text in brought(tool)), *failed])


def _lines(spoken: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"{who}: {_set_in(text)}" for who, text in spoken) or _NONE


def _set_in(text: str) -> str:
    # So that no text can begin a line that looks like the next item, or the next speaker.
    return text.strip().replace("\n", "\n    ")


Request = TypeVar("Request", bound=BaseModel)
Answer = TypeVar("Answer", bound=BaseModel)

_EVIDENCE: Mapping[str, Callable[[Exchange], str]] = {
    "user_prompt": lambda exchange: shown(exchange.asked),
    "conversation": before,
    "agent_response": lambda exchange: shown(reply_text(exchange)),
    "reference": lambda exchange: shown(exchange.expected),
    "passages": lambda exchange: numbered(exchange.passages),
}
"""The usual content of request fields, by name."""


@dataclass(frozen=True, kw_only=True)
class JudgedMetric(TurnMetric, Generic[Request, Answer]):
    """Asks every judge of a panel, as often as it is sampled, and settles on one verdict.

    The number of a sample is its draw: judging the same text again in a run costs nothing.
    """

    panel: Panel
    prompt: RolePrompt

    role: ClassVar[str]
    """The name of its shipped prompt."""
    request_type: ClassVar[type[BaseModel]]
    answer_type: ClassVar[type[BaseModel]]

    def __post_init__(self) -> None:
        problems = self.problems()
        if problems:
            raise ConfigError(problems)
        self.prompt.require_fields(self.request_type.model_fields)

    @abstractmethod
    def request(self, exchange: Exchange) -> Request | Verdict | None:
        """The request about a turn, a verdict if none is needed, or None to skip the turn."""

    def filled(self, exchange: Exchange, **more: Any) -> Request:
        """The request about a turn: the usual evidence for its fields, and `more`."""
        names = self.request_type.model_fields.keys() & _EVIDENCE.keys()
        usual = {name: _EVIDENCE[name](exchange) for name in names}
        return cast("Request", self.request_type(**{**usual, **more}))

    @abstractmethod
    def read(self, request: Request, answer: Answer) -> Verdict:
        """The verdict of a judge, in [0, 1] and with its reason."""

    def check(self, request: Request, answer: Answer) -> str:
        """What is wrong with a well-formed answer; the judge may correct it once."""
        del request, answer
        return ""

    def answers(self) -> type[Answer]:
        """The type of an answer."""
        return cast("type[Answer]", self.answer_type)

    def problems(self) -> list[Problem]:
        """What is wrong with the settings."""
        if self.threshold is None or 0 <= self.threshold <= 1:
            return []
        message = f"a threshold must be from 0 to 1, found {self.threshold:g}"
        return [Problem(where=f"{self.name}.threshold", message=message)]

    @property
    def settings(self) -> Json:
        """What distinguishes this metric from others with the same prompt and panel."""
        apart = ("name", "threshold", "panel", "prompt")
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in apart}
        # The plain form of a prompt would contain its path, which does not matter.
        return {
            name: value.fingerprint if isinstance(value, RolePrompt) else to_jsonable_python(value)
            for name, value in own.items()
        }

    @property
    def fingerprint(self) -> str:
        parts: list[Json] = [self.prompt.fingerprint, self.panel.fingerprint, self.settings]
        return short_id([type(self).__name__, self.version, self.name, self.threshold, *parts])

    def estimate(self, case: Case) -> Spend:
        return self.panel.estimate(case)

    @property
    def graded(self) -> bool:
        return True

    def passes(self, verdict: Verdict) -> bool | None:
        return None if self.graded and self.threshold is None else verdict.passed

    @property
    def bar(self) -> float:
        """The score from which one judge of a panel votes for a pass."""
        return 0.5 if self.threshold is None else self.threshold

    async def verdicts(
        self, seen: Sequence[Exchange], *, effects: Effects
    ) -> Sequence[Verdict | None]:
        return await together(self.verdict(exchange, effects=effects) for exchange in seen)

    async def verdict(self, exchange: Exchange, *, effects: Effects) -> Verdict | None:
        request = self.request(exchange)
        if request is None:
            return None
        if isinstance(request, Verdict):
            return self._opined(request)
        return await self.settle(request, effects=effects)

    async def settle(self, request: Request, *, effects: Effects) -> Verdict:
        """Ask the panel and combine its verdicts."""
        sealed = fenced(request, self.prompt)
        judges = self.panel.judges
        verdicts = await together(
            self._judge(judge, role, sealed, effects)
            for judge, role in zip(judges, self._roles, strict=True)
        )
        return of_judges(
            verdicts,
            names=[judge.client.ref.label for judge in judges],
            weights=[judge.weight for judge in judges],
            rule=self.panel.rule,
            threshold=self.bar,
        )

    async def sample(
        self, role: ModelRole[Request, Answer], request: Request, *, draw: int, effects: Effects
    ) -> Verdict:
        """One verdict of one judge."""
        answer = await ask(role, request, draw=draw, effects=effects)
        return answer if isinstance(answer, Verdict) else self.read(request, answer)

    async def _judge(
        self, judge: Judge, role: ModelRole[Request, Answer], request: Request, effects: Effects
    ) -> Verdict:
        draws = range(judge.samples)
        samples = (self.sample(role, request, draw=draw, effects=effects) for draw in draws)
        return of_samples([self._opined(verdict) for verdict in await together(samples)])

    def _opined(self, verdict: Verdict) -> Verdict:
        if verdict.value is None or verdict.passed is not None:
            return verdict
        return replace(verdict, passed=verdict.value >= self.bar - EPSILON)

    @cached_property
    def _roles(self) -> tuple[ModelRole[Request, Answer], ...]:
        return tuple(
            ModelRole(
                name=self.prompt.name,
                request_type=cast("type[Request]", self.request_type),
                answer_type=self.answers(),
                prompt=self.prompt,
                client=judge.client,
                check=self.check,
                tools=self.panel.tools,
            )
            for judge in self.panel.judges
        )


def fenced(request: Request, prompt: RolePrompt) -> Request:
    """The request with all its texts guarded: they are data, and cannot leave the prompt's tags."""
    tags = tags_in(prompt.system, prompt.user)
    texts = {name: guarded(value, tags) for name, value in request if isinstance(value, str)}
    return request.model_copy(update=texts)


async def ask(
    role: ModelRole[Request, Answer], request: Request, *, draw: int, effects: Effects
) -> Answer | Verdict:
    """The answer of a role, or a missing verdict with the reason."""
    try:
        receipt = await role.answer(request, draw=draw, effects=effects)
    except RoleFailed as error:
        reason = f"{error.message}: {error.remedy}" if error.remedy else error.message
        return Verdict.missing(reason, unreachable=error.missing)
    return receipt.value


def judged_parts(metric: Metric) -> Iterator[JudgedMetric[Any, Any]]:
    """The judged metrics in a metric, including those of single cases."""
    inner: Sequence[TurnMetric | Metric | None] = [metric]
    if isinstance(metric, Layered):
        inner = [metric.default, *(each for turns in metric.places.values() for each in turns)]
    for each in inner:
        if isinstance(each, JudgedMetric):
            yield cast("JudgedMetric[Any, Any]", each)


def judged_again(metrics: Sequence[Metric], judge: Callable[[RolePrompt], Panel]) -> list[Metric]:
    """The metrics with other judges; empty if no model judges anything."""

    def part(metric: TurnMetric | None) -> TurnMetric | None:
        if not isinstance(metric, JudgedMetric):
            return metric
        judged = cast("JudgedMetric[Any, Any]", metric)
        return replace(judged, panel=judge(judged.prompt))

    def whole(metric: Metric) -> Metric:
        if isinstance(metric, Layered):
            places = {case: tuple(map(part, turns)) for case, turns in metric.places.items()}
            return replace(metric, default=part(metric.default), places=places)
        return cast("Metric", part(metric)) if isinstance(metric, TurnMetric) else metric

    judged = any(True for metric in metrics for _ in judged_parts(metric))
    return [whole(metric) for metric in metrics] if judged else []


def check_judges(metrics: Iterable[Metric]) -> None:
    """Raise what would prevent a judge from answering, before any paid call."""
    for metric in metrics:
        for part in judged_parts(metric):
            for judge in part.panel.judges:
                judge.client.check()
