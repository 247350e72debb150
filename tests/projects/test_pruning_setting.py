"""Who prunes: nobody, unless a file, a flag or a request says so."""

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.compat.promptiter.requests import BurnishOptions, RunRequest, settings_data
from burnish.projects.agent.dialect import AgentFile
from burnish.projects.description import describe, from_stored
from burnish.projects.dialects import Dialect, Document
from burnish.projects.file_kinds import GraphFile, PromptsFile, SuiteFile, TaskFile
from burnish.projects.optimizer_config import OptimizerFile
from burnish.runs.plugins import strategy_plugin
from burnish.runs.spec import AnySpec
from burnish.system import YamlTree
from tests.projects.artifacts.task_world import TASK
from tests.projects.prompts.prompt_world import set_algorithm, write_config

PROMPTS: dict[str, Any] = {
    "kind": "prompts",
    "target": {"python": "agent:answer"},
    "prompts": {"words": "words.md"},
    "train": "train.jsonl",
    "holdout": "val.jsonl",
}


def _described(data: dict[str, Any], dialect: Dialect, **flags: Any) -> AnySpec:
    tree = YamlTree(path=Path("file.yaml"), data=data, text="")
    document = Document(path=Path("file.yaml"), tree=tree)
    return describe(document, flags, environ={}, dialect=dialect).spec


@pytest.mark.parametrize("kind", [PromptsFile, GraphFile, TaskFile, AgentFile, SuiteFile])
def test_no_kind_of_file_switches_it_on(kind: type[Dialect]) -> None:
    assert not strategy_plugin(kind.strategy).Settings.model_validate({}).model_dump().get("prune")


def test_it_is_off_where_a_file_does_not_say() -> None:
    spec = _described(PROMPTS, PromptsFile())
    assert not spec.strategy.settings.prune
    assert not _described(TASK, TaskFile()).strategy.settings.prune


def test_files_and_flags_switch_it_on_and_run_json_says_so() -> None:
    on = {**PROMPTS, "reflective": {"prune": True}}
    assert _described(on, PromptsFile()).strategy.settings.prune
    assert _described({**TASK, "prune": True}, TaskFile()).strategy.settings.prune
    spec = _described(PROMPTS, PromptsFile(), set=["prune=true"])
    stored = json.loads(json.dumps(spec.to_json()))
    assert from_stored(stored, {}).spec.strategy.settings.prune
    del stored["strategy"]["settings"]["prune"]
    assert not from_stored(stored, {}).spec.strategy.settings.prune


@pytest.mark.parametrize("prunes", [False, True])
def test_optimizer_json_opts_in(tmp_path: Path, prunes: bool) -> None:
    changes = [set_algorithm(prune=True)] if prunes else []
    document = Document.read(write_config(tmp_path, *changes))
    spec = describe(document, {}, environ={}, dialect=OptimizerFile()).spec
    assert spec.strategy.settings.prune is prunes


@pytest.mark.parametrize("prunes", [False, True])
def test_promptiter_requests_opt_in(prunes: bool) -> None:
    request = RunRequest(burnish=BurnishOptions(prune=True)) if prunes else RunRequest()
    assert settings_data(request)["prune"] is prunes
