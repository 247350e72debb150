"""Prompts of roles: YAML files shipped with burnish, editable once installed.

`burnish roles install` copies them to `.burnish/roles/`; what lies there is in force and is
never overwritten. The whole file is part of the journal key of every call of the role.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from burnish.core.bounds import AtLeastOne
from burnish.core.content import Json, canonical, short_id
from burnish.core.errors import ConfigError, Problem
from burnish.core.messages import Message
from burnish.models.references import ModelSettings
from burnish.system import load_config

INSTALL_FOLDER = Path(".burnish/roles")
_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")


class SettingsBlock(BaseModel):
    """How the role's model is asked, unless the project says otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: AtLeastOne | None = None


class PromptFile(BaseModel):
    """A role's prompt as it lies on disk."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    description: str = ""
    version: AtLeastOne = 1
    system: str
    user: str
    """A template: `{{ field }}` stands for a field of the request."""
    settings: SettingsBlock = Field(default_factory=SettingsBlock)


@dataclass(frozen=True, kw_only=True)
class RolePrompt:
    """The prompt in force for a role."""

    name: str
    system: str
    user: str
    description: str = ""
    version: int = 1
    settings: ModelSettings = field(default_factory=ModelSettings)
    source: Path = Path()

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what the model is told; where the file lies does not matter."""
        return short_id([self.name, self.version, self.system, self.user])

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The fields of the request that the prompt shows."""
        found = _PLACEHOLDER.findall(self.system) + _PLACEHOLDER.findall(self.user)
        return tuple(dict.fromkeys(found))

    def messages(self, request: Mapping[str, Json]) -> tuple[Message, ...]:
        """The prompt with the request in it."""
        return (
            Message(role="system", content=_filled(self.system, request)),
            Message(role="user", content=_filled(self.user, request)),
        )

    def require_fields(self, known: Mapping[str, object]) -> None:
        """Refuse a prompt that speaks of fields the role's request does not have."""
        unknown = [name for name in self.fields if name not in known]
        if unknown:
            raise ConfigError(
                [
                    Problem(
                        where=str(self.source),
                        message=f"unknown placeholder {{{{ {name} }}}}",
                        remedy=f"there are: {', '.join(known)}",
                    )
                    for name in unknown
                ]
            )


def read_prompt(path: Path) -> RolePrompt:
    """Read a prompt file; everything that is wrong with it is said at once."""
    file = load_config(path, PromptFile)
    return RolePrompt(
        name=file.name,
        system=file.system,
        user=file.user,
        description=file.description,
        version=file.version,
        settings=ModelSettings(**file.settings.model_dump()),
        source=path,
    )


def shipped() -> dict[str, Path]:
    """The prompt files that come with burnish, by role."""
    folder = Path(str(files("burnish.models") / "role_prompts"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def in_force(name: str, folder: Path) -> RolePrompt:
    """The prompt of a role for a project in `folder`: the installed one, else the shipped one."""
    installed = folder / INSTALL_FOLDER / f"{name}.yaml"
    if installed.is_file():
        return read_prompt(installed)
    known = shipped()
    if name not in known:
        raise ConfigError(
            [
                Problem(
                    where=name,
                    message="there is no such role",
                    remedy=f"there are: {', '.join(known)}",
                )
            ]
        )
    return read_prompt(known[name])


def _filled(template: str, request: Mapping[str, Json]) -> str:
    """The template with every placeholder replaced, once: what is filled in is not looked at."""
    return _PLACEHOLDER.sub(lambda found: _text(request.get(found[1])), template)


def _text(value: Json) -> str:
    """Texts as they are, lists and objects in lines: models read them better so."""
    if isinstance(value, list | dict):
        return json.dumps(value, indent=2, ensure_ascii=False)
    return value if isinstance(value, str) else canonical(value).decode()
