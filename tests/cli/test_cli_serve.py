"""`burnish serve`: what an operator is told before anything is served."""

from pathlib import Path

import pytest

from tests.cli.console import Burnish, refused

pytestmark = pytest.mark.slow


def test_what_cannot_be_served(burnish: Burnish, tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    refused(burnish("serve", "--host", "0.0.0.0", *data), "0.0.0.0", "token")
    refused(burnish("serve", "--app", "x=nothing.yaml", *data), "nothing.yaml")
    refused(burnish("serve", "--app", "nothing.yaml", *data), "NAME=FILE")
    refused(burnish("serve", "--journals", "paper", *data), "--journals")
    refused(burnish("serve", "--journals", "database", *data), "PostgreSQL")
    refused(burnish("serve", "--token", "short", *data), "16 characters")


def test_the_schema_is_printed_for_each_database(burnish: Burnish) -> None:
    for kind in ("postgresql", "mysql"):
        said = burnish("serve", "--print-schema", "--db", f"{kind}://me:secret@host/x")
        assert said.code == 0
        assert "CREATE TABLE" in said.out
        assert "burnish_run_events" in said.out
        assert "secret" not in said.out


def test_a_token_is_shown_once(burnish: Burnish, tmp_path: Path) -> None:
    made = burnish("tokens", "add", "one", "--scope", "read", "--data", str(tmp_path))
    assert made.code == 0
    assert made.out.strip() not in (tmp_path / "tokens.json").read_text()
    refused(burnish("tokens", "add", "two", "--scope", "all", "--data", str(tmp_path)), "--scope")
