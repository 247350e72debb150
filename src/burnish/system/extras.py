"""The extras of burnish: what each is for, and which of its packages are installed."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_DISTRIBUTION = "burnish"
PURPOSES: Mapping[str, str] = {
    "openai": "agents with tools at OpenAI, Azure, Ollama and compatible endpoints",
    "anthropic": "models of Anthropic",
    "google": "models of Google, also on Vertex",
    "bedrock": "models on Amazon Bedrock",
    "local": "the embedded model",
    "numeric": "searching over numbers, choices and demonstrations",
    "schema": "checking answers against a JSON Schema",
    "documents": "reading PDF and Office files",
    "embeddings": "the embedding model that runs here",
    "langgraph": "graphs of LangGraph as targets, and recording their steps",
    "openai-agents": "agents of the OpenAI Agents SDK as targets",
    "google-adk": "agents of Google ADK as targets",
    "crewai": "agents and crews of CrewAI as targets",
    "dspy": "programs of DSPy as targets",
    "mlflow": "runs in MLflow",
    "wandb": "runs in Weights & Biases",
    "otel": "OpenTelemetry spans and metrics of runs",
    "mcp": "tools of MCP servers",
    "cluster": "running cases on all cores, or on a Dask cluster",
    "server": "`burnish serve`",
    "view": "charts in report.html and `burnish view`",
    "postgres": "stores and journals in PostgreSQL",
    "mysql": "stores and journals in MySQL and MariaDB",
}
"""What each extra is for, in the order of a list."""
_REQUIREMENT = re.compile(
    r"^(?P<name>[\w.-]+)(?:\[(?P<parts>[\w,-]+)\])?[^;]*(?:;(?P<marker>.*))?$"
)
_OF_EXTRA = re.compile(r"""^\s*extra\s*==\s*['"](?P<extra>[\w-]+)['"]\s*$""")


@dataclass(frozen=True, kw_only=True)
class Extra:
    """One extra, and what is installed of it."""

    name: str
    missing: tuple[str, ...] = ()
    """Its packages that are not installed."""

    @property
    def purpose(self) -> str:
        return PURPOSES[self.name]

    @property
    def command(self) -> str:
        """How to install it."""
        return install_command(self.name)


def install_command(*names: str) -> str:
    """The command that installs these extras, from where burnish itself was installed."""
    return f"pip install {requirement(_DISTRIBUTION, *names)}"


def requirement(distribution: str, *extras: str) -> str:
    """What `pip install` is told for a package with extras, quoted for a shell.

    A package that was installed from a folder, a file or a repository may be on no index, so that
    place is named again.
    """
    wanted = f"[{','.join(extras)}]" if extras else ""
    origin = _origin(distribution)
    if (repository := origin.get("vcs_info")) is not None:
        source = f"{repository['vcs']}+{origin['url']}@{repository['commit_id']}"
        return shlex.quote(f"{distribution}{wanted} @ {source}")
    if (path := installed_from(distribution)) is None:
        return shlex.quote(f"{distribution}{wanted}")
    is_editable = origin.get("dir_info", {}).get("editable", False)
    return f"{'-e ' if is_editable else ''}{shlex.quote(f'{path}{wanted}')}"


def installed_from(distribution: str = _DISTRIBUTION) -> Path | None:
    """The folder or file of this machine that a package was installed from, if it is there."""
    url = str(_origin(distribution).get("url", ""))
    path = Path(unquote(urlsplit(url).path))
    return path if url.startswith("file:") and path.exists() else None


def _origin(distribution: str) -> Mapping[str, Any]:
    """Where pip found a package, as it notes it; empty for a package of an index."""
    try:
        text = Distribution.from_name(distribution).read_text("direct_url.json")
    except PackageNotFoundError:
        text = None
    return json.loads(text) if text else {}


def is_importable(module: str) -> bool:
    """Whether a module is there, without importing it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it is in
        return False


def all_extras() -> list[Extra]:
    """Every extra that is of use to users."""
    return [extra_named(name) for name in PURPOSES]


def extra_named(name: str) -> Extra:
    """One extra, by what the distributions say that it needs."""
    packages = packages_of(_DISTRIBUTION, name)
    return Extra(name=name, missing=tuple(each for each in packages if not installed_version(each)))


def installed_version(package: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def own_packages() -> tuple[str, ...]:
    """The packages that burnish needs in any case; none if it is not installed as a package."""
    return tuple(sorted(_named(_DISTRIBUTION, "")))


@cache
def packages_of(distribution: str, extra: str) -> tuple[str, ...]:
    """The packages of an extra, with those of the extras of other packages that it names.

    Requirements with other conditions, such as a platform, are left out: they may not apply here.
    """
    return tuple(dict.fromkeys(_named(distribution, extra)))


def _named(distribution: str, extra: str) -> Iterator[str]:
    try:
        lines = requires(distribution) or []
    except PackageNotFoundError:
        return
    for line in lines:
        requirement = _REQUIREMENT.match(line)
        if requirement is None or _extra_of(requirement["marker"] or "") != extra:
            continue
        parts = (requirement["parts"] or "").split(",") if requirement["parts"] else []
        yield requirement["name"]
        for part in parts:
            yield from packages_of(requirement["name"], part)


def _extra_of(marker: str) -> str | None:
    """The extra that a requirement is for; empty for none, None if it has other conditions."""
    if not marker:
        return ""
    match = _OF_EXTRA.match(marker)
    return match["extra"] if match else None
