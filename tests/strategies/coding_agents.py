"""Stand-ins for the command lines of coding agents: each behaves as its documentation says.

They need their key, refuse what their flags do not allow, keep state in HOME and in the current
folder, look at the repository, and edit a file of the task.
"""

from pathlib import Path

_COMMON = '''\
import json, os, pathlib, subprocess, sys
argv, home, here = sys.argv[1:], pathlib.Path.home(), pathlib.Path.cwd()

def fail(words, code=1):
    print(words, file=sys.stderr)
    sys.exit(code)

def has(flag, value=None):
    if value is None:
        return flag in argv
    return flag in argv and argv[argv.index(flag) + 1 : argv.index(flag) + 2] == [value]

def edited(prompt):
    """One more than what is there; the count of edits is kept at home."""
    if "## Task" not in prompt:
        fail("there is no task in: " + prompt)
    count = home / "edits"
    count.write_text(str(int(count.read_text() if count.exists() else 0) + 1))
    if (here / ".git").exists():
        subprocess.run(["git", "status", "--short"], check=True, capture_output=True)
    packages = sorted(p.name for p in (here / "node_modules").glob("*"))
    file = here / "value.txt"
    file.write_text(f"{int(file.read_text()) + 1}\\n")
    login = home / "login"
    print(f"edit {count.read_text()}; packages {packages}; "
          f"login {login.read_text() if login.exists() else 'none'}")
'''
CLAUDE = (
    _COMMON
    + """
if not has("-p"):
    fail("a terminal is needed without -p")
if not (os.environ.get("ANTHROPIC_API_KEY") or os.environ.get("CLAUDE_CODE_OAUTH_TOKEN")):
    fail("Invalid API key · Please run /login")
(home / ".claude/projects").mkdir(parents=True, exist_ok=True)
(home / ".claude/projects/session.jsonl").write_text("{}")
(home / ".claude.json").write_text(json.dumps({"numStartups": 1}))
if not has("--permission-mode", "acceptEdits"):
    fail("I need your permission to edit value.txt", 0)
(here / ".claude").mkdir(exist_ok=True)
(here / ".claude/settings.local.json").write_text("{}")
edited(sys.stdin.read())
"""
)
CODEX = (
    _COMMON
    + """
if argv[:1] != ["exec"]:
    fail("stdin is not a terminal")
if not (os.environ.get("CODEX_API_KEY") or os.environ.get("OPENAI_API_KEY")):
    fail("ERROR: 401 Unauthorized")
if not (here / ".git").exists() and not has("--skip-git-repo-check"):
    fail("Not inside a trusted directory and --skip-git-repo-check was not specified.")
(home / ".codex/sessions").mkdir(parents=True, exist_ok=True)
(home / ".codex/sessions/rollout.jsonl").write_text("{}")
modes = ["workspace-write", "danger-full-access"]
mode = argv[argv.index("--sandbox") + 1] if has("--sandbox") else "read-only"
print("sandbox:", mode, file=sys.stderr)
if mode not in modes:
    fail("patch rejected: the sandbox is read-only", 0)
if argv[-1] != "-":
    fail("no prompt")
(here / ".codex").mkdir(exist_ok=True)
(here / ".codex/log").write_text("x")
edited(sys.stdin.read())
print(mode)
"""
)
AIDER = (
    _COMMON
    + """
if not (os.environ.get("OPENAI_API_KEY") or os.environ.get("ANTHROPIC_API_KEY")):
    fail("litellm.AuthenticationError: Missing API key")
if not has("--yes-always"):
    fail("EOFError at: Add .aider* to .gitignore (recommended)? (Y)es/(N)o")
if not has("--no-git"):
    (here / ".gitignore").write_text(".aider*")
(here / ".aider.chat.history.md").write_text("# aider chat")
(here / ".aider.input.history").write_text("+x")
(here / ".aider.tags.cache.v4").mkdir()
(here / ".aider.tags.cache.v4/cache.db").write_bytes(b"\\0\\1")
(home / ".aider").mkdir(exist_ok=True)
(home / ".aider/installs.json").write_text("{}")
if "value.txt" not in argv:
    fail("no files are in the chat", 0)
edited(pathlib.Path(argv[argv.index("--message-file") + 1]).read_text())
"""
)
GEMINI = (
    _COMMON
    + """
if not (has("-p") or not sys.stdin.isatty()):
    fail("a terminal is needed without -p", 42)
if not os.environ.get("GEMINI_API_KEY"):
    fail("Please set an Auth method", 41)
(home / ".gemini/tmp").mkdir(parents=True, exist_ok=True)
(home / ".gemini/settings.json").write_text("{}")
trusted = os.environ.get("GEMINI_CLI_TRUST_WORKSPACE") == "true"
if not trusted or not (has("--approval-mode", "auto_edit") or has("--approval-mode", "yolo")):
    fail("Tool execution denied: it needs approval", 0)
(here / ".gemini").mkdir(exist_ok=True)
(here / ".gemini/settings.json").write_text("{}")
# What -p has is appended to what stdin has.
edited(sys.stdin.read() + argv[argv.index("-p") + 1])
"""
)
AGENTS = {"claude": CLAUDE, "codex": CODEX, "aider": AIDER, "gemini": GEMINI}
KEYS = {
    "claude": "ANTHROPIC_API_KEY",
    "codex": "OPENAI_API_KEY",
    "aider": "OPENAI_API_KEY",
    "gemini": "GEMINI_API_KEY",
}


def install(folder: Path) -> Path:
    """A folder `bin` with all of them."""
    place = folder / "tools/bin"
    place.mkdir(parents=True)
    for name, code in AGENTS.items():
        (place / name).write_text(f"#!/usr/bin/env python3\n{code}")
        (place / name).chmod(0o755)
    return place
