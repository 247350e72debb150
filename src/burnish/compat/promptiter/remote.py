"""Agents in another process or language that speak `GET /structure` and `POST /runs`.

Project files of the kind `remote` name one.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

from pydantic import Field

from burnish.compat.promptiter import results
from burnish.compat.promptiter.results import TokenUsage
from burnish.compat.promptiter.shapes import (
    Profile,
    Snapshot,
    Surface,
    SurfaceOverride,
    SurfaceValue,
    Wire,
    union_of,
)
from burnish.core.cases import Case, Dataset, Outcome, Split, Step, ToolCall, Trace, Usage
from burnish.core.content import AboveZero, Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import Spend
from burnish.core.protocols import Description, Effects, Metric, Receipt
from burnish.core.surfaces import (
    AGENT_SURFACES,
    Candidate,
    Demonstration,
    DemosSurface,
    Edge,
    Node,
    Origin,
    Position,
    Structure,
    SurfaceType,
    TextSurface,
    Value,
    placeholders_in,
    position_id,
)
from burnish.core.surfaces import Surface as Editable
from burnish.core.thoughts import without_thoughts
from burnish.projects.called_blocks import CalledBlock
from burnish.projects.dialects import Document
from burnish.projects.evaluation_setup import User, read_metrics, read_splits, simulated_user
from burnish.projects.file_kinds import GraphFile
from burnish.runs.events import in_folders
from burnish.runs.plugins import STEPS, Ability, Building, StrategyPlugin, TargetParts, TargetPlugin
from burnish.runs.spec import TargetSpec
from burnish.system.config import near
from burnish.system.settings import Text
from burnish.targets.callables.http import LONGEST_BODY, HttpTarget
from burnish.targets.callables.target import AgentUnreachable, TurnInput
from burnish.targets.graph.surfaces import export_values
from burnish.targets.user_code import agent_failure, fetched

_USER = "burnish"
_FETCH_SECONDS = 15.0


class RemoteMessage(Wire):
    """A message of a run."""

    role: str = ""
    content: str = ""


class _Choice(Wire):
    """What an event says: a whole message, or the next piece of one."""

    index: int = 0
    message: RemoteMessage = RemoteMessage()
    delta: RemoteMessage = RemoteMessage()


class _Event(Wire):
    """An event of a run."""

    author: str = ""
    invocation_id: str = ""
    branch: str = ""
    done: bool = False
    choices: tuple[_Choice, ...] = ()


class RemoteRun(Wire):
    """The answer to `POST /runs`."""

    where = "run"

    status: str = ""
    events: Json = None
    messages: tuple[RemoteMessage, ...] = ()
    execution_trace: results.Trace | None = None
    error_message: str = ""

    @property
    def reply(self) -> str:
        """The text of the trace, else the last message of the agent. Servers in Python send events
        alone."""
        said = self.execution_trace.output if self.execution_trace else None
        spoken = [each.content for each in self.messages if each.role == "assistant"]
        replies = (
            said.text if said else "",
            *spoken[-1:],
            *_spoken(_read_events(self.events))[-1:],
        )
        return next(filter(None, replies), "")


def _read_events(events: Json) -> Iterator[_Event]:
    """Those that can be read: of the others nothing is needed."""
    for event in events if isinstance(events, list) else ():
        with suppress(ConfigError):
            yield _Event.from_json(event)


def _spoken(events: Iterable[_Event]) -> list[str]:
    """The agent's messages in the order in which they ended; pieces of one are put together."""
    spoken: list[str] = []
    begun: dict[tuple[str, str, str, int], str] = {}
    for event in events:
        for choice in event.choices:
            key = (event.author, event.invocation_id, event.branch, choice.index)
            if choice.delta.content:
                begun[key] = begun.get(key, "") + choice.delta.content
            elif choice.message.content and choice.message.role in ("assistant", ""):
                begun.pop(key, None)
                spoken.append(choice.message.content)
            if event.done:
                spoken.append(begun.pop(key, ""))
    return [text for text in (*spoken, *begun.values()) if text.strip()]


@dataclass(frozen=True, kw_only=True)
class RemoteAgent(HttpTarget):
    """Asks the agent turn by turn, with a profile."""

    profile: Json = None
    """The overrides as the protocol has them; None for none."""
    applied: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By SurfaceID, the surfaces of the target that it stands for."""

    @property
    def remembers(self) -> bool:
        return True

    @property
    def reply_source(self) -> str:
        return f"{self.url}, in executionTrace.Output, messages, events[].choices"

    def request_body(self, turn: TurnInput, prompts: Mapping[str, Json]) -> Json:
        del prompts
        request: dict[str, Json] = {
            "session": {"userId": _USER, "sessionId": turn.session},
            "input": {"role": "user", "content": turn.input},
            "runOptions": {"executionTraceEnabled": True},
        }
        return request if self.profile is None else {**request, "profile": self.profile}

    def outcome_of(self, text: str) -> Outcome:
        try:
            answer = RemoteRun.from_json(json.loads(text))
        except (ValueError, ConfigError) as error:
            return agent_failure(
                f"the answer is not that of a run: {error}", "InvalidReply", mendable=True
            )
        trace = Trace() if answer.execution_trace is None else self._trace(answer.execution_trace)
        usage = sum((step.usage for step in trace.steps), Usage())
        if answer.status == "incomplete":
            raise AgentUnreachable(answer.error_message or "the run was not completed")
        if answer.status == "failed" or answer.error_message:
            failed = agent_failure(answer.error_message or "the run failed", "RemoteFailure")
            return replace(failed, trace=trace, usage=usage)
        reply = without_thoughts(answer.reply)
        return Outcome(replies=(reply,), trace=trace, usage=usage, nano_usd=None)

    def _trace(self, trace: results.Trace) -> Trace:
        before: set[str] = set()
        steps: list[Step] = []
        for step in trace.steps:
            known = (
                name for each in step.applied_surface_ids for name in self.applied.get(each, ())
            )
            steps.append(
                Step(
                    id=step.step_id,
                    node=step.node_id,
                    predecessors=tuple(p for p in step.predecessor_step_ids if p in before),
                    surfaces=tuple(dict.fromkeys(known)),
                    input=step.input.text if step.input else None,
                    output=step.output.text if step.output else None,
                    tools=tuple(map(_tool_call, step.tools)),
                    error=step.error,
                    usage=_usage(step.usage),
                    seconds=_seconds(step),
                )
            )
            before.add(step.step_id)
        return Trace(steps=tuple(steps))


def _tool_call(record: results.ToolRecord) -> ToolCall:
    arguments = record.arguments
    if isinstance(arguments, str):  # Go keeps them as the model wrote them
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = {"arguments": arguments}
    own = cast("dict[str, Json]", arguments) if isinstance(arguments, dict) else {}
    return ToolCall(
        id=record.id, name=record.name, arguments=own, result=record.result, error=record.error
    )


def _usage(usage: TokenUsage | None) -> Usage:
    if usage is None:
        return Usage()
    return Usage(
        requests=1, input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens
    )


def _seconds(step: results.Step) -> float:
    try:
        began, ended = (datetime.fromisoformat(at) for at in (step.started_at, step.ended_at))
    except ValueError:
        return 0.0
    return max(0.0, (ended - began).total_seconds())


@dataclass(frozen=True, kw_only=True)
class RemoteTarget:
    """A remote agent as a target: its snapshot says what can be edited."""

    agent: RemoteAgent
    snapshot: Snapshot
    leaf: bool = True

    @classmethod
    def connect(cls, agent: RemoteAgent) -> "RemoteTarget":
        """Ask the agent for its structure; raises ConfigError if there is no usable answer.

        `agent.url` is the address of its app, below which `structure` and `runs` are.
        """
        base = agent.url.rstrip("/")
        agent = replace(agent, url=f"{base}/runs")
        at, headers = agent.request_parts()
        structure = f"{at.removesuffix('/runs')}/structure"
        limits = {"most_bytes": LONGEST_BODY, "seconds": _FETCH_SECONDS}
        try:
            answer = json.loads(fetched(structure, headers, **cast("dict[str, Any]", limits)))
            return cls(agent=agent, snapshot=cls.parsed(answer)).with_traces()
        except (ConnectionError, ValueError, ConfigError) as error:
            message = f"{base}/structure gives no structure: {error}"
            remedy = "start the agent, and name the address of its app"
            raise ConfigError([Problem(where="url", message=message, remedy=remedy)]) from None

    @classmethod
    def parsed(cls, answer: Json) -> Snapshot:
        """The snapshot in an answer to `GET /structure`; raises ConfigError if it is not one."""
        data = answer if isinstance(answer, dict) else {}
        found = next((v for k, v in data.items() if k.lower() == "structure"), None)
        return Snapshot.from_json(found)

    def with_traces(self) -> "RemoteTarget":
        """The target, whose agent knows the surfaces that a trace may name."""
        return replace(self, agent=replace(self.agent, applied=self.applied))

    @property
    def structure(self) -> Structure:
        snapshot = self.snapshot
        return Structure.of(
            snapshot.entry_node_id,
            [Node(id=n.node_id, kind=n.kind, name=n.name) for n in snapshot.nodes],
            [Edge(source=e.from_node_id, to=e.to_node_id) for e in snapshot.edges],
            self._positions,
        )

    @property
    def surfaces(self) -> Sequence[Editable]:
        return tuple(_editable(each) for each in self._positions if each.surface)

    @property
    def baseline(self) -> Candidate:
        values = {each.surface: each.value for each in self._positions if each.surface}
        return Candidate(values=values, origin=Origin(kind="baseline"))

    @property
    def applied(self) -> dict[str, tuple[str, ...]]:
        """By the SurfaceIDs that a trace may have, the surfaces of this target."""
        names: dict[str, tuple[str, ...]] = {}
        for each in self._positions:
            if each.surface:
                whole = position_id(each.node, each.type)  # one surface for all tools of a node
                for name in dict.fromkeys((each.id, whole)):
                    names[name] = (*names.get(name, ()), each.surface)
        return names

    @property
    def description(self) -> Description:
        agent = self.agent
        config: dict[str, Json] = {
            "url": agent.url,
            "headers": dict(agent.headers),
            "timeout": agent.timeout,
            "structure": self.snapshot.to_json(),
            "version": agent.version,
        }
        return Description(kind="remote", config=config)

    def secrets(self) -> Sequence[str]:
        return self.agent.secrets()

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        known = self.baseline.values
        return [
            Problem(where=name, message="the remote agent has no such surface")
            for name in candidate.values
            if name not in known
        ]

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        agent = replace(self.agent, profile=self.sent_profile(candidate))
        return await agent.run(candidate, case, draw=draw, effects=effects)

    def estimate(self, case: Case) -> Spend:
        return self.agent.estimate(case)

    def profile(self, candidate: Candidate) -> Profile:
        """What a candidate changes, in order of SurfaceID."""
        overrides = [SurfaceOverride(surface_id=p.id, value=v) for p, v in self._changes(candidate)]
        return Profile(structure_id=self.snapshot.structure_id, overrides=tuple(overrides))

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """The values, and the profile for the agent's own deployment."""
        del home
        profile = json.dumps(self.profile(candidate).to_json(), indent=2, ensure_ascii=False)
        return {**export_values(candidate.values), "profile.json": f"{profile}\n".encode()}

    def _changes(self, candidate: Candidate) -> Iterator[tuple[Position, SurfaceValue]]:
        for position in self._positions:
            value = candidate.values.get(position.surface, position.value)
            if position.surface and value != position.value:
                yield position, union_of(position, value)

    def sent_profile(self, candidate: Candidate) -> Json:
        """What a candidate changes, as a run is sent it; None if nothing."""
        overrides: list[Json] = [
            {
                "surfaceID": position.id,
                "nodeID": position.node,
                "type": position.type.value,
                "value": {k: v for k, v in value.to_json().items() if v is not None},
            }
            for position, value in self._changes(candidate)
        ]
        if not overrides:
            return None
        return {"structureID": self.snapshot.structure_id, "overrides": overrides}

    @cached_property
    def _positions(self) -> tuple[Position, ...]:
        made = (each for surface in self.snapshot.surfaces for each in _positions_of(surface))
        return tuple(sorted(made, key=lambda position: position.id))


def _positions_of(surface: Surface) -> Iterator[Position]:
    """A surface as positions: one for each tool; models and skills cannot be edited."""
    node, value, kind = surface.node_id, surface.value, SurfaceType(surface.type)

    def at(found: Value, part: str = "", *, editable: bool = True, about: Json = None) -> Position:
        name = position_id(node, kind, part)
        return Position(
            id=name,
            node=node,
            type=kind,
            value=found,
            part=part,
            about=about,
            surface=name if editable else "",
        )

    match kind:
        case SurfaceType.TOOL:
            for tool in value.tools or ():
                about: Json = {"parameters": tool.input_schema, "returns": tool.output_schema}
                yield at(tool.description, tool.id, about=about)
        case SurfaceType.SKILL:
            for skill in value.skills or ():
                yield at(skill.description, skill.id, editable=False)
        case SurfaceType.MODEL:
            model = value.model
            about = {"provider": model.provider} if model and model.provider else None
            yield at(model.name if model else "", editable=False, about=about)
        case SurfaceType.FEW_SHOT:
            yield at(tuple(_demonstrations(value)))
        case _:
            yield at(value.text or "")


def _demonstrations(value: SurfaceValue) -> Iterator[Demonstration]:
    for example in value.few_shot or ():
        texts = {message.role: message.content for message in example.messages}
        yield Demonstration(input=texts.get("user", ""), output=texts.get("assistant", ""))


def _editable(position: Position) -> Editable:
    value = position.value
    if isinstance(value, tuple):
        return DemosSurface(id=position.id, max_demos=max(8, len(value)))
    room = max(4 * len(str(value)), 2000)
    return TextSurface(id=position.id, max_chars=room, placeholders=placeholders_in(str(value)))


# -- Project files of the kind `remote` ------------------------------------------------------------


class RemoteBlock(CalledBlock):
    """A remote agent. An address alone is short for `{url: …}`."""

    short: ClassVar[str] = "url"
    url: Text
    """The address of its app, below which `structure` and `runs` are."""
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    """Values may contain `${VAR}`, which is expanded when a request is sent."""
    timeout: AboveZero = 120.0
    """Seconds for one turn."""

    def connected(self, user: User | None) -> RemoteTarget:
        """The agent, after asking it for its structure."""
        return RemoteTarget.connect(
            RemoteAgent(
                url=self.url,
                headers=self.headers,
                timeout=self.timeout,
                version=self.version,
                usd_per_call=self.usd_per_call,
                user=user,
            )
        )


class RemoteSpec(TargetSpec):
    """An agent in another process that PromptIter's protocol for remote agents reaches."""

    kind: str = "remote"
    agent: RemoteBlock
    targets: tuple[Text, ...] = ()
    """The surfaces that may be changed; by default all of them."""


class RemoteFile(GraphFile):
    """`kind: remote`: an agent in another process, and in `optimizer` how to improve it."""

    kind: ClassVar[str] = "remote"
    target: ClassVar[str] = "remote"
    keys: ClassVar[Mapping[str, str]] = {
        **{key: field for key, field in GraphFile.keys.items() if field},
        **dict.fromkeys(("description", "optimizer"), ""),
        "target": "target.agent",
    }
    block: ClassVar[Mapping[str, str]] = {
        key: field for key, field in GraphFile.block.items() if key not in ("choices", "ranges")
    }

    def other_problems(self, document: Document) -> list[Problem]:
        del document
        return []


class RemotePlugin(TargetPlugin):
    """Builds a remote agent."""

    kind: ClassVar[str] = "remote"
    Spec: ClassVar[type[TargetSpec]] = RemoteSpec
    surfaces: ClassVar[tuple[type[Editable], ...]] = AGENT_SURFACES
    abilities: ClassVar[tuple[Ability, ...]] = (STEPS,)

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        dataset = read_splits(building, strategy)
        cases = [case for split in Split for case in dataset.cases(split)] if dataset else []
        metrics = read_metrics(building, cases)
        target = remote_target(building, simulated_user(building, cases))
        if dataset is None or target is None:
            return None
        return remote_parts(building, target, dataset, metrics)


def remote_target(building: Building, user: User | None) -> RemoteTarget | None:
    """The agent of the description; None if it cannot be reached, with the problem recorded."""
    spec: RemoteSpec = building.spec.target
    target = building.problems.in_block(
        "target.agent", spec.agent, lambda: spec.agent.connected(user)
    )
    known = [] if target is None else [surface.id for surface in target.surfaces]
    for place, name in enumerate(spec.targets if known else ()):
        if name not in known:
            at = ("target", "targets", place)
            building.problems.add(at, f"there is no surface '{name}'", near(name, known))
    return target


def remote_parts(
    building: Building, target: RemoteTarget, dataset: Dataset, metrics: tuple[Metric, ...]
) -> TargetParts:
    """What a remote agent contributes to a run over these cases."""
    spec: RemoteSpec = building.spec.target
    chosen = spec.targets
    return TargetParts(
        target=target,
        dataset=dataset,
        metrics=metrics,
        no_model="the model of a remote agent is not known here",
        left_out=tuple(s.id for s in target.surfaces if chosen and s.id not in chosen),
        cases_demonstrate=False,
        exporter=in_folders(target),
    )
