"""`burnish models list`."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import typer

from burnish.core.errors import BurnishError
from burnish.models.embedded.files import (
    EMBEDDING,
    KNOWN,
    Carried,
    find_model,
    find_usable,
    models_folder,
)
from burnish.models.embedded.server import require_engine
from burnish.models.errors import ModelRefused
from burnish.models.factory import Models
from burnish.models.providers import all_providers
from burnish.models.references import ModelRef
from burnish.reports.terminal import Columns


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One kind of model, or one file."""

    model: str
    ready: bool
    told: str
    remedy: str = ""


def print_models(*, as_json: bool) -> None:
    """Everything that can be asked, or could be."""
    entries = list(found_models(Models()))
    if as_json:
        typer.echo(json.dumps([asdict(entry) for entry in entries], ensure_ascii=False, indent=2))
        return
    table = Columns(
        "model", "", "what is here", "what to do", folded=("what is here", "what to do")
    )
    for entry in entries:
        table.add(entry.model, "✓" if entry.ready else "–", entry.told, entry.remedy)
    table.show()


def found_models(models: Models) -> Iterator[Entry]:
    """The embedded ones with their files, then a line for each way to reach others."""
    for name, carried in KNOWN.items():
        path = find_model(name)
        yield _entry(models, ModelRef(provider="local", name=name), carried.description, path)
    for path in _other_files():
        yield _entry(models, ModelRef(provider="local", name=str(path)), "", path)
    yield _any_file()
    for name, (carried, *_) in EMBEDDING.items():
        yield _embedding(name, carried)
    for row in (row for row in all_providers() if row.protocol != "embedded"):
        yield _entry(
            models,
            ModelRef(provider=row.name, name="…"),
            "can be asked; `burnish doctor` tells whether it answers",
        )
    own = ModelRef(provider="openai", name="…", base_url="http://localhost")
    told = "for any OpenAI-compatible endpoint"
    yield replace(_entry(models, own, told), model="openai:… + base_url")


def _entry(models: Models, ref: ModelRef, told: str, path: Path | None = None) -> Entry:
    try:
        models.client(ref).check()
    except BurnishError as error:
        return Entry(model=ref.label, ready=False, told=error.message, remedy=error.remedy)
    where = told if path is None else f"{path.stat().st_size / 1e6:,.0f} MB, {path}"
    return Entry(model=ref.label, ready=True, told=where)


def _embedding(name: str, carried: Carried) -> Entry:
    """A model that makes embeddings, for the search tools of an agent."""
    from burnish.retrieval.embedders import MiniLmEmbedder

    try:
        MiniLmEmbedder().check()
    except ModelRefused as error:
        return Entry(model=f"local:{name}", ready=False, told=error.message, remedy=error.remedy)
    return Entry(
        model=f"local:{name}", ready=True, told=f"{carried.description}, {find_usable(carried)}"
    )


def _any_file() -> Entry:
    name = "local:FILE.gguf"
    try:
        require_engine()
    except ModelRefused as error:
        return Entry(model=name, ready=False, told=error.message, remedy=error.remedy)
    return Entry(model=name, ready=True, told="for any GGUF file, by its path")


def _other_files() -> list[Path]:
    known = {carried.file for carried in KNOWN.values()}
    return [path for path in sorted(models_folder().glob("*.gguf")) if path.name not in known]
