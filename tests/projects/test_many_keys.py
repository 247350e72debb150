"""Files with very many keys that nothing knows, or items that nothing can read."""

from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.projects.launch import load_project
from burnish.targets.prompts.target_prompt import surfaces_of

PROMPTS = """\
kind: prompts
target: {python: "m:agent"}
prompts: {a: a.txt}
train: train.jsonl
"""
TASK = "artifacts: {include: [a]}\nrunner: {command: x}\nscorer: {command: x}\n"
AGENT = "name: a\nmodel: {provider: openai, name: gpt-4o}\ninstructions: {inline: hi}\n"
GRAPH = "kind: graph\nname: g\nnodes: {a: {instructions: hi}}\n"


def problems(tmp_path: Path, text: str, name: str = "f.yaml") -> list[str]:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_project(path, {})
    return [str(each) for each in caught.value.problems]


def keys(count: int, indent: int = 0) -> str:
    return "".join(f"{' ' * indent}colour_{n}: 1\n" for n in range(count))


@pytest.mark.parametrize(
    "text",
    [
        PROMPTS + "%s",
        PROMPTS + "budget:\n%s",
        PROMPTS + "reflective:\n%s",
        PROMPTS + "backprop:\n%s",
        PROMPTS + "retry:\n%s",
        PROMPTS.replace('{python: "m:agent"}', "\n  http:\n    url: http://x\n%s"),
        TASK + "%s",
        TASK + "mutation:\n%s",
        GRAPH + "%s",
        GRAPH + "optimizer:\n%s",
        AGENT + "%s",
        "name: s\ntasks: []\n%s",
    ],
)
def test_unknown_keys_are_named_up_to_ten_and_then_counted(tmp_path: Path, text: str) -> None:
    indent = 4 if "url" in text else 2 if text.endswith(":\n%s") else 0
    few = problems(tmp_path, text % keys(300, indent))
    assert len(few) == 11
    assert sum("unknown key 'colour_" in each for each in few) in range(7, 11)
    assert few[-1].startswith("and 29")
    many = problems(tmp_path, text % keys(1_001, indent))
    assert len(many) <= 11
    if text != AGENT + "%s":
        assert any("keys; a block of settings has at most 1,000" in each for each in many)
        assert not any("unknown key" in each for each in many)


def test_data_of_users_has_no_bound_of_keys(tmp_path: Path) -> None:
    prompts = "".join(f"  p{n}: p{n}.txt\n" for n in range(1_500))
    found = problems(tmp_path, PROMPTS.replace("prompts: {a: a.txt}", f"prompts:\n{prompts}"))
    assert not any("keys;" in each for each in found)


def test_wrong_items_are_named_up_to_ten_and_then_counted(tmp_path: Path) -> None:
    found = problems(tmp_path, f"{PROMPTS}metrics:\n" + "- 7\n" * 2_000)
    assert found[0].startswith("f.yaml:6 metrics[0]: expected a mapping, found 7")
    assert found[-1].startswith("and 1,99")
    assert len(found) == 11


def test_of_very_many_nodes_a_few_are_listed(tmp_path: Path) -> None:
    node = "{model: {provider: openai, name: gpt-4o}, instructions: {inline: hi}}"
    nodes = "".join(f"  node_{n}: {node}\n" for n in range(300))
    edges = "".join(f"- {{from: node_{n}, to: elsewhere_{n}}}\n" for n in range(299))
    text = f"kind: graph\nname: g\nnodes:\n{nodes}edges:\n{edges}"
    found = problems(tmp_path, text)
    assert found[0].startswith("f.yaml edge node_0 -> elsewhere_0: there is no node")
    assert found[-1].startswith("and 29")
    assert all(len(each) < 300 for each in found)


def test_of_very_many_prompts_a_few_are_listed(tmp_path: Path) -> None:
    names = [f"prompt_{n}" for n in range(300)]
    with pytest.raises(ConfigError) as caught:
        surfaces_of(dict.fromkeys(names, "Answer."), max_chars=None, frozen={"zebra": ["x"]})
    assert "there are: prompt_0, " in str(caught.value)
    assert len(str(caught.value)) < 300
