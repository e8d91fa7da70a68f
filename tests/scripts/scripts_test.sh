#!/usr/bin/env bash
# Every script parses, explains itself and passes shellcheck where it is there.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=assert.sh
source "$(dirname "$0")/assert.sh"

cd "$source_dir"
scripts=(scripts/*.sh tests/scripts/*.sh .ci/run)
for script in "${scripts[@]}"; do
  expect_ok bash -n "$script"
done
for script in scripts/*.sh; do
  [[ -x $script ]] || continue
  grep -q '^set -euo pipefail$' "$script" || fail "$script lacks set -euo pipefail"
  expect_ok "$script" --help
  expect_output "$script"
  expect_error "$script" --frobnicate
done
[[ -x .ci/run ]] || fail ".ci/run is not executable"
if command -v shellcheck >/dev/null; then
  expect_ok shellcheck -x "${scripts[@]}"
else
  echo "shellcheck is not installed: not run"
fi
