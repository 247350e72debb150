"""Providers: one row each, ours and that of a package which was written for this test only."""

import json
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.models import providers
from burnish.models.providers import BUILT_IN, Provider, all_providers, find_provider
from burnish.testing import check_provider
from burnish.testing.servers import ScriptedServer
from tests.cli.console import START, Said, finish, forked
from tests.cli.served_echo import hosted

KEY = "acme-key-0123456789"
MODULE = """\
import os
from burnish.models.providers import HealthRequest, Price, Provider

PROVIDER = Provider(
    name="acme",
    aliases=("acme_cloud",),
    address=os.environ["ACME_ADDRESS"],
    hosts=("127.0.0.1",),
    key_variables=("ACME_KEY",),
    prices={"big": Price(input_per_million=1000, output_per_million=2000)},
    probe=HealthRequest(path="/api/tags", drop="/v1", key_header="x-acme-key"),
    has_embeddings=True,
)
"""
AGENT = """\
name: clerk
model: MODEL
instructions: {inline: Answer.}
evaluations:
  metrics:
    - {type: geval, name: polite, criteria: Is it polite?, evaluation_steps: [Look at it.],
       threshold: 0.5}
test_cases:
  - {input: "Is it open?", ground_truth: "yes"}
"""
CHECK = """\
from burnish.models.providers import find_provider
from burnish.testing import check_provider
check_provider(find_provider("acme"))
"""


def package(folder: Path, module: str = MODULE, name: str = "acme") -> Path:
    """A distribution of one module and one entry point, as pip would install it."""
    (folder / f"{name}_burnish.py").write_text(module, encoding="utf-8")
    meta = folder / f"{name}_burnish-1.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-burnish\nVersion: 1\n")
    points = f"[burnish.providers]\n{name} = {name}_burnish:PROVIDER\n"
    (meta / "entry_points.txt").write_text(points)
    return folder


class World:
    """A folder with an agent, the package beside it, and an endpoint on this machine."""

    def __init__(self, folder: Path, site: Path, server: ScriptedServer, address: str) -> None:
        self.folder, self.server = folder, server
        self._environ = {"PYTHONPATH": str(site), "ACME_ADDRESS": address, "ACME_KEY": KEY}

    def run(self, *args: str, start: str = START, **environ: str) -> Said:
        told = {**self._environ, **environ}
        return finish(forked(*args, cwd=self.folder, start=start, **told))

    def agent(self, model: str) -> None:
        (self.folder / "agent.yaml").write_text(AGENT.replace("MODEL", model), encoding="utf-8")


@pytest.fixture
def world(tmp_path: Path) -> Generator[World, None, None]:
    site, folder = tmp_path / "site", tmp_path / "work"
    site.mkdir()
    folder.mkdir()
    verdict = '{"score": 10, "reasoning": "it is"}'
    server = ScriptedServer(
        answers=lambda asked: verdict if asked.json["model"] == "judge" else "yes"
    )
    with hosted(server) as address:
        yield World(folder, package(site), server, address)


@pytest.mark.parametrize("row", BUILT_IN, ids=lambda row: row.name)
def test_ours_keep_the_contract(row: Provider) -> None:
    check_provider(row)


def test_ours_are_found_by_their_entry_point_once() -> None:
    assert all_providers()[: len(BUILT_IN)] == BUILT_IN
    names = [row.name for row in all_providers()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("alias", "name"), [("azure_openai", "azure"), ("gemini", "google"), ("openai", "openai")]
)
def test_a_provider_goes_by_several_names(alias: str, name: str) -> None:
    row = find_provider(alias)
    assert row is not None
    assert row.name == name


@pytest.mark.slow
def test_a_plug_in_keeps_the_contract(world: World) -> None:
    said = world.run(start=CHECK)
    assert (said.code, said.err) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("model", ["acme:big", "{provider: acme_cloud, name: big}"])
def test_a_plug_in_serves_files_and_flags_at_its_prices(world: World, model: str) -> None:
    world.agent(model)
    flags = ("--judge", "acme:judge", "--json", "report.json", "-q")
    said = world.run("eval", "agent.yaml", *flags)
    assert said.code == 0, said
    assert {request.json["model"] for request in world.server.requests} == {"big", "judge"}
    keys = {request.headers["authorization"] for request in world.server.requests}
    assert keys == {f"Bearer {KEY}"}
    report = json.loads((world.folder / "report.json").read_text())
    spent = report["totals"]["spent"]
    # Each model is asked once before the first case.
    assert spent["nano_usd"] == 2 * 13_000_000  # 7 tokens in and 3 out, by the agent
    assert spent["unpriced"] == 2  # the row has no price for the judge


@pytest.mark.slow
def test_a_plug_in_is_examined_and_listed(world: World) -> None:
    found = {
        each["name"]: each for each in world.run("doctor", "--online", "--json").json["findings"]
    }
    assert found["acme:…"]["told"] == "answers and accepts the key"
    assert found["ACME_KEY"]["told"] == "set, from environment"
    (probe,) = [each for each in world.server.requests if each.path == "/api/tags"]
    assert probe.headers["x-acme-key"] == KEY
    listed = {each["model"]: each["ready"] for each in world.run("models", "list", "--json").json}
    assert listed["acme:…"] is True


@pytest.mark.slow
def test_without_its_key_a_plug_in_says_which(world: World) -> None:
    world.agent("acme:big")
    said = world.run("eval", "agent.yaml", "--judge", "acme:judge", ACME_KEY="")
    assert said.code == 3
    assert "there is no key for acme:big" in said.err
    assert "set ACME_KEY" in said.err


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("raise RuntimeError('broken')", "it cannot be loaded: broken"),
        ("PROVIDER = 'acme'", "it is not a Provider"),
        (
            "from burnish.models.providers import Provider\nPROVIDER = Provider(name='openai')",
            "the provider 'openai' already exists",
        ),
    ],
)
def test_a_package_that_is_wrong_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, words: str
) -> None:
    name = f"wrong{abs(hash(words))}"
    monkeypatch.setattr(sys, "path", [str(package(tmp_path, module, name)), *sys.path])
    providers._plug_ins.cache_clear()  # pyright: ignore[reportPrivateUsage]
    try:
        with pytest.raises(ConfigError) as error:
            find_provider("nobody")
    finally:
        providers._plug_ins.cache_clear()  # pyright: ignore[reportPrivateUsage]
        sys.modules.pop(f"{name}_burnish", None)
    assert words in str(error.value)
    assert f"{name}_burnish:PROVIDER" in str(error.value)
