"""The cases of a search over an agent file: train, holdout and the sealed test."""

from collections.abc import Sequence
from pathlib import Path

from burnish.core.cases import Case, Dataset, Split
from burnish.core.errors import ConfigError, FileTrouble
from burnish.evaluation.datasets.formats import read_cases
from burnish.projects.gathering import Keys
from burnish.projects.optimizer_findings import Findings
from burnish.projects.optimizer_plan import TuningPlan
from burnish.targets.agent.documents_checks import check_attachments, pinned
from burnish.targets.agent.loading import LoadedAgent

TRAIN, HOLDOUT, SEALED = "train_cases_file", "holdout_cases_file", "sealed_cases_file"
_SHOWN = 3
"""Cases that are named where many are amiss: they mostly are in the same way."""
OVERFIT = (
    "holdout_eval_policy: skip — NOTHING GUARDS AGAINST OVERFITTING: candidates are accepted on "
    "the cases they were made from, and the result is a training score"
)


def dataset_of(agent: LoadedAgent, plan: TuningPlan, findings: Findings) -> Dataset:
    """The cases of each split, their files in view; what is wrong with them is kept."""
    _require_files(plan, findings)
    train = _train(agent, plan, findings)
    holdout = _named(agent, plan.block.holdout_cases_file, HOLDOUT, findings)
    sealed = _sealed(agent, plan, findings)
    dataset = Dataset(train=train, holdout=holdout, test=sealed)
    # That train is empty says nothing new where its file could not be read.
    told = train or not findings.problems
    problems = [p for p in dataset.problems() if told or p.where != Split.TRAIN.value]
    findings.problems += problems[:_SHOWN]
    if len(problems) > _SHOWN:
        findings.wrong((), f"{len(problems) - _SHOWN} more cases are amiss in the same way")
    _require_enough(plan, holdout, findings)
    return dataset


def _require_files(plan: TuningPlan, findings: Findings) -> None:
    block = plan.block
    named = {TRAIN: block.train_cases_file, HOLDOUT: block.holdout_cases_file}
    lacking = [name for name, file in named.items() if file is None]
    if not plan.holdout:
        findings.note(OVERFIT)
    elif lacking:
        told = f"{' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not given: "
        told += "one set is learned from, the other decides, and both are needed"
        remedy = (
            "`burnish data split` makes two files of one; or set holdout_eval_policy: skip, and "
            "take the risk of overfitting on yourself"
        )
        findings.wrong((), told, remedy)


def _train(agent: LoadedAgent, plan: TuningPlan, findings: Findings) -> tuple[Case, ...]:
    """Without a file and without a holdout, the agent's own cases, as HoloDeck takes them."""
    if plan.block.train_cases_file is None and not plan.holdout:
        findings.note("train_cases_file is not given: the test cases of the agent are learned from")
        return _looked_at(agent, agent.cases, (TRAIN,), findings)
    return _named(agent, plan.block.train_cases_file, TRAIN, findings)


def _sealed(agent: LoadedAgent, plan: TuningPlan, findings: Findings) -> tuple[Case, ...]:
    if plan.sealed is None:
        return ()
    return _read(agent, plan.sealed, SEALED, findings, flag=plan.place("sealed_cases"))


def _named(agent: LoadedAgent, file: str | None, key: str, findings: Findings) -> tuple[Case, ...]:
    return () if file is None else _read(agent, agent.folder / file, key, findings)


def _read(
    agent: LoadedAgent, path: Path, key: str, findings: Findings, *, flag: str = ""
) -> tuple[Case, ...]:
    try:
        cases = read_cases(path).cases
    except ConfigError as error:
        for problem in error.problems:
            findings.wrong((key,), f"{problem.where}: {problem.message}", problem.remedy, flag=flag)
        return ()
    except FileTrouble as error:
        findings.wrong((key,), error.message, error.remedy, flag=flag)
        return ()
    return _looked_at(agent, cases, (key,), findings)


def _looked_at(
    agent: LoadedAgent, cases: Sequence[Case], at: Keys, findings: Findings
) -> tuple[Case, ...]:
    """The cases with the content of their files; where a file is amiss, as they stand."""
    problems = check_attachments(cases, agent.folder)
    for problem in problems:
        findings.wrong(at, f"{problem.where}: {problem.message}", problem.remedy)
    return tuple(cases) if problems else pinned(cases, agent.folder)


def _require_enough(plan: TuningPlan, holdout: Sequence[Case], findings: Findings) -> None:
    least = plan.block.min_holdout_cases
    if plan.holdout and plan.block.holdout_cases_file and holdout and len(holdout) < least:
        told = f"{Split.HOLDOUT.value} has {len(holdout)} cases, and {least} are needed at least: "
        told += "fewer cannot tell a gain from chance"
        remedy = "add cases, or lower min_holdout_cases"
        findings.wrong((HOLDOUT,), told, remedy)
