"""What a project's variables hold is in no file of a run, whatever the variables are called."""

import json
import signal
import sys
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from burnish.journal.journal import JournalReader
from tests.cli.console import Burnish, Said, finish, forked
from tests.loopback import Answered, answering

pytestmark = pytest.mark.slow
VALUES = {"SHOP_KEY": "open-sesame-4711", "SHOP_LOGIN": "kim/Ali+Baba=40"}
NAMES = pytest.mark.parametrize("name", [*VALUES])
CASES = """\
cases: cases.jsonl
concurrency: 1
metrics: [{type: standard, metric: rouge, threshold: 0}]
"""
HTTP = """\
kind: http
name: shop
target:
  url: URL/chat?place=${NAME}
  headers: {X-Api-Key: "${NAME}"}
  body: {input: "{{input}}", account: "${NAME}"}
"""
COMMAND = """\
kind: command
name: shop
target: {command: [PYTHON, -S, agent.py], env: {ACCOUNT: "Bearer ${NAME}"}}
"""
ECHO = """\
import os, pathlib, sys, time
query = sys.stdin.read()
if query == "wait" and not os.path.exists("begun"):
    pathlib.Path("begun").touch()
    time.sleep(3600)
if query == "crash":
    sys.exit("refused: " + os.environ["ACCOUNT"])
print("yes,", os.environ["ACCOUNT"].split()[-1])
"""


@pytest.fixture(autouse=True)
def _values(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name, value in VALUES.items():
        monkeypatch.setenv(name, value)


def written(folder: Path, text: str, name: str, *queries: str) -> None:
    """The project, its cases and its command."""
    text = text.replace("NAME", name).replace("PYTHON", sys.executable)
    (folder / "shop.yaml").write_text(text + CASES, encoding="utf-8")
    (folder / "agent.py").write_text(ECHO, encoding="utf-8")
    lines = [json.dumps({"input": query, "expected": "yes"}) for query in queries]
    (folder / "cases.jsonl").write_text("\n".join(lines), encoding="utf-8")


def echo(request: BaseHTTPRequestHandler, body: bytes) -> Answered:
    """Answers, or refuses, with what it was sent."""
    heard = {"answer": "yes", "path": request.path, "key": request.headers["X-Api-Key"]}
    status = 500 if json.loads(body)["input"] == "crash" else 200
    return status, {}, json.dumps({**heard, "body": json.loads(body)}).encode()


def kept(folder: Path, said: Said) -> Generator[tuple[str, str]]:
    """Every place of a run, and what it holds."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield str(path), path.read_bytes().decode("utf-8", errors="replace")
    with JournalReader(folder) as journal:
        for effect in journal.effects():
            stored = journal.find(effect.key)
            yield effect.kind, f"{effect} {stored}"
    yield "terminal", said.out + said.err


def assert_gone(folder: Path, said: Said, value: str) -> None:
    assert [place for place, text in kept(folder, said) if value in text] == []
    text = (folder / "evaluation.json").read_text(encoding="utf-8")
    assert "[redacted]" in text


@NAMES
def test_what_an_endpoint_echoes(burnish: Burnish, tmp_path: Path, name: str) -> None:
    with answering(echo) as url:
        written(tmp_path, HTTP.replace("URL", url), name, "hello", "crash")
        said = burnish("eval", "shop.yaml", "-o", "run")
        assert_gone(tmp_path / "run", said, VALUES[name])
        report = burnish("runs", "report", "run")
        again = burnish("eval", "shop.yaml", "--resume", "run")
    assert_gone(tmp_path / "run", again, VALUES[name])
    assert VALUES[name] not in report.out + report.err
    stored = (tmp_path / "run" / "run.json").read_text(encoding="utf-8")
    assert f"${{{name}}}" in stored


@NAMES
def test_what_a_command_echoes(burnish: Burnish, tmp_path: Path, name: str) -> None:
    written(tmp_path, COMMAND, name, "hello", "crash")
    said = burnish("eval", "shop.yaml", "-o", "run")
    assert_gone(tmp_path / "run", said, VALUES[name])


@pytest.mark.crash
@NAMES
def test_after_a_kill_and_a_resume(burnish: Burnish, tmp_path: Path, name: str) -> None:
    written(tmp_path, COMMAND, name, "hello", "wait", "after")
    process = forked("eval", "shop.yaml", "-o", "run", cwd=tmp_path, **VALUES)
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    killed = finish(process)
    said = burnish("eval", "shop.yaml", "--resume", "run")
    assert said.code == 0, said
    assert_gone(tmp_path / "run", said, VALUES[name])
    assert VALUES[name] not in killed.out + killed.err


@pytest.mark.crash
def test_what_a_worker_hears(tmp_path: Path) -> None:
    name = "SHOP_LOGIN"
    written(tmp_path, COMMAND, name, "hello", "crash")
    workers = ("--executor", "processes", "--workers", "1")
    said = finish(forked("eval", "shop.yaml", "-o", "run", *workers, cwd=tmp_path, **VALUES))
    assert_gone(tmp_path / "run", said, VALUES[name])


def test_a_word_of_the_project_does_not_stop_its_resume(
    burnish: Burnish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENANT", tmp_path.name)
    with answering(echo) as url:
        written(tmp_path, HTTP.replace("URL", url), "TENANT", "hello")
        assert burnish("eval", "shop.yaml", "-o", "run").code == 0
        said = burnish("runs", "resume", "run")
    assert said.code == 0, said


def test_an_address_stays(
    burnish: Burnish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(echo) as url:
        monkeypatch.setenv("SHOP_ADDRESS", url)
        monkeypatch.setenv("CALLBACK", "http://shop.example/done")
        text = HTTP.replace("URL", "${SHOP_ADDRESS}").replace("${NAME}", "${CALLBACK}")
        written(tmp_path, text, "SHOP_KEY", "hello")
        said = burnish("eval", "shop.yaml", "-o", "run")
    assert said.code == 0, said
    text = (tmp_path / "run" / "evaluation.json").read_text(encoding="utf-8")
    assert "http://shop.example/done" in text
    assert "[redacted]" not in text


LOGIN = "http://kim:open-sesame@127.0.0.1:9"
AGENT = """\
name: clerk
model: {provider: openai, name: m, base_url: "URL", api_key: "${SHOP_KEY}"}
instructions: {inline: Answer.}
evaluations:
  metrics: [{type: standard, metric: equality}]
test_cases: [{input: "Is it open?", ground_truth: "yes"}]
"""


@pytest.mark.parametrize("address", [LOGIN, "${SHOP_ADDRESS}"])
@pytest.mark.parametrize("project", [HTTP + CASES, AGENT])
def test_an_address_with_a_login_is_refused(
    burnish: Burnish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, project: str
) -> None:
    monkeypatch.setenv("SHOP_ADDRESS", LOGIN)
    written(tmp_path, "", "SHOP_KEY", "hello")
    text = project.replace("URL", address).replace("NAME", "SHOP_KEY")
    (tmp_path / "shop.yaml").write_text(text, encoding="utf-8")
    said = burnish("eval", "shop.yaml", "-o", "run")
    assert said.code == 3, said
    assert "a user and password in it" in said.err
    assert "open-sesame" not in said.out + said.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "flags",
    [
        ("--have", "nothing", "--model", "openai:m", "--base-url", LOGIN),
        ("--have", "http", "--url", LOGIN),
    ],
)
def test_a_new_project_with_a_login_in_its_address_is_refused(
    burnish: Burnish, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    said = burnish("init", "--folder", "shop", "--yes", *flags)
    assert said.code == 1, said
    assert "a user and password in it" in said.err
    assert "open-sesame" not in said.out + said.err
    assert not (tmp_path / "shop").exists()


def test_a_candidate_with_a_login_in_its_address_is_refused(
    burnish: Burnish, tmp_path: Path
) -> None:
    for name, address in {"ours.yaml": "http://127.0.0.1:9", "theirs.yaml": LOGIN}.items():
        (tmp_path / name).write_text(AGENT.replace("URL", address), encoding="utf-8")
    said = burnish("eval", "ours.yaml", "--candidate", "theirs.yaml", "-o", "grid")
    assert said.code == 3, said
    assert "a user and password in it" in said.err
    assert "open-sesame" not in said.out + said.err
    assert not (tmp_path / "grid").exists()
