"""Records as rows, and rows as records."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, cast

from sqlalchemy import ColumnElement, Double, RowMapping, Table, case, literal_column

from burnish.core.content import Json
from burnish.effects.database_drivers import CLOCKS
from burnish.server.stores.names import keepable_text
from burnish.server.stores.records import (
    CANCELED,
    FINISHED,
    Lease,
    RunChanges,
    RunFilter,
    RunRecord,
    RunStatus,
    Where,
    moment,
)

Row: TypeAlias = RowMapping

NEW = {
    "status": RunStatus.QUEUED.value,
    "error": "",
    "current_round": 0,
    "owner": "",
    "lease_token": 0,
    "lease_until": 0.0,
    "cancel_requested": 0,
    "events": 0,
}
"""What every run begins with."""


def clock(kind: str) -> ColumnElement[float]:
    """The time by the clock of the database, which is the same for every process."""
    return literal_column(CLOCKS[kind], Double())


def record_of(row: Row, *, request: Json = None, result: Json = None) -> RunRecord:
    """The record of a row, with the request and the result if they were read."""
    until = float(row["lease_until"])
    journal = cast('Literal["files", "database"]', row["journal"])
    return RunRecord(
        app_name=row["app_name"],
        run_id=row["run_id"],
        strategy=row["strategy"],
        status=RunStatus(row["status"]),
        request=request,
        result=result,
        error=row["error"],
        current_round=row["current_round"],
        best_score=row["best_score"],
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
        owner=row["owner"],
        lease_until=moment(until) if until else None,
        where=Where(journal=journal, host=row["host"], folder=row["folder"]),
        cancel_requested=bool(row["cancel_requested"]),
        events=row["events"],
    )


def lease_of(row: Row) -> Lease:
    """The lease of the run in a row."""
    return Lease(
        app_name=row["app_name"],
        run_id=row["run_id"],
        owner=row["owner"],
        token=row["lease_token"],
        until=moment(row["lease_until"]),
        cancel_requested=bool(row["cancel_requested"]),
    )


def place(where: Where) -> dict[str, Any]:
    """The columns that say where a run's journal lies."""
    return {"journal": where.journal, "host": where.host, "folder": where.folder}


def changed(runs: Table, changes: RunChanges) -> dict[str, Any]:
    """The columns to change; a run that ends after its cancel was requested ends canceled."""
    error = None if changes.error is None else keepable_text(changes.error)
    given = {
        "current_round": changes.current_round,
        "best_score": changes.best_score,
        "status": changes.status and changes.status.value,
        "error": error,
    }
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    values |= {} if changes.where is None else place(changes.where)
    if changes.status is None or not changes.status.finished:
        return values
    asked = runs.c.cancel_requested == 1
    return values | {
        "status": case((asked, RunStatus.CANCELED.value), else_=changes.status.value),
        "error": case((asked, CANCELED), else_=runs.c.error if error is None else error),
        "owner": "",
        "lease_until": 0.0,
    }


def unfinished(runs: Table) -> ColumnElement[bool]:
    """The condition that a run may still change."""
    return runs.c.status.not_in([status.value for status in FINISHED])


def wanted(runs: Table, which: RunFilter, now: ColumnElement[float]) -> Sequence[Any]:
    """The conditions of a filter."""
    given = (
        (runs.c.app_name, which.app_name),
        (runs.c.status, which.status and which.status.value),
        (runs.c.strategy, which.strategy),
    )
    found: list[Any] = [column == value for column, value in given if value]
    return [*found, unfinished(runs), runs.c.lease_until <= now] if which.undriven else found
