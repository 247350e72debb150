"""Transcripts and the picture are made by scripts, from what the commands print."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from scripts.picture import PICTURE, drawn, session
from scripts.transcripts import PAGES, with_output
from tests.docs.docs_console import renewed
from tests.docs.docs_pages import blocks

SHOWN = ("a run of 3", "…", "[1] first     hold 0.500 accept ✓ $0.01 0.3s", "…", "best 0.500")


def test_what_differs_from_run_to_run_stays_as_it_is_written() -> None:
    came = ["a run of 3", "x", "[1] first  hold 0.500 accept ✓ $0.02 12s", "best 0.500", ""]
    assert renewed(SHOWN, came) == SHOWN


def test_another_number_is_written_where_the_old_one_was() -> None:
    first = "[1] first     hold 0.250 accept ✓ $0.01 0.3s"
    came = ["a run of 3", "x", "y", first, "z", "best 0.250"]
    assert renewed(SHOWN, came) == ("a run of 3", "…", first, "…", "best 0.250")


@pytest.mark.parametrize(
    ("shown", "came", "made"),
    [
        (("a", "c"), ["a", "something new", "c"], ("a", "something new", "c")),
        (("a", "something old", "c"), ["a", "c"], ("a", "c")),
        (("a", "…"), ["b", "many", "lines"], ("…",)),
        ((), ["what the page does not show"], ()),
        (("old words",), ["7 × 9"], ("7 × 9",)),
    ],
)
def test_lines_come_and_go(shown: tuple[str, ...], came: list[str], made: tuple[str, ...]) -> None:
    assert renewed(shown, came) == made


PAGE = """\
# Page

```console
$ export GREETING=hello
$ echo "$GREETING, it is 5s later"
hello, it is 7s later

$ echo "one"; echo "two"
one
$ true
```

```text
$ false
```

```console
$ make nothing
$ echo more
less
```
"""


def test_a_page_is_written_anew_from_top_to_bottom(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    expected = PAGE.replace("later\n\n$", "later\n$").replace("one\n$", "one\ntwo\n$")
    assert with_output(page, tmp_path) == expected.replace("less", "more")
    page.write_text(expected.replace("less", "more"), encoding="utf-8")
    assert with_output(page, tmp_path) == page.read_text(encoding="utf-8")


def test_the_pages_have_transcripts() -> None:
    for page in PAGES:
        assert any("\n$ burnish " in f"\n{block.text}" for block in blocks(page))


def test_the_picture_is_current_and_loads_nothing() -> None:
    picture = PICTURE.read_text(encoding="utf-8")
    assert picture == drawn(), "python -m scripts.picture"
    texts = [each.text for each in ElementTree.fromstring(picture).iter() if each.text]
    assert [line for line in session() if line] == [text for text in texts if text.strip()][1:]
    assert re.findall(r"url\(|href|@import|@font-face", picture) == []
