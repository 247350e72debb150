"""Refinements whose iterations are scripted: each leaves the folder of a run, no more."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.delegation.evaluation import DelegationEvaluation, MetricMeasurement
from burnish.delegation.loop import Status
from burnish.delegation.refine.loop import IterationJob, IterationOutcome, Refinement
from burnish.delegation.refine.seeds import Grade, Ruler, read_seed
from burnish.delegation.refine.sessions import SESSIONS, SeedBest, Session, SessionFiles
from burnish.delegation.result import DelegationResult, delegation_loss
from tests.delegation.refine.run_folders import plain_run, run_id_of


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one iteration comes to; `loss` falls with the critique's score."""

    critique: float | None = 0.5
    evaluation: float | None = 0.5
    status: Status = "complete"
    files: Mapping[str, str] | None = None
    """Those of the seed with other content, unless said; empty is nothing."""
    seconds: float = 1.0
    defects: tuple[str, ...] = ("it has no unit",)
    missing: tuple[str, ...] = ()
    """Metrics without a score."""
    error: BaseException | None = None


@dataclass(kw_only=True)
class Scripted:
    """Delegations that are written down beforehand."""

    steps: list[Step]
    jobs: list[IterationJob] = field(default_factory=list[IterationJob])
    attempts: list[IterationOutcome] = field(default_factory=list[IterationOutcome])
    before: Callable[[IterationJob], None] = lambda _: None

    async def delegate(self, job: IterationJob) -> DelegationResult:
        """Leave the run that the next step says."""
        self.before(job)
        self.jobs.append(job)
        step = self.steps[len(self.jobs) - 1]
        if step.error is not None:
            raise step.error
        files = {"report.md": f"draft {len(self.jobs)}\n"} if step.files is None else step.files
        run = plain_run(
            job.folder,
            files=dict(files),
            critique=step.critique,
            evaluation=step.evaluation,
            status=step.status,
            defects=step.defects,
        )
        return _result(run, job, step, files)

    async def grade(self, ruler: Ruler, name: str, run: Path, deliverable: Path) -> Grade:
        """Nothing scripted is graded again."""
        raise AssertionError((ruler, name, run, deliverable))

    async def record(self, attempt: IterationOutcome) -> None:
        """Count it."""
        self.attempts.append(attempt)


def _result(run: Path, job: IterationJob, step: Step, files: Mapping[str, str]) -> DelegationResult:
    measured = [
        MetricMeasurement(name=name, kind="command", score=None, weight=1, threshold=1)
        for name in step.missing
    ]
    return DelegationResult(
        run_id=run_id_of(run),
        run_dir=run,
        status=step.status,
        reason="",
        task=job.task,
        result="",
        confidence=None,
        iterations=1,
        loss=delegation_loss(
            eval_score=step.evaluation,
            critique_score=step.critique,
            rejections=0,
            max_rejections=2,
            budget_remaining=None,
            status=step.status,
        ),
        deliverables=tuple(run / "FINAL" / name for name in files),
        evaluation=DelegationEvaluation(measured=tuple(measured)) if measured else None,
        critique=step.critique,
        defects=(),
        rejections=(),
        budget={"wall_time": {"elapsed_s": step.seconds}},
        models={},
        notes=(),
    )


@dataclass(frozen=True, kw_only=True)
class Refined:
    """What became of a scripted refinement."""

    session: Session
    script: Scripted
    seed: Path
    shown: list[Session]

    @property
    def report(self) -> str:
        """What BEST delivers."""
        return (self.seed / "BEST" / "report.md").read_text(encoding="utf-8")

    @property
    def notes(self) -> list[str]:
        """Of the iterations."""
        return [row.note for row in self.session.iterations]


async def refined(seed: Path, *steps: Step, session: Session | None = None, **more: Any) -> Refined:
    """Refine a seed with scripted iterations."""
    script, shown = Scripted(steps=list(steps)), list[Session]()
    script.before = more.pop("before", script.before)
    told: dict[str, Any] = {"iterations": len(steps), **more}
    files = SessionFiles(folder=seed / SESSIONS)
    refinement = Refinement(
        seed=read_seed(seed),
        files=files,
        place=SeedBest(seed),
        listen=shown.append,
        **told,
    )
    with files.lock("seed"):
        begun = session or files.new("seed", {})
        ended = await refinement.run(begun, script)
    return Refined(session=ended, script=script, seed=seed, shown=shown)
