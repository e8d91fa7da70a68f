# Checks for shell tests; sourced. A test exits 77 to be counted as skipped.
# shellcheck shell=bash disable=SC2034

source_dir=${OSDN_SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*" >&2
  [[ ! -e $work/output ]] || tail -n 40 "$work/output" | sed 's/^/  | /' >&2
  exit 1
}
skip() {
  echo "skipped: $*"
  exit 77
}
# expect_ok COMMAND...: runs it, its output in $work/output.
expect_ok() { "$@" >"$work/output" 2>&1 || fail "exit code $? of: $*"; }
# expect_error COMMAND...: it has to fail with one line on standard error.
expect_error() {
  if "$@" >"$work/output" 2>"$work/error"; then fail "no error from: $*"; fi
  [[ $(wc -l <"$work/error") -eq 1 ]] || fail "not one line of error: $(cat "$work/error")"
  cat "$work/error" >>"$work/output"
}
expect_output() { grep -qF -- "$1" "$work/output" || fail "'$1' is not in the output"; }
expect_no_output() { ! grep -qF -- "$1" "$work/output" || fail "'$1' is in the output"; }
