"""Keys that somebody wrote out in a file: run.json names their place, and a resume reads them."""

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import ConfigError, ResumeRefused
from burnish.projects.description import describe, from_stored
from burnish.projects.dialects import Document
from burnish.projects.launch import load_project
from burnish.runs.build import kept_spec
from burnish.runs.draft import LITERAL
from burnish.server.apps import FileApp
from burnish.server.runs import Datasets
from tests.projects.prompts.prompt_world import models, reflector

KEY = "sk-abcdefghijklmnop0123456789ABCD"
ADDRESS = "http://127.0.0.1:9/a"
ASKED = {"question": "{{input}}"}
TARGETS: dict[str, Any] = {
    "address": {"http": {"url": f"{ADDRESS}?api_key={KEY}", "body": ASKED}},
    "body": {"http": {"url": ADDRESS, "body": {**ASKED, "access": KEY}}},
    "argument": {"command": {"command": ["true", "--key", KEY]}},
}
"""Headers and variables of a command are not among them: a key there is refused at once."""


def prompts(folder: Path, target: Any) -> Path:
    (folder / "system.md").write_text("Answer.\n", encoding="utf-8")
    for name in ("train", "holdout"):
        row = {"input": f"{name}?", "expected": name}
        (folder / f"{name}.jsonl").write_text(f"{json.dumps(row)}\n", encoding="utf-8")
    data = {
        "kind": "prompts",
        "target": target,
        "prompts": {"system": "system.md"},
        "train": "train.jsonl",
        "holdout": "holdout.jsonl",
        "metrics": [{"type": "standard", "metric": "equality"}],
        "reflector": "openai:m",
    }
    file = folder / "prompts.yaml"
    file.write_text(json.dumps(data, indent=1), encoding="utf-8")
    return file


def kept(file: Path, **flags: Any) -> tuple[Any, Any]:
    """What is described, and what run.json keeps of it."""
    description = describe(Document.read(file), flags, environ={})
    return description.spec, json.loads(json.dumps(kept_spec(description)))


@pytest.mark.parametrize("name", TARGETS)
def test_a_run_with_such_a_key_can_be_built(name: str, tmp_path: Path) -> None:
    setup = load_project(prompts(tmp_path, TARGETS[name]), {}, models=models(reflector())).setup
    assert KEY not in json.dumps(setup.project.spec)
    assert LITERAL in json.dumps(setup.project.spec)


@pytest.mark.parametrize("name", TARGETS)
def test_a_key_is_kept_as_its_place_and_read_again(name: str, tmp_path: Path) -> None:
    file = prompts(tmp_path, TARGETS[name])
    spec, data = kept(file)
    assert KEY not in json.dumps(data)
    assert from_stored(data, {}).spec == spec
    file.write_text(file.read_text(encoding="utf-8").replace(KEY, f"{KEY}-new"), encoding="utf-8")
    assert f"{KEY}-new" in json.dumps(from_stored(data, {}).spec.to_json())


def test_a_key_that_is_gone_is_missed_with_its_place(tmp_path: Path) -> None:
    file = prompts(tmp_path, TARGETS["address"])
    data = kept(file)[1]
    prompts(tmp_path, TARGETS["argument"])
    words = r"the key that was in .*prompts\.yaml at target\.http\.url is gone"
    with pytest.raises(ResumeRefused, match=words):
        from_stored(data, {})


def test_a_key_by_flag_is_kept_nowhere(tmp_path: Path) -> None:
    file = prompts(tmp_path, {"python": "an_agent:reply"})
    model = {"provider": "openai", "name": "m", "base_url": f"http://u:{KEY}@127.0.0.1:9"}
    data = kept(file, set=[f"roles.reflector={json.dumps(model)}"])[1]
    assert KEY not in json.dumps(data)
    with pytest.raises(ResumeRefused, match="was passed by hand and is not stored"):
        from_stored(data, {})


def test_a_key_is_not_passed_on_to_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-reflector-0123456789")
    file = prompts(tmp_path, TARGETS["address"])
    app = FileApp(name="app", path=file, datasets=Datasets(folder=tmp_path / "datasets"))
    with pytest.raises(ConfigError, match="a key is written here in plain text") as error:
        app.plan({})
    (problem,) = error.value.problems
    assert problem.where == "target.agent.http.url"
    assert KEY not in str(error.value)
