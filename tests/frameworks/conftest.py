"""Tests of frameworks are collected where their library is: `make test-frameworks` has them all."""

from burnish.system.extras import extra_named

FRAMEWORKS = ("crewai", "dspy", "google-adk", "openai-agents")
collect_ignore = [
    f"test_{extra.replace('-', '_')}_agents.py"
    for extra in FRAMEWORKS
    if extra_named(extra).missing
]
