"""What the scripts ask of GitLab: a comment on a merge request, and a merge request.

    gitlab.py comment FILE
    gitlab.py request BRANCH BASE TITLE FILE

`BURNISH_TOKEN` is a token with the scope `api`: that of the job may not write comments.
"""

import json
import os
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any


def main(what: str, *words: str) -> None:
    """Do what the command line says."""
    if what == "comment":
        comment(Path(words[0]).read_text(encoding="utf-8"))
    else:
        branch, base, title, file = words
        request(branch, base, title, Path(file).read_text(encoding="utf-8"))


def comment(text: str) -> None:
    """Write the comment on this agent, or replace the one of before."""
    mark = f"<!-- burnish {os.environ['AGENT']} -->"
    notes = f"merge_requests/{os.environ['CI_MERGE_REQUEST_IID']}/notes"
    # The newest hundred: an older one of ours is left, and there is a new one.
    before = _call("GET", f"{notes}?sort=desc&per_page=100")
    own = next((each["id"] for each in before if each["body"].startswith(mark)), None)
    body = {"body": f"{mark}\n{text}"}
    if own is None:
        _call("POST", notes, body)
    else:
        _call("PUT", f"{notes}/{own}", body)


def request(branch: str, base: str, title: str, text: str) -> None:
    """Open a merge request, or renew the one that is open."""
    branches = {"source_branch": branch, "target_branch": base}
    query = urllib.parse.urlencode({**branches, "state": "opened"})
    texts = {"title": title, "description": text}
    if found := _call("GET", f"merge_requests?{query}"):
        answer = _call("PUT", f"merge_requests/{found[0]['iid']}", texts)
    else:
        answer = _call("POST", "merge_requests", {**branches, **texts})
    sys.stdout.write(f"{answer['web_url']}\n")


def _call(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    address = f"{os.environ['CI_API_V4_URL']}/projects/{os.environ['CI_PROJECT_ID']}/{path}"
    headers = {"PRIVATE-TOKEN": os.environ["BURNISH_TOKEN"], "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(address, data=data, headers=headers, method=method)  # noqa: S310 - GitLab's
    with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310 - the same
        return json.load(answer)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyError as error:
        sys.exit(f"error: the variable {error} is not set")
    except OSError as error:
        sys.exit(f"error: GitLab refused: {error}")
