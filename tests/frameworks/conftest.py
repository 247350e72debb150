"""Tests of a library are collected where it is: `make test-frameworks` has them all."""

from burnish.system.extras import extra_named

FRAMEWORKS = ("crewai", "dspy", "google-adk", "openai-agents")
collect_ignore = [
    f"test_{extra.replace('-', '_')}_agents.py"
    for extra in FRAMEWORKS
    if extra_named(extra).missing
]
if any(extra_named(extra).missing for extra in ("mlflow", "wandb")):
    collect_ignore.append("test_tracking_servers.py")
