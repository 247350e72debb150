"""`burnish optimize`, which is `burnish test optimize` too."""

from pathlib import Path
from typing import Annotated

import typer

from burnish.cli import graph_options, options, prompt_options, suite_options, task_options

_SEARCH, _LOOK, _LIMITS, _SHOW = "The search", "Look first", "Limits", "Output"


def optimize(
    project: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="An agent file, a graph file, an optimizer.json, a task file, a suite or a "
            "project file; agent.yaml unless said.",
        ),
    ] = None,
    *,
    seed: Annotated[int | None, typer.Option(help="Seed of all randomness.")] = None,
    concurrency: options.Concurrency = None,
    output_dir: options.OutputDir = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Go on with a run, with the flags it had.")
    ] = None,
    fork: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="A new run that pays again for nothing RUN has paid."),
    ] = None,
    retry_missing: Annotated[
        bool, typer.Option("--retry-missing", help="With --fork: ask again for what is missing.")
    ] = False,
    strategy: Annotated[
        str | None, typer.Option(metavar="NAME", rich_help_panel=_SEARCH, help="How to search.")
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", rich_help_panel=_SEARCH, help="Sealed cases, scored once, at the end."
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(rich_help_panel=_SEARCH, help="Runs of every case; they show the noise."),
    ] = None,
    accept_sigma: Annotated[
        float | None,
        typer.Option(rich_help_panel=_SEARCH, help="How many times its noise a gain must be."),
    ] = None,
    critic: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", rich_help_panel=_SEARCH, help="Who diagnoses texts: provider:name."
        ),
    ] = None,
    applier: Annotated[
        str | None,
        typer.Option(metavar="MODEL", rich_help_panel=_SEARCH, help="Who edits them."),
    ] = None,
    keep_best_only: Annotated[
        bool,
        typer.Option(
            "--keep-best-only",
            rich_help_panel=_SEARCH,
            help="At the end, remove the candidates that are not the best.",
        ),
    ] = False,
    agent: prompt_options.Agent = None,
    prompt: prompt_options.Prompt = None,
    train: prompt_options.Train = None,
    val: prompt_options.Val = None,
    metrics: prompt_options.Metrics = None,
    reflector: prompt_options.Reflector = None,
    update_source: prompt_options.UpdateSource = False,
    proposer: graph_options.Proposer = None,
    max_rounds: graph_options.MaxRounds = None,
    request: graph_options.Request = None,
    editor: task_options.Editor = None,
    in_place: task_options.InPlace = False,
    epochs: suite_options.Epochs = None,
    learning_rate: suite_options.LearningRate = None,
    with_textgrad: suite_options.WithTextgrad = False,
    no_rollback: suite_options.NoRollback = False,
    target: suite_options.Experiment = None,
    db: suite_options.Db = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            rich_help_panel=_LOOK,
            help="Check everything, estimate, pay for nothing.",
        ),
    ] = False,
    print_baseline: Annotated[
        bool,
        typer.Option(
            "--print-baseline",
            rich_help_panel=_LOOK,
            help="Measure the agent as it is, and stop.",
        ),
    ] = False,
    suggest_axes: Annotated[
        bool,
        typer.Option(
            "--suggest-axes",
            rich_help_panel=_LOOK,
            help="Print a block with what can be tuned.",
        ),
    ] = False,
    report_only: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", rich_help_panel=_LOOK, help="Only write a run's report.md again."
        ),
    ] = None,
    max_cycles: Annotated[
        int | None,
        typer.Option(rich_help_panel=_LIMITS, help="Rounds through all phases of a search."),
    ] = None,
    numeric_max_trials: Annotated[
        int | None, typer.Option(rich_help_panel=_LIMITS, help="Of each numeric phase.")
    ] = None,
    numeric_patience: Annotated[
        int | None, typer.Option(rich_help_panel=_LIMITS, help="Of each numeric phase.")
    ] = None,
    textual_max_trials: Annotated[
        int | None, typer.Option(rich_help_panel=_LIMITS, help="Of each textual phase.")
    ] = None,
    textual_patience: Annotated[
        int | None, typer.Option(rich_help_panel=_LIMITS, help="Of each textual phase.")
    ] = None,
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
    verbose: Annotated[
        bool,
        typer.Option(
            "-v",
            "--verbose",
            rich_help_panel=_SHOW,
            help="Also what critic, applier, reflector, patcher or editor said.",
        ),
    ] = False,
) -> None:
    """Make an agent file, a graph of agents, prompts, files or policy texts measurably better.

    A flag wins over the file, the file over BURNISH_MAX_TRIALS and the like.
    The first limit that is reached ends the run.
    """
    from burnish.cli.optimize_asking import Asked, named_files, whole
    from burnish.cli.optimize_running import optimize_project
    from burnish.cli.running import Way

    asked = Asked(
        file=project,
        way=Way(resume=resume, fork=fork, retry_missing=retry_missing, output_dir=output_dir),
        overrides={
            "seed": seed,
            "concurrency": concurrency,
            "max_trials": max_trials,
            "max_metric_calls": max_metric_calls,
            "max_calls": max_calls,
            "max_tokens": max_tokens,
            "max_usd": max_usd,
            "max_minutes": max_minutes,
            "patience": patience,
            "score_threshold": score_threshold,
            "max_cycles": max_cycles,
            "numeric_max_trials": numeric_max_trials,
            "numeric_patience": numeric_patience,
            "textual_max_trials": textual_max_trials,
            "textual_patience": textual_patience,
            "repeats": repeats,
            "accept_sigma": accept_sigma,
            "strategy": strategy,
            "critic": critic,
            "applier": applier,
            "reflector": reflector,
            "sealed_cases": whole(test),
            "keep_best_only": keep_best_only or None,
            "baseline_only": print_baseline or None,
            "agent": agent,
            "agent_folder": None if agent is None else str(Path.cwd()),
            "prompt_files": named_files(prompt or ()),
            "train_cases": whole(train),
            "holdout_cases": whole(val),
            "metric_file": whole(metrics),
            "update_source": update_source or None,
            "proposer": proposer,
            "max_rounds": max_rounds,
            "editor": editor,
            "in_place": in_place or None,
            "epochs": epochs,
            "learning_rate": learning_rate,
            "with_textgrad": with_textgrad or None,
            "no_rollback": no_rollback or None,
            "experiment": target,
            "policy_db": whole(db),
        },
        dry_run=dry_run,
        suggest_axes=suggest_axes,
        report_only=report_only,
        request=request,
        progress=progress,
        quiet=quiet,
        verbose=verbose,
    )
    optimize_project(asked)
