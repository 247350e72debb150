"""What is wrong with a request, said at once and before anything is paid."""

from collections.abc import Iterator, Sequence

from burnish.compat.promptiter.anatomy import Anatomy, unknown
from burnish.compat.promptiter.eval_stack import Assets
from burnish.compat.promptiter.requests import EvalSetInput, LossHint, RunRequest
from burnish.core.errors import Problem
from burnish.strategies.backprop.packets import Severity

_SEVERITIES = ("", *(each.value for each in Severity))


def problems_of(request: RunRequest, anatomy: Anatomy) -> list[Problem]:
    """What can be seen without reading any set."""
    return [
        *_sets(request),
        *_numbers(request),
        *_targets(request, anatomy),
        *_loss_targets(request, anatomy),
    ]


def mismatches(request: RunRequest, assets: Assets) -> list[Problem]:
    """What the sets do not have: metrics and cases that hints, targets and guards name."""
    found: list[Problem] = []
    for each in request.train_inputs:
        known = assets.names.get(each.eval_set_id, ())
        named = [hint.metric_name for hint in each.loss_hints]
        named += [target.metric_name for target in each.loss_targets]
        found += [
            Problem(where=each.eval_set_id, message=f"this set has no metric '{name}'")
            for name in dict.fromkeys(named)
            if name not in known
        ]
        cases = {home.case for home in assets.homes.values() if home.eval_set == each.eval_set_id}
        found += [
            Problem(where=each.eval_set_id, message=f"a loss hint names no case: '{name}'")
            for name in dict.fromkeys(hint.eval_case_id for hint in each.loss_hints)
            if name not in cases
        ]
    return [*found, *_uneven_targets(request, assets), *_guards(request, assets)]


def protected_cases(request: RunRequest, assets: Assets) -> dict[str, list[str]]:
    """By protected case, the cases of validation that may be meant."""
    holdout = [case.id for case in assets.dataset.holdout]
    return {
        name: [case for case in holdout if name in (case, assets.homes[case].case)]
        for name in request.options.protected_cases
    }


def _sets(request: RunRequest) -> Iterator[Problem]:
    for split, inputs, ids in (
        ("train", request.train, request.train_eval_set_ids),
        ("validation", request.validation, request.validation_eval_set_ids),
    ):
        if inputs and ids:
            told = "the sets are named twice, as inputs and as ids"
            yield Problem(where=split, message=told, remedy="keep one of the two lists")
    for split, inputs in (
        ("train", request.train_inputs),
        ("validation", request.validation_inputs),
    ):
        if not inputs:
            yield Problem(where=split, message=f"{split} evaluation sets are empty")
        for each in inputs:
            yield from _input(split, each)
    for each in request.validation_inputs:
        if each.loss_targets:
            told = "loss targets are for train sets: nothing is learned from validation"
            yield Problem(where=f"validation {each.eval_set_id}", message=told)


def _input(split: str, given: EvalSetInput) -> Iterator[Problem]:
    name = given.eval_set_id
    where = f"{split} {name}".strip()
    if not name.strip():
        yield Problem(where=split, message="an eval set id is empty")
    elif {"/", "\\"} & set(name) or name.startswith("."):
        yield Problem(where=where, message="an eval set id cannot be a path")
    if any(not case.strip() for case in given.eval_case_ids):
        yield Problem(where=where, message="an eval case id is empty")
    for hint in given.loss_hints:
        yield from _hint(where, hint, given.eval_case_ids)
    metrics = [target.metric_name for target in given.loss_targets]
    for target in given.loss_targets:
        if not target.metric_name.strip() or not target.node_id.strip():
            yield Problem(where=where, message="a loss target needs a metric and a node")
    for metric in sorted({name for name in metrics if metrics.count(name) > 1}):
        yield Problem(where=where, message=f"there are two loss targets for '{metric}'")


def _hint(where: str, hint: LossHint, chosen: Sequence[str]) -> Iterator[Problem]:
    for name in ("eval_case_id", "metric_name", "reason"):
        if not getattr(hint, name).strip():
            yield Problem(where=where, message=f"a loss hint has no {name.replace('_', ' ')}")
    if hint.severity not in _SEVERITIES:
        told = f"a loss hint has the severity '{hint.severity}'"
        yield Problem(where=where, message=told, remedy="P0, P1, P2, P3, or none")
    if chosen and hint.eval_case_id and hint.eval_case_id not in chosen:
        told = f"a loss hint is about '{hint.eval_case_id}', which is not among the chosen cases"
        yield Problem(where=where, message=told)


def _numbers(request: RunRequest) -> Iterator[Problem]:
    if request.max_rounds <= 0:
        yield Problem(where="MaxRounds", message="there must be at least one round")
    if request.stop_policy.max_rounds_without_acceptance < 0:
        yield Problem(where="MaxRoundsWithoutAcceptance", message="it cannot be negative")
    widths = {
        "EvalCaseParallelism": request.evaluation_options.eval_case_parallelism,
        "CaseParallelism": request.backward_options.case_parallelism,
        "AggregationOptions": request.aggregation_options.surface_parallelism,
        "OptimizerOptions": request.optimizer_options.surface_parallelism,
    }
    for name, width in widths.items():
        if width < 0:
            yield Problem(where=name, message=f"parallelism cannot be negative, found {width}")


def _targets(request: RunRequest, anatomy: Anatomy) -> Iterator[Problem]:
    if not request.target_surface_ids:
        remedy = f"there are: {', '.join(anatomy.targets) or 'none'}"
        told = "target surface ids are empty"
        yield Problem(where="TargetSurfaceIDs", message=told, remedy=remedy)
    for name in dict.fromkeys(request.target_surface_ids):
        if name not in anatomy.targets:
            yield unknown(name, anatomy.targets)


def _loss_targets(request: RunRequest, anatomy: Anatomy) -> Iterator[Problem]:
    nodes = {node.id for node in anatomy.structure.nodes}
    for each in request.train_inputs:
        for target in each.loss_targets:
            if target.node_id.strip() and target.node_id not in nodes:
                remedy = f"there are: {', '.join(sorted(nodes))}"
                told = f'loss target node "{target.node_id}" is unknown'
                yield Problem(where=each.eval_set_id, message=told, remedy=remedy)


def _uneven_targets(request: RunRequest, assets: Assets) -> Iterator[Problem]:
    """Loss targets that one set has and another, with the same metric, has not."""
    named: dict[str, dict[str, str]] = {}
    for each in request.train_inputs:
        for target in each.loss_targets:
            named.setdefault(target.metric_name, {})[each.eval_set_id] = target.node_id
    sets = {each.eval_set_id for each in request.train_inputs}
    for metric, by_set in named.items():
        scored = {name for name in sets if metric in assets.names.get(name, ())}
        if len(set(by_set.values())) > 1 or not scored <= set(by_set):
            told = f"the loss target of '{metric}' differs from set to set"
            remedy = "burnish has one for each metric: say the same for every train set"
            yield Problem(where="train", message=told, remedy=remedy)


def _guards(request: RunRequest, assets: Assets) -> Iterator[Problem]:
    for name, cases in protected_cases(request, assets).items():
        if len(cases) != 1:
            told = "several validation sets have it" if cases else "no validation set has it"
            remedy = "say set/case" if cases else ""
            yield Problem(where=f"ProtectedCases {name}", message=told, remedy=remedy)
    known = [metric.name for metric in assets.metrics]
    for name in request.options.metric_floors:
        if name not in known:
            remedy = f"there are: {', '.join(known)}"
            yield Problem(where=f"MetricFloors {name}", message="no such metric", remedy=remedy)
