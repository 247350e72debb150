"""Tests of a library are collected where it is: `make check PART=frameworks` has them all."""

from burnish.system.extras import installed_version

FILES = {
    "test_crewai_agents.py": ("crewai",),
    "test_dspy_agents.py": ("dspy",),
    "test_google_adk_agents.py": ("google-adk",),
    "test_notebooks_kernel.py": ("ipykernel", "nbclient"),
    "test_openai_agents_agents.py": ("openai-agents",),
    "test_tracking_servers.py": ("mlflow-skinny", "wandb"),
}
"""The tests, by the packages that they need."""
collect_ignore = [
    file for file, packages in FILES.items() if not all(map(installed_version, packages))
]
