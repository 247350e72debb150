"""Running a project from the command line: new, resumed or forked, with a view and an exit."""

from dataclasses import dataclass
from pathlib import Path

import typer

from burnish.cli.progress import Progress, last_words, view
from burnish.core.cases import Split
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import total
from burnish.projects import LoadedProject, launch
from burnish.reports.words import spending
from burnish.runs.index import find_run
from burnish.runs.opening import fork, refuse_spent_test, resume, start
from burnish.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a run is opened."""

    resume: str | None = None
    fork: str | None = None
    retry_missing: bool = False
    output_dir: Path | None = None

    def check(self) -> None:
        """Refuse flags that do not go together."""
        problems: list[Problem] = []
        if self.resume and self.fork:
            problems.append(Problem(message="--resume and --fork do not go together"))
        if self.resume and self.output_dir:
            problems.append(
                Problem(message="--resume goes on in the run's own folder, so -o has no meaning")
            )
        if self.retry_missing and not self.fork:
            problems.append(
                Problem(
                    message="--retry-missing makes a new run",
                    remedy="say of which run with --fork RUN",
                )
            )
        if problems:
            raise ConfigError(problems)

    def open(self, project: LoadedProject) -> Run:
        """The run, open for driving."""
        if self.resume:
            folder = find_run(self.resume)
            refuse_spent_test(folder)
            return resume(project.setup, folder)
        if self.fork:
            return fork(
                project.setup,
                find_run(self.fork),
                root=project.root,
                folder=self.output_dir,
                retry_missing=self.retry_missing,
            )
        return start(project.setup, root=project.root, folder=self.output_dir)


def run_project(project: LoadedProject, way: Way, *, progress: str) -> None:
    """Drive a run to its end and say how it went; exit code 2 when it was interrupted."""
    way.check()
    chosen = _progress(progress)
    with view(chosen, project.setup.budget) as listeners:
        ending = launch(lambda: way.open(project), listeners)
    last_words(ending, chosen)
    if ending.interrupted:
        raise typer.Exit(2)


def show_estimate(project: LoadedProject) -> None:
    """What is set up and what it may cost, with nothing paid."""
    setup = project.setup
    setup.check()
    typer.echo(f"strategy  {setup.strategy.name}, seed {setup.seed}")
    typer.echo(f"target    {setup.target.description.kind}")
    for surface in setup.target.surfaces:
        typer.echo(f"  {surface.kind:<7} {surface.id}")
    for split in Split:
        cases = setup.dataset.cases(split)
        sweep = total(
            setup.target.estimate(case) + total(m.estimate(case) for m in setup.metrics)
            for case in cases
        )
        typer.echo(f"{split.value:<9} {len(cases)} cases; one sweep is about {spending(sweep)}")
    limits = [f"{k} {v}" for k, v in vars(setup.budget).items() if v not in (None, ())]
    typer.echo(f"limits    {', '.join(limits) or 'none: the strategy decides when to stop'}")
    typer.echo("nothing was paid; leave out --dry-run to start")


def _progress(name: str) -> Progress:
    try:
        return Progress(name)
    except ValueError:
        known = ", ".join(p.value for p in Progress)
        raise ConfigError(
            [Problem(where="--progress", message=f"'{name}' is not one of: {known}")]
        ) from None
