"""Embedded models: `local:smollm2` and any GGUF file, run by an engine here, and its server."""

import asyncio
import importlib
import os
import platform
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from pydantic import BaseModel, ValidationError

from burnish.core.cases import Usage
from burnish.core.content import stream
from burnish.core.errors import ConfigError
from burnish.core.thoughts import without_thoughts
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.embedded.files import (
    KNOWN,
    content_mark,
    is_path,
    locate,
    require_gguf,
    require_model,
)
from burnish.models.errors import ModelRefused, ModelRejected, ModelUnavailable
from burnish.models.references import ModelRef, is_loopback
from burnish.system.extras import install_command

_CHUNK = 64
_SMALL = 4
"""Cores of a machine on which every one counts."""
_LOOKS, _BETWEEN_LOOKS = 5, 0.02


@dataclass(frozen=True, kw_only=True)
class EngineShape:
    """How much of the machine an engine uses."""

    threads: int | None = None
    """None: as `default_threads` has it for the moment at which a model is loaded."""
    context: int = 4096
    """Tokens of a prompt and its answer together."""
    slots: int = 1
    """Answers at the same time. With more than one, equal requests may get different answers."""


@dataclass(frozen=True, kw_only=True)
class _Listening:
    """Where the engine's own HTTP server listens. It always does; by default nobody has the key."""

    host: str = "127.0.0.1"
    port: int = 0
    key: str | None = field(default_factory=lambda: secrets.token_hex(32), repr=False)


def require_engine() -> Any:
    """The module xllamacpp; the error names the extra that installs it."""
    try:
        return importlib.import_module("xllamacpp")
    except ImportError as error:
        raise ModelRefused(
            "local models need xllamacpp, which is not installed",
            remedy=f"install it: {install_command('local')}",
        ) from error


def _start_server(
    path: Path, shape: EngineShape, listening: _Listening | None = None, name: str = ""
) -> Any:
    """Load a model from a file that was checked before."""
    engine = require_engine()
    params = _params(engine, path, shape)
    listening = listening or _Listening()
    params.hostnames = [listening.host]
    params.port = listening.port
    params.api_keys = [listening.key] if listening.key else []
    # Pages of other sites, other people's prompts and a web page of its own stay out.
    params.cors_origins = "localhost"
    params.ui = params.endpoint_slots = False
    params.model_alias = {name or path.stem}
    try:
        return engine.Server(params)
    except (RuntimeError, ValueError) as error:
        raise ModelRefused(
            f"the engine cannot load {path}",
            remedy="it is damaged or was cut while it was read: fetch it again; or it is of a kind "
            "that this xllamacpp does not support, or larger than the free memory: try another "
            "file, or upgrade xllamacpp",
        ) from error


def default_threads(cores: int, busy: int) -> int:
    """The idle cores of a small machine, half of a large one.

    The threads wait for each other at every step: one that shares its core slows all of them
    down. How many there are changes no answer.
    """
    return max(1, cores - busy if cores <= _SMALL else min(8, cores // 2))


def engine_threads() -> int:
    """How many threads a model that is loaded now gets."""
    if named := os.environ.get("BURNISH_LOCAL_THREADS"):
        if not named.isdecimal() or int(named) < 1:
            raise ModelRefused(
                f"BURNISH_LOCAL_THREADS is {named!r}", remedy="give a whole number, 1 or more"
            )
        return int(named)
    return default_threads(_cores(), _busy())


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _busy() -> int:
    """How many threads other than this one run or wait for a core, at the worst of some moments."""
    counts: list[int] = []
    for _ in range(_LOOKS):
        try:
            running = Path("/proc/loadavg").read_text().split()[3].partition("/")[0]
        except OSError:  # not Linux
            return 1
        counts.append(int(running) - 1)
        time.sleep(_BETWEEN_LOOKS)
    return max(counts)


def _params(engine: Any, path: Path, shape: EngineShape) -> Any:
    params = engine.CommonParams()
    params.model.path = str(path)
    # Read, not mapped: a mapped file that another process cuts ends this one with SIGBUS.
    params.load_mode = engine.llama_load_mode.LLAMA_LOAD_MODE_NONE
    params.n_parallel = shape.slots
    params.n_ctx = shape.context * shape.slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = (
        shape.threads or engine_threads()
    )
    # Tokens of a prompt between two looks at whether anybody still waits for the answer.
    params.n_batch = _CHUNK
    together = _tokens_at_once(path)
    params.n_ubatch = together or _CHUNK
    params.verbosity = -1
    params.warmup = params.fit_params = params.cache_idle_slots = False
    params.cache_ram_mib = params.n_ctx_checkpoints = 0
    params.cache_prompt = together is not None
    # With flash attention, what is left of an earlier prompt changes the next answer.
    params.flash_attn_type = engine.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    return params


def _tokens_at_once(path: Path) -> int | None:
    """In what groups a prompt is computed if its beginning may be cached; none if it may not.

    It may if the arithmetic of a token does not depend on how many are computed together, or
    the next answer would depend on the one before. On x86 it does not for the known models:
    measured, bit by bit. Elsewhere their tokens are computed one by one, which for models this
    small costs less than a cache saves. For other models equal answers are worth the time.
    """
    if path.name not in {carried.file for carried in KNOWN.values()}:
        return None
    return _CHUNK if platform.machine().lower() in {"x86_64", "amd64"} else 1


_STOPS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """What is served, and where."""

    model: ModelRef
    host: str = "127.0.0.1"
    port: int = 0
    """0 for a free one."""
    key: str | None = field(default=None, repr=False)


def serve(
    endpoint: ServedModel,
    started: Callable[[str], None],
    leave: Callable[[int], None] = os._exit,  # pyright: ignore[reportPrivateUsage]
) -> None:
    """Answer until Ctrl-C or SIGTERM, then end the process; `started` gets the address."""
    model, host = endpoint.model, endpoint.host
    if model.provider != "local":
        remedy = "only embedded models are served: local:smollm2 or local:FILE.gguf"
        raise ConfigError.of(model.label, "runs elsewhere", remedy)
    if endpoint.key is None and not is_loopback(host):
        remedy = "give it a key with --api-key-env, or stay on 127.0.0.1"
        message = "others could use the model without a key"
        raise ConfigError.of(f"--host {host}", message, remedy)
    path = require_model(model.name)
    _require_free(endpoint)
    listening = _Listening(host=host, port=endpoint.port, key=endpoint.key)
    name = path.stem if is_path(model.name) else model.name
    # Blocked before the engine's threads begin, so that none of them takes the signal.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        server = _start_server(path, EngineShape(), listening, name)
        started(f"{server.listening_address}/v1")
        signal.sigwait(_STOPS)
        # The engine's own end waits for open answers that never come. It has nothing to save.
        leave(0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def key_in(variable: str, environ: Mapping[str, str] | None = None) -> str:
    """The key in an environment variable."""
    value = (os.environ if environ is None else environ).get(variable, "").strip()
    if not value:
        raise ConfigError.of(variable, "contains no key", f"set it: `export {variable}=…`")
    return value


def _require_free(endpoint: ServedModel) -> None:
    """Check the address first: the engine would not say why it cannot listen."""
    where = f"{endpoint.host}:{endpoint.port}"
    try:
        addresses = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = addresses[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        message = f"cannot listen there: {(error.strerror or str(error)).lower()}"
        raise ConfigError.of(where, message, "choose another --port; 0 picks a free one") from error


# -- The backend -----------------------------------------------------------------------------------


Chunk: TypeAlias = dict[str, Any]
"""A part of an answer, as OpenAI-compatible endpoints stream it."""


class _Server(Protocol):
    def handle_chat_completions(self, body: Chunk, heard: Callable[[Chunk], bool], /) -> object:
        """Answer; `heard` gets every chunk and stops the answer by returning True."""
        ...


_Start: TypeAlias = Callable[[Path, EngineShape], _Server]


class Engine:
    """One model file: loaded by the first request, used by at most `slots` threads."""

    def __init__(self, path: Path, shape: EngineShape, start: _Start) -> None:
        self._path, self._shape, self._start = path, shape, start
        self._threads = ThreadPoolExecutor(shape.slots, thread_name_prefix="burnish-engine")
        self._loading = threading.Lock()
        self._closing = threading.Event()
        self._server: _Server | None = None

    async def chat(self, body: Chunk) -> tuple[list[Chunk], float]:
        """The chunks of the answer, and the seconds they took.

        Does not block the event loop; a cancelled answer stops at its next chunk.
        """
        gone = threading.Event()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._answer, body, gone)
        finally:
            gone.set()

    async def close(self) -> None:
        self._closing.set()
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        self._server = None

    def _answer(self, body: Chunk, gone: threading.Event) -> tuple[list[Chunk], float]:
        with self._loading:
            if self._server is None:
                self._server = self._start(self._path, self._shape)
            server = self._server
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
        return chunks, time.perf_counter() - started


class _Error(BaseModel):
    code: int = 500
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
    choices: list[_Choice] = []
    usage: _Tokens | None = None
    error: _Error | None = None
    model: str = ""


def _read_reply(ref: ModelRef, chunks: Sequence[Chunk], seconds: float) -> ChatReply:
    """The complete answer; raises what kept it from being complete."""
    try:
        pieces = [_Piece.model_validate(chunk) for chunk in chunks]
    except ValidationError as error:
        raise _unusable(f"{ref.label} gave an answer that cannot be read") from error
    for piece in pieces:
        if piece.error is not None:
            raise _trouble(ref, piece.error)
    choices = [choice for piece in pieces for choice in piece.choices]
    finish = next((c.finish_reason for c in choices if c.finish_reason), None)
    if finish is None:
        raise _unusable(f"{ref.label} stopped in the middle of its answer")
    tokens = next((p.usage for p in reversed(pieces) if p.usage), _Tokens())
    return ChatReply(
        text=without_thoughts("".join(choice.delta.content or "" for choice in choices)),
        finish=finish if finish in ("stop", "length", "content_filter") else "other",
        usage=Usage(
            requests=1, input_tokens=tokens.prompt_tokens, output_tokens=tokens.completion_tokens
        ),
        model=pieces[-1].model,
        seconds=seconds,
    )


def _unusable(message: str) -> ModelUnavailable:
    """An error of a model in this process, which cannot be away: no use in waiting for it."""
    return ModelUnavailable(message, cause="unusable")


def _trouble(ref: ModelRef, error: _Error) -> ModelRejected | ModelUnavailable:
    if error.n_prompt_tokens is not None and error.n_ctx is not None:
        return ModelRejected(
            f"the prompt has {error.n_prompt_tokens} tokens; {ref.label} takes {error.n_ctx}, "
            "its answer included"
        )
    if error.code >= 500:
        return _unusable(f"{ref.label} failed: {error.message}")
    return ModelRejected(f"{ref.label} cannot take this request: {error.message}")


class EmbeddedBackend:
    """Runs models in this process: one engine per file, loaded on first use."""

    def __init__(self, shape: EngineShape | None = None, *, start: _Start = _start_server) -> None:
        self._shape = shape or EngineShape()
        self._start = start
        self._engines: dict[Path, Engine] = {}

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        _require_settings(ref)
        engine = self._engine(locate(ref.name).resolve())
        return _read_reply(ref, *await engine.chat(_body(ref, request, draw)))

    def check(self, ref: ModelRef) -> None:
        _require_settings(ref)
        require_model(ref.name)
        require_engine()

    def identity(self, ref: ModelRef) -> str:
        """The file's content, so that another file with the same name is another model."""
        return content_mark(require_model(ref.name))

    async def close(self) -> None:
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
        "max_tokens": 512,
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
    """Reject settings that would be ignored or misunderstood."""
    for name in ("base_url", "api_key", "api_version"):
        if getattr(ref, name):
            remedy = f"remove {name}; `openai:…` with a base_url reaches an endpoint"
            raise ModelRefused(
                f"{ref.label} runs on this machine and takes no {name}", remedy=remedy
            )
    if fault := _bad_setting(ref):
        raise ModelRefused(f"{ref.label} cannot be asked: {fault}", remedy="correct its settings")


def _bad_setting(ref: ModelRef) -> str:
    settings = ref.settings
    if settings.max_tokens is not None and settings.max_tokens < 1:
        return f"max_tokens is {settings.max_tokens} but must be 1 or more"
    if settings.temperature is not None and not 0 <= settings.temperature < float("inf"):
        return f"temperature is {settings.temperature:g} but must be 0 or more"
    if settings.top_p is not None and not 0 <= settings.top_p <= 1:
        return f"top_p is {settings.top_p:g} but must be 0 to 1"
    return "a stop text is empty" if "" in settings.stop else ""
