"""Stand-ins for the reflection model and two judges, served on this machine: no key, no network.

The judges compare texts by simple rules, and say what they miss. The reflection model adds one rule
to the prompt: the one that the cases it is shown ask for most. Name real models in EXAMPLE_MODEL,
EXAMPLE_JUDGE and EXAMPLE_SECOND_JUDGE (with EXAMPLE_API_KEY, and EXAMPLE_BASE_URL for another
address), and nothing here is used.
"""

import json
import os
import re
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from burnish.testing.doubles import read_role_request
from burnish.testing.servers import HttpRequest, ScriptedServer

_NUMBERS, _WORDS = "judge-of-numbers", "judge-of-words"
_SIGNS = {"greeting": r"\bhello\b", "reason": r"\breason\b", "next": r"\bnext\b"}
"""What the stand-in takes for a sign that a rubric is kept."""


@asynccontextmanager
async def models() -> AsyncGenerator[None, None]:
    """While entered, the variables that optimizer.json names lead to models."""
    if "EXAMPLE_MODEL" in os.environ:
        os.environ.setdefault("EXAMPLE_BASE_URL", "")
        os.environ.setdefault("EXAMPLE_JUDGE", os.environ["EXAMPLE_MODEL"])
        os.environ.setdefault("EXAMPLE_SECOND_JUDGE", os.environ["EXAMPLE_JUDGE"])
        yield
        return
    async with ScriptedServer(answers=answer) as server:
        os.environ["EXAMPLE_MODEL"] = "offline-stand-in"
        os.environ["EXAMPLE_JUDGE"] = _NUMBERS
        os.environ["EXAMPLE_SECOND_JUDGE"] = _WORDS
        os.environ["EXAMPLE_BASE_URL"] = server.base_url
        os.environ["EXAMPLE_API_KEY"] = "none-is-needed-offline"
        yield


def answer(asked: HttpRequest) -> str:
    """What the model that is asked says."""
    request = "\n".join(
        message["content"] for message in asked.json["messages"] if message["role"] == "user"
    )
    if "<rubrics>" in request:
        return json.dumps({"items": _checked(request)})
    if "<reference_response>" in request:
        return json.dumps(_judged(request, asked.json["model"]))
    return json.dumps(_rewritten(request))


def _judged(request: str, judge: str) -> dict[str, str]:
    """Whether the reply says what the reference says: its numbers, or a third of its words."""
    reply, reference = _part(request, "agent_response"), _part(request, "reference_response")
    pattern = r"\d+" if judge == _NUMBERS else r"[a-z]+"
    wanted = set(re.findall(pattern, reference.lower()))
    there = wanted & set(re.findall(pattern, reply.lower()))
    valid = 3 * len(there) >= len(wanted)
    told = (
        "it says what the reference says" if valid else "wanted: The answer has the number of days."
    )
    return {"reasoning": told, "is_the_agent_response_valid": "valid" if valid else "invalid"}


def _checked(request: str) -> list[dict[str, str]]:
    """Each rubric by its sign; one without a sign is about capitals."""
    reply = _part(request, "agent_response")
    items: list[dict[str, str]] = []
    for name, text in re.findall(r"^(\w+): (.+)$", _part(request, "rubrics"), re.MULTILINE):
        sign = _SIGNS.get(name)
        kept = bool(re.search(sign, reply.lower())) if sign else not re.search(r"[A-Z]{4}", reply)
        reason = "it does" if kept else f"wanted: {text}"
        verdict = "yes" if kept else "no"
        items.append({"id": name, "evidence": "", "reason": reason, "verdict": verdict})
    return items


def _rewritten(request: str) -> dict[str, str]:
    """The prompt with the rule that is asked for most; all of them once each was turned down."""
    fields = read_role_request("reflector", request)
    assert fields is not None, "nobody else asks the stand-in"
    text, shown = fields["current_text"].strip(), fields["records"]
    asked_for = Counter(re.findall(r"wanted: ([^.]+\.)", shown))
    for most in re.findall(r"at most (\d+)", shown):
        asked_for[f"The answer has at most {most} characters."] += 1
    lacking = [rule for rule, _ in asked_for.most_common() if rule not in text]
    new = [rule for rule in lacking if rule not in fields["rejected"]][:1] or lacking
    told = f"no rule says: {' '.join(new)}" if new else "the rules say it all"
    return {"diagnosis": told, "new_text": "\n".join([text, *(f"- {rule}" for rule in new), ""])}


def _part(text: str, tag: str) -> str:
    """What stands between the last tags of this name."""
    return text.rpartition(f"<{tag}>")[2].partition(f"</{tag}>")[0].strip()
