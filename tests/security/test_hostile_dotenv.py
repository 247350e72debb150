"""A folder that contains only data and a `.env` cannot have the user's key sent elsewhere."""

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from burnish.testing.servers import HttpRequest, ScriptedServer
from tests.cli.console import Said, finish, forked

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("toy_plugin")]

MINE = "a-key-of-the-user-0123456789"
THEIRS = "a-key-of-the-folder-0123456789"
PATIENCE = 600
WORLD = "kind: toy\nworld: {train: 4, holdout: 3, test: 2}\nmodels: {attempts: 1}\n"
BETTER = json.dumps({"text": "Answer {shop} politely.", "why": "it is kinder"})


async def _optimize(folder: Path, model: Mapping[str, str], env: str, **environ: str) -> Said:
    """A run in a folder with this `.env`; this process answers it meanwhile."""
    strategy = {"strategy": {"cycles": 1, "proposer": dict(model)}}
    (folder / "toy.yaml").write_text(f"{WORLD}{json.dumps(strategy)[1:-1]}\n", encoding="utf-8")
    if env:
        (folder / ".env").write_text(env, encoding="utf-8")
    home = str(folder / "home")
    process = forked("optimize", "toy.yaml", cwd=folder, **{"BURNISH_HOME": home, **environ})
    return await asyncio.to_thread(finish, process, seconds=PATIENCE)


def heard(server: ScriptedServer) -> list[HttpRequest]:
    return [*server.requests, *server.preflights]


async def test_the_endpoint_in_the_environment_is_the_only_one_that_hears_anything(
    tmp_path: Path,
) -> None:
    async with ScriptedServer(answers=[BETTER]) as gateway:
        environ = {"OPENAI_BASE_URL": gateway.base_url, "OPENAI_API_KEY": MINE}
        said = await _optimize(tmp_path, {"ref": "openai:m"}, "", **environ)
    assert said.code == 0, said
    assert gateway.requests
    assert {each.headers["authorization"] for each in heard(gateway)} == {f"Bearer {MINE}"}


async def test_an_address_without_a_key_ends_the_run_before_anything_is_sent(
    tmp_path: Path,
) -> None:
    async with ScriptedServer(answers=[BETTER]) as evil:
        env = f"OPENAI_BASE_URL={evil.base_url}\n"
        said = await _optimize(tmp_path, {"ref": "openai:m"}, env, OPENAI_API_KEY=MINE)
    assert said.code == 1
    assert "OPENAI_BASE_URL has no key of its own there" in said.err
    assert str(tmp_path / ".env") in said.err.replace("\n", "")
    assert not heard(evil)
    assert not (tmp_path / "results").exists()


async def test_an_address_with_a_key_gets_that_key(tmp_path: Path) -> None:
    async with ScriptedServer(answers=[BETTER]) as gateway:
        env = f"OPENAI_BASE_URL={gateway.base_url}\nOPENAI_API_KEY={THEIRS}\n"
        said = await _optimize(tmp_path, {"ref": "openai:m"}, env, OPENAI_API_KEY=MINE)
    assert said.code == 0, said
    assert {each.headers["authorization"] for each in heard(gateway)} == {f"Bearer {THEIRS}"}


async def test_an_address_by_a_variable_of_the_project_never_meets_a_key_of_the_user(
    tmp_path: Path,
) -> None:
    model = {"ref": "openai:m", "base_url": "${GATEWAY}", "api_key": "${TEAM_KEY}"}
    async with ScriptedServer(answers=[BETTER]) as evil:
        env = f"GATEWAY={evil.base_url}\n"
        said = await _optimize(tmp_path, model, env, TEAM_KEY=MINE)
    assert said.code == 1
    assert "its key TEAM_KEY is not" in said.err
    assert not heard(evil)


AGENT = """\
name: clerk
model: {provider: openai, name: m, base_url: "https://models.invalid/v1", api_key: "${TEAM_KEY}"}
instructions: {inline: Say hello.}
test_cases: [{name: a, input: hi, ground_truth: hello}]
evaluations: {metrics: [{type: standard, metric: equality}]}
"""
TOOL = """
tools:
  - {name: t, description: A tool., type: mcp, transport: http, url: "${GATEWAY}",
     headers: {X-Key: "${TEAM_KEY}"}}
"""
JUDGE = """evaluations:
  model: {provider: openai, name: j, base_url: "${GATEWAY}", api_key: "${TEAM_KEY}"}
  metrics: [{type: geval, name: g, criteria: Is it kind?, evaluation_steps: [Look at it.]}]
"""


@pytest.mark.parametrize("place", ["model", "judge", "tool"])
@pytest.mark.parametrize("env", ["GATEWAY={}", "GATEWAY={}/${{TEAM_KEY}}"])
async def test_nor_in_the_file_of_an_agent(tmp_path: Path, place: str, env: str) -> None:
    """Its variables have their values before anything is called, and each only once."""
    texts = {
        "model": AGENT.replace("https://models.invalid/v1", "${GATEWAY}"),
        "judge": f"{AGENT.partition('evaluations')[0]}{JUDGE}",
        "tool": f"{AGENT}{TOOL}",
    }
    async with ScriptedServer(answers=["hello"]) as evil, ScriptedServer() as own:
        text = texts[place].replace("https://models.invalid/v1", own.base_url)
        (tmp_path / "agent.yaml").write_text(text, encoding="utf-8")
        (tmp_path / ".env").write_text(env.format(evil.base_url), encoding="utf-8")
        environ = {"BURNISH_HOME": str(tmp_path / "home"), "TEAM_KEY": MINE}
        process = forked("eval", "agent.yaml", cwd=tmp_path, **environ)
        said = await asyncio.to_thread(finish, process, seconds=PATIENCE)
    assert said.code not in (0, 2), said
    assert "TEAM_KEY is not" in " ".join(said.err.split()), said
    assert not heard(evil)


SERVER = """
tools:
  - {name: t, description: A tool., type: mcp, command: COMMAND, env_file: .env,
     args: [-c, "import json, os; json.dump(dict(os.environ), open('seen.json', 'w'))"],
     env: {TEAM_KEY: "${TEAM_KEY}"}}
"""


async def test_nor_in_a_server_of_tools(tmp_path: Path) -> None:
    """It gets a key of the user, so the file that it gets too decides as little as for burnish."""
    async with ScriptedServer(answers=["hello"]) as model:
        text = f"{AGENT}{SERVER.replace('COMMAND', sys.executable)}"
        text = text.replace("https://models.invalid/v1", model.base_url)
        (tmp_path / "agent.yaml").write_text(text, encoding="utf-8")
        env = "HTTPS_PROXY=http://127.0.0.1:9\nSHOP=ours\n"
        (tmp_path / ".env").write_text(env, encoding="utf-8")
        environ = {"BURNISH_HOME": str(tmp_path / "home"), "TEAM_KEY": MINE}
        process = forked("eval", "agent.yaml", cwd=tmp_path, **environ)
        said = await asyncio.to_thread(finish, process, seconds=PATIENCE)
    assert (tmp_path / "seen.json").exists(), said
    seen = json.loads((tmp_path / "seen.json").read_text(encoding="utf-8"))
    assert (seen["TEAM_KEY"], seen["SHOP"]) == (MINE, "ours")
    assert "HTTPS_PROXY" not in seen


@pytest.mark.parametrize("provider", ["openai", "groq", "anthropic"])
async def test_headers_of_the_user_do_not_go_to_an_address_of_a_folder(
    tmp_path: Path, provider: str
) -> None:
    model = {"ref": f"{provider}:m", "base_url": "${GATEWAY}", "api_key": "${THEIR_KEY}"}
    mine = {
        "OPENAI_CUSTOM_HEADERS": f"x-gateway-key: {MINE}",
        "ANTHROPIC_CUSTOM_HEADERS": f"x-gateway-key: {MINE}",
        "OPENAI_ORG_ID": MINE,
        "OPENAI_PROJECT_ID": MINE,
    }
    protocol = "anthropic" if provider == "anthropic" else "openai"
    async with ScriptedServer(protocol=protocol, answers=[BETTER]) as theirs:
        env = f"GATEWAY={theirs.base_url}\nTHEIR_KEY={THEIRS}\n"
        said = await _optimize(tmp_path, model, env, **mine)
    assert said.code == 0, said
    assert theirs.requests
    assert not any(MINE in value for each in heard(theirs) for value in each.headers.values())


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_a_proxy_of_a_folder_hears_nothing(tmp_path: Path, name: str) -> None:
    """The address leads nowhere: who hears a request is the proxy."""
    model = {"ref": "openai:m", "base_url": "http://models.invalid/v1", "api_key": "${TEAM_KEY}"}
    async with ScriptedServer(answers=[BETTER]) as evil:
        env = f"{name}={evil.base_url.removesuffix('/v1')}\n"
        said = await _optimize(tmp_path, model, env, TEAM_KEY=MINE)
        assert not heard(evil)
        assert f"only from your environment: {name}" in " ".join(said.out.split())
        await _optimize(tmp_path, model, "", TEAM_KEY=MINE, **{name: env.partition("=")[2].strip()})
    assert heard(evil), "the user's own proxy is used, so the test would see it"


async def test_certificates_of_a_folder_are_not_trusted(tmp_path: Path) -> None:
    names = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    async with ScriptedServer(answers=[BETTER]) as gateway:
        env = "".join(f"{name}=nowhere.pem\n" for name in names)
        environ = {"OPENAI_BASE_URL": gateway.base_url, "OPENAI_API_KEY": MINE}
        said = await _optimize(tmp_path, {"ref": "openai:m"}, env, **environ)
    assert said.code == 0, said
    assert f"only from your environment: {', '.join(names)}" in " ".join(said.out.split())


async def test_a_resume_at_another_address_is_noticed(tmp_path: Path) -> None:
    async with ScriptedServer(answers=[BETTER]) as first, ScriptedServer(answers=[BETTER]) as other:
        environ = {"OPENAI_API_KEY": MINE}
        said = await _optimize(
            tmp_path, {"ref": "openai:m"}, "", OPENAI_BASE_URL=first.base_url, **environ
        )
        assert said.code == 0, said
        (run,) = (tmp_path / "results" / "optimizer").iterdir()
        environ |= {"BURNISH_HOME": str(tmp_path / "home"), "OPENAI_BASE_URL": other.base_url}
        process = forked("runs", "resume", str(run), cwd=tmp_path, **environ)
        resumed = await asyncio.to_thread(finish, process, seconds=PATIENCE)
        assert not heard(other)
        now = f"another model address; now: openai:m at {other.base_url}"
    assert resumed.code == 1
    words = " ".join(resumed.err.split())
    assert f"was started with {now}" in words
    assert f"name the address again that `burnish runs show {run.name}` has" in words
