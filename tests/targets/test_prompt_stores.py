"""Prompts in Python files, git, HTTP stores, Langfuse and SQL, and who may overwrite them."""

import base64
import json
import re
import sqlite3
import subprocess
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from burnish.core.errors import BurnishError, ConfigError
from burnish.system.databases import DatabaseUrl
from burnish.targets.prompts import TargetPrompt
from burnish.targets.prompts.stores import PromptChanged, prompt_store
from tests.journal.databases import execute, tables_on
from tests.loopback import Answered, answering

MODULE = '''"""An agent."""

NAME = "till"
PROMPT: str = """\\
Be brief.
Say "please"."""  # the cheap one


def other():
    PROMPT = 3
'''


async def check_store(reference: str, first: str, folder: Path | None = None) -> None:
    """It reads, writes, and does not overwrite what somebody else wrote."""
    mine = prompt_store(reference, folder=folder)
    theirs = prompt_store(reference, folder=folder)
    assert await mine.read() == first
    assert await theirs.read() == first
    for text in ("Be kind.\nGrüße, {name}.\n", 'Ends with "quotes"', "A \\ and '''", ""):
        await mine.write(text)
        assert await mine.read() == text
    with pytest.raises(PromptChanged) as error:
        await theirs.write("theirs")
    versions = re.search(r"version (\S+) was read, now it is (\S+)", error.value.message)
    assert versions is not None
    assert versions[1] != versions[2]
    assert await mine.read() == ""
    await theirs.read()
    await theirs.write("theirs")
    assert await mine.read() == "theirs"


async def test_a_literal_of_a_module(tmp_path: Path) -> None:
    path = tmp_path / "agent.py"
    path.write_text(MODULE, encoding="utf-8")
    await check_store("python:agent.py#PROMPT", 'Be brief.\nSay "please".', tmp_path)
    head, tail = MODULE.split('"""\\\n')[0], MODULE.split('please"."""')[1]
    assert path.read_text(encoding="utf-8") == f"{head}'theirs'{tail}"


@pytest.mark.parametrize(
    ("name", "message"),
    [("NOTHING", "there is no such name"), ("COUNT", "not a plain text"), ("F", "not a plain")],
)
async def test_a_name_that_is_no_literal(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "agent.py").write_text('COUNT = 3\nF = f"{COUNT}"\n')
    with pytest.raises(BurnishError, match=message):
        await prompt_store(f"python:agent.py#{name}", folder=tmp_path).read()


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    command = ["git", *who, *words]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "repository")
    folder = tmp_path / "repository"
    (folder / "prompts").mkdir()
    (folder / "prompts/system.md").write_text("Be brief.\n")
    (folder / "agent.py").write_text("pass\n")
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", "first")
    git(folder, "branch", "prompts")
    return folder


async def test_a_file_on_a_branch(repository: Path) -> None:
    await check_store("git:repository@prompts#prompts/system.md", "Be brief.\n", repository.parent)
    assert git(repository, "show", "prompts:prompts/system.md") == "theirs"
    assert git(repository, "show", "prompts:agent.py") == "pass"
    assert (
        git(repository, "log", "--format=%s", "-1", "refs/heads/prompts")
        == "Update prompts/system.md"
    )
    assert git(repository, "status", "--porcelain") == ""


async def test_a_commit_to_another_file_is_no_change(repository: Path) -> None:
    store = prompt_store("git:repository@prompts#prompts/system.md", folder=repository.parent)
    await store.read()
    tree = git(repository, "rev-parse", "prompts^{tree}")
    other = git(repository, "commit-tree", tree, "-p", "prompts", "-m", "other")
    git(repository, "update-ref", "refs/heads/prompts", other)
    await store.write("Be kind.")
    assert git(repository, "rev-parse", "prompts^") == other


async def test_a_branch_that_is_checked_out_is_not_moved(repository: Path) -> None:
    store = prompt_store("git:repository#prompts/system.md", folder=repository.parent)
    assert await store.read() == "Be brief.\n"
    with pytest.raises(BurnishError, match="the branch main is checked out"):
        await store.write("Be kind.")
    for wrong in ("git:repository#none.md", "git:repository@none#agent.py", "git:nowhere#a"):
        with pytest.raises(BurnishError):
            await prompt_store(wrong, folder=repository.parent).read()


@dataclass
class Web:
    """A store behind HTTP: a text with an ETag, without one, in JSON, and prompts of Langfuse."""

    address: str = ""
    texts: dict[str, str] = field(default_factory=dict[str, str])
    versions: list[str] = field(default_factory=list[str])
    logins: set[str] = field(default_factory=set[str])

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> Answered:
        self.logins.add(request.headers.get("Authorization", ""))
        path = request.path.partition("?")[0]
        if path.startswith("/api/public/v2/prompts"):
            if request.command == "POST":
                self.versions.append(json.loads(body)["prompt"])
            prompt = {"prompt": self.versions[-1], "version": len(self.versions)}
            return 200, {}, json.dumps(prompt).encode()
        if path not in self.texts:
            return 404, {}, b""
        tag = f'"{hash(self.texts[path])}"' if path != "/plain" else ""
        if request.command == "PUT":
            if tag and request.headers["If-Match"] != tag:
                return 412, {}, b""
            self.texts[path] = json.loads(body)["value"] if path == "/json" else body.decode()
            return 200, {}, b""
        text = self.texts[path]
        headers = {"Content-Type": "text/plain; charset=utf-8"} | ({"ETag": tag} if tag else {})
        content = json.dumps({"value": text}) if path == "/json" else text
        return 200, headers, content.encode()


@pytest.fixture
def web() -> Generator[Web]:
    web = Web(versions=["Be brief."])
    web.texts |= dict.fromkeys(("/tagged", "/plain", "/json"), "Be brief.")
    with answering(web.answer) as web.address:
        yield web


@pytest.mark.parametrize("path", ["/tagged", "/plain", "/json#value"])
async def test_a_store_behind_http(web: Web, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNISH_PROMPT_TOKEN", "s3cret")
    await check_store(f"{web.address}{path}", "Be brief.")
    assert web.logins == {"Bearer s3cret"}


async def test_a_prompt_of_langfuse(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "public")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "secret")
    await check_store(f"langfuse:{web.address}#support@staging", "Be brief.")
    assert (web.versions[0], web.versions[-1]) == ("Be brief.", "theirs")
    assert web.logins == {f"Basic {base64.b64encode(b'public:secret').decode()}"}


async def test_a_store_that_refuses_or_is_gone(web: Web) -> None:
    with pytest.raises(BurnishError, match="it answered GET with HTTP 404"):
        await prompt_store(f"{web.address}/nowhere").read()
    with pytest.raises(BurnishError, match="no field 'text'"):
        await prompt_store(f"{web.address}/json#text").read()
    with pytest.raises(ConnectionError):
        await prompt_store("http://127.0.0.1:9/x").read()


COLUMNS = "name VARCHAR(99) PRIMARY KEY, text TEXT NOT NULL, version INTEGER NOT NULL"
ROWS = "('support', 'Be brief.', 1), ('other', 'Hm.', 1)"


async def check_table(address: str, table: str) -> None:
    await check_store(f"sql:{address}#{table}/support", "Be brief.")
    rows = execute(DatabaseUrl.parse(address), f"SELECT text, version FROM {table} ORDER BY name")
    assert [tuple(row) for row in rows] == [("Hm.", 1), ("theirs", 6)]
    with pytest.raises(BurnishError, match="there is no such row"):
        await prompt_store(f"sql:{address}#{table}/none").read()


async def test_a_row_of_a_table_in_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "prompts.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"CREATE TABLE prompts ({COLUMNS})")
        db.execute(f"INSERT INTO prompts VALUES {ROWS}")
    await check_table(f"sqlite:///{path}", "prompts")


async def test_a_row_of_a_table_in_postgresql() -> None:
    with tables_on("postgresql") as (address, prefix):
        table = f"{prefix}prompts"
        create = f"CREATE TABLE {table} ({COLUMNS})"
        execute(DatabaseUrl.parse(address), create, f"INSERT INTO {table} VALUES {ROWS}")
        await check_table(address, table)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("", "not a reference"),
        ("prompt.md", "not a reference"),
        ("python:agent.py", "does not say which prompt"),
        ("git:#a", "does not say which prompt"),
        ("https://me:s3cret@host/x", "no address of a store"),
        ("http:///x", "no address of a store"),
        ("langfuse:host#a", "no address of a store"),
        ("sql:sqlite:///a.db#prompts", "does not name a table and a prompt"),
        ("sql:sqlite:///a.db#a; DROP TABLE b/c", "does not name a table and a prompt"),
        ("sql:oracle://h/d#a/b", "not a kind of database"),
    ],
)
def test_references_that_name_nothing(reference: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        prompt_store(reference)
    assert "s3cret" not in str(error.value)


async def test_a_store_is_a_field_of_the_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent.py").write_text(MODULE, encoding="utf-8")
    prompts = TargetPrompt().add_store("system", "python:agent.py#PROMPT", folder=tmp_path)
    assert prompts.describe_source("system") == "PROMPT in agent.py"
    monkeypatch.chdir(tmp_path.parent)
    texts = await prompts.read_all()
    await prompts.write_all({"system": f"{texts['system']} Be kind."})
    assert (await prompts.read_all())["system"].endswith("Be kind.")
