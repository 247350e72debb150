"""The engine's server: what it takes of the machine, how it is loaded, where it listens.

Everything that touches xllamacpp is here. It has no types, so its objects are Any.
"""

import importlib
import os
import platform
import secrets
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.core.errors import ConfigError, Problem
from burnish.models.embedded.files import KNOWN, is_path, require_model
from burnish.models.errors import ModelRefused
from burnish.models.references import ModelRef, is_loopback

_SMALL_MACHINE = 4
_BATCH = 64
"""Tokens of a prompt between two looks at whether anybody still waits for the answer."""


@dataclass(frozen=True, kw_only=True)
class EngineShape:
    """How much of the machine an engine takes."""

    threads: int = field(default_factory=lambda: default_threads(_cores()))
    context: int = 4096
    """Tokens of a prompt and its answer together."""
    slots: int = 1
    """Answers at the same time. With more than one, equal requests may get unequal answers."""


@dataclass(frozen=True, kw_only=True)
class _Listening:
    """Where the engine's own HTTP server listens. It always does; by default nobody has the key."""

    host: str = "127.0.0.1"
    port: int = 0
    key: str | None = field(default_factory=lambda: secrets.token_hex(32), repr=False)


def require_engine() -> Any:
    """The module xllamacpp, or which extra brings it."""
    try:
        return importlib.import_module("xllamacpp")
    except ImportError as error:
        raise ModelRefused(
            "local models need xllamacpp, which is not installed",
            remedy="install it: pip install 'burnish[local]'",
        ) from error


def start_server(
    path: Path, shape: EngineShape, listening: _Listening | None = None, name: str = ""
) -> Any:
    """Load a model. The file was looked at before: what fails here is of the engine's knowledge."""
    engine = require_engine()
    params = _params(engine, path, shape)
    _listen(params, listening or _Listening())
    params.model_alias = {name or path.stem}
    try:
        return engine.Server(params)
    except (RuntimeError, ValueError) as error:
        raise ModelRefused(
            f"the engine cannot load {path}",
            remedy="it is damaged, of a kind that this xllamacpp does not know, or larger than "
            "the free memory; try another file, or upgrade xllamacpp",
        ) from error


def default_threads(cores: int) -> int:
    """One on a small machine: two that share a busy machine wait for each other at every step."""
    return 1 if cores <= _SMALL_MACHINE else min(8, cores // 2)


def _cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _params(engine: Any, path: Path, shape: EngineShape) -> Any:
    params = engine.CommonParams()
    params.model.path = str(path)
    params.n_parallel = shape.slots
    params.n_ctx = shape.context * shape.slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = shape.threads
    params.n_batch = params.n_ubatch = _BATCH
    params.verbosity = -1
    params.warmup = params.fit_params = params.cache_idle_slots = False
    params.cache_ram_mib = params.n_ctx_checkpoints = 0
    params.cache_prompt = _is_repeatable(path)
    # With flash attention, what is left of an earlier prompt changes the next answer.
    params.flash_attn_type = engine.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    return params


def _is_repeatable(path: Path) -> bool:
    """Whether a prompt's beginning may be kept for the next without changing its answer.

    It may where the arithmetic of a token does not depend on how many are computed together:
    measured for the known models on x86, bit by bit. Elsewhere sameness is worth the time.
    """
    measured = {carried.file for carried in KNOWN.values()}
    return path.name in measured and platform.machine().lower() in {"x86_64", "amd64"}


def _listen(params: Any, listening: _Listening) -> None:
    """Pages of other sites, other people's prompts and a web page of its own stay out."""
    params.hostnames = [listening.host]
    params.port = listening.port
    params.api_keys = [listening.key] if listening.key else []
    params.cors_origins = "localhost"
    params.ui = params.endpoint_slots = False


_STOPS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """What is served, and where."""

    model: ModelRef
    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free one."""
    key: str | None = field(default=None, repr=False)


def serve(
    endpoint: ServedModel,
    started: Callable[[str], None],
    leave: Callable[[int], None] = os._exit,  # pyright: ignore[reportPrivateUsage]
) -> None:
    """Answer until Ctrl-C or a SIGTERM, then end the process; `started` is told the address."""
    _require_local(endpoint.model)
    _require_safe(endpoint)
    path = require_model(endpoint.model.name)
    _require_free(endpoint)
    # Blocked before the engine's threads begin, so that none of them takes the signal.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        server = _start(endpoint, path)
        started(f"{server.listening_address}/v1")
        signal.sigwait(_STOPS)
        # The engine's own end waits for open answers that never come. It has nothing to save.
        leave(0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(endpoint: ServedModel, path: Path) -> Any:
    listening = _Listening(host=endpoint.host, port=endpoint.port, key=endpoint.key)
    name = path.stem if is_path(endpoint.model.name) else endpoint.model.name
    return start_server(path, EngineShape(), listening, name)


def key_in(variable: str, environ: Mapping[str, str] | None = None) -> str:
    """The key that a variable holds."""
    value = (os.environ if environ is None else environ).get(variable, "").strip()
    if not value:
        raise _wrong(variable, "holds no key", f"set it: `export {variable}=…`")
    return value


def _require_local(model: ModelRef) -> None:
    if model.provider != "local":
        remedy = "only embedded models are served: local:smollm2 or local:FILE.gguf"
        raise _wrong(model.label, "runs elsewhere", remedy)


def _require_safe(endpoint: ServedModel) -> None:
    if endpoint.key is None and not is_loopback(endpoint.host):
        remedy = "give it a key with --api-key-env, or stay on 127.0.0.1"
        raise _wrong(f"--host {endpoint.host}", "others could use the model without a key", remedy)


def _require_free(endpoint: ServedModel) -> None:
    """The engine would not say why it cannot listen."""
    where = f"{endpoint.host}:{endpoint.port}"
    try:
        addresses = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = addresses[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        message = f"cannot listen there: {(error.strerror or str(error)).lower()}"
        raise _wrong(where, message, "give another --port; 0 takes a free one") from error


def _wrong(where: str, message: str, remedy: str) -> ConfigError:
    return ConfigError([Problem(where=where, message=message, remedy=remedy)])
