"""`burnish roles`: list, show, install."""

from typing import Annotated

import typer

from burnish.cli import options

app = typer.Typer(no_args_is_help=True, help="Show the prompts of roles, and customise them.")

_LOOK, _CHANGE = "Look", "Change"

_RoleName = Annotated[str, typer.Argument(metavar="ROLE", help="A role, such as critic.")]


@app.command("list", rich_help_panel=_LOOK)
def list_roles(*, as_json: options.AsJson = False) -> None:
    """Every role, and where its prompt comes from in this folder."""
    from burnish.cli.role_prompts import print_list

    print_list(as_json=as_json)


@app.command(rich_help_panel=_LOOK)
def show(role: _RoleName) -> None:
    """The prompt that is in force in this folder, and its file."""
    from burnish.cli.role_prompts import print_prompt

    print_prompt(role)


@app.command(rich_help_panel=_CHANGE)
def install(
    roles: Annotated[
        list[str] | None, typer.Argument(metavar="[ROLE]...", help="All of them by default.")
    ] = None,
    *,
    diff: Annotated[
        bool, typer.Option("--diff", help="Write nothing; show what you changed.")
    ] = False,
) -> None:
    """Copy prompts to .burnish/roles/, to be edited there. No file is overwritten."""
    from burnish.cli.role_prompts import install_prompts, print_changes

    if diff:
        print_changes(roles or [])
    else:
        install_prompts(roles or [])
