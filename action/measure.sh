#!/usr/bin/env bash
# Measures an agent, compares it with the report on the base branch, and comments the result.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/platform.sh"

report=$folder/report.json
summary=$folder/summary.md
page=$folder/report.html
words=(eval "$AGENT" --json "$report" --markdown "$summary" --junit "$folder/results.xml")

# From the base branch: a pull request cannot lower the bar that it has to clear.
if [[ -n $BASELINE && -n $base ]]; then
  git fetch --quiet --depth=1 origin "$base"
  if git cat-file -e "FETCH_HEAD:$BASELINE" 2>/dev/null; then
    git show "FETCH_HEAD:$BASELINE" >"$folder/baseline.json"
    words+=(--baseline "$folder/baseline.json" --fail-on regression)
  else
    notice "there is no $BASELINE on $base yet: every case has to pass"
  fi
elif [[ -n $BASELINE ]]; then
  words+=(--baseline "$BASELINE" --fail-on regression)
fi
read_arguments
words+=("${more[@]}")

code=0
burnish "${words[@]}" || code=$?

if [[ -f $summary ]]; then
  output report "$report"
  output summary "$summary"
  # The run has written it, unless it failed.
  run=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["about"]["folder"])' "$report")
  if [[ -f $run/report.html ]]; then
    cp "$run/report.html" "$page"
    output page "$page"
  fi
  publish "$summary"
  if [[ $COMMENT == true ]]; then
    comment "$summary" ||
      warning "the summary could not be posted; pull requests of forks may not comment"
  fi
fi
exit "$code"
