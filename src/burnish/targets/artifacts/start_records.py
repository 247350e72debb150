"""Records of candidates that run now, so that one that kills burnish is not run again.

Only for machines where nothing keeps a command from signalling burnish. A random name goes to the
journal before the run, and while it lasts a file of that name says who runs it. If the run ends in
any way that burnish survives, the file goes; if it is still there on a resume, burnish was killed.
"""

import json
import secrets
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from burnish.core.content import Json, codec
from burnish.core.money import NOTHING
from burnish.core.protocols import Call, Effects, Receipt
from burnish.system.files import state_folder, write_atomic
from burnish.system.processes import Owner


@dataclass(frozen=True, kw_only=True)
class StartRecord:
    """The record of one run of one candidate."""

    path: Path

    @classmethod
    async def of(cls, effects: Effects, request: Sequence[Json], *, draw: int) -> Self:
        """The record, whose name is the same in every session of a run."""

        async def perform(_: Effects) -> Receipt[str]:
            return Receipt(value=secrets.token_hex(16))

        call = Call(kind="start", request=[*request], codec=codec(str), draw=draw, estimate=NOTHING)
        name = await effects.once(call, perform)
        return cls(path=state_folder() / "started" / f"{name}.json")

    @property
    def killed_burnish(self) -> bool:
        """Whether burnish was killed during this run; a machine that went down did not kill it."""
        try:
            owner = Owner.parse(json.loads(self.path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError):
            return False
        return owner.boot == Owner.here().boot and owner.is_gone(self.path)

    @contextmanager
    def held(self) -> Generator[None, None, None]:
        """Keep the record on disk while the run lasts."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self.path, json.dumps(Owner.here().as_json()))
        try:
            yield
        finally:
            self.path.unlink(missing_ok=True)
