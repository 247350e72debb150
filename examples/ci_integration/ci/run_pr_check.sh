#!/usr/bin/env bash
# What a pull request runs: it ends with an error when the agent is not good enough.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python -m pytest tests --quiet --no-header --tb=line -p no:cacheprovider \
    --junitxml=results/pytest_report.xml
