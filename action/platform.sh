# What differs between GitHub and GitLab: where files go, how people are told, who makes comments and
# requests. The scripts beside it source it.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [[ ${GITLAB_CI:-} == true ]]; then
  base=${CI_MERGE_REQUEST_TARGET_BRANCH_NAME:-}
  default=${CI_DEFAULT_BRANCH:-main}
  folder=$CI_PROJECT_DIR/burnish-report # artifacts can only be taken from the project's folder
  rm -rf "$folder" && mkdir -p "$folder"
  notice() { echo "note: $1"; }
  warning() { echo "warning: $1"; }
  output() { :; } # the template names the files
  publish() { :; }
  comment() {
    [[ -z ${CI_MERGE_REQUEST_IID:-} ]] || python3 "$here/gitlab.py" comment "$1"
  }
  request() { python3 "$here/gitlab.py" request "$@"; }
else
  base=${GITHUB_BASE_REF:-}
  default=${DEFAULT_BRANCH:-main}
  folder=$(mktemp -d "${RUNNER_TEMP:-/tmp}/burnish.XXXXXX")
  notice() { echo "::notice::$1"; }
  warning() { echo "::warning::$1"; }
  output() { printf '%s=%s\n' "$1" "$2" >>"$GITHUB_OUTPUT"; }
  publish() { cat "$1" >>"$GITHUB_STEP_SUMMARY"; }
  comment() {
    [[ ! ${GITHUB_REF:-} =~ ^refs/pull/([0-9]+)/ ]] ||
      gh pr comment "${BASH_REMATCH[1]}" --edit-last --create-if-none --body-file "$1"
  }
  request() { # branch, base, title, file with the description
    local open
    open=$(gh pr list --head "$1" --base "$2" --state open --json number --jq '.[0].number // empty')
    if [[ -n $open ]]; then
      gh pr edit "$open" --title "$3" --body-file "$4"
    else
      gh pr create --head "$1" --base "$2" --title "$3" --body-file "$4"
    fi
  }
fi

# The words of $ARGUMENTS, quoted as in a shell, into the array `more`; nothing in them is run.
read_arguments() {
  more=()
  if [[ -n ${ARGUMENTS//[[:space:]]/} ]]; then
    mapfile -t more < <(xargs -n 1 printf '%s\n' <<<"$ARGUMENTS")
  fi
}
