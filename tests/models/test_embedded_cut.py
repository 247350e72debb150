"""A model file that another program cuts while it is read, or later: an error, never SIGBUS."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from burnish.models.embedded.files import KNOWN
from tests.models.gguf_files import gguf
from tests.models.smollm2 import HERE, needs_smollm2

_CHECKED = """
import sys, threading
from pathlib import Path
from burnish.models.embedded.files import require_gguf
from burnish.models.errors import ModelRefused

path, over = Path(sys.argv[1]), threading.Event()
whole = path.read_bytes()

def cut():
    while not over.is_set():
        path.write_bytes(whole)
        with path.open("r+b") as file:
            file.truncate(100)

cutting = threading.Thread(target=cut)
cutting.start()
refused = 0
while refused < 20:
    try:
        require_gguf(path)
    except ModelRefused as error:
        refused += 1
        assert error.remedy
over.set()
cutting.join()
print("refused")
"""

_ASKED = """
import asyncio, os, sys, threading
from pathlib import Path
from burnish.core.cases import Message
from burnish.models.chat import ChatRequest
from burnish.models.embedded import EmbeddedBackend
from burnish.models.embedded import backend as engines
from burnish.models.errors import ModelRefused
from burnish.models.references import ModelRef, ModelSettings

path, when = Path(sys.argv[1]).resolve(), sys.argv[2]
half = path.stat().st_size // 2
loaded = threading.Event()

def is_read():
    # The engine does not close what it maps or reads before the model is loaded.
    for each in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{each}") == str(path):
                return True
        except OSError:
            pass
    return False

def cut():
    while not loaded.is_set() and not is_read():
        pass
    os.truncate(path, half)

def start(path, shape):
    cutting = threading.Thread(target=cut)
    if when == "before":
        os.truncate(path, half)
    if when == "while":
        cutting.start()
    try:
        return engines._start_server(path, shape)
    finally:
        loaded.set()
        if when == "while":
            cutting.join()
        if when == "after":
            os.truncate(path, half)

async def ask():
    backend = EmbeddedBackend(start=start)
    settings = ModelSettings(temperature=0.0, max_tokens=4)
    ref = ModelRef(provider="local", name=str(path), settings=settings)
    messages = (Message(role="user", content="Count: one two three"),)
    try:
        reply = await backend.complete(ref, ChatRequest(messages=messages), draw=0)
        print("answered" if reply.text else "nothing")
    except ModelRefused as error:
        assert "fetch it again" in error.remedy
        print("refused")
    await backend.close()

asyncio.run(ask())
"""


def run(script: str, *words: str) -> str:
    """What a process of its own says in its last line; it ends as it should."""
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.splitlines()[-1]


def test_a_file_that_is_cut_while_it_is_checked_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.gguf"
    # So long a header that both threads get their turns in the middle of it.
    path.write_bytes(gguf(tokens=20_000))
    assert run(_CHECKED, str(path)) == "refused"


@pytest.mark.slow
@pytest.mark.model
@needs_smollm2
@pytest.mark.parametrize(
    ("when", "ends"),
    [("before", {"refused"}), ("while", {"refused", "answered"}), ("after", {"answered"})],
)
def test_a_model_that_is_cut_is_refused_or_answers(
    tmp_path: Path, when: str, ends: set[str]
) -> None:
    path = tmp_path / KNOWN["smollm2"].file
    shutil.copyfile(str(HERE), path)
    assert run(_ASKED, str(path), when) in ends
