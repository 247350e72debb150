#!/usr/bin/env bash
# Measures an agent, compares it with the report on the base branch, and comments the result.
set -euo pipefail

folder=$(mktemp -d "${RUNNER_TEMP:-/tmp}/burnish.XXXXXX")
report=$folder/report.json
summary=$folder/summary.md
words=(eval "$AGENT" --json "$report" --markdown "$summary")

# From the base branch: a pull request cannot lower the bar that it has to clear.
if [[ -n $BASELINE && -n ${GITHUB_BASE_REF:-} ]]; then
  git fetch --quiet --depth=1 origin "$GITHUB_BASE_REF"
  if git cat-file -e "FETCH_HEAD:$BASELINE" 2>/dev/null; then
    git show "FETCH_HEAD:$BASELINE" >"$folder/baseline.json"
    words+=(--baseline "$folder/baseline.json" --fail-on regression)
  else
    echo "::notice::there is no $BASELINE on $GITHUB_BASE_REF yet: every case has to pass"
  fi
elif [[ -n $BASELINE ]]; then
  words+=(--baseline "$BASELINE" --fail-on regression)
fi
if [[ -n ${ARGUMENTS//[[:space:]]/} ]]; then
  mapfile -t more < <(xargs -n 1 printf '%s\n' <<<"$ARGUMENTS")
  words+=("${more[@]}")
fi

code=0
burnish "${words[@]}" || code=$?

if [[ -f $summary ]]; then
  printf 'report=%s\nsummary=%s\n' "$report" "$summary" >>"$GITHUB_OUTPUT"
  cat "$summary" >>"$GITHUB_STEP_SUMMARY"
  if [[ $COMMENT == true && ${GITHUB_REF:-} =~ ^refs/pull/([0-9]+)/ ]]; then
    gh pr comment "${BASH_REMATCH[1]}" --edit-last --create-if-none --body-file "$summary" ||
      echo "::warning::the summary could not be posted; pull requests of forks may not comment"
  fi
fi
exit "$code"
