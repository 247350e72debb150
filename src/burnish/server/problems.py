"""Errors as the product's own API tells them: a stable code, a sentence, what to do next."""

from burnish.core.content import Json
from burnish.core.errors import (
    BurnishError,
    ConfigError,
    FileTrouble,
    PriceUnknown,
    ResumeRefused,
    RunLocked,
    RunNotFound,
    SealedTestRead,
    TargetMismatch,
)
from burnish.models.errors import ModelRefused
from burnish.server.errors import (
    AppMissing,
    AppUnfit,
    DatasetMissing,
    FileMissing,
    ManagerClosed,
    NotAllowed,
    NotHere,
    TooManyRuns,
)
from burnish.server.stores.records import RunExists, RunMissing, RunNotRunning, StoreTrouble

_KNOWN: tuple[tuple[type[BurnishError], int, str], ...] = (
    (ConfigError, 422, "invalid_request"),
    (PriceUnknown, 422, "price_unknown"),
    (TargetMismatch, 422, "target_mismatch"),
    (ModelRefused, 422, "model_refused"),
    (NotAllowed, 403, "not_allowed"),
    (AppMissing, 404, "app_not_found"),
    (AppUnfit, 409, "app_unfit"),
    (DatasetMissing, 404, "dataset_not_found"),
    (FileMissing, 404, "file_not_found"),
    (RunMissing, 404, "run_not_found"),
    (RunNotFound, 404, "run_not_found"),
    (RunExists, 409, "run_exists"),
    (RunNotRunning, 409, "run_not_running"),
    (RunLocked, 409, "run_locked"),
    (ResumeRefused, 409, "resume_refused"),
    (SealedTestRead, 409, "sealed_test_read"),
    (NotHere, 409, "not_here"),
    (TooManyRuns, 429, "too_many_runs"),
    (StoreTrouble, 503, "store_trouble"),
    (ManagerClosed, 503, "closing"),
    (FileTrouble, 500, "file_trouble"),
)
INTERNAL = (500, "internal")


def status_of(error: BurnishError) -> tuple[int, str]:
    """The HTTP status and the code of an error."""
    found = (each[1:] for each in _KNOWN if isinstance(error, each[0]))
    return next(found, INTERNAL)


def problem(code: str, message: str, *, remedy: str = "", problems: Json = None) -> dict[str, Json]:
    """The body of an error."""
    told: dict[str, Json] = {"code": code, "message": message, "remedy": remedy}
    return {"error": {**told, "problems": [] if problems is None else problems}}


def told(error: BurnishError) -> dict[str, Json]:
    """The body for an error of burnish."""
    found = error.problems if isinstance(error, ConfigError) else ()
    problems: list[Json] = [
        {"where": each.where, "message": each.message, "remedy": each.remedy} for each in found
    ]
    _, code = status_of(error)
    return problem(code, error.message, remedy=error.remedy, problems=problems)
