"""What `burnish delegate` says: its plan, what happens, and its last words."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import typer

from burnish.cli.naming import file_name
from burnish.core.content import Json
from burnish.core.words import counted, shorten, spending
from burnish.runs.events import Event, Stopping, Tick
from burnish.runs.plugins import strategy_plugin
from burnish.targets.delegation.endings import ending_words, next_step
from burnish.targets.delegation.result import DelegationResult
from burnish.targets.delegation.workflow import Workflow

_MOST = 400
"""Columns of one line about something that happened; the whole stands in the run's folder."""


def show_plan(workflow: Workflow, *, folder: str, task: str, as_json: bool) -> None:
    """What would run; `task` is the place in an experiment, where it has one."""
    metrics = [metric.name for metric in workflow.metrics]
    if as_json:
        plan = {
            "dry_run": True,
            "workflow": workflow.name,
            "models": workflow.models,
            "budget": workflow.envelope.to_json(),
            "metrics": metrics,
            "notes": workflow.notes(),
            "folder": folder,
        }
        typer.echo(json.dumps(plan, ensure_ascii=False, indent=2))
        return
    typer.echo(f"workflow {workflow.name}")
    for role, label in workflow.models.items():
        typer.echo(f"{role:<8} {label}")
    for line in workflow.envelope.lines():
        typer.echo(line)
    typer.echo(f"metrics  {', '.join(metrics) or 'none'}")
    for note in workflow.notes():
        typer.echo(f"! {note}")
    if task:
        typer.echo(f"task     {task}")
    typer.echo(f"folder   {folder}")
    typer.echo("nothing was run or paid; leave out --dry-run to start")


def say(event: Mapping[str, Json]) -> None:
    """One event in one line, whatever a worker or a program put into it."""
    fields = event["fields"]
    number = fields.get("iteration", "") if isinstance(fields, dict) else ""
    told = shorten(str(event["msg"]), _MOST)
    typer.echo(f"{number!s:>4}  {event['category']!s:<10} {told}")


@dataclass(frozen=True)
class StopNotice:
    """Says on stderr that a signal was heard, and when the run will stop."""

    strategy: str

    def event(self, event: Event) -> None:
        """Look for the one that says so."""
        if event.read(Stopping):
            typer.echo(strategy_plugin(self.strategy).progress().stopping, err=True)

    def tick(self, tick: Tick) -> None:
        """Nothing to say."""


def last_words(result: DelegationResult, *, task: str) -> None:
    """How it ended, what it cost, what was delivered and what could be done next."""
    why = "" if result.reason == result.status else f"{_why(result)}, "
    typer.echo(f"{result.status:<8} {why}{counted(result.iterations, 'iteration')}")
    total = None if result.evaluation is None else result.evaluation.total
    scores = (("metrics", total), ("critic", result.critique))
    told = ", ".join(f"{name} {value:.3f}" for name, value in scores if value is not None)
    typer.echo(f"loss     {result.loss.total:.4f}" + (f" ({told})" if told else ""))
    typer.echo(f"spent    {spending(result.spent)}")
    if result.billed != result.spent:
        typer.echo(f"billed   {spending(result.billed)}, with calls that were lost")
    for note in result.notes:
        typer.echo(f"! {note}")
    for path in result.deliverables:
        typer.echo(f"file     {path}")
    typer.echo(f"report   {result.run_dir / 'RUN_SUMMARY.md'}")
    if task:
        typer.echo(f"task     {task}")
    if step := _next(result, in_task=bool(task)):
        typer.echo(f"next     {step}")


def _why(result: DelegationResult) -> str:
    gave_up = result.reason == "fail" and result.result
    return ending_words(result.reason) + (f": {shorten(result.result, _MOST)}" if gave_up else "")


def _next(result: DelegationResult, *, in_task: bool) -> str:
    """Refine what is not right yet; where there is nothing to refine, what else helps."""
    if not result.deliverables:
        return next_step(result.reason)
    scores = () if result.evaluation is None else result.evaluation.measured
    lacking = [each for each in scores if each.score is not None and each.score < each.threshold]
    if in_task or not (result.defects or result.rejections or lacking):
        return ""
    return f"burnish refine {shown_path(result.run_dir)}"


def shown_path(path: Path) -> str:
    """A path as seen from here, ready for a shell."""
    return file_name(str(path.resolve()))
