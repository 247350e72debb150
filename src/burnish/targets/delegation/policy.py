"""The six policy texts that prompts are made of: the one seam through which a run reads them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Self, cast

from burnish.core.content import Json, short_id
from burnish.core.errors import ConfigError, Problem
from burnish.system import read_tree

NAMES = (
    "worker_pitfalls",
    "manager_planning_preamble",
    "experiment_context_hint_template",
    "pattern_library",
    "tool_description_templates",
    "critique_rubric",
)
_SHIPPED = Path(__file__).with_name("policy_texts.yaml")


@dataclass(frozen=True, kw_only=True)
class PolicyTexts:
    """The texts that are in force for one run, all six of them.

    Whoever keeps versions of them (a registry) makes one of these of the active ones. A run keeps
    a copy, so that a resume reads what the run was started with.
    """

    texts: Mapping[str, str]
    versions: Mapping[str, int] = field(default_factory=dict[str, int])
    """Which version of each it is; 0, the shipped one, where nothing is said."""

    def __post_init__(self) -> None:
        unknown, absent = set(self.texts) - set(NAMES), set(NAMES) - set(self.texts)
        if unknown or absent:
            remedy = f"there are: {', '.join(NAMES)}"
            problems = [Problem(where=n, message="no such policy text") for n in sorted(unknown)]
            problems += [Problem(where=n, message="this text is missing") for n in sorted(absent)]
            raise ConfigError(problems, remedy=remedy)

    def __getitem__(self, name: str) -> str:
        return self.texts[name]

    @classmethod
    def shipped(cls) -> Self:
        """Version 0 of all six."""
        return cls(texts=_shipped())

    def replaced(self, texts: Mapping[str, str], versions: Mapping[str, int] | None = None) -> Self:
        """The same with some of the texts exchanged."""
        merged = {**self.versions, **(versions or {})}
        return type(self)(texts={**self.texts, **texts}, versions=merged)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the texts; which version they are called does not matter."""
        return short_id({name: self.texts[name] for name in NAMES})

    def to_json(self) -> Json:
        """As a run keeps them."""
        versions: dict[str, Json] = {name: self.versions.get(name, 0) for name in NAMES}
        return {"texts": dict[str, Json](self.texts), "versions": versions}


@cache
def _shipped() -> dict[str, str]:
    return cast("dict[str, str]", read_tree(_SHIPPED).data)
