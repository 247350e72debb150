"""Serves a program as a remote agent: its structure, and runs with other prompts in them."""

import json
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from inspect import isawaitable
from pathlib import Path
from typing import Any, TypeAlias, cast

from burnish.compat.promptiter.results import (
    Step,
    Text,
    TokenUsage,
    ToolRecord,
    Trace,
    TraceStatus,
)
from burnish.compat.promptiter.shapes import (
    CamelWire,
    Edge,
    Node,
    Snapshot,
    Surface,
    SurfaceValue,
)
from burnish.core import cases
from burnish.core.content import Json, canonical, short_id
from burnish.core.errors import ConfigError
from burnish.core.surfaces import SurfaceType, node_path, position_id
from burnish.targets.user_code import CurrentPrompts, in_thread, is_async, providing
from burnish.tracing.recorder import recording

Run: TypeAlias = Callable[[str], Any]
"""Answers a message: a function, async or not. It reads its prompts with `burnish.prompt`."""
_Scope: TypeAlias = dict[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]
_Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
_LONGEST_BODY = 8 * 1024 * 1024


class _Session(CamelWire):
    user_id: str = ""
    session_id: str = ""


class _Input(CamelWire):
    role: str = "user"
    content: str = ""


class _Override(CamelWire):
    surface_id: str = ""
    node_id: str = ""
    type: str = ""
    value: SurfaceValue = SurfaceValue()


class _Profile(CamelWire):
    structure_id: str = ""
    overrides: tuple[_Override, ...] = ()


class _RunOptions(CamelWire):
    request_id: str = ""


class _RunRequest(CamelWire):
    where = "request"

    session: _Session = _Session()
    input: _Input = _Input()
    profile: _Profile = _Profile()
    run_options: _RunOptions = _RunOptions()


class _Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class AgentApp:
    """An ASGI application: `GET …/structure` and `POST …/runs` for one program.

    Each prompt is the instruction of a node of its name, or of the agent itself if it has the
    agent's name. Steps that the program records become the trace.
    """

    name: str
    run: Run
    prompts: Mapping[str, str]
    """The texts in force, by the name that the program reads them with."""
    edges: Sequence[tuple[str, str]] = ()
    """Which node leads to which, if that should be shown."""

    @cached_property
    def snapshot(self) -> Snapshot:
        """The structure: the agent, and a node for each prompt."""
        root = Node(node_id=node_path(self.name), name=self.name)
        nodes = {root.node_id: root}
        nodes |= {
            self._node(each): Node(node_id=self._node(each), name=each) for each in self.prompts
        }
        for name in (end for edge in self.edges for end in edge):
            nodes.setdefault(self._node(name), Node(node_id=self._node(name), name=name))
        surfaces = [
            Surface(
                surface_id=self._surface(name),
                node_id=self._node(name),
                type=SurfaceType.INSTRUCTION,
                value=SurfaceValue(text=text),
            )
            for name, text in self.prompts.items()
        ]
        snapshot = Snapshot(
            entry_node_id=root.node_id,
            nodes=tuple(nodes[each] for each in sorted(nodes)),
            edges=tuple(
                Edge(from_node_id=self._node(a), to_node_id=self._node(b)) for a, b in self.edges
            ),
            surfaces=tuple(sorted(surfaces, key=lambda each: each.surface_id)),
        )
        return snapshot.model_copy(
            update={"structure_id": f"struct_{short_id(snapshot.to_json())}"}
        )

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        try:
            await _respond(send, 200, await self._answer(scope, receive))
        except _Refused as refused:
            await _respond(send, refused.status, {"error": str(refused)})

    async def _answer(self, scope: _Scope, receive: _Receive) -> Json:
        resource = scope["path"].rstrip("/").rpartition("/")[2]
        methods = {"structure": "GET", "runs": "POST"}
        if resource not in methods:
            raise _Refused(404, "not found")
        if scope["method"] != methods[resource]:
            raise _Refused(405, "method not allowed")
        if resource == "structure":
            return {"structure": self.snapshot.to_json()}
        return await self._ran(await _body(receive))

    async def _ran(self, body: bytes) -> Json:
        try:
            request = _RunRequest.from_json(json.loads(body))
        except (ValueError, ConfigError) as error:
            raise _Refused(400, f"invalid request body: {error}") from None
        texts = dict(self.prompts)
        names = {self._surface(name): name for name in self.prompts}
        for override in request.profile.overrides:
            if override.surface_id not in names or override.value.text is None:
                raise _Refused(400, f"compile profile: unknown surface {override.surface_id!r}")
            texts[names[override.surface_id]] = override.value.text
        return await self._answered(request, texts)

    async def _answered(self, request: _RunRequest, texts: Mapping[str, str]) -> Json:
        began, output, error = _now(), "", ""
        with tempfile.TemporaryDirectory() as folder, recording() as recorder:
            prompts = CurrentPrompts(
                texts=texts, make_folder=partial(_written, Path(folder), texts)
            )
            with providing(prompts):
                try:
                    output = await self._call(request.input.content)
                except Exception as raised:  # noqa: BLE001 - the program's own failure, which is told
                    error = f"{type(raised).__name__}: {raised}"
            steps = recorder.trace().steps
        status: TraceStatus = "failed" if error else "completed"
        own = [self._step(step) for step in steps] or [self._whole(request, output, error)]
        trace = Trace(
            root_agent_name=self.name,
            root_invocation_id=uuid.uuid4().hex,
            session_id=request.session.session_id,
            started_at=began,
            ended_at=_now(),
            status=status,
            input=Text(text=request.input.content),
            output=Text(text=output),
            steps=tuple(own),
        )
        said: list[Json] = [{"role": "user", "content": request.input.content}]
        if output:
            said.append({"role": "assistant", "content": output})
        answer: dict[str, Json] = {
            "status": status,
            "events": _events(request.run_options.request_id, trace, output, error),
            "messages": said,
            "executionTrace": trace.to_json(),
        }
        return {**answer, "errorMessage": error} if error else answer

    async def _call(self, message: str) -> str:
        call = partial(self.run, message)
        value = call() if is_async(self.run) else await in_thread(call)
        reply = await value if isawaitable(value) else value
        return reply if isinstance(reply, str) else canonical(cast("Json", reply)).decode()

    def _step(self, step: cases.Step) -> Step:
        usage = step.usage
        return Step(
            step_id=step.id,
            agent_name=self.name,
            node_id=self._node(step.node),
            node_type="agent",
            predecessor_step_ids=step.predecessors,
            applied_surface_ids=tuple(self._surface(s) for s in step.surfaces if s in self.prompts),
            input=_text(step.input),
            output=_text(step.output),
            usage=TokenUsage(
                prompt_tokens=usage.input_tokens,
                completion_tokens=usage.output_tokens,
                total_tokens=usage.input_tokens + usage.output_tokens,
            ),
            tools=tuple(ToolRecord.of(each, arguments=dict(each.arguments)) for each in step.tools),
            error=step.error,
        )

    def _whole(self, request: _RunRequest, output: str, error: str) -> Step:
        """A program that records nothing is one step with all its prompts."""
        return Step(
            step_id=f"{self.name}:1",
            agent_name=self.name,
            node_id=node_path(self.name),
            node_type="agent",
            applied_surface_ids=tuple(sorted(map(self._surface, self.prompts))),
            input=Text(text=request.input.content),
            output=Text(text=output),
            error=error,
        )

    def _node(self, name: str) -> str:
        return node_path(self.name) if name == self.name else node_path(self.name, *name.split("/"))

    def _surface(self, name: str) -> str:
        return position_id(self._node(name), SurfaceType.INSTRUCTION)


def _events(request_id: str, trace: Trace, output: str, error: str) -> list[Json]:
    """The reply or the error as an event, and the event that ends a run: PromptIter's own client
    reads nothing else."""
    run = trace.root_invocation_id
    common: dict[str, Json] = {
        "requestID": request_id or run,
        "invocationId": run,
        "author": trace.root_agent_name,
        "timestamp": trace.ended_at,
        "done": True,
    }
    if error:
        failure: Json = {"type": "run_error", "message": error}
        said: dict[str, Json] = {"object": "error", "error": failure}
    else:
        message: Json = {"role": "assistant", "content": output}
        choice: Json = {"index": 0, "message": message, "finish_reason": "stop"}
        said = {"object": "chat.completion", "choices": [choice]}
    return [
        {**common, **said, "id": f"{run}:message"},
        {**common, "object": "runner.completion", "id": f"{run}:done"},
    ]


def _text(value: Json) -> Text | None:
    if value is None:
        return None
    return Text(text=value if isinstance(value, str) else canonical(value).decode())


def _written(folder: Path, texts: Mapping[str, str]) -> Path:
    for name, text in texts.items():
        (folder / f"{name.replace('/', '-')}.md").write_text(text)
    return folder


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


async def _body(receive: _Receive) -> bytes:
    content, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Refused(400, "invalid request body: the client is gone")
        content += message.get("body", b"")
        more = message.get("more_body", False)
        if len(content) > _LONGEST_BODY:
            raise _Refused(413, "the request is too large")
    return content


async def _respond(send: _Send, status: int, answer: Json) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": canonical(answer)})


async def _lifespan(receive: _Receive, send: _Send) -> None:
    """There is nothing to open or to close."""
    for stage in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{stage}.complete"})
