"""The echo agent, its critic and its applier behind a real socket on this machine."""

import asyncio
import json
import threading
from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import Any

from burnish.testing.servers import HttpRequest as Question
from burnish.testing.servers import ScriptedServer
from tests.projects.optimizer_world import Change, said_to, written_for


@contextmanager
def serving(
    asked: list[Question], *, refuses: Collection[str] = (), written: str = "{}"
) -> Generator[str, None, None]:
    """The echo agent behind a socket on this machine.

    `refuses` are the types of `response_format` that it does not take; `written` is how critic
    and applier write their JSON, which stands where the braces are.
    """

    def answer(question: Question) -> str:
        asked.append(question)
        body = question.json
        talk = [m["content"] for m in body["messages"] if m["role"] != "system"]
        told = "".join(m["content"] for m in body["messages"] if m["role"] == "system")
        everything = "".join(m["content"] for m in body["messages"])
        if (shape := role_of(everything)) in ("critic", "applier"):
            return written.replace("{}", json.dumps(written_for(shape)))
        return said_to(told, talk, body.get("temperature", 0.0))

    with hosted(ScriptedServer(answers=answer, refuses=refuses)) as url:
        yield url


@contextmanager
def hosted(server: ScriptedServer) -> Generator[str, None, None]:
    """A server in a thread of its own, for a command line that has this one."""
    loop = asyncio.new_event_loop()
    loop.run_until_complete(server.__aenter__())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server.base_url
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def role_of(told: str) -> str:
    """Who is asked, by what the answer is to hold."""
    if "failing_pattern" in told:
        return "critic"
    return "applier" if "diff_summary" in told else ""


def served(url: str) -> Change:
    def change(data: dict[str, Any]) -> None:
        data["model"] |= {"endpoint": url, "api_key": "${ECHO_KEY}"}

    return change
