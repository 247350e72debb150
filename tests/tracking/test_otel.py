"""OpenTelemetry spans and metrics of a run, against exporters in memory."""

import json
import logging
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

from burnish import evaluate, optimize
from burnish.core.errors import ConfigError
from burnish.projects import launch_in
from burnish.runs.spec import TrackingSpec
from burnish.tracking.trackers import tracker
from tests.tracking.tracked_world import BETTER, SECRET, project

pytest.importorskip("opentelemetry.sdk", reason="pip install 'burnish[otel]'")

trace: Any = import_module("opentelemetry.trace")
metrics: Any = import_module("opentelemetry.metrics")
sdk_trace: Any = import_module("opentelemetry.sdk.trace")
sdk_metrics: Any = import_module("opentelemetry.sdk.metrics")
in_memory: Any = import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter")


class Collector:
    """What a program has set up: every span and metric stays in memory."""

    def __init__(self) -> None:
        self.exporter = in_memory.InMemorySpanExporter()
        self.spans_provider = sdk_trace.TracerProvider()
        export: Any = import_module("opentelemetry.sdk.trace.export")
        self.spans_provider.add_span_processor(export.SimpleSpanProcessor(self.exporter))
        readers: Any = import_module("opentelemetry.sdk.metrics.export")
        self.reader = readers.InMemoryMetricReader()
        self.meter_provider = sdk_metrics.MeterProvider(metric_readers=[self.reader])

    @property
    def spans(self) -> list[Any]:
        return list(self.exporter.get_finished_spans())

    def named(self, start: str) -> list[Any]:
        return [span for span in self.spans if span.name.startswith(start)]

    def parent(self, span: Any) -> Any:
        return next(each for each in self.spans if each.context.span_id == span.parent.span_id)

    def points(self) -> dict[str, list[Any]]:
        data = json.loads(self.reader.get_metrics_data().to_json())
        found = data["resource_metrics"][0]["scope_metrics"][0]["metrics"]
        return {each["name"]: each["data"]["data_points"] for each in found}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    made = Collector()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: made.spans_provider)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: made.meter_provider)
    yield made
    made.spans_provider.shutdown()
    made.meter_provider.shutdown()


def conventional(names: set[str]) -> set[str]:
    """Those attributes that the semantic conventions do not have."""
    known: Any = import_module("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    values = {str(value) for value in cast("dict[str, object]", vars(known)).values()}
    return {name for name in names if name.startswith("gen_ai.")} - values


def test_spans_and_metrics_from_the_run_to_each_model_call(
    tmp_path: Path, collector: Collector
) -> None:
    launch_in(project(tmp_path, track=["otel"]).setup, tmp_path / "run")
    (root,) = collector.named("burnish reflective")
    assert root.parent is None
    assert root.attributes["burnish.verdict"] == "improved"
    assert root.attributes["burnish.status"] == "finished"
    first, second = collector.named("trial ")
    assert [span.attributes["burnish.trial"] for span in (first, second)] == [0, 1]
    assert (first.attributes["burnish.phase"], second.attributes["burnish.accepted"]) == (
        "baseline",
        True,
    )
    assert collector.parent(second) is root
    calls = collector.named("chat ")
    assert Counter(collector.parent(span).name for span in calls) == {
        "invoke_agent": sum(span.name == "chat gpt-small" for span in calls),
        "invoke_agent reflector": 1,
    }
    case = collector.parent(collector.named("chat gpt-small")[0])
    assert case.attributes["burnish.case"]
    assert collector.parent(case) is first
    (call, *_) = collector.named("chat gpt-small")
    assert call.attributes["gen_ai.provider.name"] == "openai"
    assert call.attributes["gen_ai.usage.input_tokens"] > 0
    assert call.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    scored = [event for span in collector.named("evaluate") for event in span.events]
    assert {event.name for event in scored} == {"gen_ai.evaluation.result"}
    assert {event.attributes["gen_ai.evaluation.score.label"] for event in scored} == {
        "pass",
        "fail",
    }
    assert collector.named("burnish final measurements")
    names = {name for span in collector.spans for name in span.attributes}
    assert not conventional(names | {name for event in scored for name in event.attributes})
    points = collector.points()
    kinds = {
        point["attributes"]["gen_ai.token.type"] for point in points["gen_ai.client.token.usage"]
    }
    assert kinds == {"input", "output"}
    timed = sum(point["count"] for point in points["gen_ai.client.operation.duration"])
    assert timed == len(calls)
    assert sum(point["value"] for point in points["burnish.trials"]) == 2


def test_texts_only_if_asked_and_never_a_secret(tmp_path: Path, collector: Collector) -> None:
    launch_in(project(tmp_path, track=["otel"]).setup, tmp_path / "without")
    text = "".join(span.to_json() for span in collector.spans)
    assert "museum" not in text
    assert SECRET not in text
    collector.exporter.clear()
    launch_in(project(tmp_path, track=["otel"], track_contents=True).setup, tmp_path / "with")
    text = "".join(span.to_json() for span in collector.spans)
    assert "museum" in text
    assert SECRET not in text
    (asked,) = collector.named("chat writer")
    (answer,) = json.loads(asked.attributes["gen_ai.output.messages"])
    assert answer["role"] == "assistant"
    assert BETTER in answer["parts"][0]["content"]


def test_a_replay_makes_no_calls_and_so_no_spans_of_calls(
    tmp_path: Path, collector: Collector
) -> None:
    launch_in(project(tmp_path).setup, tmp_path / "run")
    assert not collector.spans
    launch_in(project(tmp_path, track=["otel"]).setup, tmp_path / "run")
    assert [span.name for span in collector.spans] == ["burnish reflective"]


def test_a_call_of_a_program_is_tracked_too(tmp_path: Path, collector: Collector) -> None:
    def answer(question: str, instructions: str) -> str:
        return question.upper() if "loud" in instructions else question

    def rewrite(messages: list[dict[str, str]]) -> str:
        return "Be loud." if messages else ""

    rows = [(f"a{number}", f"A{number}") for number in range(50)]
    optimize(
        answer,
        "Answer.",
        cases=rows,
        metric="equality",
        reflector=rewrite,
        track="otel",
        folder=tmp_path / "run",
        progress=False,
    )
    assert len(collector.named("burnish auto")) == 1
    before = len(collector.named("invoke_agent"))
    assert before > len(rows)
    assert evaluate(answer, "Be loud.", cases=rows[:3], metric="equality", track=["otel"]).passed
    assert len(collector.named("invoke_agent")) == before + 3


def test_an_absent_endpoint_is_said_in_words_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: None)
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_ENDPOINT") as raised:
        evaluate(str.upper, cases=[("a", "A")], metric="equality", track="otel")
    assert "--" not in str(raised.value)


def test_a_failed_call_is_an_error_without_its_message(
    tmp_path: Path, collector: Collector
) -> None:
    launch_in(project(tmp_path, refusing="holdout 3?", track=["otel"]).setup, tmp_path / "run")
    failed = [span for span in collector.spans if "error.type" in span.attributes]
    assert {span.name for span in failed} == {"chat gpt-small", "invoke_agent"}
    assert all(not span.status.is_ok and not span.status.description for span in failed)


def test_without_an_endpoint_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: None)
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_ENDPOINT"):
        tracker("otel", TrackingSpec(to=("otel",)))


def test_a_collector_that_is_away_costs_spans_not_the_run(
    tmp_path: Path, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(spans: Any) -> None:
        raise ConnectionError("nobody there")

    collector.exporter.export = broken
    with caplog.at_level(logging.CRITICAL):
        ending = launch_in(project(tmp_path, track=["otel"]).setup, tmp_path / "run")
    assert ending.claim is not None
    assert ending.claim.verdict == "improved"
