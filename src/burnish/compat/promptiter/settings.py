"""The settings of back-propagation that a request asks for."""

from collections.abc import Iterator

from burnish.compat.promptiter.anatomy import Anatomy
from burnish.compat.promptiter.checking import protected_cases
from burnish.compat.promptiter.eval_stack import Assets, Home
from burnish.compat.promptiter.requests import RunRequest, SurfaceOptions
from burnish.strategies.backprop.packets import Severity
from burnish.strategies.backprop.settings import BackpropSettings, GuardSettings, LossHint

USUAL_WIDTH = 16


def settings_of(
    request: RunRequest, anatomy: Anatomy, assets: Assets, *, merge_single: bool
) -> BackpropSettings:
    """How far, how wide, and by which rule."""
    options, stop, backward = request.options, request.stop_policy, request.backward_options
    return BackpropSettings(
        targets=tuple(anatomy.targets[name] for name in sorted(set(request.target_surface_ids))),
        max_rounds=request.max_rounds,
        max_rounds_without_acceptance=stop.max_rounds_without_acceptance,
        target_score=stop.target_score,
        min_score_gain=request.acceptance_policy.min_score_gain,
        gate=options.gate,
        accept_sigma=options.accept_sigma,
        guards=_guards(request, assets),
        repeats=options.repeats,
        candidates_per_round=options.candidates_per_round,
        cases_per_round=options.cases_per_round,
        loss_hints=tuple(_hints(request)),
        loss_targets=_loss_targets(request),
        backward_parallelism=_width(
            backward.case_parallelism, enabled=backward.case_parallelism_enabled
        ),
        aggregation_parallelism=_surfaces(request.aggregation_options),
        patch_parallelism=_surfaces(request.optimizer_options),
        merge_single=merge_single,
    )


def _guards(request: RunRequest, assets: Assets) -> GuardSettings:
    protected = protected_cases(request, assets).values()
    return GuardSettings(
        protected=tuple(case for cases in protected for case in cases),
        no_new_failures=request.options.no_new_failures,
        floors=request.options.metric_floors,
    )


def _loss_targets(request: RunRequest) -> dict[str, str]:
    return {
        target.metric_name: target.node_id
        for each in request.train_inputs
        for target in each.loss_targets
    }


def _hints(request: RunRequest) -> Iterator[LossHint]:
    for each in request.train_inputs:
        for hint in each.loss_hints:
            home = Home(eval_set=each.eval_set_id, case=hint.eval_case_id)
            severity = Severity(hint.severity) if hint.severity else Severity.P1
            yield LossHint(
                case=home.name, metric=hint.metric_name, reason=hint.reason, severity=severity
            )


def _surfaces(options: SurfaceOptions) -> int:
    return _width(options.surface_parallelism, enabled=options.surface_parallelism_enabled)


def _width(given: int, *, enabled: bool) -> int:
    """0 leaves it to burnish; whatever it is, the results are the same."""
    return (given or USUAL_WIDTH) if enabled else 1
