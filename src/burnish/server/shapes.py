"""What the product's own API takes and gives."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from burnish.server.apps.projects import EvaluationSettings, RunSettings
from burnish.server.stores.records import RunStatus, StoredRun

RUN_ID = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$"


class RequestModel(BaseModel):
    """What is sent: an unknown field is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ResponseModel(BaseModel):
    """What is given back."""

    model_config = ConfigDict(frozen=True)


class NewRun(RequestModel):
    """A run to start."""

    id: Annotated[str, Field(pattern=RUN_ID)] | None = None
    """A name of your own, so that asking twice does not start two runs."""
    kind: Literal["optimize", "evaluate", "promptiter"] = "optimize"
    settings: RunSettings = Field(default_factory=RunSettings)
    """What is said in the place of the project file."""
    evaluation: EvaluationSettings = Field(default_factory=EvaluationSettings)
    promptiter: dict[str, JsonValue] | None = None
    """A run request of PromptIter, whose unknown fields are refused here."""


class NewEvaluation(RequestModel):
    """A measurement to make."""

    id: Annotated[str, Field(pattern=RUN_ID)] | None = None
    app: str
    settings: EvaluationSettings = Field(default_factory=EvaluationSettings)


class RunShape(ResponseModel):
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
    """Whether its journal lies in files or in the database."""
    host: str
    """The machine that has its folder."""
    cancel_requested: bool
    events: int
    left_because: str = ""
    """Why this service cannot go on with it, where nobody drives it."""
    request: JsonValue = None
    result: JsonValue = None

    @classmethod
    def of(cls, record: StoredRun, left_because: str = "") -> "RunShape":
        """A record of the store."""
        same = (
            "strategy",
            "status",
            "error",
            "current_round",
            "best_score",
            "created_at",
            "updated_at",
            "owner",
            "lease_until",
            "cancel_requested",
            "events",
            "result",
        )
        request = record.request
        if isinstance(request, dict):
            # The description is the service's own: it names folders of this machine.
            request = {name: value for name, value in request.items() if name != "spec"}
        return cls(
            request=request,
            app=record.app_name,
            id=record.run_id,
            journal=record.where.journal,
            host=record.where.host,
            left_because=left_because,
            **{name: getattr(record, name) for name in same},
        )


class RunList(ResponseModel):
    """Some runs, newest first."""

    runs: list[RunShape]
    cursor: str
    """Give it back for the next page; empty on the last."""


class AppShape(ResponseModel):
    """An app."""

    name: str
    kind: Literal["file", "engine"]
    strategy: str
    """Empty where the file decides."""
    promptiter: bool
    """Whether PromptIter's routes know it."""


class AppList(ResponseModel):
    """The apps."""

    apps: list[AppShape]


class Structure(ResponseModel):
    """The nodes, edges and surfaces of an app, in PromptIter's shape."""

    structure: dict[str, JsonValue]


class DatasetShape(ResponseModel):
    """A dataset."""

    name: str
    format: str
    cases: int


class DatasetList(ResponseModel):
    """The datasets."""

    datasets: list[str]


class CasePage(DatasetShape):
    """A dataset with some of its cases."""

    offset: int
    page: list[dict[str, JsonValue]]


class TrialPage(ResponseModel):
    """Some trials of a run, as in its trials.jsonl."""

    total: int
    offset: int
    trials: list[dict[str, JsonValue]]


class CandidateShape(ResponseModel):
    """A candidate that became the incumbent, or where the run began."""

    trial: int
    id: str
    values: JsonValue
    accepted: bool
    files: list[str]


class CandidateList(ResponseModel):
    """The candidates to choose from, oldest first."""

    candidates: list[CandidateShape]


class FileShape(ResponseModel):
    """A file in a run's folder."""

    path: str
    bytes: int


class FileList(ResponseModel):
    """The files of a run."""

    files: list[FileShape]


class EventShape(ResponseModel):
    """Something that happened."""

    number: int
    kind: str
    round: int
    at: datetime
    payload: JsonValue


class EventPage(ResponseModel):
    """Some events, oldest first."""

    events: list[EventShape]


class Health(ResponseModel):
    """That the service is alive."""

    status: Literal["ok"]
    version: str


class LeftRun(ResponseModel):
    """A run that nobody drives and that cannot go on here."""

    app: str
    id: str
    why: str


class Readiness(ResponseModel):
    """Whether the service can work."""

    status: Literal["ready"]
    apps: list[str]
    running: int
    waiting: int
    left: list[LeftRun]


class ProblemShape(ResponseModel):
    """One thing that is wrong."""

    where: str
    message: str
    remedy: str


class ErrorShape(ResponseModel):
    """An error."""

    code: str
    """A stable word for programs."""
    message: str
    remedy: str
    problems: list[ProblemShape]


class ErrorBody(ResponseModel):
    """The body of every error."""

    error: ErrorShape


class Detailed(ResponseModel):
    """The body of an error of the refinement routes."""

    detail: str
