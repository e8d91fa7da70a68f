#!/usr/bin/env bash
# Runs the GPU tests on a machine with a GPU; nothing is built here.
#
#   scripts/gpu_test.sh [FOLDER] [GOOGLETEST OPTION...]
#
#   FOLDER  holds the programs that the target gpu_tests built (default:
#           build/release/tests); libraries that this machine lacks can lie in
#           FOLDER/lib
#
# LibTorch is looked for as scripts/setup.sh does, so programs that were built
# elsewhere run with the LibTorch of this machine. The last line is the total.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

folder=$root/build/release/tests
if [[ $# -gt 0 && $1 != -* ]]; then
  folder=$1
  shift
elif [[ ${1:-} == -h || ${1:-} == --help ]]; then
  print_help
  exit 0
fi
[[ -e /proc/driver/nvidia/version || -e /dev/nvidiactl ]] ||
  die "this machine has no GPU driver"
shopt -s nullglob
programs=("$folder"/*gpu*_tests "$folder"/*_gpu_test)
[[ ${#programs[@]} -gt 0 ]] ||
  die "$folder holds no GPU tests; build them with: cmake --build build/release --target gpu_tests"

# shellcheck source-path=SCRIPTDIR source=libtorch.sh
source "$root/scripts/libtorch.sh"
deps=${OSDN_DEPS:-$root/.deps}
if [[ -n ${LIBTORCH_DIR:-} ]] || from_python || {
  libtorch=$(cat "$deps/libtorch.path" 2>/dev/null) && is_libtorch "$libtorch"
}; then
  libtorch=${LIBTORCH_DIR:-$libtorch}
  LD_LIBRARY_PATH=$libtorch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  for libraries in "$libtorch"/../nvidia/*/lib "$folder/lib"; do
    LD_LIBRARY_PATH+=:$libraries
  done
  export LD_LIBRARY_PATH
fi

# total PATTERN: the number that GoogleTest's closing lines in $output give it.
total() { sed -n "s/^\[ *$1 *\] \([0-9]*\) tests\{0,1\}.*/\1/p" "$output" | tail -n 1; }
passed=0 failed=0 skipped=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT
for program in "${programs[@]}"; do
  status=0
  "$program" "$@" >"$output" 2>&1 || status=$?
  ok=$(total PASSED) bad=$(total FAILED) left=$(total SKIPPED)
  ok=${ok:-0} bad=${bad:-0} left=${left:-0}
  # A crash counts as a failure even where no test could report one.
  [[ $status -eq 0 || $bad -gt 0 ]] || bad=1
  if [[ $bad -gt 0 ]]; then
    cat "$output"
  fi
  say "$(basename "$program"): $ok passed, $bad failed, $left skipped"
  passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + left))
done
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 && $passed -gt 0 ]]
