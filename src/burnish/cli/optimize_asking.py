"""What `burnish optimize` is asked: flags, checked before anything is read or paid."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from burnish.cli.running import Way
from burnish.core.errors import ConfigError, Problem
from burnish.projects.overrides import FlagValue, Overrides, flag_of

USUAL_FILE = Path("agent.yaml")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line says."""

    file: Path | None = None
    """None where no file is named: `./agent.yaml`, or that of the run that goes on."""
    way: Way = field(default_factory=Way)
    overrides: Mapping[str, FlagValue] = field(default_factory=dict[str, FlagValue])
    dry_run: bool = False
    suggest_axes: bool = False
    report_only: str | None = None
    request: Path | None = None
    """A run request of PromptIter."""
    progress: str = "auto"
    quiet: bool = False
    verbose: bool = False

    @property
    def flags(self) -> Overrides:
        """The flags that stand in for values of the file."""
        return Overrides.from_flags(**self.overrides)

    @property
    def baseline_only(self) -> bool:
        """Whether the run stops after its baseline, whose numbers are then shown."""
        return bool(self.overrides.get("baseline_only"))

    def check(self) -> None:
        """Refuse flags that do not go together."""
        problems = list(self._problems())
        if problems:
            raise ConfigError(problems)
        self.way.check()

    def _problems(self) -> Iterator[Problem]:
        modes = {
            "--dry-run": self.dry_run,
            "--print-baseline": self.baseline_only,
            "--report-only": self.report_only is not None,
            "--suggest-axes": self.suggest_axes,
        }
        wanted = [name for name, said in modes.items() if said]
        if len(wanted) > 1:
            yield Problem(message=f"{' and '.join(wanted)} do not go together")
        if self.report_only is not None and self.way.resume is not None:
            yield Problem(message="--report-only names the run itself, so --resume has no meaning")
        if self.request is not None and self.way.resume is not None:
            yield Problem(message="a run goes on with the request it had, so --request is too late")
        if self.quiet and self.verbose:
            yield Problem(message="-q and -v do not go together")
        if self.baseline_only and self.overrides.get("update_source"):
            yield Problem(message="--print-baseline looks for nothing better to --update-source")
        if self.baseline_only and self.overrides.get("in_place"):
            yield Problem(message="--print-baseline looks for nothing better to put --in-place")


def whole(path: Path | None) -> str | None:
    """A file by its whole path, so that a run goes on from another folder too."""
    return None if path is None else str(path.resolve())


def named_files(told: Sequence[str]) -> dict[str, str] | None:
    """`NAME=FILE`, each by its whole path; None where none is told."""
    files: dict[str, str] = {}
    problems: list[Problem] = []
    for each in told:
        name, equals, path = each.partition("=")
        if not (name.strip() and equals and path.strip()):
            message = f"'{each}' is not of the form NAME=FILE"
            problems.append(Problem(where=flag_of("prompt_files"), message=message))
        elif name in files:
            message = f"two files are given for '{name}'"
            problems.append(Problem(where=flag_of("prompt_files"), message=message))
        else:
            # Links stay: the agent may read the prompt by this name.
            files[name] = str(Path(path).absolute())
    if problems:
        raise ConfigError(problems)
    return files or None
