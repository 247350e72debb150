"""A model that plays every part at the parcel desk: its nodes, and the roles of `backprop`."""

import json
import re
from typing import TypeVar

from pydantic import BaseModel

from burnish.core.surfaces import TextSurface
from burnish.strategies.backprop.wording import (
    BackwardRequest,
    MergeRequest,
    NumberedRemark,
    PatchRequest,
    Remark,
    ShownStep,
    ShownSurface,
)
from burnish.testing.graph_world_nodes import node_of, said_by
from burnish.testing.graph_world_roles import backward, merge, patch

Shown = TypeVar("Shown", bound=BaseModel)

_STEP = re.compile(r"^The step is a run of: (.+)$", re.MULTILINE)


def play(told: str, asked: str) -> str:
    """The answer to what a model is told (the system's words) and asked (the user's)."""
    if node_of(told):
        return said_by(told, asked)
    if _STEP.search(asked):
        return backward(_backward_request(asked)).model_dump_json()
    if "<turned_down>" in asked:
        return patch(_patch_request(asked)).model_dump_json()
    if "<remarks>" in asked:
        return merge(_merge_request(asked)).model_dump_json()
    return "I only know the parcel desk."


def _backward_request(asked: str) -> BackwardRequest:
    found = _STEP.search(asked)
    return BackwardRequest(
        node=found[1] if found else "",
        input=_between(asked, "input"),
        output=_between(asked, "output"),
        surfaces=tuple(_many(asked, "surfaces_that_may_be_blamed", ShownSurface)),
        other_surfaces=tuple(_many(asked, "other_surfaces_in_force", ShownSurface)),
        predecessors=tuple(_many(asked, "predecessors", ShownStep)),
        incoming=tuple(_many(asked, "what_should_have_been_better", Remark)),
    )


def _merge_request(asked: str) -> MergeRequest:
    return MergeRequest(
        surface=ShownSurface.model_validate_json(_between(asked, "surface")),
        gradients=tuple(_many(asked, "remarks", NumberedRemark)),
    )


def _patch_request(asked: str) -> PatchRequest:
    surface = ShownSurface.model_validate_json(_between(asked, "surface"))
    return PatchRequest(
        surface=surface,
        kind="text",
        bounds="",
        gradients=tuple(_many(asked, "remarks", Remark)),
        limits=TextSurface(id=surface.id),
    )


def _between(asked: str, tag: str) -> str:
    """What stands in a tag, from its first opening to its last end."""
    return asked.split(f"<{tag}>\n", 1)[1].rsplit(f"\n</{tag}>", 1)[0]


def _many(asked: str, tag: str, kind: type[Shown]) -> list[Shown]:
    return [kind.model_validate(each) for each in json.loads(_between(asked, tag))]
