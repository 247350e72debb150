"""The OpenAPI document says what the service does: schemathesis asks it many things."""

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks

from burnish.server import Datasets, ServiceLimits, create_app
from burnish.server.service import listening_on, server_config
from tests.conftest import toy_installed
from tests.server.world import manager_of

pytestmark = pytest.mark.slow
EXAMPLES = int(os.environ.get("BURNISH_FUZZ_EXAMPLES", "6"))
"""Of each kind, for each operation: what is right, and what is wrong."""


def no_mistake(context: Any, response: Any, case: Any) -> None:
    """Nothing that anyone asks is answered with a mistake of the service."""
    del context, case
    assert response.status_code < 500, response.text


_OF: Any = checks
CHECKS = (
    _OF.content_type_conformance,
    _OF.negative_data_rejection,
    _OF.response_schema_conformance,
    _OF.status_code_conformance,
    _OF.unsupported_method,
    no_mistake,
)
KNOWN = {"app": "toy", "run_id": "known", "name": "known.jsonl"}
FEW = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with a run, in a thread of its own."""
    folder = tmp_path_factory.mktemp("service")
    with toy_installed(), listening_on("127.0.0.1", 0) as sock:
        server: list[uvicorn.Server] = []
        thread = threading.Thread(target=lambda: asyncio.run(_serve(folder, sock, server)))
        thread.start()
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        server[0].should_exit = True
        thread.join()


async def _serve(folder: Path, sock: socket.socket, server: list[uvicorn.Server]) -> None:
    limits = ServiceLimits(running=2, waiting=3, grace_seconds=0.5)
    manager = manager_of(folder, limits=limits)
    Datasets(folder=manager.places.datasets).write(KNOWN["name"], b'{"input": "a"}\n')
    config = server_config(create_app(manager), limits.connection, timeout_graceful_shutdown=30)
    server.append(uvicorn.Server(config))
    await manager.start("toy", {"settings": {"max_trials": 1}}, run_id=KNOWN["run_id"])
    await server[0].serve(sockets=[sock])


def ask_about(operation: Any, mode: GenerationMode) -> None:
    """Ask for an operation a few times; of what is there where the question is a right one."""

    @FEW
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        if mode is GenerationMode.POSITIVE and case.method != "DELETE":
            case.path_parameters.update(
                {name: KNOWN[name] for name in case.path_parameters if name in KNOWN}
            )
        case.call_and_validate(checks=CHECKS, timeout=120)

    with suppress(Unsatisfiable):  # nothing can be wrong where nothing is said
        ask()


def test_the_service_does_what_its_schema_says(address: str) -> None:
    schema: Any = schemathesis.openapi.from_url(f"{address}/api/v1/openapi.json", timeout=120)
    asked: list[str] = []
    for result in schema.get_all_operations():
        operation = result.ok()
        asked.append(operation.label)
        for mode in GenerationMode:
            ask_about(operation, mode)
    assert len(asked) > 30
    for dialect in ("/api/v1/", "/promptiter/v1/", "/api/experiments/"):
        assert any(dialect in label for label in asked)
