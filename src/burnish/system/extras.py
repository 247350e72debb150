"""The extras of burnish: what each is for, and which of its packages are installed."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version

_DISTRIBUTION = "burnish"
PURPOSES: Mapping[str, str] = {
    "openai": "OpenAI, Azure, Ollama and compatible endpoints",
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
    "gepa": "the default adapter of gepa",
    "mlflow": "runs in MLflow",
    "wandb": "runs in Weights & Biases",
    "otel": "OpenTelemetry spans and metrics of runs",
    "mcp": "tools of MCP servers",
    "cluster": "running cases on all cores, or on a Dask cluster",
    "server": "`burnish serve`",
    "view": "report.html and `burnish view`",
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
    """The command that installs these extras."""
    return f"pip install '{_DISTRIBUTION}[{','.join(names)}]'"


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
