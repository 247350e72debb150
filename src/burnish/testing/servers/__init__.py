"""Scripted model endpoints on loopback: real sockets that answer, and misbehave on demand.

async with ScriptedServer(protocol="openai", answers=["hello", Status(429)]) as server:
    ref = ModelRef.parse("openai:any", base_url=server.base_url)
"""

from burnish.testing.servers.answers import (
    Answer,
    CutOff,
    Dropped,
    Malformed,
    Reply,
    Slow,
    Status,
    Truncated,
)
from burnish.testing.servers.http import Asked
from burnish.testing.servers.server import ScriptedServer

__all__ = [
    "Answer",
    "Asked",
    "CutOff",
    "Dropped",
    "Malformed",
    "Reply",
    "ScriptedServer",
    "Slow",
    "Status",
    "Truncated",
]
