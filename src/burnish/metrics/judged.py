"""The base of judged metrics: what a judge is shown, and how its answer is read."""

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import to_jsonable_python

from burnish.core.cases import Case
from burnish.core.content import Json, canonical, short_id
from burnish.core.errors import ConfigError, Problem, RoleFailed
from burnish.core.money import Spend
from burnish.core.outcomes import ToolCall
from burnish.core.protocols import Effects, Metric
from burnish.journal.executors import together
from burnish.metrics.factory import Judge, Panel, of_judges, of_samples
from burnish.metrics.turns import EPSILON, Exchange, Layered, TurnMetric, Verdict
from burnish.models.roles import ModelRole, RolePrompt


class JudgeAnswer(BaseModel):
    """A judge's answer: what it says besides is left alone, NaN is no number."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        allow_inf_nan=False,
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
Number: TypeAlias = Annotated[int, BeforeValidator(_counted)]
Share: TypeAlias = Annotated[float, BeforeValidator(_counted), Field(ge=0, le=1)]
Lowered = BeforeValidator(_lowered)


class NumberedItem(JudgeAnswer):
    """What a judge says of one numbered item."""

    number: Number
    reason: str
    verdict: YesNo


class NumberedAnswer(JudgeAnswer):
    """What a judge says of each numbered item."""

    items: list[NumberedItem]


def unmatched(expected: Sequence[str], actual: Sequence[str]) -> str:
    """What is wrong with the ids of an answer, in words that help to mend it; empty if nothing."""
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


# -- What judges are shown ------------------------------------------------------------------------


Shown = TypeVar("Shown", bound=BaseModel)

_NONE = "(none)"
"""What stands in a tag that has nothing to show."""
EXCERPT = 160
REASON = 400
"""How much of a judge's own words goes into a reason."""

_TAG = re.compile(r"</?([A-Za-z_][\w-]*)>")
_FILLER = r"[\s/\u200b-\u200d\u2060\ufeff]*"
"""What may stand between a bracket and a name without a model minding."""
_SPEAKERS = {"assistant": "agent"}


def tags_in(*templates: str) -> frozenset[str]:
    """The names of the tags that a prompt puts around its evidence."""
    return frozenset(name for text in templates for name in _TAG.findall(text))


def guarded(text: str, tags: Collection[str]) -> str:
    """The text with every tag of the prompt made plain, so that nothing in it can close one.

    Only the prompt's own tags are touched: other markup is part of what is judged.
    """
    if not tags:
        return text
    names = "|".join(re.escape(name) for name in sorted(tags))
    return re.sub(rf"<(?={_FILLER}(?:{names})\b)", "&lt;", text, flags=re.IGNORECASE)


def _sealed(request: Shown, tags: Collection[str]) -> Shown:
    """The request with all its texts guarded."""
    texts = {name: guarded(value, tags) for name, value in request if isinstance(value, str)}
    return request.model_copy(update=texts)


def excerpt(text: str, limit: int = EXCERPT) -> str:
    """The text on one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def reply_text(exchange: Exchange) -> str:
    """What the agent answered; its structured answer where it said nothing."""
    if exchange.reply.strip() or exchange.data is None:
        return exchange.reply
    return as_text(exchange.data)


def shown(text: str | None) -> str:
    """The text, or that there is none."""
    return text if text is not None and text.strip() else _NONE


def context_messages(case: Case) -> str:
    """What was said before the first turn."""
    return _lines((_SPEAKERS.get(m.role, m.role), m.content) for m in case.history)


def conversation(exchange: Exchange) -> str:
    """What was said in the turns before this one."""
    pairs = exchange.earlier
    return _lines(
        line for message, reply in pairs for line in (("user", message), ("agent", reply))
    )


def before(exchange: Exchange) -> str:
    """All that was said before this turn: the context messages and the turns."""
    parts = [context_messages(exchange.case), conversation(exchange)]
    return "\n".join(text for text in parts if text != _NONE) or _NONE


def numbered(texts: Sequence[str]) -> str:
    """The texts under their numbers, from 1; further lines of a text are set in."""
    return "\n".join(f"{n}. {_set_in(text)}" for n, text in enumerate(texts, 1)) or _NONE


def tool_uses(tools: Iterable[ToolCall]) -> str:
    """Each use of a tool: what was asked and what came back."""
    return numbered([_use(tool) for tool in tools])


def brought(tool: ToolCall) -> tuple[str, ...]:
    """What a tool brought back: its passages, else its result as one text."""
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


# -- The base of judged metrics -------------------------------------------------------------------


Request = TypeVar("Request", bound=BaseModel)
Answer = TypeVar("Answer", bound=BaseModel)

_PASSES_AT = 0.5
"""Where a judged metric without a threshold passes."""
_APART = ("name", "threshold", "panel", "prompt")
"""Fields that the fingerprint knows by themselves."""


@dataclass(frozen=True, kw_only=True)
class JudgedMetric(TurnMetric, Generic[Request, Answer]):
    """Asks every judge of the panel, each as often as it is sampled, and settles on one verdict.

    A sample's number is its draw: the same text, judged again in the same run, is the same
    verdict and costs nothing.
    """

    panel: Panel
    prompt: RolePrompt

    role: ClassVar[str]
    """The shipped prompt it is made for."""
    request_type: ClassVar[type[BaseModel]]
    answer_type: ClassVar[type[BaseModel]]

    def __post_init__(self) -> None:
        problems = self.problems()
        if problems:
            raise ConfigError(problems)
        self.prompt.require_fields(self.request_type.model_fields)

    @abstractmethod
    def request(self, exchange: Exchange) -> Request | Verdict | None:
        """What to ask about a turn; a verdict where that is clear without asking.

        None where the metric does not apply.
        """

    @abstractmethod
    def read(self, request: Request, answer: Answer) -> Verdict:
        """What a judge's answer amounts to, in [0, 1], with its reason."""

    def check(self, request: Request, answer: Answer) -> str:
        """What is wrong with an answer that keeps its schema; the judge may mend it once."""
        del request, answer
        return ""

    def answers(self) -> type[Answer]:
        """The form of an answer."""
        return cast("type[Answer]", self.answer_type)

    def problems(self) -> list[Problem]:
        """What is wrong with the settings."""
        if self.threshold is None or 0 <= self.threshold <= 1:
            return []
        return [
            Problem(
                where=f"{self.name}.threshold",
                message=f"a threshold is from 0 to 1, found {self.threshold:g}",
            )
        ]

    @property
    def settings(self) -> Json:
        """What tells this metric from another with the same prompt and panel."""
        own = (each.name for each in fields(self) if each.name not in _APART)
        return {name: _plain(getattr(self, name)) for name in own}

    @property
    def fingerprint(self) -> str:
        """A hash of prompt, panel, threshold and settings."""
        parts: list[Json] = [self.prompt.fingerprint, self.panel.fingerprint, self.settings]
        return short_id([type(self).__name__, self.version, self.name, self.threshold, *parts])

    def estimate(self, case: Case) -> Spend:
        """One call for each turn, judge and sample."""
        return self.panel.estimate(case)

    def passes(self, verdict: Verdict) -> bool | None:
        """The panel has decided already."""
        return verdict.passed

    @property
    def bar(self) -> float:
        """From here on a judge's score passes."""
        return _PASSES_AT if self.threshold is None else self.threshold

    async def verdicts(
        self, seen: Sequence[Exchange], *, effects: Effects
    ) -> Sequence[Verdict | None]:
        """All turns at once: judges take their time."""
        return await together(self.verdict(exchange, effects=effects) for exchange in seen)

    async def verdict(self, exchange: Exchange, *, effects: Effects) -> Verdict | None:
        """Ask the panel about one turn, where there is something to ask."""
        request = self.request(exchange)
        if request is None:
            return None
        if isinstance(request, Verdict):
            return self._opined(request)
        return await self.settle(request, effects=effects)

    async def settle(self, request: Request, *, effects: Effects) -> Verdict:
        """Ask the panel, and make one verdict of what it says."""
        shown = _sealed(request, tags_in(self.prompt.system, self.prompt.user))
        judges = self.panel.judges
        verdicts = await together(
            self._judge(judge, role, shown, effects)
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
        """One judge's verdict, once."""
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
            )
            for judge in self.panel.judges
        )


async def ask(
    role: ModelRole[Request, Answer], request: Request, *, draw: int, effects: Effects
) -> Answer | Verdict:
    """The answer of a role; where there is none, a missing verdict that says why."""
    try:
        receipt = await role.answer(request, draw=draw, effects=effects)
    except RoleFailed as error:
        return Verdict.missing(
            f"{error.message}: {error.remedy}" if error.remedy else error.message
        )
    return receipt.value


def _plain(value: object) -> Json:
    # Where a prompt lies does not matter, and its path would be in its plain form.
    return value.fingerprint if isinstance(value, RolePrompt) else to_jsonable_python(value)


def judged_parts(metric: Metric) -> Iterator[JudgedMetric[Any, Any]]:
    """The judged metrics in a metric, those of single cases included."""
    inner: Sequence[TurnMetric | Metric | None] = [metric]
    if isinstance(metric, Layered):
        inner = [metric.default, *(each for turns in metric.places.values() for each in turns)]
    for each in inner:
        if isinstance(each, JudgedMetric):
            yield cast("JudgedMetric[Any, Any]", each)


def check_judges(metrics: Iterable[Metric]) -> None:
    """Raise what would keep a judge of these metrics from answering, before anything is paid."""
    for metric in metrics:
        for part in judged_parts(metric):
            for judge in part.panel.judges:
                judge.client.check()
