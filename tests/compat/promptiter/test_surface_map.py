"""Snapshots, profiles and values of a target."""

from typing import Any

import pytest

from burnish.compat.promptiter.shapes import Profile, SurfaceOverride, SurfaceValue
from burnish.compat.promptiter.snapshot import SurfaceMap
from burnish.core.errors import ConfigError
from burnish.core.surfaces import Demonstration, DemosSurface, NumberSurface, TextSurface
from burnish.testing import ScriptedTarget
from tests.compat.promptiter.desk import (
    CITE,
    MODEL,
    PLAN,
    SCHEMA,
    SHOTS,
    SKILL,
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
    assert values[SKILL]["Skills"] == [{"ID": "citing", "Description": "How to cite."}]
    assert all(len(value) == 6 for value in values.values())


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
    (TOOL, {"Tools": []}, "exactly one tool is wanted"),
    (TOOL, {"Tools": [{"ID": "other"}]}, "exactly one tool is wanted"),
    (TOOL, {"Tools": [{"ID": "lookup", "InputSchema": {"type": "array"}}]}, "input schema"),
    (TOOL, {"Tools": [{"ID": "lookup", "OutputSchema": {}}]}, "output schema"),
    (SHOTS, {"FewShot": [{"Messages": [MESSAGE]}]}, "a user's message and an assistant's"),
]


@pytest.mark.parametrize(("name", "value", "told"), FORBIDDEN)
def test_values_that_a_profile_may_not_have(name: str, value: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        surface_map().candidate(profile({name: value}))


def test_a_profile_of_another_structure_and_one_that_says_it_twice() -> None:
    twice = SurfaceOverride(surface_id=WRITE, value=SurfaceValue(text="x"))
    with pytest.raises(ConfigError) as caught:
        surface_map().candidate(Profile(structure_id="struct_0", overrides=(twice, twice)))
    assert "is of structure 'struct_0'" in str(caught.value)
    assert "overrides it twice" in str(caught.value)


def test_the_schemas_of_a_tool_may_be_echoed() -> None:
    echoed: Any = {"Tools": [{"ID": "lookup", "Description": "x", "InputSchema": SCHEMA}]}
    assert surface_map().candidate(profile({TOOL: echoed})).values[TOOL] == "x"
    assert WRITER in {node.id for node in surface_map().structure.nodes}
