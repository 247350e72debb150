"""The setup of a run, with its strategy and proposers; starting, resuming and forking it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from burnish.core.cases import Case, Split
from burnish.core.content import Json, codec, short_id
from burnish.core.errors import (
    ConfigError,
    FileTrouble,
    PriceUnknown,
    Problem,
    ResumeRefused,
    SealedTestRead,
    TargetMismatch,
    in_shell,
)
from burnish.core.evaluations import Evaluation, Objective, Penalties
from burnish.core.money import Spend
from burnish.core.protocols import KEY_SCHEMA, KnowsSecrets, Role, Target
from burnish.core.surfaces import Candidate
from burnish.core.trials import Decision, Proposal
from burnish.journal.journal import JournalReader
from burnish.journal.limits import Budget
from burnish.journal.once import Cache
from burnish.journal.sqlite_store import JOURNAL_FILE, POINTER
from burnish.models.chat import ModelClient
from burnish.models.factory import ModelUse, missing_libraries
from burnish.runs.case_work import CALL_LIMIT, CasePolicy
from burnish.runs.claims import LOOKED_AT_BEFORE, NO_SPREAD
from burnish.runs.directory import Header, RunDirectory, look_into, remember_run, what_is_lost
from burnish.runs.evaluation import Conditions
from burnish.runs.events import Exported, Exporter, in_folders
from burnish.runs.first_round import FirstRound
from burnish.runs.homes import ADOPTED
from burnish.runs.run import Run
from burnish.runs.spec import OutputSpec
from burnish.runs.spec_changes import named_changes, spec_changes
from burnish.system import Redactor, make_folder, remove_stale_temporaries
from burnish.system.variables import expanded_secrets
from burnish.version import VERSION


class Strategy(Protocol):
    """Plain async code over a Run.

    It holds no clients, opens no files, and sees budgets only through `run.stop_reason`.
    Once that returns a reason, it records nothing more: a trial is finished or dropped whole.
    Everything that it decides on comes from the run, so that running it again over the same
    journal makes the same decisions. Resume relies on that.
    """

    @property
    def name(self) -> str:
        """Its name on the command line and in run.json."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of its settings and version."""
        ...

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """The roles it asks."""
        ...

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """What it needs that the target does not have."""
        ...

    async def search(self, run: Run) -> None:
        """Search until there is a reason to stop."""
        ...


_MODEL_ADDRESS = "model address"


def _locations(uses: Iterable[ModelUse]) -> list[Json]:
    """The models that are not at their provider's own address, and where they are."""
    places = {(use.model.label, use.model.location) for use in uses if use.model.location}
    return [[*place] for place in sorted(places)]


def work_fingerprint(target: Target, uses: Iterable[ModelUse]) -> str:
    """What workers elsewhere must find: the same target, with its models at the same addresses."""
    locations, fingerprint = _locations(uses), target.description.fingerprint
    return short_id([fingerprint, *locations]) if locations else fingerprint


@dataclass(frozen=True, kw_only=True)
class Setup(Conditions):
    """The target, cases, objective, strategy and limits of a run."""

    strategy: Strategy
    first_round: FirstRound | None = None
    """What a new run must be able to pay for; None if nobody knows, or if it makes no rounds."""

    def secrets(self) -> list[str]:
        """What the target, its models and the files of cases send and nobody may store."""
        holders = (self.target, *self.resources)
        held = [s for each in holders if isinstance(each, KnowsSecrets) for s in each.secrets()]
        cases = (case for split in Split for case in self.dataset.cases(split))
        urls = (file.url for case in cases for turn in case.turns for file in turn.attachments)
        return list(dict.fromkeys((*held, *(s for url in urls for s in expanded_secrets(url)))))

    def inputs(self) -> dict[str, str]:
        """Hashes of everything that decisions depend on, so without budget and concurrency."""
        locations = _locations(self.model_uses())
        elsewhere = {_MODEL_ADDRESS: short_id(locations)} if locations else {}
        return {
            "target": self.target.description.fingerprint,
            "baseline": self.target.baseline.id,
            "data": self.dataset.fingerprint,
            "metrics": short_id([[m.name, m.fingerprint] for m in self.metrics]),
            "objective": short_id(codec(Objective).encode(self.objective)),
            "case policy": short_id(codec(CasePolicy).encode(self.case_policy)),
            "strategy": short_id([self.strategy.name, self.strategy.fingerprint]),
            "role prompts": short_id([[r.name, r.fingerprint] for r in self.strategy.roles]),
            "seed": str(self.seed),
            "test repeats": str(self.test_repeats),
            "key schema": str(KEY_SCHEMA),
            "burnish version": ".".join(VERSION.split(".")[:2]),
            **elsewhere,
        }

    def check(self, *, new: bool = False, to_plan: bool = False) -> None:
        """Raise with everything that is wrong before anything is paid.

        A `new` run must also be able to finish one round. What a resumed or forked run takes over
        is paid for, so its limits may be smaller. `to_plan` needs no library that calls a model.
        """
        problems = [*self.dataset.problems(), *self._unknown_metrics(), *self._leaked_answers()]
        if problems:
            raise ConfigError(problems)
        mismatch = self.strategy.mismatch(self.target)
        if mismatch:
            raise TargetMismatch(
                f"the strategy '{self.strategy.name}' cannot run on this target: "
                + "; ".join(map(str, mismatch))
            )
        self._check_prices()
        if not to_plan and (missing := missing_libraries(self.model_uses())):
            raise missing
        first = self.first_round if new else None
        if first is not None and (problems := [*first.problems(self.budget)]):
            raise ConfigError(problems)

    def _leaked_answers(self) -> list[Problem]:
        """Proposers see the baseline's texts, which may not contain held-out cases."""
        if not self.strategy.roles:
            return []
        secrets, values = self.leak_watch, self.target.baseline.values
        return [
            Problem(
                where=name,
                message=f"it contains text of '{case}', which no proposer may see",
                remedy="take the case out of holdout and test, or its text out of this one",
            )
            for name, value in values.items()
            if isinstance(value, str) and (case := secrets.leaked(value)) is not None
        ]

    def _unknown_metrics(self) -> list[Problem]:
        names = {metric.name for metric in self.metrics}
        required = {
            "objective": [*self.objective.weights, *(self.objective.required or ())],
            "budget.required_metrics": list(self.budget.required_metrics),
        }
        available = ", ".join(sorted(names)) or "none"
        return [
            Problem(where=where, message=f"no metric '{name}'", remedy=f"there are: {available}")
            for where, metrics in required.items()
            for name in metrics
            if name not in names
        ]

    def _check_prices(self) -> None:
        if self.budget.max_usd is None:
            return
        cases = [case for split in Split for case in self.dataset.cases(split)]
        metrics = (*self.metrics, *self.second_metrics)
        unpriced = [
            *(["the agent"] if any(self.target.estimate(c).unpriced for c in cases) else []),
            *(m.name for m in metrics if any(m.estimate(c).unpriced for c in cases)),
            *(role.name for role in self.strategy.roles if not role.priced),
        ]
        if unpriced:
            raise PriceUnknown(
                f"max_usd is set, but the price of a call is not known for: {', '.join(unpriced)}",
                remedy="give the price, or limit calls or tokens instead of USD",
            )


Furnish: TypeAlias = Callable[[Path], None]
"""Adds files to a folder that is being created, such as a pointer to its journal."""
RESULTS = Path("results") / "optimizer"
"""The default folder of runs."""


def start(
    setup: Setup,
    *,
    root: Path = RESULTS,
    folder: Path | None = None,
    furnish: Furnish | None = None,
) -> Run:
    """Start a new run under `root`, or exactly in `folder`.

    `furnish` may add files to the folder before it appears.
    """
    setup.check(new=True)
    return _begin(setup, root=root, folder=folder, furnish=furnish)


def resume(setup: Setup, folder: Path, *, redactor: Redactor | None = None) -> Run:
    """Continue a run: the same strategy over the same journal."""
    setup.check()
    header, inputs = Header.read(folder), setup.inputs()
    if header.inputs.get(_MODEL_ADDRESS) != inputs.get(_MODEL_ADDRESS):
        # Before the rest, which may differ since it has the addresses in it.
        raise _elsewhere(header.id, setup)
    try:
        header.require_same(inputs)
    except ResumeRefused as error:
        raise _explained(error, header, setup, folder) from None
    remember_run(folder)  # it may have been moved
    redactor = redactor or Redactor.from_environment(extra=setup.secrets())
    return Run(setup, RunDirectory(folder, redactor=redactor), search=setup.strategy.search)


def _explained(error: ResumeRefused, header: Header, setup: Setup, folder: Path) -> ResumeRefused:
    """The error with the values of the description that are others, if there are any."""
    message, remedy = error.message, error.remedy
    before, after = ({**each.spec} for each in (header.project, setup.project))
    own = {"source": None, "budget": None}
    changes = [*spec_changes({**before, **own}, {**after, **own})]
    if before and after and changes:
        message += f":\n{named_changes(changes)}"
    if (folder / ADOPTED).exists():
        remedy = (
            f"`burnish adopt {in_shell(header.id)} --undo` takes out of your files what the run "
            f"found, if that is what has changed; else {remedy}"
        )
    return ResumeRefused(message, remedy=remedy)


def _elsewhere(run: str, setup: Setup) -> ResumeRefused:
    """The error for a run whose models were asked at other addresses."""
    models = [f"{use.model.label} at {use.model.location or use.model.address}"
              for use in setup.model_uses() if not use.is_embedded]  # fmt: skip
    now = f" now: {', '.join(models)}" if models else ""
    return ResumeRefused(
        f"run {run} was started with another model address;{now}",
        remedy=f"name the address again that `burnish runs show {in_shell(run)}` has, or start "
        f"from the existing results with --fork {in_shell(run)}",
    )


def fork(
    setup: Setup,
    parent: Path,
    *,
    root: Path = RESULTS,
    folder: Path | None = None,
    retry_missing: bool = False,
) -> Run:
    """Start a new run that takes results from an earlier run's journal."""
    setup.check()
    before = Header.read(parent)
    reader = look_into(parent)
    try:
        if (lost := what_is_lost(parent, reader)) is not None:
            note = f"{lost.message}; what was lost is paid for again"
            setup = replace(setup, notes=(*setup.notes, note))
        spent = _is_spent(before, reader)
        if spent and setup.dataset.test:
            setup = replace(setup, notes=(*setup.notes, LOOKED_AT_BEFORE))
        return _begin(
            setup,
            root=root,
            folder=folder,
            forked_from=before.id,
            sealed_test="spent" if spent else "unread",
            cache=Cache(reader, retry_missing=retry_missing),
        )
    except BaseException:  # whatever it was, the reader is closed
        reader.close()
        raise


def refuse_spent_test(folder: Path) -> None:
    """Refuse to continue a run whose sealed test is finished."""
    with look_into(folder) as reader:
        if "sealed_done" in reader.marks():
            raise SealedTestRead(
                f"run {Header.read(folder).id} has read its sealed test and is finished",
                remedy=f"continue from it with --fork {in_shell(folder.name)}: a new run that "
                "takes over what was paid, and whose sealed test shows no gain any more",
            )


def _is_spent(before: Header, journal: JournalReader) -> bool:
    """Whether the sealed test of an earlier run shows a fork of it no gain any more."""
    return "sealed_read" in journal.marks() or before.sealed_test == "spent"


def refuse_without_proof(
    setup: Setup, *, resumed: Path | None = None, forked: Path | None = None
) -> None:
    """Refuse a run of which a gain is required, and that can show none whatever it finds.

    `resumed` or `forked` is the folder of the run that it goes on with.
    """
    if why := _lacks_proof(setup, resumed=resumed, forked=forked):
        message, remedy = why
        message = f"a gain is required, and this run can show none: {message}"
        raise ConfigError([Problem(message=message, remedy=remedy)])


def _lacks_proof(
    setup: Setup, *, resumed: Path | None, forked: Path | None
) -> tuple[str, str] | None:
    """Why neither a sealed test nor fresh draws can show a gain, and what to do about it."""
    header = None if resumed is None else Header.read(resumed)
    # What a run was started with stays as it is when it is resumed.
    anew = "" if resumed is None else ", and start a new run"
    test = setup.dataset.test
    if BASELINE_ONLY in setup.stop_callbacks:
        return "it only measures the baseline", "start a run that searches"
    if test and (_was_read(forked) or (header is not None and header.sealed_test == "spent")):
        return LOOKED_AT_BEFORE, "seal other cases, and start a new run"
    if not test and not (setup.confirm and (header is None or header.confirm)):
        message = "it has no sealed test, and its winner is not measured again"
        remedy = "seal some cases, twenty or more, or set `confirm: true` without --no-confirm"
        return message, remedy + anew
    if len(test or setup.dataset.cases(setup.deciding_split)) == 1 and setup.test_repeats == 1:
        return NO_SPREAD, f"give it more cases, twenty or more{anew}"
    return None


def _was_read(parent: Path | None) -> bool:
    if parent is None:
        return False
    with look_into(parent) as journal:
        return _is_spent(Header.read(parent), journal)


def _begin(
    setup: Setup,
    *,
    root: Path,
    folder: Path | None,
    forked_from: str = "",
    sealed_test: str = "unread",
    cache: Cache | None = None,
    furnish: Furnish | None = None,
) -> Run:
    redactor = Redactor.from_environment(extra=setup.secrets())
    inputs = setup.inputs()
    started = datetime.now(UTC)
    header = Header(
        id="",
        strategy=setup.strategy.name,
        seed=setup.seed,
        started_at=started.isoformat(timespec="seconds"),
        burnish=VERSION,
        project=setup.project,
        inputs=inputs,
        cases={split.value: len(setup.dataset.cases(split)) for split in Split},
        forked_from=forked_from,
        call_limit=CALL_LIMIT,
        confirm=setup.confirm,
        sealed_test=sealed_test,
        redact=setup.redact,
        audit=_audited(setup),
    ).redacted(redactor)
    name = f"{started:%Y-%m-%dT%H-%M-%S}_{short_id(dict(inputs))[:8]}"
    path = root / name if folder is None else folder
    home = _make_home(header, path, exactly=folder is not None, furnish=furnish)
    remember_run(home)
    directory = RunDirectory(home, redactor=redactor)
    return Run(setup, directory, search=setup.strategy.search, cache=cache)


@runtime_checkable
class _AuditsHeader(Protocol):
    def audit_header(self, target: Target, budget: Budget) -> Mapping[str, Json]: ...


def _audited(setup: Setup) -> dict[str, Json]:
    """HoloDeck's fields of run.json; empty for strategies that it does not have."""
    if not isinstance(setup.strategy, _AuditsHeader):
        return {}
    fields = setup.strategy.audit_header(setup.target, setup.budget)
    config, objective, file = fields["optimizer_config"], setup.objective, Path(setup.project.file)
    assert isinstance(config, dict)
    goal: dict[str, Json] = {
        "loss_weights": {**objective.weights},
        "penalties": codec(Penalties).encode(objective.penalties),
    }
    return {
        "baseline_agent_path": setup.project.file,
        "baseline_sha256": sha256(file.read_bytes()).hexdigest() if file.is_file() else "",
        **fields,
        "optimizer_config": {**goal, **config},
        "train_cases_count": len(setup.dataset.train),
        "holdout_cases_count": len(setup.dataset.holdout),
    }


def _make_home(
    header: Header, path: Path, *, exactly: bool, furnish: Furnish | None = None
) -> Path:
    """Create the run's folder, which appears with its header, under an unused name."""

    def fill(folder: Path) -> None:
        replace(header, id=home.name).write(folder)
        if furnish is not None:
            furnish(folder)
        if not (folder / POINTER).exists():
            # With the header: a task whose folder holds the run must never take it for its files.
            (folder / JOURNAL_FILE).touch()

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileTrouble(
            f"no run can be created under {path.parent}: {error.strerror}",
            remedy="name another folder with -o",
        ) from error
    remove_stale_temporaries(path.parent, shared=True)
    for number in range(1, 2 if exactly else 1000):
        home = path if number == 1 else path.with_name(f"{path.name}-{number}")
        if make_folder(home, fill):
            return home
    raise FileTrouble(
        f"{path} exists already", remedy="name another folder with -o, or resume the run there"
    )


BASELINE_ONLY = "baseline_only"
"""Why a run stops that only measures its baseline."""


class _BestOnly:
    """Exports as usual; when the run is closed, only the files of the last export stay.

    A resume writes the others again.
    """

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self._written: set[Path] = set()
        self._best: set[Path] = set()

    def __call__(self, candidate: Candidate, folder: Path, number: int) -> Exported:
        exported = self._exporter(candidate, folder, number)
        self._best = {folder / path for path in exported.files}
        self._written |= self._best
        return exported

    async def close(self) -> None:
        for path in self._written - self._best:
            path.unlink(missing_ok=True)
            if path.parent.name.startswith("iter-"):
                with suppress(OSError):  # another file of the candidate is still there
                    path.parent.rmdir()


def with_outputs(setup: Setup, outputs: OutputSpec) -> Setup:
    """The setup of a run that keeps only the best candidate, or stops after its baseline."""
    exporter = setup.exporter or in_folders(setup.target)
    if outputs.baseline_only:
        exported: list[int] = []

        def export(candidate: Candidate, folder: Path, number: int) -> Exported:
            exported.append(number)
            return exporter(candidate, folder, number)

        # Measuring the baseline must leave the sealed test sealed.
        unsealed = replace(setup.dataset, test=())
        stops = {BASELINE_ONLY: lambda: bool(exported)}
        return replace(setup, exporter=export, dataset=unsealed, stop_callbacks=stops)
    if outputs.keep_best_only:
        best = _BestOnly(exporter)
        return replace(setup, exporter=best, resources=(*setup.resources, best))
    return setup


# -- Proposers -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ProposerEvidence:
    """What a proposer may learn from: the incumbent and its results on train."""

    round: int
    parent: Candidate
    cases: tuple[Case, ...]
    """The minibatch on which the proposal will be compared first."""
    before: Evaluation
    """The incumbent on the minibatch."""
    train: Evaluation
    """All of the incumbent's results on train so far."""


@dataclass(frozen=True, kw_only=True)
class Proposed:
    """A candidate, or the reason why there is none."""

    candidate: Candidate | None = None
    touched: tuple[str, ...] = ()
    """The surfaces that it changes."""
    proposals: tuple[Proposal, ...] = ()
    """What roles were asked and answered, if the run has not recorded it."""
    problems: tuple[Problem, ...] = ()
    """Why there is no candidate this time."""
    source: Mapping[str, Json] | None = None
    """Where it comes from, for the journal."""
    nothing_left: str = ""
    """Why there is nothing more to propose from this incumbent."""
    shows: tuple[str, ...] = ()
    """The train cases whose answers its texts give on purpose, as examples."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What became of a proposal."""

    accepted: bool = False
    gain: float | None = None
    """Over the incumbent on the minibatch; None if it is unknown."""
    problems: tuple[Problem, ...] = ()
    """Why it was not run."""
    decision: Decision | None = None


class CandidateProposer(Protocol):
    """Makes candidates from the incumbent, one at a time, through the journal of a run."""

    @property
    def need(self) -> Spend:
        """What a proposal is expected to cost before it is measured."""
        ...

    async def propose(self, evidence: ProposerEvidence) -> Proposed:
        """The next candidate."""
        ...

    def learn(self, tried: Tried) -> None:
        """Learn what became of the last candidate."""
        ...


@dataclass(frozen=True, kw_only=True)
class ProposerOffer:
    """A proposer that a strategy offers for a target, or the reason why it cannot."""

    name: str
    surfaces: tuple[str, ...] = ()
    """What it may change."""
    begin: Callable[[Run], CandidateProposer] | None = field(default=None, compare=False)
    """Makes the proposer of a run; None if it cannot work here."""
    fingerprint: str = ""
    """A hash of its settings."""
    roles: tuple[Role[Any, Any], ...] = ()
    client: ModelClient | None = field(default=None, compare=False)
    """The model that writes, if there is one."""
    left_out: str = ""
    """Why it cannot work here, and what to do about it."""
