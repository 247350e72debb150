#!/usr/bin/env bash
# What the night runs: better prompts go to a branch of their own, for somebody to look at.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python run_optimization.py

if git diff --quiet -- agent/prompts; then
    echo "no better prompts tonight"
    exit 0
fi

branch="prompts/$(date -u +%Y-%m-%d)"
git switch --quiet --create "$branch"
git -c user.name=nightly -c user.email=nightly@localhost \
    commit --quiet --message "Better prompts, by the nightly run" -- agent/prompts
echo "on branch $branch: push it and open a pull request"
