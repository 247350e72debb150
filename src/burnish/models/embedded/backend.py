"""Models that run here: `local:smollm2` and any GGUF file, through an engine in this process."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from pydantic import BaseModel, ValidationError

from burnish.core.content import stream
from burnish.core.outcomes import Usage
from burnish.models.chat import ChatReply, ChatRequest, Finish
from burnish.models.embedded.files import content_mark, locate, require_gguf, require_model
from burnish.models.embedded.server import EngineShape, require_engine, start_server
from burnish.models.errors import ModelRefused, ModelRejected, ModelUnavailable
from burnish.models.references import ModelRef

Chunk: TypeAlias = dict[str, Any]
"""A piece of an answer, as an OpenAI-compatible endpoint streams it."""


class _Server(Protocol):
    """What is used of the engine's server."""

    def handle_chat_completions(self, body: Chunk, heard: Callable[[Chunk], bool], /) -> object:
        """Answer; `heard` gets every chunk and ends the answer by returning True."""
        ...


_Start: TypeAlias = Callable[[Path, EngineShape], _Server]


@dataclass(frozen=True, kw_only=True)
class _EngineAnswer:
    """All chunks of one answer, and how long they took."""

    chunks: list[Chunk]
    seconds: float


class Engine:
    """One model file: loaded by the first request, asked by at most `slots` threads."""

    def __init__(self, path: Path, shape: EngineShape, start: _Start) -> None:
        self._path, self._shape, self._start = path, shape, start
        self._threads = ThreadPoolExecutor(shape.slots, thread_name_prefix="burnish-engine")
        self._loading = threading.Lock()
        self._closing = threading.Event()
        self._server: _Server | None = None

    async def chat(self, body: Chunk) -> _EngineAnswer:
        """The answer. The event loop stays free, and a cancelled answer ends at its next chunk."""
        gone = threading.Event()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._answer, body, gone)
        finally:
            gone.set()

    async def close(self) -> None:
        """End what is running and free the memory."""
        self._closing.set()
        await asyncio.to_thread(self._free)

    def _answer(self, body: Chunk, gone: threading.Event) -> _EngineAnswer:
        server = self._loaded()
        chunks: list[Chunk] = []

        def heard(chunk: Chunk) -> bool:
            chunks.append(chunk)
            return gone.is_set() or self._closing.is_set()

        started = time.perf_counter()
        try:
            server.handle_chat_completions(body, heard)
        except (ValueError, RuntimeError, TypeError) as error:
            # With orjson in the environment a lone surrogate is a TypeError, else a ValueError.
            raise ModelRejected(f"{self._path.name} cannot take this request: {error}") from error
        return _EngineAnswer(chunks=chunks, seconds=time.perf_counter() - started)

    def _loaded(self) -> _Server:
        with self._loading:
            if self._server is None:
                self._server = self._start(self._path, self._shape)
            return self._server

    def _free(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._server = None


_FINISHES = {"stop", "length", "content_filter"}
_SERVER_ERROR = 500


class _Error(BaseModel):
    code: int = _SERVER_ERROR
    message: str = ""
    n_prompt_tokens: int | None = None
    n_ctx: int | None = None


class _Delta(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    finish_reason: str | None = None
    delta: _Delta = _Delta()


class _Tokens(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Piece(BaseModel):
    """A chunk, read."""

    choices: list[_Choice] = []
    usage: _Tokens | None = None
    error: _Error | None = None
    model: str = ""


def _read_reply(ref: ModelRef, heard: _EngineAnswer) -> ChatReply:
    """The whole answer; what kept it from being whole is raised."""
    pieces = _read(ref, heard.chunks)
    choices = [choice for piece in pieces for choice in piece.choices]
    finish = next((c.finish_reason for c in choices if c.finish_reason), None)
    if finish is None:
        raise ModelUnavailable(f"{ref.label} stopped in the middle of its answer")
    tokens = next((p.usage for p in reversed(pieces) if p.usage), _Tokens())
    return ChatReply(
        text="".join(choice.delta.content or "" for choice in choices),
        finish=cast("Finish", finish) if finish in _FINISHES else "other",
        usage=Usage(
            requests=1, input_tokens=tokens.prompt_tokens, output_tokens=tokens.completion_tokens
        ),
        model=pieces[-1].model,
        seconds=heard.seconds,
    )


def _read(ref: ModelRef, chunks: Sequence[Chunk]) -> list[_Piece]:
    try:
        pieces = [_Piece.model_validate(chunk) for chunk in chunks]
    except ValidationError as error:
        raise ModelUnavailable(f"{ref.label} gave an answer that cannot be read") from error
    for piece in pieces:
        if piece.error is not None:
            raise _trouble(ref, piece.error)
    return pieces


def _trouble(ref: ModelRef, error: _Error) -> ModelRejected | ModelUnavailable:
    if error.n_prompt_tokens is not None and error.n_ctx is not None:
        return ModelRejected(
            f"the prompt has {error.n_prompt_tokens} tokens; {ref.label} takes {error.n_ctx}, "
            "its answer included"
        )
    if error.code >= _SERVER_ERROR:
        return ModelUnavailable(f"{ref.label} failed: {error.message}")
    return ModelRejected(f"{ref.label} cannot take this request: {error.message}")


_MAX_TOKENS = 512
"""The length of an answer where the settings leave it open."""


class EmbeddedBackend:
    """Runs models in this process: one engine a file, loaded when it is first asked."""

    def __init__(self, shape: EngineShape | None = None, *, start: _Start = start_server) -> None:
        self._shape = shape or EngineShape()
        self._start = start
        self._engines: dict[Path, Engine] = {}

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        """One answer. Equal requests and draws give equal answers."""
        _require_settings(ref)
        engine = self._engine(locate(ref.name).resolve())
        return _read_reply(ref, await engine.chat(_body(ref, request, draw)))

    def check(self, ref: ModelRef) -> None:
        """Raise ModelRefused where the file, the engine or a setting stands in the way."""
        _require_settings(ref)
        require_model(ref.name)
        require_engine()

    def identity(self, ref: ModelRef) -> str:
        """The file's content, so that another file under the same name is another model."""
        return content_mark(require_model(ref.name))

    async def close(self) -> None:
        """Free the memory of every model."""
        engines = list(self._engines.values())
        self._engines.clear()
        for engine in engines:
            await engine.close()

    def _engine(self, path: Path) -> Engine:
        if path not in self._engines:
            require_gguf(path)
            self._engines[path] = Engine(path, self._shape, self._start)
        return self._engines[path]


def _body(ref: ModelRef, request: ChatRequest, draw: int) -> Chunk:
    settings = ref.settings
    body: Chunk = {
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        "max_tokens": _MAX_TOKENS,
        **settings.sent(),
        # 31 bits: the engine takes the highest seed for "any".
        "seed": stream(settings.seed or 0, "draw", draw).getrandbits(31),
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
    }
    if request.schema is not None:
        schema = {"name": request.schema_name, "schema": dict(request.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def _require_settings(ref: ModelRef) -> None:
    """Nothing that would be ignored, or taken for something else."""
    for name in ("base_url", "api_key", "api_version"):
        if getattr(ref, name):
            remedy = f"take {name} out; `openai:…` with a base_url reaches an endpoint"
            raise ModelRefused(f"{ref.label} runs here and has no {name}", remedy=remedy)
    if fault := _bad_setting(ref):
        raise ModelRefused(f"{ref.label} cannot be asked: {fault}", remedy="correct its settings")


def _bad_setting(ref: ModelRef) -> str:
    settings = ref.settings
    if settings.max_tokens is not None and settings.max_tokens < 1:
        return f"max_tokens is {settings.max_tokens}, and must be 1 or more"
    if settings.temperature is not None and not 0 <= settings.temperature < float("inf"):
        return f"temperature is {settings.temperature:g}, and must be 0 or more"
    if settings.top_p is not None and not 0 < settings.top_p <= 1:
        return f"top_p is {settings.top_p:g}, and must be above 0 and at most 1"
    return "a stop text is empty" if "" in settings.stop else ""
