"""Models that run here: `local:smollm2` and any GGUF file, through an engine in this process."""

from pathlib import Path

from burnish.core.randomness import stream
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.embedded.answers import read_reply
from burnish.models.embedded.engine import Chunk, Engine, Start
from burnish.models.embedded.files import content_mark, locate, require_model
from burnish.models.embedded.gguf import require_gguf
from burnish.models.embedded.server import EngineShape, require_engine, start_server
from burnish.models.references import ModelRef
from burnish.models.troubles import ModelRefused

MAX_TOKENS = 512
"""The length of an answer where the settings leave it open."""


class EmbeddedBackend:
    """Runs models in this process: one engine a file, loaded when it is first asked."""

    def __init__(self, shape: EngineShape | None = None, *, start: Start = start_server) -> None:
        self._shape = shape or EngineShape()
        self._start = start
        self._engines: dict[Path, Engine] = {}

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        """One answer. Equal requests and draws give equal answers."""
        _require_settings(ref)
        engine = self._engine(locate(ref.name).resolve())
        return read_reply(ref, await engine.chat(_body(ref, request, draw)))

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
        "max_tokens": MAX_TOKENS,
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
    told = _bad_setting(ref)
    if told:
        raise ModelRefused(f"{ref.label} cannot be asked: {told}", remedy="correct its settings")


def _bad_setting(ref: ModelRef) -> str:
    settings = ref.settings
    if settings.max_tokens is not None and settings.max_tokens < 1:
        return f"max_tokens is {settings.max_tokens}, and must be 1 or more"
    if settings.temperature is not None and not 0 <= settings.temperature < float("inf"):
        return f"temperature is {settings.temperature:g}, and must be 0 or more"
    if settings.top_p is not None and not 0 < settings.top_p <= 1:
        return f"top_p is {settings.top_p:g}, and must be above 0 and at most 1"
    return "a stop text is empty" if "" in settings.stop else ""
