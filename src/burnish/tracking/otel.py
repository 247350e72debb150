"""OpenTelemetry: spans and metrics of runs, trials, cases and model calls.

Names follow the semantic conventions for generative AI. Texts are left out unless the settings ask
for them.
"""

import json
import os
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, TypeVar, cast

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.protocols import Call, Receipt, Scope
from burnish.runs.directory import RunRecord
from burnish.runs.events import Claim, Event, RunEnded, RunFailed, TrialRecorded
from burnish.runs.run import Run
from burnish.runs.spec import TrackingSpec
from burnish.version import VERSION

T = TypeVar("T")
trace: Any = import_module("opentelemetry.trace")
metrics: Any = import_module("opentelemetry.metrics")
sdk: Any = import_module("opentelemetry.sdk")
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Providers that the conventions name differently."""
_INSIDE: ContextVar[Any] = ContextVar("burnish_span", default=None)
"""The span of the effect that the current task works on."""


class OtelTracker:
    """Makes spans of a run while it goes on.

    A program that has set up OpenTelemetry gets them there; otherwise they go to the endpoint of
    the settings or of `OTEL_EXPORTER_OTLP_ENDPOINT`.
    """

    def __init__(self, settings: TrackingSpec) -> None:
        self._contents = settings.contents
        self._owned: list[Any] = []
        spans, numbers = self._providers(settings.uri)
        self._tracer = spans.get_tracer("burnish", VERSION)
        meter = numbers.get_meter("burnish", VERSION)
        self._durations = meter.create_histogram(
            "gen_ai.client.operation.duration", unit="s", description="Duration of model calls"
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", unit="{token}", description="Tokens of model calls"
        )
        self._trials = meter.create_counter("burnish.trials", unit="{trial}")
        self._cost = meter.create_counter("burnish.cost", unit="USD")
        self._open: dict[int, Any] = {}
        """By number, the spans of trials that are not recorded yet."""
        self._root: Any = None
        self._redacted: Callable[[str], str] = str

    def _providers(self, uri: str | None) -> tuple[Any, Any]:
        """Where spans and metrics go: what the program has set up, or an endpoint."""
        import_module("opentelemetry.sdk.trace")
        import_module("opentelemetry.sdk.metrics")
        current = trace.get_tracer_provider()
        if isinstance(current, sdk.trace.TracerProvider) and uri is None:
            return current, metrics.get_meter_provider()
        if uri is None and not any(map(os.environ.get, _ENDPOINTS)):
            message = "there is no endpoint to send spans to"
            remedy = f"set {_ENDPOINTS[0]}, or --tracking-uri"
            raise ConfigError([Problem(where="--track otel", message=message, remedy=remedy)])
        export: Any = import_module("opentelemetry.sdk.trace.export")
        readers: Any = import_module("opentelemetry.sdk.metrics.export")
        over_http = "opentelemetry.exporter.otlp.proto.http"
        span_exporter: Any = import_module(f"{over_http}.trace_exporter").OTLPSpanExporter
        metric_exporter: Any = import_module(f"{over_http}.metric_exporter").OTLPMetricExporter
        name = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "burnish"}
        resource = import_module("opentelemetry.sdk.resources").Resource.create(name)
        home = "" if uri is None else uri.rstrip("/")
        spans = sdk.trace.TracerProvider(resource=resource)
        exporter = span_exporter(**({"endpoint": f"{home}/v1/traces"} if home else {}))
        spans.add_span_processor(export.BatchSpanProcessor(exporter))
        exporter = metric_exporter(**({"endpoint": f"{home}/v1/metrics"} if home else {}))
        reader = readers.PeriodicExportingMetricReader(exporter)
        numbers = sdk.metrics.MeterProvider(resource=resource, metric_readers=[reader])
        self._owned = [spans, numbers]
        return spans, numbers

    # -- Runs and trials ---------------------------------------------------------------------------

    def begin(self, run: Run) -> None:
        header = run.directory.header
        self._redacted = run.directory.redactor.text
        facts = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": f"burnish {header.strategy}",
            "burnish.run": header.id,
            "burnish.strategy": header.strategy,
            "burnish.target": run.target.description.kind,
            **{f"burnish.cases.{split}": count for split, count in header.cases.items()},
        }
        self._root = self._tracer.start_span(f"burnish {header.strategy}", attributes=facts)
        run.watch_effects(self)

    def event(self, event: Event) -> None:
        if recorded := event.read(TrialRecorded):
            self._recorded(recorded)
        elif claim := event.read(Claim):
            self._root.set_attribute("burnish.verdict", claim.verdict)
            if claim.gain is not None:
                self._root.set_attribute("burnish.gain", claim.gain.mean)
        elif event.read(RunFailed):
            self._root.set_status(trace.Status(trace.StatusCode.ERROR))
        elif (ended := event.read(RunEnded)) and ended.code:
            self._root.set_attribute("burnish.stop_reason", ended.code)

    def finish(self, record: RunRecord) -> None:
        """End what is open and send it."""
        for span in self._open.values():
            span.update_name("burnish final measurements")
            span.end()
        self._open.clear()
        self._root.set_attribute("burnish.status", record.status)
        self._root.end()
        for provider in self._owned:
            provider.shutdown()

    def _recorded(self, recorded: TrialRecorded) -> None:
        span = self._open.pop(recorded.trial, None) or self._trial_span(recorded.trial)
        facts: dict[str, str | float | None] = {
            "burnish.phase": recorded.phase,
            "burnish.candidate": recorded.candidate,
            "burnish.accepted": recorded.accepted,
            "burnish.decision": recorded.code,
            "burnish.train.loss": recorded.train,
            "burnish.holdout.loss": recorded.holdout,
            "burnish.usd": recorded.usd,
        }
        span.set_attributes({name: value for name, value in facts.items() if value is not None})
        span.end()
        self._trials.add(1, {"burnish.accepted": recorded.accepted})
        self._cost.add(recorded.usd or 0.0)

    def _trial_span(self, number: int) -> Any:
        above = trace.set_span_in_context(self._root)
        facts = {"burnish.trial": number}
        return self._tracer.start_span(f"trial {number}", context=above, attributes=facts)

    # -- Effects: cases, roles, scores, model calls ------------------------------------------------

    def watched(
        self, call: Call[T], perform: Callable[[Scope], Awaitable[Receipt[T]]], *, trial: int
    ) -> Callable[[Scope], Awaitable[Receipt[T]]]:
        """`perform` within a span, for the effects that the conventions know."""
        if call.kind not in ("model", "run", "score") and not call.kind.startswith("role:"):
            return perform

        async def spanned(scope: Scope) -> Receipt[T]:
            started = time.perf_counter()
            with self._span(call, trial) as span:
                receipt = await perform(scope)
                result = call.codec.encode(receipt.value)
                if call.kind == "model":
                    self._describe_call(span, call, result, time.perf_counter() - started)
                else:
                    self._describe_work(span, result)
                return receipt

        return spanned

    @contextmanager
    def _span(self, call: Call[Any], trial: int) -> Generator[Any, None, None]:
        if trial not in self._open:
            self._open[trial] = self._trial_span(trial)
        above = trace.set_span_in_context(_INSIDE.get() or self._open[trial])
        name, kind, facts = _named(call)
        span = self._tracer.start_span(name, context=above, kind=kind, attributes=facts)
        token = _INSIDE.set(span)
        try:
            # Messages of errors may repeat a prompt, so only their types are told.
            with trace.use_span(
                span, end_on_exit=True, record_exception=False, set_status_on_exception=False
            ):
                try:
                    yield span
                except BaseException as error:
                    _fail(span, type(error).__name__)
                    raise
        finally:
            _INSIDE.reset(token)

    def _describe_call(self, span: Any, call: Call[Any], result: Json, seconds: float) -> None:
        answered, facts = _block(result), _model_facts(call)
        reply = _block(answered.get("reply"))
        usage = _block(reply.get("usage"))
        if answered.get("trouble"):
            _fail(span, str(answered["trouble"]))
            facts["error.type"] = str(answered["trouble"])
        self._durations.record(seconds, facts)
        for kind in ("input", "output"):
            count = usage.get(f"{kind}_tokens")
            if isinstance(count, int):
                span.set_attribute(f"gen_ai.usage.{kind}_tokens", count)
                self._tokens.record(count, {**facts, "gen_ai.token.type": kind})
        if reply:
            span.set_attribute("gen_ai.response.finish_reasons", [str(reply.get("finish", "stop"))])
            if reply.get("model"):
                span.set_attribute("gen_ai.response.model", str(reply["model"]))
        if self._contents:
            messages = _request(call).get("messages")
            self._show(
                span, "gen_ai.input.messages", messages if isinstance(messages, list) else ()
            )
            answer = {"role": "assistant", "content": reply.get("text", "")}
            self._show(span, "gen_ai.output.messages", [answer] if reply else ())

    def _describe_work(self, span: Any, result: Json) -> None:
        facts = _block(result)
        if failure := _block(facts.get("failure")):
            _fail(span, str(failure.get("error") or failure.get("kind") or "agent"))
        scores = facts.get("scores")
        for score in map(_block, scores if isinstance(scores, list) else ()):
            event: dict[str, Any] = {"gen_ai.evaluation.name": str(score.get("metric"))}
            if isinstance(value := score.get("value"), int | float):
                event["gen_ai.evaluation.score.value"] = float(value)
            if isinstance(passed := score.get("passed"), bool):
                event["gen_ai.evaluation.score.label"] = "pass" if passed else "fail"
            if self._contents and score.get("reason"):
                event["gen_ai.evaluation.explanation"] = self._redacted(str(score["reason"]))
            span.add_event("gen_ai.evaluation.result", event)
        if self._contents and isinstance(output := facts.get("output"), str) and output:
            message = {"role": "assistant", "content": output}
            self._show(span, "gen_ai.output.messages", [message])

    def _show(self, span: Any, name: str, messages: Any) -> None:
        """Messages in the shape of the conventions, without secrets."""
        shown: list[Json] = []
        for each in map(_block, messages):
            text = self._redacted(str(each.get("content", "")))
            part: Json = {"type": "text", "content": text}
            shown.append({"role": str(each.get("role", "user")), "parts": [part]})
        if shown:
            span.set_attribute(name, json.dumps(shown, ensure_ascii=False))


def _named(call: Call[Any]) -> tuple[str, Any, dict[str, Any]]:
    """The name, the kind and the attributes of an effect's span."""
    kinds = trace.SpanKind
    if call.kind == "model":
        facts = _model_facts(call)
        return f"chat {facts['gen_ai.request.model']}", kinds.CLIENT, facts
    request = _request(call)
    if call.kind == "score":
        return "evaluate", kinds.INTERNAL, {}
    if call.kind == "run":
        facts = {
            "gen_ai.operation.name": "invoke_agent",
            "burnish.case": str(request.get("name", "")),
            "burnish.candidate": str(request.get("candidate", "")),
            "burnish.draw": call.draw,
        }
        return "invoke_agent", kinds.INTERNAL, facts
    role = call.kind.removeprefix("role:")
    facts = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": role}
    return f"invoke_agent {role}", kinds.INTERNAL, facts


def _model_facts(call: Call[Any]) -> dict[str, Any]:
    provider, _, model = str(_request(call).get("named", "")).partition(":")
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": model,
    }


def _request(call: Call[Any]) -> Mapping[str, Json]:
    """What is requested, without the name of the work that it belongs to."""
    request = _block(call.request)
    while "request" in request or "again" in request:
        request = _block(request.get("request") or request.get("again"))
    return request


def _block(value: object) -> Mapping[str, Json]:
    return cast("Mapping[str, Json]", value) if isinstance(value, Mapping) else {}


def _fail(span: Any, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(trace.Status(trace.StatusCode.ERROR))
