"""The real embedded model, for the tests that need one."""

import pytest

from burnish.models.embedded.files import find_model

HERE = find_model("smollm2")
"""Looked up when the tests are collected: each test then has a BURNISH_HOME of its own."""

needs_smollm2 = pytest.mark.skipif(
    HERE is None, reason="local:smollm2 is not here; `burnish models pull smollm2` fetches it"
)
