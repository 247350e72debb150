"""`burnish models check`."""

import asyncio
import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import typer

from burnish.core.errors import BurnishError, FileTrouble
from burnish.journal.limits import RetryPolicy
from burnish.models.capabilities import (
    Capabilities,
    Reliance,
    examine_model,
    reliances,
    remember,
)
from burnish.models.errors import ModelRejected, ModelUnavailable
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.runs.directory import index_folder

_MARKS = {"ok": "✓", "absent": "–", "wrong": "✗"}


def check_model(ref: ModelRef, *, as_json: bool) -> bool:
    """Ask the model, print what burnish relies on; False if not even a plain answer came."""
    try:
        found = asyncio.run(_examined(ref))
    except (BurnishError, ModelRejected, ModelUnavailable) as error:
        _print_failure(ref, error, as_json=as_json)
        return False
    with suppress(FileTrouble, OSError):  # Only `burnish doctor` shows it later.
        remember(found, _home())
    if as_json:
        typer.echo(json.dumps(asdict(found), ensure_ascii=False, indent=2))
    else:
        _print(ref, list(reliances(found)))
    return True


async def _examined(ref: ModelRef) -> Capabilities:
    # Somebody is waiting: try once more, then say what is wrong.
    models = Models(retries=RetryPolicy(attempts=2))
    try:
        client = models.client(ref)
        client.check()
        return await examine_model(client)
    finally:
        await models.close()


def _print_failure(ref: ModelRef, error: Exception, *, as_json: bool) -> None:
    message = error.message if isinstance(error, BurnishError) else str(error)
    remedy = error.remedy if isinstance(error, BurnishError) else _remedy(ref, error)
    if as_json:
        facts = {"model": ref.label, "error": message, "remedy": remedy}
        typer.echo(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        line = Reliance(subject="plain answer", state="wrong", message=message, remedy=remedy)
        _print(ref, [line])


def _remedy(ref: ModelRef, error: Exception) -> str:
    if isinstance(error, ModelRejected):
        return "check the model's name and its settings"
    return ref.row.start_hint or "check the address, and that the endpoint is running"


def _print(ref: ModelRef, lines: list[Reliance]) -> None:
    where = ref.base_url or ref.row.address
    typer.echo(f"{ref.label} at {where}" if where else ref.label)
    for line in lines:
        typer.echo(f"  {_MARKS[line.state]} {line.subject:12}  {line.message}")
        if line.remedy:
            typer.echo(f"{'':18}→ {line.remedy}")


def _home() -> Path:
    return index_folder().parent
