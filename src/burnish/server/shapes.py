"""Requests and responses of burnish's own API, and requests as they are stored."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from burnish.core.content import MOST_KEYS, Json
from burnish.core.errors import ConfigError
from burnish.projects.clients import ClientSettings, client_model
from burnish.projects.description import all_doors
from burnish.projects.measurements import measurement_doors
from burnish.server.security import Name, NameFilter, public
from burnish.server.stores.records import RunStatus, StoredRun
from burnish.server.tokens import ServiceRole, TokenScope
from burnish.system import validate_config
from burnish.system.settings import Settings, refuse_many_keys

if TYPE_CHECKING:
    RunSettings = ClientSettings
    EvaluationSettings = ClientSettings
else:
    RunSettings = client_model("RunSettings", all_doors(), ClientSettings.__doc__)
    EvaluationSettings = client_model(
        "EvaluationSettings", [measurement_doors()], "What a request may set for a measurement."
    )


# -- Stored requests -------------------------------------------------------------------------------


class ColumnRequest(Settings):
    """Which column of a grid a measurement is."""

    grid: str
    number: int
    columns: int
    """How many the grid has."""
    label: str
    values: dict[str, JsonValue]
    """What it is made of: by axis, the value."""
    weights: dict[str, float]
    """How the metrics of a case make one score."""


class JobRequest(Settings):
    """A request as it is stored."""

    kind: Literal["optimize", "evaluate", "promptiter"] = "optimize"
    settings: RunSettings = Field(default_factory=RunSettings)
    evaluation: EvaluationSettings = Field(default_factory=EvaluationSettings)
    promptiter: Json = None
    column: ColumnRequest | None = None
    """Written by the service, for a column of a grid that it has checked."""
    spec: dict[str, JsonValue] | None = None
    """The description that the run is built from; written by the service, never by a client."""

    @classmethod
    def read(cls, request: Json) -> "JobRequest":
        """Validate a stored request, or one from a program."""
        return validate_config(request or {}, cls, source="request")

    def to_json(self) -> dict[str, Json]:
        return self.model_dump(mode="json", exclude_defaults=True, exclude_none=True)


def refuse_kind(kind: str, app: str) -> ConfigError:
    """The error for an app that does not support this kind of request."""
    return ConfigError.of("kind", f'the app "{app}" cannot {kind}')


# -- Requests and responses ------------------------------------------------------------------------


class _RequestModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _refuse_many_keys(cls, value: Any) -> Any:
        return refuse_many_keys(value)


class _ResponseModel(BaseModel):
    model_config = ConfigDict(frozen=True)


class NewRun(_RequestModel):
    """A run to start."""

    id: Name | None = None
    """Your own name for the run, so that a repeated request does not start two runs."""
    kind: Literal["optimize", "evaluate", "promptiter"] = "optimize"
    settings: RunSettings = Field(default_factory=RunSettings)
    """Settings that override the project file."""
    evaluation: EvaluationSettings = Field(default_factory=EvaluationSettings)
    promptiter: dict[str, JsonValue] | None = None
    """A run request of PromptIter; unknown fields are rejected."""


class NewEvaluation(_RequestModel):
    """A measurement to make."""

    id: Name | None = None
    app: Name
    settings: EvaluationSettings = Field(default_factory=EvaluationSettings)


_Axis = Annotated[list[str | int | float], Field(min_length=1, max_length=24)]


class NewGrid(_RequestModel):
    """Measurements to make side by side: every combination of models and values."""

    id: Name | None = None
    app: Name
    settings: EvaluationSettings = Field(default_factory=EvaluationSettings)
    """The same for all columns; they share its limits."""
    models: list[str] = Field(default_factory=list, max_length=24)
    """Allowed models, and `current` for what the file says."""
    values: Annotated[dict[str, _Axis], BeforeValidator(refuse_many_keys)] = Field(
        default_factory=dict, max_length=8
    )
    """By surface, the values to measure."""


class GridColumnShape(_ResponseModel):
    """A column of a grid, which is a measurement like any other."""

    number: int
    label: str
    id: str
    """Of its run."""
    status: str
    """That of its run, or `deleted`."""


class GridShape(_ResponseModel):
    """Measurements side by side."""

    app: str
    id: str
    finished: bool
    """Whether every column has ended."""
    columns: list[GridColumnShape]
    report: JsonValue = None
    """Scores, paired differences, cost, and the frontier, as in the file of a grid."""


class RunShape(_ResponseModel):
    """A run."""

    app: str
    id: str
    strategy: str
    status: RunStatus
    error: str
    current_round: int
    best_score: float | None
    created_at: datetime
    updated_at: datetime
    owner: str
    """The process that drives it, or drove it last."""
    lease_until: datetime | None
    journal: str
    """Whether its journal is in files or in the database."""
    host: str
    """The machine that has its folder."""
    cancel_requested: bool
    events: int
    tags: list[str] = []
    """Of a run that has begun: words by which people find it again."""
    left_because: str = ""
    """Why this service cannot continue the run, if nobody drives it."""
    request: JsonValue = None
    result: JsonValue = None

    @classmethod
    def of(cls, record: StoredRun, left_because: str = "", tags: Sequence[str] = ()) -> "RunShape":
        request = record.request
        if isinstance(request, dict):
            # The description is the service's own: it names folders of this machine.
            request = {k: v for k, v in request.items() if k != "spec"}
        return cls(
            app=record.app_name,
            id=record.run_id,
            strategy=record.strategy,
            status=record.status,
            error=public(record.error),
            current_round=record.current_round,
            best_score=record.best_score,
            created_at=record.created_at,
            updated_at=record.updated_at,
            owner=record.owner,
            lease_until=record.lease_until,
            journal=record.where.journal,
            host=record.where.host,
            cancel_requested=record.cancel_requested,
            events=record.events,
            tags=[*tags],
            left_because=public(left_because),
            request=request,
            result=record.result,
        )


class NewTags(_RequestModel):
    """The tags that a run gets in place of those that it has."""

    tags: Annotated[list[str], Field(max_length=MOST_KEYS)]


class RunQuery(BaseModel):
    """Which runs to list."""

    app: NameFilter = ""
    status: RunStatus | None = None
    strategy: NameFilter = ""
    tag: Annotated[str, Field(max_length=50)] = ""
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: Annotated[str, Field(max_length=100)] = ""


class RunList(_ResponseModel):
    """Some runs, newest first."""

    runs: list[RunShape]
    cursor: str
    """Send it to get the next page; empty on the last."""


class AppShape(_ResponseModel):
    """An app."""

    name: str
    kind: Literal["file", "engine"]
    strategy: str
    """Empty if the file decides."""
    promptiter: bool
    """Whether PromptIter's routes support it."""


class AppList(_ResponseModel):
    """The apps."""

    apps: list[AppShape]


class Structure(_ResponseModel):
    """The nodes, edges and surfaces of an app, in PromptIter's shape."""

    structure: dict[str, JsonValue]


class ColumnShape(_ResponseModel):
    """A column that was taken for a part of a case, and one of its values."""

    column: str
    sample: str


class DatasetShape(_ResponseModel):
    """A dataset."""

    name: str
    cases: int
    columns: dict[str, ColumnShape]
    """By part, what was taken, where a table has columns with names of their own."""


class DatasetList(_ResponseModel):
    """The datasets."""

    datasets: list[str]


class CasePage(DatasetShape):
    """A dataset with some of its cases."""

    offset: int
    page: list[dict[str, JsonValue]]


class TrialPage(_ResponseModel):
    """Some trials of a run, as in its trials.jsonl."""

    total: int
    offset: int
    trials: list[dict[str, JsonValue]]


class CandidateShape(_ResponseModel):
    """An accepted candidate, or the starting point of the run."""

    trial: int
    id: str
    values: JsonValue
    accepted: bool
    files: list[str]


class CandidateList(_ResponseModel):
    """The candidates to choose from, oldest first."""

    candidates: list[CandidateShape]


class FileShape(_ResponseModel):
    """A file in a run's folder."""

    path: str
    bytes: int


class FileList(_ResponseModel):
    """The files of a run."""

    files: list[FileShape]


class EventShape(_ResponseModel):
    """Something that happened."""

    number: int
    kind: str
    round: int
    at: datetime
    payload: JsonValue


class EventPage(_ResponseModel):
    """Some events, oldest first."""

    events: list[EventShape]


class Health(_ResponseModel):
    """The service is alive."""

    status: Literal["ok"]
    version: str


class AccountShape(_ResponseModel):
    """An account."""

    name: str
    scope: TokenScope
    limits: dict[str, float | None]
    """None means no limit."""
    spent: dict[str, float | None]
    reserved: dict[str, float | None]
    """What unfinished runs may still spend."""
    runs: int
    """Unfinished runs."""


class LeftRun(_ResponseModel):
    """A run that nobody drives and that cannot continue here."""

    app: str
    id: str
    why: str


class ProcessShape(_ResponseModel):
    """A process of the service, of all that share the store."""

    name: str
    role: ServiceRole
    host: str
    places: int
    """How many runs it can drive at once."""
    busy: int
    """How many it drives."""


class Readiness(_ResponseModel):
    """Whether the service is ready."""

    status: Literal["ready"]
    apps: list[str] = []
    running: int = 0
    waiting: int = 0
    """Runs that wait for a worker, of all processes that share the store."""
    processes: list[ProcessShape] = []
    left: list[LeftRun] = []


class ProblemShape(_ResponseModel):
    """One problem."""

    where: str
    message: str
    remedy: str


class ErrorShape(_ResponseModel):
    """An error."""

    code: str
    """A stable code for programs."""
    message: str
    remedy: str
    problems: list[ProblemShape]


class ErrorBody(_ResponseModel):
    """The body of every error."""

    error: ErrorShape


class Detailed(_ResponseModel):
    """The body of an error of the refinement routes."""

    detail: str
