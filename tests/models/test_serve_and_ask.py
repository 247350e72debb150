"""The wire against a real OpenAI-compatible server: the embedded model, served by burnish."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from burnish.core.cases import Message
from burnish.core.content import Json
from burnish.models.chat import ChatRequest
from burnish.models.errors import ModelRefused
from burnish.models.references import ModelRef, ModelSettings
from burnish.models.wire import WireBackend
from tests.models.smollm2 import HERE, needs_smollm2

pytestmark = [pytest.mark.model, needs_smollm2]

BURNISH = Path(sys.executable).with_name("burnish")
SETTINGS = ModelSettings(temperature=0.0, max_tokens=24)
COLOUR = ChatRequest(messages=(Message(role="user", content="Name one colour."),))


@asynccontextmanager
async def served(**environ: str) -> AsyncGenerator[str, None]:
    """An endpoint in a process of its own; its address."""
    flags = ["--api-key-env", "SERVED_KEY"] if environ else []
    process = await asyncio.create_subprocess_exec(
        BURNISH,
        *("models", "serve", "--model", f"local:{HERE}", *flags),
        env={**os.environ, **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 120)).decode()
        found = re.search(r"http://\S+", line)
        assert found is not None, line
        yield found[0]
    finally:
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 120) == 0


async def test_the_wire_speaks_with_a_real_server() -> None:
    backend = WireBackend()
    async with served() as address:
        ref = ModelRef.parse("openai:smollm2", base_url=address, settings=SETTINGS)
        first = await backend.complete(ref, COLOUR, draw=0)
        again = await backend.complete(ref, COLOUR, draw=0)
        schema: dict[str, Json] = {
            "type": "object",
            "properties": {"colour": {"type": "string", "maxLength": 8}},
            "required": ["colour"],
        }
        asked = ChatRequest(messages=COLOUR.messages, schema=schema)
        json_reply = await backend.complete(ref, asked, draw=0)
        await backend.close()
    assert first.text == again.text != ""
    assert first.finish in {"length", "stop"}, "the model's last bits differ between processors"
    assert 0 < first.usage.output_tokens <= 24
    assert json_reply.text.lstrip().startswith("{")


async def test_a_served_model_with_a_key_refuses_others(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = WireBackend()
    async with served(SERVED_KEY="canary-served-key-1") as address:
        monkeypatch.setenv("SERVED_KEY", "canary-served-key-1")
        monkeypatch.setenv("WRONG_KEY", "canary-wrong-key-22")
        right = ModelRef.parse(
            "openai:smollm2", base_url=address, api_key="${SERVED_KEY}", settings=SETTINGS
        )
        wrong = ModelRef.parse(
            "openai:smollm2", base_url=address, api_key="${WRONG_KEY}", settings=SETTINGS
        )
        assert (await backend.complete(right, COLOUR, draw=0)).text
        with pytest.raises(ModelRefused) as raised:
            await backend.complete(wrong, COLOUR, draw=0)
        await backend.close()
    assert "canary" not in str(raised.value)
