#!/usr/bin/env bash
# Optimises a file within a limit, and opens a pull request if a gain is shown.
# A second run renews the same branch and request. Nothing else is pushed to.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/platform.sh"

target=${BASE:-$default}
branch=${BRANCH:-burnish/$(tr -cs 'A-Za-z0-9._-' - <<<"${AGENT%.*}" | sed 's/^[-.]*//; s/[-.]*$//')}
run=$folder/run
export GIT_AUTHOR_NAME=${GIT_AUTHOR_NAME:-burnish} GIT_AUTHOR_EMAIL=${GIT_AUTHOR_EMAIL:-burnish@localhost}
export GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL

fail() { echo "error: $1" >&2 && exit 1; }

[[ $branch != "$target" && $branch != "$default" ]] || fail "BRANCH is $branch itself: name a branch of its own"
git check-ref-format --branch "$branch" >/dev/null 2>&1 || fail "'$branch' is no name of a branch"
[[ -n ${MAX_USD:-} || -n ${MAX_CALLS:-} ]] || fail "there is no limit: set MAX_USD or MAX_CALLS"
git diff --quiet HEAD || fail "files are changed here that are not committed"

# What people committed to the branch is theirs.
known=$(git ls-remote origin "refs/heads/$branch" | cut -f1)
if [[ -n $known ]]; then
  git fetch --quiet origin "$known"
  git log --format=%ce "HEAD..$known" >"$folder/committers"
  if grep -qvxF "$GIT_COMMITTER_EMAIL" "$folder/committers"; then
    fail "$branch has commits of others: merge or close its request first"
  fi
fi

limits=(${MAX_USD:+--max-usd "$MAX_USD"} ${MAX_CALLS:+--max-calls "$MAX_CALLS"})
read_arguments
code=0
burnish optimize "$AGENT" -o "$run" "${limits[@]}" "${more[@]}" --require improved || code=$?
[[ $code == [04] ]] || exit "$code"
[[ ! -f $run/report.html ]] || output page "$run/report.html"
output report "$run/report.md"

if [[ $code == 4 ]]; then
  notice "no gain is shown, so there is no pull request"
  exit 0
fi

others() { git ls-files --others --exclude-standard; }
start=$(git symbolic-ref --quiet --short HEAD || git rev-parse HEAD)
others | sort >"$folder/others"
burnish adopt "$run" --yes | sed '/^undo  /d' >"$folder/diff.txt"
git add --update
others | sort | comm -13 "$folder/others" - | while IFS= read -r file; do git add -- "$file"; done
git diff --cached --quiet && fail "the result changes no file of this repository"
title="burnish: better ${AGENT}"

git checkout --quiet -B "$branch"
git commit --quiet --message "$title" --message "$(sed -n 's/^claim *//p' "$folder/diff.txt")"
git push --quiet --force-with-lease="$branch:$known" origin "HEAD:refs/heads/$branch"
git checkout --quiet "$start"

# Half of what a description may hold at GitHub for each of both.
{
  sed -n 's/^claim *//p' "$folder/diff.txt"
  printf '\n~~~~~~~~~~diff\n%s\n~~~~~~~~~~\n\n' "$(head -c 30000 "$folder/diff.txt")"
  printf '<details><summary>Report</summary>\n\n%s\n\n</details>\n' "$(head -c 30000 "$run/report.md")"
} >"$folder/request.md"
"${OPEN_REQUEST:-request}" "$branch" "$target" "$title" "$folder/request.md"
output branch "$branch"
