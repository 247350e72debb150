"""What keeps people from using a page: findings of axe, and what the keyboard does not reach."""

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

_SERIOUS = ("serious", "critical")


def barriers(page: "Page") -> list[str]:
    """Serious findings on an open page, wide and light, then narrow and dark.

    Colours do not depend on the width, so these two see what all four would.
    """
    found: list[str] = []
    for width, scheme in ((1280, "light"), (390, "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
        found += [f"{width} {scheme}: {each}" for each in _serious(page)]
        if page.evaluate("document.documentElement.scrollWidth") > width:
            found.append(f"{width} {scheme}: the page scrolls sideways")
    page.set_viewport_size({"width": 1280, "height": 900})
    return found


def _serious(page: "Page") -> list[str]:
    axe: Any = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe")
    violations = axe.Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['target']} {node['html'][:150]}"
        for each in violations
        if each["impact"] in _SERIOUS
        for node in each["nodes"][:3]
    ]


def tab_to(page: "Page", wanted: "Locator") -> None:
    """Press the tab key until something has the focus, and shows that."""
    wanted.wait_for()
    for _ in range(80):
        page.keyboard.press("Tab")
        if wanted.evaluate("(each) => each === document.activeElement"):
            assert wanted.evaluate("(each) => getComputedStyle(each).outlineStyle") != "none"
            return
    raise AssertionError(f"the tab key does not lead to {wanted}")
