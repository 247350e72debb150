"""Who writes new texts: a custom proposer, a function that asks a model, or a model."""

import dataclasses
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from burnish.compat.gepa.adapters import Texts, origin_of, plain
from burnish.compat.gepa.options import GepaOptions
from burnish.core.cases import Message
from burnish.core.content import Codec, Json, codec, short_id
from burnish.core.errors import BurnishError, ConfigError, Problem, RoleFailed
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Effects, Receipt, Role
from burnish.models.chat import ChatRequest, ModelClient
from burnish.models.errors import ModelRejected, ModelUnavailable
from burnish.models.factory import Models
from burnish.models.references import ModelRef, ModelSettings
from burnish.models.roles import in_force
from burnish.strategies.reflective.attempts import ReflectiveAttempt
from burnish.strategies.reflective.reflection import (
    ROLE,
    Proposer,
    Reflection,
    ReflectRequest,
    reflector,
)
from burnish.targets.user_code import in_thread

_FENCED = re.compile(r"```[^\n`]*\n(.*)```", re.DOTALL)
_PROMPT = """\
An assistant follows this text:

```
<curr_param>
```

These are some of its tasks, what it did, and what is to be said about that:

<side_info>

Find out what the text lacks, or says wrongly, that would have led to better results, in these and
in similar tasks. Then write the whole new text between two lines of three backticks.
"""


class AdapterRequest(ReflectRequest):
    """What a proposer is asked: the reflective dataset of one component."""

    candidate: Texts
    dataset: list[dict[str, Any]]


class AdapterProposer(Proposer):
    """Shows the records that the adapter made of each case."""

    def _request(self, attempt: ReflectiveAttempt, name: str, records: str) -> ReflectRequest:
        plain = super()._request(attempt, name, records)
        dataset: list[dict[str, Any]] = []
        for result in attempt.before.results if attempt.before else ():
            data = result.outcome.data
            made = cast("dict[str, Any]", data).get("records") if isinstance(data, dict) else None
            dataset += [dict(record) for record in made[name]] if made else []
        texts = {key: str(value) for key, value in attempt.parent.values.items()}
        shown = {"records": _spelled(dataset)} if dataset else {}
        return AdapterRequest(**{**plain.model_dump(), **shown}, candidate=texts, dataset=dataset)


def _spelled(dataset: Sequence[Mapping[str, Any]]) -> str:
    """Records as text, with their keys as headings."""
    lines: list[str] = []
    for number, record in enumerate(dataset, 1):
        lines.append(f"# Example {number}")
        for key, value in record.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines += [f"## {key}", text]
    return "\n".join(lines)


_Answer: TypeAlias = Callable[[AdapterRequest, int, Effects], Awaitable[str]]


@dataclass(frozen=True, kw_only=True)
class _TextRole:
    """A role that answers with a text: a custom proposer, or a model with a prompt of gepa."""

    made_by: Json
    """What distinguishes it from others."""
    text: _Answer
    leaf: bool = True
    priced: bool = False
    name: str = ROLE

    @property
    def fingerprint(self) -> str:
        return short_id([self.name, self.made_by])

    @property
    def answers(self) -> Codec[Reflection]:
        return codec(Reflection)

    def estimate(self, request: ReflectRequest, /) -> Spend:
        del request
        return Spend(calls=1, unpriced=1)

    def encode(self, request: ReflectRequest, /) -> Json:
        return cast("Json", request.model_dump(mode="json"))

    async def answer(
        self, request: ReflectRequest, /, *, draw: int, effects: Effects
    ) -> Receipt[Reflection]:
        assert isinstance(request, AdapterRequest)
        try:
            text = await self.text(request, draw, effects)
        except BurnishError:
            raise
        except Exception as error:
            raise RoleFailed(f"the proposer raised {type(error).__name__}: {error}") from error
        new = Reflection(diagnosis="by the user's own proposer", new_text=text)
        return Receipt(value=new, spend=self.estimate(request) if self.leaf else NOTHING)


def reflector_for(
    adapter: Any, options: GepaOptions, models: Models
) -> Role[ReflectRequest, Reflection]:
    """The role that rewrites texts, as the options say."""
    own = options.custom_candidate_proposer or getattr(adapter, "propose_new_texts", None)
    if own is not None:
        return _TextRole(made_by=origin_of(own), text=_proposed(own))
    lm: Any = options.reflection_lm
    template = options.reflection_prompt_template
    if callable(lm):
        function = cast("Callable[[str], str]", lm)
        return _TextRole(
            made_by=[origin_of(lm), plain(template)], text=_answered(function, template)
        )
    if lm is None:
        remedy = "pass reflection_lm, custom_candidate_proposer or adapter.propose_new_texts"
        problem = Problem(where="reflection_lm", message="nobody writes new texts", remedy=remedy)
        raise ConfigError([problem])
    prompt = in_force(ROLE, Path.cwd())
    settings = _settings(options.reflection_lm_kwargs or {})
    client = models.client(ModelRef.parse(str(lm), settings=settings), prompt.settings)
    client.check()
    if template is None:
        return reflector(client, prompt)
    made = [client.fingerprint, plain(template)]
    return _TextRole(made_by=made, text=_asked(client, template), leaf=False, priced=client.priced)


def _settings(options: Mapping[str, Any]) -> ModelSettings:
    known = [each.name for each in dataclasses.fields(ModelSettings)]
    problems = [
        Problem(where="reflection_lm_kwargs", message=f"there is no setting '{name}'")
        for name in options
        if name not in known
    ]
    if problems:
        raise ConfigError(problems, remedy=f"there are: {', '.join(known)}")
    return ModelSettings(**options)


def _proposed(proposer: Callable[..., Any]) -> _Answer:
    async def text(request: AdapterRequest, draw: int, effects: Effects) -> str:
        del draw, effects
        name = request.field
        new = await in_thread(
            lambda: proposer(dict(request.candidate), {name: request.dataset}, [name])
        )
        if not isinstance(new.get(name), str):
            raise RoleFailed(f"the proposer gave no new text for '{name}'")
        return new[name]

    return text


def _answered(lm: Callable[[str], str], template: str | Mapping[str, str] | None) -> _Answer:
    async def text(request: AdapterRequest, draw: int, effects: Effects) -> str:
        del draw, effects
        return _between_fences(await in_thread(lambda: lm(_filled(template, request))))

    return text


def _asked(client: ModelClient, template: str | Mapping[str, str]) -> _Answer:
    async def text(request: AdapterRequest, draw: int, effects: Effects) -> str:
        message = Message(role="user", content=_filled(template, request))
        try:
            answer = await client.ask(ChatRequest(messages=(message,)), draw=draw, effects=effects)
        except (ModelUnavailable, ModelRejected) as error:
            missing = isinstance(error, ModelUnavailable)
            raise RoleFailed(f"{ROLE} could not be asked: {error}", missing=missing) from error
        return _between_fences(answer.reply.text)

    return text


def _filled(template: str | Mapping[str, str] | None, request: AdapterRequest) -> str:
    """The prompt: the template of gepa's user, which may be one for each text, or our own."""
    chosen = template.get(request.field) if isinstance(template, Mapping) else template
    parts = {"<curr_param>": request.current_text, "<side_info>": request.records}
    return re.sub("<curr_param>|<side_info>", lambda found: parts[found[0]], chosen or _PROMPT)


def _between_fences(answer: str) -> str:
    """The text between the first and the last line of backticks; all of it if there are none."""
    found = _FENCED.search(answer)
    return (found[1] if found else answer).strip()
