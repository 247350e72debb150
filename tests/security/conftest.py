"""Fixtures of this folder's tests."""

import pytest


@pytest.fixture(autouse=True)
def _toy(toy_plugin: None) -> None:  # pyright: ignore[reportUnusedFunction]
    """Services here offer the toy world."""
