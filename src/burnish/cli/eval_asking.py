"""What `burnish eval` is asked: flags, checked before anything is paid."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from burnish.cli.progress import Progress
from burnish.cli.running import chosen_progress
from burnish.core.bounds import MOST_REPEATS
from burnish.core.errors import ConfigError, Problem, RunNotFound
from burnish.projects.describing import SET, Flags
from burnish.projects.measuring import Place
from burnish.reports.eval_report import EvalReport
from burnish.runs.header import NAME as HEADER
from burnish.runs.index import find_run

STDOUT = "-"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line says."""

    agent: Path
    flags: Flags = field(default_factory=dict[str, JsonValue])
    """What patches the description, by the name of the field."""
    noise_sweeps: int | None = None
    output_dir: Path | None = None
    resume: str | None = None
    json_file: str | None = None
    junit_file: Path | None = None
    baseline: str | None = None
    progress: str = "auto"
    quiet: bool = False

    def problems(self) -> list[Problem]:
        """What does not go together, or cannot be."""
        found: list[Problem] = []
        if self.noise_sweeps is not None and self.noise_sweeps < 2:
            found.append(Problem(where="--aa", message="must be 2 or more: one sweep has no noise"))
        if self.noise_sweeps is not None and self.noise_sweeps > MOST_REPEATS:
            found.append(Problem(where="--aa", message=f"must be at most {MOST_REPEATS:,}"))
        if self.flags.get("repeats") is not None and self.noise_sweeps is not None:
            told = "--repeats and --aa do not go together: --aa N repeats every case N times"
            found.append(Problem(message=told))
        if self.resume and self.output_dir:
            told = "--resume goes on in the run's own folder, so -o has no meaning"
            found.append(Problem(message=told))
        if self.output_dir is not None and self.output_dir.exists():
            remedy = "name another folder, or go on with the run there: --resume FOLDER"
            told = f"{self.output_dir} exists already"
            found.append(Problem(where="-o", message=told, remedy=remedy))
        files = {"--json": self._json_path, "--junit": self.junit_file}
        found += [p for flag, path in files.items() for p in _cannot_write(flag, path)]
        return found

    @property
    def _json_path(self) -> Path | None:
        return None if self.json_file in (None, STDOUT) else Path(self.json_file or "")

    @property
    def patches(self) -> Flags:
        """The flags, a noise check among them: it repeats every case."""
        if self.noise_sweeps is None:
            return self.flags
        settings = cast("list[JsonValue]", self.flags.get(SET) or [])
        return {**self.flags, "repeats": self.noise_sweeps, SET: [*settings, "noise=true"]}

    @property
    def options(self) -> "Options":
        """What is to be done with what is found."""
        return Options(
            json_file=self.json_file,
            junit_file=self.junit_file,
            baseline=None if self.baseline is None else read_baseline(self.baseline),
            progress=chosen_progress(self.progress),
            quiet=self.quiet,
        )


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to do with what is found."""

    place: Place = field(default_factory=Place)
    json_file: str | None = None
    junit_file: Path | None = None
    baseline: EvalReport | None = None
    progress: Progress = Progress.NONE
    quiet: bool = False

    @property
    def stdout_taken(self) -> bool:
        """Whether stdout is for programs, so that people are told on stderr."""
        return self.json_file == STDOUT or self.progress is Progress.JSON


def read_baseline(name: str) -> EvalReport:
    """An earlier report: a file, the folder of a run, or a run's id."""
    path = Path(name)
    if path.exists() and not (path.is_dir() and (path / HEADER).exists()):
        return EvalReport.read(path)
    try:
        return EvalReport.read(find_run(name))
    except RunNotFound as error:
        told = f"there is no file '{name}', and {error.message}"
        problem = Problem(where="--baseline", message=told, remedy=error.remedy)
        raise ConfigError([problem]) from None


def _cannot_write(flag: str, path: Path | None) -> list[Problem]:
    """Said before anything is paid: a report that cannot be kept is a pity."""
    if path is None or (path.parent.is_dir() and not path.is_dir()):
        return []
    told = f"{path} is a folder" if path.is_dir() else f"there is no folder {path.parent}"
    return [Problem(where=flag, message=told, remedy="name a file in a folder that exists")]
