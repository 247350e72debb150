"""Which proposers take part in `auto`: what fits the target, or those that a file names."""

from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.projects.launch import LoadedProject
from burnish.strategies.auto.search import Auto
from tests.projects.test_confirm_setting import PROMPTS, loaded

TWO = PROMPTS.replace("prompts: {system: prompt.txt}", "prompts: {a: prompt.txt, b: other.txt}")


def proposers(project: LoadedProject) -> list[str]:
    strategy = project.setup.strategy
    assert isinstance(strategy, Auto)
    return [offer.name for offer in strategy.offers]


def test_one_text_is_rewritten_or_gets_examples(tmp_path: Path) -> None:
    assert proposers(loaded(tmp_path, PROMPTS)) == ["reflection", "examples"]


def test_of_several_texts_nobody_knows_which_needs_examples(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("Answer shortly.", encoding="utf-8")
    assert "examples" not in proposers(loaded(tmp_path, TWO))


def test_a_file_may_name_those_that_take_part(tmp_path: Path) -> None:
    named = f"{PROMPTS}auto: {{proposers: [reflection]}}\n"
    assert proposers(loaded(tmp_path, named)) == ["reflection"]


def test_an_unknown_name_is_an_error_that_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        loaded(tmp_path, f"{PROMPTS}auto: {{proposers: [shuffle]}}\n")
    (problem,) = raised.value.problems
    assert problem.where == "project.yaml:9 auto.proposers"
    assert problem.message == "there is no proposer 'shuffle' for this target"
    assert problem.remedy == "take some of reflection or examples"


def test_without_a_model_that_writes_the_file_says_so(tmp_path: Path) -> None:
    alone = PROMPTS.replace("reflector: {provider: openai, name: writer}\n", "")
    with pytest.raises(ConfigError, match="there is no model to rewrite prompts"):
        loaded(tmp_path, alone)
