"""The tables of a store in a database."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.mysql import LONGBLOB, LONGTEXT

_NUMBER = BigInteger().with_variant(Integer(), "sqlite")  # SQLite counts only INTEGER by itself
_SECONDS: Double[float] = Double()
_BYTES = LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb")
_TEXT = Text().with_variant(LONGTEXT(), "mysql", "mariadb")
_NAME = String(255)
# Names that differ in case only are two names, which MySQL does not think by itself.
_EXACT: dict[str, Any] = {
    f"{kind}_{option}": value
    for kind in ("mysql", "mariadb")
    for option, value in (
        ("engine", "InnoDB"),
        ("default_charset", "utf8mb4"),
        ("collate", "utf8mb4_bin"),
    )
}


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The four tables; times are seconds since 1970 in UTC, by the clock of the database."""

    runs: Table
    """One row a run, small: it changes with every event."""
    events: Table
    payloads: Table
    """Requests and results, compressed, in parts that every server takes."""
    schema: Table
    """Which version the tables have."""

    @property
    def every(self) -> tuple[Table, ...]:
        """All of them."""
        return self.runs, self.events, self.payloads, self.schema

    @classmethod
    def named(cls, prefix: str) -> "Tables":
        """The tables whose names begin so."""
        data = MetaData()
        return cls(
            runs=_runs(prefix, data),
            events=_events(prefix, data),
            payloads=_payloads(prefix, data),
            schema=_schema(prefix, data),
        )


def _runs(prefix: str, data: MetaData) -> Table:
    return Table(
        f"{prefix}runs",
        data,
        Column("id", _NUMBER, primary_key=True, autoincrement=True),
        Column("app_name", _NAME, nullable=False),
        Column("run_id", _NAME, nullable=False),
        Column("strategy", _NAME, nullable=False),
        Column("status", String(32), nullable=False),
        Column("error", _TEXT, nullable=False),
        Column("current_round", Integer, nullable=False),
        Column("best_score", _SECONDS),
        Column("created_at", _SECONDS, nullable=False),
        Column("updated_at", _SECONDS, nullable=False),
        Column("owner", _NAME, nullable=False),
        Column("lease_token", BigInteger, nullable=False),
        Column("lease_until", _SECONDS, nullable=False),
        Column("cancel_requested", SmallInteger, nullable=False),
        Column("journal", String(32), nullable=False),
        Column("host", _NAME, nullable=False),
        Column("folder", _TEXT, nullable=False),
        Column("events", BigInteger, nullable=False),
        UniqueConstraint("app_name", "run_id", name=f"{prefix}runs_app_run"),
        # Indexes for lists. As constraints they are part of the table, which is made in one step.
        UniqueConstraint("status", "id", name=f"{prefix}runs_status"),
        UniqueConstraint("app_name", "id", name=f"{prefix}runs_app"),
        **_EXACT,
    )


def _events(prefix: str, data: MetaData) -> Table:
    return Table(
        f"{prefix}run_events",
        data,
        Column("run", BigInteger, primary_key=True, autoincrement=False),
        Column("number", BigInteger, primary_key=True, autoincrement=False),
        Column("kind", _NAME, nullable=False),
        Column("round", Integer, nullable=False),
        Column("at", _SECONDS, nullable=False),
        Column("event_key", _NAME),
        Column("body", _BYTES, nullable=False),
        UniqueConstraint("run", "event_key", name=f"{prefix}run_events_key"),
        **_EXACT,
    )


def _payloads(prefix: str, data: MetaData) -> Table:
    return Table(
        f"{prefix}run_payloads",
        data,
        Column("run", BigInteger, primary_key=True, autoincrement=False),
        Column("name", String(16), primary_key=True),
        Column("part", Integer, primary_key=True, autoincrement=False),
        Column("body", _BYTES, nullable=False),
        **_EXACT,
    )


def _schema(prefix: str, data: MetaData) -> Table:
    return Table(
        f"{prefix}schema",
        data,
        Column("name", String(32), primary_key=True),
        Column("version", Integer, nullable=False),
        **_EXACT,
    )
