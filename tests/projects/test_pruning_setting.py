"""Who prunes: burnish's own files by default, the formats of other systems if they say so."""

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


def test_files_of_burnish_prune_and_say_so_in_run_json() -> None:
    spec = _described(PROMPTS, PromptsFile())
    assert spec.strategy.settings.prune
    assert spec.to_json()["strategy"]["settings"]["prune"] is True  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]
    assert _described(TASK, TaskFile()).strategy.settings.prune
    assert GraphFile.settings == {"prune": True}


def test_they_can_switch_it_off() -> None:
    off = {**PROMPTS, "reflective": {"prune": False}}
    assert not _described(off, PromptsFile()).strategy.settings.prune
    assert not _described({**TASK, "prune": False}, TaskFile()).strategy.settings.prune
    by_flag = _described(PROMPTS, PromptsFile(), set=["prune=false"])
    assert not by_flag.strategy.settings.prune


def test_a_description_from_before_there_was_a_pass_has_none() -> None:
    spec = _described(PROMPTS, PromptsFile())
    stored = json.loads(json.dumps(spec.to_json()))
    assert from_stored(stored, {}).spec.strategy.settings.prune
    del stored["strategy"]["settings"]["prune"]
    assert not from_stored(stored, {}).spec.strategy.settings.prune


def test_agent_files_and_suites_keep_the_rules_of_their_systems() -> None:
    assert "prune" not in AgentFile.settings
    assert "prune" not in SuiteFile.settings


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
