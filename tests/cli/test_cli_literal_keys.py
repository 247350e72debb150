"""A key that is written in plain text works, is warned about, and is in no file of the run."""

from pathlib import Path

import pytest

from burnish.testing.servers import ScriptedServer
from tests.cli.console import finish, forked
from tests.cli.served_echo import hosted

pytestmark = pytest.mark.slow
KEY = "plain-canary-0123456789"
AGENT = """\
name: clerk
model: {provider: openai, name: m, base_url: URL, api_key: KEY}
instructions: {inline: Answer.}
evaluations:
  metrics: [{type: standard, metric: equality}]
test_cases:
  - {input: "Is it open?", ground_truth: "yes"}
"""


@pytest.mark.parametrize("place", ["agent.yaml", "config.yaml"])
def test_a_key_in_plain_text(tmp_path: Path, place: str) -> None:
    server = ScriptedServer(answers=["yes"])
    with hosted(server) as url:
        text = AGENT.replace("URL", url)
        if place == "config.yaml":
            text = text.replace(f", base_url: {url}, api_key: KEY", "")
            entry = f"{{provider: openai, name: m, endpoint: '{url}', api_key: {KEY}}}"
            (tmp_path / place).write_text(f"providers:\n  ours: {entry}\n", encoding="utf-8")
        (tmp_path / "agent.yaml").write_text(text.replace("KEY", KEY), encoding="utf-8")
        flags = ("eval", "agent.yaml", "-o", "run")
        said = finish(forked(*flags, cwd=tmp_path, OPENAI_API_KEY=""))
    assert said.code == 0, said
    assert {asked.headers["authorization"] for asked in server.requests} == {f"Bearer {KEY}"}
    told = " ".join(f"{said.out} {said.err}".split())
    assert f"{place}:" in told
    assert "a key is written in plain text; put it in .env and write ${NAME}" in told
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    assert KEY not in told
