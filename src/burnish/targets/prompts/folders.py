"""Folders in which a candidate's texts lie as files, for agents that read files."""

import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from burnish.core.errors import ConfigError, Problem
from burnish.system.borrowing import make_private_folder
from burnish.system.files import file_trouble, make_folder, write_atomic
from burnish.system.processes import Owner
from burnish.system.restoration import SCHEMA, records_in
from burnish.targets.prompts.fields import FileField, encoded
from burnish.targets.prompts.target_prompt import TargetPrompt


def common_root(prompts: TargetPrompt, root: Path | None) -> Path:
    """The folder from which the prompt files are named: given, or the one that all lie in."""
    parents = [_normal(file).parent for file in prompts.files]
    if root is None:
        return Path(os.path.commonpath(parents)) if parents else Path.cwd()
    found = Path(os.path.normpath(root.absolute()))
    outside = [file for file in prompts.files if not _normal(file).is_relative_to(found)]
    if outside:
        problems = [
            Problem(where=file.name, message=f"{file.given} does not lie in {root}",
                    remedy="name a folder that all prompt files lie in")
            for file in outside
        ]  # fmt: skip
        raise ConfigError(problems)
    return found


class CandidateFolders:
    """One folder a candidate, made when it is asked for, gone when the target is closed."""

    def __init__(self, prompts: TargetPrompt, root: Path, home: Path) -> None:
        self._prompts = prompts
        self._root = root
        self._folder = home / "isolated" / f"{os.getpid()}-{secrets.token_hex(8)}"

    def of(self, candidate: str, texts: Mapping[str, str]) -> Path:
        """The folder with a candidate's texts; fields behind callbacks are `<field>.md`."""
        folder = self._folder / candidate
        if not folder.is_dir():
            self._begin()
            make_folder(folder, lambda spare: self._fill(spare, texts))
        return folder

    def close(self) -> None:
        """Remove them all."""
        shutil.rmtree(self._folder, ignore_errors=True)
        _record(self._folder).unlink(missing_ok=True)

    def _begin(self) -> None:
        if self._folder.is_dir():
            return
        sweep(self._folder.parent)
        make_private_folder(self._folder.parent)
        told = {"schema": SCHEMA, "owner": Owner.here().as_json()}
        # On record before it is there: a folder without a record would stay for ever.
        write_atomic(_record(self._folder), json.dumps(told), durable=False)
        make_private_folder(self._folder)

    def _fill(self, folder: Path, texts: Mapping[str, str]) -> None:
        for file in self._prompts.files:
            place = folder / _normal(file).relative_to(self._root)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(encoded(texts[file.name], _like(file), place))
        for callback in self._prompts.callbacks:
            place = folder / f"{callback.name}.md"
            if place.exists():
                raise file_trouble("write", place, FileExistsError("a prompt file has that name"))
            place.write_bytes(texts[callback.name].encode())


def sweep(folder: Path) -> None:
    """Remove what killed processes left."""
    for record, told in records_in(folder, "[0-9]*.json"):
        if Owner.parse(told["owner"]).is_gone(record):
            shutil.rmtree(record.with_suffix(""), ignore_errors=True)
            record.unlink(missing_ok=True)


def _record(folder: Path) -> Path:
    return folder.parent / f"{folder.name}.json"


def _normal(file: FileField) -> Path:
    return Path(os.path.normpath(file.path))


def _like(file: FileField) -> bytes:
    try:
        return file.path.read_bytes()
    except OSError:
        return b""
