"""Snapshots, profiles and values of a target."""

from dataclasses import replace
from typing import Any, cast

import pytest

from burnish.compat.promptiter.shapes import Profile, SurfaceOverride, SurfaceValue
from burnish.compat.promptiter.snapshot import SurfaceMap
from burnish.core.content import Json
from burnish.core.errors import ConfigError
from burnish.core.surfaces import (
    Demonstration,
    DemosSurface,
    NumberSurface,
    Origin,
    SurfaceType,
    TextSurface,
)
from burnish.models.factory import Models
from burnish.targets.agent.files import Instructions
from burnish.targets.graph import Graph, GraphTarget, surfaces_of
from burnish.targets.graph.elements import Skill
from burnish.targets.graph.graphs import AgentNode
from burnish.testing import ScriptedTarget
from tests.compat.promptiter.desk import (
    CITE,
    MODEL,
    PLAN,
    SCHEMA,
    SHOTS,
    TOOL,
    VALUES,
    WRITE,
    WRITER,
    answer,
    desk,
)


def surface_map() -> SurfaceMap:
    return SurfaceMap.of(desk())


def profile(values: dict[str, Any], structure_id: str = "") -> Profile:
    given = {name: SurfaceValue.from_json(value) for name, value in values.items()}
    return Profile(
        structure_id=structure_id,
        overrides=tuple(SurfaceOverride(surface_id=n, value=v) for n, v in given.items()),
    )


def test_a_snapshot_has_every_position_in_its_branch() -> None:
    found = surface_map().snapshot
    assert found.structure_id.startswith("struct_")
    assert [node.node_id for node in found.nodes] == ["desk/planner", "desk/search", "desk/writer"]
    assert [node.kind for node in found.nodes] == ["agent", "function", "agent"]
    values = {each.surface_id: each.value.to_json() for each in found.surfaces}
    assert list(values) == sorted(values)
    assert values[WRITE]["Text"] == "Write the answer."
    assert values[TOOL]["Tools"] == [
        {
            "ID": "lookup",
            "Description": "Looks things up.",
            "InputSchema": SCHEMA,
            "OutputSchema": None,
        }
    ]
    assert values[SHOTS]["FewShot"] == [
        {
            "Messages": [
                {"Role": "user", "Content": "hello"},
                {"Role": "assistant", "Content": "good day"},
            ]
        }
    ]
    assert values[MODEL]["Model"] == {"Provider": "openai", "Name": "gpt-4o"}
    assert values[f"{WRITER}#skill"]["Skills"] == [{"ID": "citing", "Description": "How to cite."}]
    assert all(len(value) == 6 for value in values.values())


def graph_map() -> SurfaceMap:
    """An agent with two skills, and a model whose numbers can be edited."""
    model = {"provider": "openai", "name": "m", "temperature": 0.3, "max_tokens": 20}
    graph = Graph("desk")
    graph.agent("clerk", model=cast("dict[str, Json]", model), instructions="Answer.")
    clerk = cast("AgentNode", graph.nodes["clerk"])
    skills = [
        Skill(name=name, path=f"{name}.md", content=Instructions(text=f"About {name}."))
        for name in ("tea", "coal")
    ]
    graph.nodes["clerk"] = replace(clerk, skills=tuple(skills))
    heat = surfaces_of(graph, ranges={"desk/clerk#model.temperature": (0, 1)})
    return SurfaceMap.of(GraphTarget(graph, Models(), surfaces=heat))


def test_the_normaliser_of_promptiter_accepts_a_snapshot() -> None:
    found = graph_map().snapshot
    plain = [(s.node_id, s.type) for s in found.surfaces if s.type is not SurfaceType.TOOL]
    assert len(plain) == len(set(plain)), "one surface of a type on a node"
    known = {"instruction", "global_instruction", "few_shot", "model", "tool", "skill"}
    assert {str(s.to_json()["Type"]) for s in found.surfaces} <= known
    skill = found.surface("desk/clerk#skill")
    assert skill is not None
    assert [each.id for each in skill.value.skills or ()] == ["coal", "tea"]


def test_the_whole_structure_has_every_skill_and_numbers_as_a_type() -> None:
    types = {s.surface_id: s.to_json()["Type"] for s in graph_map().whole.surfaces}
    assert types["desk/clerk#model.temperature"] == "number"
    assert types["desk/clerk#skill.tea"] == types["desk/clerk#skill.coal"] == "skill"


def test_a_trace_names_only_surfaces_of_the_snapshot() -> None:
    clerk = "desk/clerk"
    used = [f"{clerk}#instruction", f"{clerk}#skill.tea", f"{clerk}#skill.coal"]
    applied = graph_map().applied([*used, f"{clerk}#model.temperature"])
    assert applied == (f"{clerk}#instruction", f"{clerk}#skill")


def test_an_agent_alone_with_its_own_name_is_the_root() -> None:
    graph = Graph("candidate", global_instructions="Be kind.")
    graph.agent("candidate", model="openai:m", instructions="You are a helpful assistant.")
    target = GraphTarget(graph, Models(), surfaces=surfaces_of(graph))
    found = SurfaceMap.of(target).snapshot
    assert [node.node_id for node in found.nodes] == ["candidate"] == [found.entry_node_id]
    assert {"candidate#instruction", "candidate#global_instruction"} <= {
        each.surface_id for each in found.surfaces
    }
    texts = {"candidate#instruction": "Answer.", "candidate#global_instruction": "Be short."}
    assert not target.check(target.baseline.child(texts, origin=Origin(kind="proposal")))


def test_what_the_target_does_not_offer_is_known_and_no_target() -> None:
    assert sorted(surface_map().targets) == sorted(VALUES)
    assert MODEL not in surface_map().targets


def test_a_target_without_a_structure_is_one_node() -> None:
    plain = ScriptedTarget(
        respond=answer,
        surfaces=[
            TextSurface(id="system.md"),
            DemosSurface(id="shots", max_demos=2),
            NumberSurface(id="heat", low=0, high=1),
        ],
        values={"system.md": "Be kind.", "shots": (), "heat": 0.5},
    )
    found = SurfaceMap.of(plain)
    assert found.targets == {
        "agent#few_shot": "shots",
        "agent#instruction": "system.md",
        "agent#model.heat": "heat",
    }
    warmer = profile({"agent#model.heat": {"Text": "0.75"}})
    assert found.candidate(warmer).values["heat"] == 0.75


def test_a_profile_and_its_candidate_spell_each_other() -> None:
    found = surface_map()
    given = profile(
        {
            WRITE: {"Text": CITE},
            PLAN: {"Text": VALUES[PLAN]},
            TOOL: {"Tools": [{"ID": "lookup", "Description": "Finds sources."}]},
            SHOTS: {
                "FewShot": [
                    {
                        "Messages": [
                            {"Role": "user", "Content": "who?"},
                            {"Role": "assistant", "Content": "me"},
                        ]
                    }
                ]
            },
        }
    )
    candidate = found.candidate(given)
    assert candidate.values[WRITE] == CITE
    assert candidate.values[TOOL] == "Finds sources."
    assert candidate.values[SHOTS] == (Demonstration(input="who?", output="me"),)
    back = found.profile(candidate)
    assert [each.surface_id for each in back.overrides] == sorted([WRITE, TOOL, SHOTS])
    assert back.structure_id == found.structure.id
    assert found.candidate(back).id == candidate.id


def test_a_profile_that_changes_nothing_is_the_baseline() -> None:
    found = surface_map()
    same: dict[str, Any] = {
        each.surface_id: each.value.to_json() for each in found.snapshot.surfaces[:1]
    }
    assert found.candidate(profile(same, found.structure.id)).id == found.baseline.id
    assert found.profile(found.baseline).overrides == ()


MESSAGE = {"Role": "user", "Content": "x"}


FORBIDDEN: list[tuple[str, Any, str]] = [
    ("nobody#instruction", {"Text": "x"}, "is unknown"),
    (MODEL, {"Model": {"Name": "x"}}, "is unknown"),
    (WRITE, {}, "only 'text' may be set, found none"),
    (WRITE, {"Text": "x", "Tools": []}, "only 'text' may be set, found text, tools"),
    (WRITE, {"Text": "x", "PromptSyntax": "mixed_brace"}, "PromptSyntax cannot be changed"),
    (WRITE, {"Text": "x" * 201}, "200 are allowed"),
    (WRITE, {"Text": " "}, "empty"),
    (TOOL, {"Text": "x"}, "only 'tools' may be set"),
    (TOOL, {"Tools": []}, "expected exactly one tool"),
    (TOOL, {"Tools": [{"ID": "other"}]}, "expected exactly one tool"),
    (TOOL, {"Tools": [{"ID": "lookup", "InputSchema": {"type": "array"}}]}, "input schema"),
    (TOOL, {"Tools": [{"ID": "lookup", "OutputSchema": {}}]}, "output schema"),
    (SHOTS, {"FewShot": [{"Messages": [MESSAGE]}]}, "a user message and an assistant message"),
]


@pytest.mark.parametrize(("name", "value", "told"), FORBIDDEN)
def test_values_that_a_profile_may_not_have(name: str, value: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        surface_map().candidate(profile({name: value}))


def test_a_profile_of_another_structure_and_one_that_says_it_twice() -> None:
    twice = SurfaceOverride(surface_id=WRITE, value=SurfaceValue(text="x"))
    with pytest.raises(ConfigError) as caught:
        surface_map().candidate(Profile(structure_id="struct_0", overrides=(twice, twice)))
    assert "belongs to structure 'struct_0'" in str(caught.value)
    assert "overrides this surface twice" in str(caught.value)


def test_the_schemas_of_a_tool_may_be_echoed() -> None:
    echoed: Any = {"Tools": [{"ID": "lookup", "Description": "x", "InputSchema": SCHEMA}]}
    assert surface_map().candidate(profile({TOOL: echoed})).values[TOOL] == "x"
    assert WRITER in {node.id for node in surface_map().structure.nodes}
