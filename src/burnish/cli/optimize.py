"""`burnish optimize`."""

from pathlib import Path
from typing import Annotated

import typer

from burnish.cli import options


def optimize(
    project: Annotated[Path, typer.Argument(metavar="FILE", help="The project file.")],
    *,
    seed: Annotated[int | None, typer.Option(help="Seed of all randomness.")] = None,
    concurrency: options.Concurrency = None,
    output_dir: options.OutputDir = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Go on with a run of this project.")
    ] = None,
    fork: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="A new run that pays again for nothing RUN has paid."),
    ] = None,
    retry_missing: Annotated[
        bool, typer.Option("--retry-missing", help="With --fork: ask again for what is missing.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, estimate, pay for nothing.")
    ] = False,
    max_trials: options.MaxTrials = None,
    max_metric_calls: options.MaxMetricCalls = None,
    max_calls: options.MaxCalls = None,
    max_tokens: options.MaxTokens = None,
    max_usd: options.MaxUsd = None,
    max_minutes: options.MaxMinutes = None,
    patience: options.Patience = None,
    score_threshold: options.ScoreThreshold = None,
    progress: options.Progress = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Optimise what a project file describes.

    A flag wins over the file, the file over BURNISH_MAX_TRIALS and the like.
    The first limit that is reached ends the run.
    """
    from burnish.cli.estimating import show_estimate
    from burnish.cli.running import Way, run_project
    from burnish.projects import Overrides, load_project

    way = Way(resume=resume, fork=fork, retry_missing=retry_missing, output_dir=output_dir)
    way.check()
    flags = Overrides.from_flags(
        seed=seed,
        concurrency=concurrency,
        max_trials=max_trials,
        max_metric_calls=max_metric_calls,
        max_calls=max_calls,
        max_tokens=max_tokens,
        max_usd=max_usd,
        max_minutes=max_minutes,
        patience=patience,
        score_threshold=score_threshold,
    )
    loaded = load_project(project, flags)
    if dry_run:
        show_estimate(loaded)
    else:
        run_project(loaded, way, progress="none" if quiet else progress)
