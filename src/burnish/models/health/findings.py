"""One thing that the doctor found, and where it looked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from burnish.core.errors import BurnishError
from burnish.models.keys import find_dotenv, read_dotenv
from burnish.models.providers import all_providers

State: TypeAlias = Literal["ok", "absent", "wrong"]
"""`absent` is fine where nobody needs it."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing: how it stands, and what to do about it."""

    area: str
    name: str
    state: State = "ok"
    told: str
    remedy: str = ""
    needed: bool = False
    """Without it not even the demo runs."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where burnish is used: a folder, the user's own state, and the variables in force."""

    folder: Path
    home: Path
    environ: Mapping[str, str] = field(repr=False)
    """Those of the environment and of `.env`."""
    dotenv: Path | None = None
    dotenv_names: frozenset[str] = frozenset()
    """The variables whose values `.env` gives."""
    dotenv_trouble: str = ""
    addresses: Mapping[str, str] = field(
        default_factory=lambda: {row.name: row.address for row in all_providers()}
    )
    """Where each provider is."""

    @classmethod
    def of(cls, folder: Path, home: Path, environ: Mapping[str, str]) -> "Site":
        """With what `.env` adds; the environment goes before it."""
        path = find_dotenv(folder)
        values: dict[str, str] = {}
        trouble = ""
        try:
            values = {} if path is None else read_dotenv(path)
        except BurnishError as error:
            trouble = str(error)
        merged = {**values, **environ}
        return cls(
            folder=folder,
            home=home,
            environ=merged,
            dotenv=path,
            dotenv_names=frozenset(name for name in values if merged[name] == values[name]),
            dotenv_trouble=trouble,
        )

    def source(self, name: str) -> str:
        """Where the value of a variable comes from."""
        return ".env" if name in self.dotenv_names else "environment"
