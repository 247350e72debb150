"""The work of `burnish models`: listing models, checking what one can do."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import typer

from burnish.core.errors import BurnishError, FileTrouble
from burnish.journal.outages import RetryPolicy
from burnish.models.capabilities import (
    Capabilities,
    Reliance,
    examine_model,
    reliances,
    remember,
)
from burnish.models.embedded.backend import require_engine
from burnish.models.embedded.files import (
    EMBEDDING,
    KNOWN,
    find_model,
    find_usable,
    models_folder,
)
from burnish.models.errors import ModelRejected, ModelUnavailable
from burnish.models.factory import Models, ModelUse, missing_libraries
from burnish.models.providers import all_providers
from burnish.models.references import ModelRef
from burnish.reports.terminal import Columns
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
    where = ref.location or ref.row.address
    typer.echo(f"{ref.label} at {where}" if where else ref.label)
    for line in lines:
        typer.echo(f"  {_MARKS[line.state]} {line.subject:12}  {line.message}")
        if line.remedy:
            typer.echo(f"{'':18}→ {line.remedy}")


def _home() -> Path:
    return index_folder().parent


@dataclass(frozen=True, kw_only=True)
class _Entry:
    model: str
    ready: bool
    told: str
    remedy: str = ""


def print_models(*, as_json: bool) -> None:
    """Print all models that are available or could be."""
    entries = list(model_entries(Models()))
    if as_json:
        typer.echo(json.dumps([asdict(entry) for entry in entries], ensure_ascii=False, indent=2))
        return
    table = Columns(
        "model", "", "what is here", "what to do", folded=("what is here", "what to do")
    )
    for entry in entries:
        table.add(entry.model, "✓" if entry.ready else "–", entry.told, entry.remedy)
    table.show()


def model_entries(models: Models) -> Iterator[_Entry]:
    """The embedded models with their files, then one entry per provider."""
    for name, carried in KNOWN.items():
        path = find_model(name)
        yield _entry(models, ModelRef(provider="local", name=name), carried.description, path)
    for path in _other_files():
        yield _entry(models, ModelRef(provider="local", name=str(path)), "", path)
    yield _checked("local:FILE.gguf", require_engine, "for any GGUF file, by its path")
    for name, (carried, *_) in EMBEDDING.items():
        from burnish.retrieval.embedders import MiniLmEmbedder

        where = f"{carried.description}, {find_usable(carried)}"
        yield _checked(f"local:{name}", MiniLmEmbedder().check, where)
    for row in (row for row in all_providers() if row.protocol != "embedded"):
        yield _entry(
            models,
            ModelRef(provider=row.name, name="…"),
            "available; `burnish models check` asks whether it answers",
        )
    own = ModelRef(provider="openai", name="…", base_url="http://localhost")
    description = "for any OpenAI-compatible endpoint"
    yield replace(_entry(models, own, description), model="openai:… + base_url")


def _entry(models: Models, ref: ModelRef, description: str, path: Path | None = None) -> _Entry:
    where = description if path is None else f"{path.stat().st_size / 1e6:,.0f} MB, {path}"

    def check() -> None:
        client = models.client(ref)
        client.check()
        if missing := missing_libraries([ModelUse(client=client, roles=())]):
            raise missing

    return _checked(ref.label, check, where)


def _checked(model: str, check: Callable[[], object], where: str) -> _Entry:
    try:
        check()
    except BurnishError as error:
        return _Entry(model=model, ready=False, told=error.message, remedy=error.remedy)
    return _Entry(model=model, ready=True, told=where)


def _other_files() -> list[Path]:
    shipped = {carried.file for carried in KNOWN.values()}
    return [path for path in sorted(models_folder().glob("*.gguf")) if path.name not in shipped]
