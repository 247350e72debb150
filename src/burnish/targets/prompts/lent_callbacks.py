"""Fields behind callbacks that a killed run left changed: put back when its program starts again.

Nobody but the program itself can call its functions, so a record waits for it.
"""

import json
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from burnish.core.content import short_id
from burnish.core.errors import RunLocked
from burnish.system.borrowing import make_private_folder
from burnish.system.files import write_atomic
from burnish.system.processes import Owner
from burnish.system.restoration import SCHEMA, PutBack, digest, records_in
from burnish.targets.prompts.fields import CallbackField


class LentCallbacks:
    """What burnish has written behind the callbacks, and what is theirs."""

    def __init__(self, names: Sequence[str], originals: Mapping[str, str], folder: Path) -> None:
        self._names = list(names)
        self._originals = dict(originals)
        self._written: dict[str, set[str]] = {name: set() for name in originals}
        token = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._record = folder / f"callbacks-{_program(names)}-{token}.json"

    def note(self, texts: Mapping[str, str]) -> None:
        """Put on record what is about to be written."""
        new = {name: _mark(text) for name, text in texts.items()}
        if all(mark in self._written[name] for name, mark in new.items()):
            return
        for name, mark in new.items():
            self._written[name].add(mark)
        callbacks = {
            name: {"original": text, "written": sorted(self._written[name])}
            for name, text in self._originals.items()
        }
        told = {"schema": SCHEMA, "owner": Owner.here().as_json(), "callbacks": callbacks}
        make_private_folder(self._record.parent)
        write_atomic(self._record, json.dumps(told), mode=0o600)

    async def put_back(self, field: CallbackField) -> PutBack | None:
        """Give a field its own text back where it holds one of ours; None where it has it."""
        told = {"original": self._originals[field.name], "written": self._written[field.name]}
        return await _put_back(field, told)

    def forget(self) -> None:
        """All is back: the record is not needed any more."""
        self._record.unlink(missing_ok=True)


async def recall(
    names: Sequence[str], fields: Sequence[CallbackField], folder: Path
) -> tuple[str, ...]:
    """Put back what a killed run of this program left behind these callbacks; what was done.

    Raises RunLocked where a field holds a text of a run that is still under way.
    """
    done: list[str] = []
    for record, told in records_in(folder, f"callbacks-{_program(names)}-*.json") if fields else ():
        owner = Owner.parse(told["owner"])
        gone = owner.is_gone(record)
        for field in fields:
            kept = told["callbacks"].get(field.name)
            if kept is None:
                continue  # the program has changed since: this was a file then
            if not gone:
                await _require_free(field, kept, owner)
            elif (fate := await _put_back(field, kept)) is not None:
                done.append(f"prompt field {fate} (a killed run had changed it)")
        if gone:
            record.unlink(missing_ok=True)
    return tuple(done)


async def _put_back(field: CallbackField, told: Mapping[str, Any]) -> PutBack | None:
    now = await field.text()
    if now == told["original"]:
        return None
    if _mark(now) not in told["written"]:
        why = "somebody changed it meanwhile, so it was left alone"
        return PutBack(path=field.name, fate="left alone", told=why)
    await field.put(told["original"])
    return PutBack(path=field.name, fate="put back", told="its own text was put back")


async def _require_free(field: CallbackField, told: Mapping[str, Any], owner: Owner) -> None:
    now = await field.text()
    if now != told["original"] and _mark(now) in told["written"]:
        message = (
            f"the prompt field '{field.name}' is in use by process {owner.pid} on {owner.host}"
        )
        raise RunLocked(message, remedy="Wait until it ends, or end it.")


def _mark(text: str) -> str:
    return digest(text.encode(errors="surrogatepass"))


def _program(names: Sequence[str]) -> str:
    """This program with these fields: what a later start of it has in common with this one."""
    started = sys.argv[0] if sys.argv else ""
    return short_id([os.path.realpath(started), list(names)])
