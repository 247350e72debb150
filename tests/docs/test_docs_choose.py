"""The page that helps to choose names tests that are there."""

import re

from tests.docs.docs_pages import ROOT


def test_every_pair_that_is_called_tested_is() -> None:
    page = (ROOT / "docs" / "choose.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", page)
    assert len(named) > 10
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"
