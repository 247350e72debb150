"""What the doctor finds out: each thing with its remedy, in bounded time, never a key."""

import re
import socket
import sys
import threading
import time
import tomllib
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from burnish.models.health import HealthFinding, HealthSite, examine, is_healthy
from burnish.projects.starters.detection import offered_models
from burnish.system.extras import PURPOSES, extra_named, packages_of

pytestmark = pytest.mark.slow

KEYS = {
    "OPENAI_API_KEY": "sk-canary-openai-0123456789",
    "ANTHROPIC_API_KEY": "canary-anthropic-0123456789",
    "GOOGLE_API_KEY": "canary-google-0123456789",
}


class _Server(ThreadingHTTPServer):
    """Answers every question with one status and one body, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.body, self.headers = status, body, headers
        self.asked: list[tuple[str, dict[str, str]]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        server.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
        self.send_response(server.status)
        for name, value in server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(server.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


ADDRESSES = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "OLLAMA_BASE_URL")


@contextmanager
def serving(
    status: int = 200, body: bytes = b"{}", **headers: str
) -> Generator[_Server, None, None]:
    with _Server(status, body, headers) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def _nowhere() -> str:
    """An address where nobody listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as gone:
        return f"http://127.0.0.1:{gone.getsockname()[1]}"


@pytest.fixture
def site(tmp_path: Path) -> HealthSite:
    (tmp_path / ".git").mkdir()
    return _site(tmp_path)


def _site(folder: Path, environ: Mapping[str, str] | None = None, at: str = "") -> HealthSite:
    addresses = dict.fromkeys(ADDRESSES, at or _nowhere())
    environ = {"BURNISH_HOME": str(folder / "home"), **addresses, **(environ or {})}
    return HealthSite.of(folder, folder / "home", environ)


def _one(found: list[HealthFinding], name: str) -> HealthFinding:
    (finding,) = (each for each in found if each.name == name)
    return finding


def test_a_bare_machine_is_healthy(site: HealthSite) -> None:
    found = examine(site)
    assert is_healthy(found)
    assert {each.area for each in found} == {
        "machine",
        "storage",
        "libraries",
        "extras",
        "isolation",
        "keys",
        "models",
    }
    assert all(each.remedy for each in found if each.state != "ok")
    assert "wal mode in this folder" in _one(found, "journal").told
    model = _one(found, "local:smollm2")
    assert "burnish models pull smollm2" in model.remedy


def test_every_library_that_burnish_needs_is_looked_for(site: HealthSite) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    needed = {re.split("[>=<]", each)[0].replace(".", "-") for each in project["dependencies"]}
    looked_for = [each for each in examine(site) if each.area == "libraries"]
    assert {each.name.replace(".", "-") for each in looked_for} == needed
    assert all(each.needed and each.state == "ok" for each in looked_for)


def test_nothing_is_left_behind(site: HealthSite) -> None:
    before = sorted(site.folder.rglob("*"))
    examine(site)
    assert sorted(site.folder.rglob("*")) == before


@pytest.mark.parametrize("folder", ["/proc/self", "gone"])
def test_a_folder_that_cannot_be_written_to(site: HealthSite, folder: str) -> None:
    found = examine(replace(site, folder=site.folder / folder))
    journal = _one(found, "journal")
    assert journal.state == "wrong"
    assert journal.needed
    assert not is_healthy(found)


def test_a_home_that_is_a_file(site: HealthSite, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    found = examine(replace(site, home=tmp_path / "taken" / "burnish"))
    home = _one(found, "home")
    assert home.state == "wrong"
    assert "BURNISH_HOME" in home.remedy
    assert not is_healthy(found)


def test_a_model_file_that_is_none(site: HealthSite) -> None:
    models = site.home / "models"
    models.mkdir(parents=True)
    (models / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"not a model at all" * 10)
    model = _one(examine(site), "local:smollm2")
    assert model.state == "wrong"
    assert "not a GGUF model" in model.told


def test_keys_are_named_with_their_source(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=from-the-file\nGEMINI_API_KEY=also-there\n")
    found = examine(_site(tmp_path, {"OPENAI_API_KEY": "mine", "ANTHROPIC_API_KEY": " "}))
    assert _one(found, "OPENAI_API_KEY").told == "set, from environment"
    assert _one(found, "GEMINI_API_KEY").told == "set, from .env"
    assert _one(found, "ANTHROPIC_API_KEY").state == "absent"
    assert not any(each.name == "GOOGLE_API_KEY" for each in found)
    loaded = _site(tmp_path, {"OPENAI_API_KEY": "from-the-file"})
    assert _one(examine(loaded), "OPENAI_API_KEY").told == "set, from .env"


def test_a_bad_dotenv_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("GOOD=1\ncanary-0123456789\n")
    found = examine(_site(tmp_path))
    dotenv = _one(found, ".env")
    assert dotenv.state == "wrong"
    assert ".env:2" in dotenv.told
    assert "canary" not in str(found)


def test_ollama_answers(tmp_path: Path) -> None:
    with serving(body=b'{"models": [{"name": "a"}, {"name": "b"}]}') as server:
        finding = _one(examine(_site(tmp_path, at=f"{server.address}/v1")), "ollama:…")
    assert finding.state == "ok"
    assert finding.told == f"answers at {server.address}; models: 2"
    assert [path for path, _ in server.asked] == ["/api/tags"]


def test_a_running_ollama_is_offered(tmp_path: Path) -> None:
    with serving(body=b'{"models": [{"name": "a"}]}') as server:
        offered = offered_models(_site(tmp_path, at=f"{server.address}/v1"))
    reasons = {choice.label: choice.reason for choice in offered}
    assert reasons["ollama:a"] == f"it runs at {server.address}/v1"


@pytest.mark.parametrize("body", [b"", b"no JSON", b"[]", b'{"models": 3}', b"\xff" * 10])
def test_an_ollama_that_talks_nonsense(tmp_path: Path, body: bytes) -> None:
    with serving(body=body) as server:
        finding = _one(examine(_site(tmp_path, at=server.address)), "ollama:…")
    assert finding.told.endswith("models: 0")


def test_an_ollama_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        finding = _one(examine(_site(tmp_path, at=address)), "ollama:…")
    assert time.monotonic() - started < 120
    assert finding.state == "absent"
    assert "no answer within 1 s" in finding.told


def test_without_online_no_provider_is_asked(tmp_path: Path) -> None:
    with serving() as server:
        examine(_site(tmp_path, KEYS, at=server.address))
    assert [path for path, _ in server.asked] == ["/api/tags"]


def test_online_asks_each_provider_that_has_a_key(tmp_path: Path) -> None:
    with serving() as server:
        found = examine(_site(tmp_path, KEYS, at=server.address), ask_providers=True)
    for provider in ("openai", "anthropic", "google"):
        assert _one(found, f"{provider}:…").state == "ok"
    assert "not checked" in _one(found, "azure:…").told
    asked = dict(server.asked)
    assert asked["/models"]["authorization"] == f"Bearer {KEYS['OPENAI_API_KEY']}"
    assert asked["/v1/models?limit=1"]["x-api-key"] == KEYS["ANTHROPIC_API_KEY"]
    assert asked["/v1beta/models?pageSize=1"]["x-goog-api-key"] == KEYS["GOOGLE_API_KEY"]


def test_online_without_keys_asks_nobody(site: HealthSite) -> None:
    found = examine(site, ask_providers=True)
    assert _one(found, "openai:…").told == "not checked: there is no key"


@pytest.mark.parametrize(
    ("status", "told"),
    [(401, "refuses the key"), (403, "refuses the key"), (429, "HTTP 429"), (503, "HTTP 503")],
)
def test_a_provider_that_says_no(tmp_path: Path, status: int, told: str) -> None:
    echo = str(KEYS).encode()
    with serving(status, body=echo) as server:
        found = examine(_site(tmp_path, KEYS, at=server.address), ask_providers=True)
    for provider in ("openai", "anthropic", "google"):
        finding = _one(found, f"{provider}:…")
        assert finding.state == "wrong"
        assert told in finding.told
        assert finding.remedy
    assert is_healthy(found)
    assert "canary" not in str(found)


def test_no_key_follows_a_redirect(tmp_path: Path) -> None:
    with serving() as elsewhere, serving(302, Location=elsewhere.address) as server:
        found = examine(_site(tmp_path, KEYS, at=server.address), ask_providers=True)
    assert elsewhere.asked == []
    assert "HTTP 302" in _one(found, "openai:…").told


def test_nobody_there(tmp_path: Path) -> None:
    found = examine(_site(tmp_path, KEYS), ask_providers=True)
    assert "nothing is listening there" in _one(found, "anthropic:…").told


def test_everything_that_hangs_is_bounded_together(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        found = examine(_site(tmp_path, KEYS, at=address), ask_providers=True)
    assert time.monotonic() - started < 120
    assert "no answer within" in _one(found, "google:…").told


@pytest.mark.parametrize("key", ["canary\r\nX-More: 1", "canary-ключ"])
def test_a_key_that_no_header_can_carry(tmp_path: Path, key: str) -> None:
    with serving() as server:
        site = _site(tmp_path, {"OPENAI_API_KEY": key}, at=server.address)
        found = examine(site, ask_providers=True)
    finding = _one(found, "openai:…")
    assert finding.state == "wrong"
    assert "canary" not in str(found)
    assert [path for path, _ in server.asked] == ["/api/tags"]


def test_no_finding_holds_a_key(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("AZURE_OPENAI_API_KEY='canary-azure-0123456789'\n")
    site = _site(tmp_path, KEYS)
    told = str(examine(site, ask_providers=True)) + repr(site)
    assert "canary" not in told
    for key in KEYS.values():
        assert f" {len(key)} " not in told


def test_every_extra_is_listed_with_what_it_is_for(site: HealthSite) -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    offered = {*project["optional-dependencies"]} - {"all", "dev", "docs"}
    listed = {each.name for each in examine(site) if each.area == "extras"}
    assert listed == offered == {*PURPOSES}
    # The versions that these need do not fit beside ours.
    apart = {"crewai", "dspy", "gepa", "google-adk", "mlflow", "openai-agents", "wandb"}
    for name in offered - apart:
        assert not extra_named(name).missing, name


def test_an_extra_whose_packages_are_absent_names_its_command(tmp_path: Path) -> None:
    home = tmp_path / "burnish_other-1.dist-info"
    home.mkdir()
    lines = ["Metadata-Version: 2.1", "Name: burnish-other", "Version: 1"]
    lines += ["Requires-Dist: rich", 'Requires-Dist: no-such-package[x]>=2; extra == "more"']
    lines += ["Requires-Dist: never; extra == 'more' and sys_platform == 'win32'"]
    (home / "METADATA").write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(tmp_path), *sys.path])
        assert packages_of("burnish-other", "more") == ("no-such-package",)
