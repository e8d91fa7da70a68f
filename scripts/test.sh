#!/usr/bin/env bash
# Sets up, builds and runs all tests; the last line says what passed.
#
#   scripts/test.sh [--preset NAME] [--no-setup] [--jobs N] [FILTER]
#
#   --preset NAME  release (default), debug or asan
#   --no-setup     leave packages and LibTorch as they are
#   --jobs N       tests and compilers at a time (default: the cores, as far as
#                  the memory carries)
#   FILTER         a regular expression on test names: only these run
#
# With CI set, tests that miss their shared data fail instead of being skipped.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

preset=release
want_setup=yes
filter=""
jobs=$(parallel_jobs)
while [[ $# -gt 0 ]]; do
  case "$1" in
    --preset) preset=${2:?--preset needs a name} && shift ;;
    --jobs) jobs=${2:?--jobs needs a number} && shift ;;
    --no-setup) want_setup=no ;;
    -h | --help) print_help && exit 0 ;;
    -*) die "unknown option '$1'; see $0 --help" ;;
    *) filter=$1 ;;
  esac
  shift
done

cd "$root"
[[ $want_setup == no ]] || scripts/setup.sh
# The tests for a GPU are built wherever CUDA is, so that they stay sound, and run
# by gpu_test.sh.
build_preset "$preset" "$jobs" all osdn_tests gpu_tests

# Sanitizers (preset asan): more checks than their defaults. LibTorch's own
# libraries are not instrumented and need no suppressions.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
# Threads that wait sleep: tests run beside each other on the same cores.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
results=$root/build/$preset/test_results.xml
rm -f "$results"
say "running the tests, $jobs at a time"
status=0
ctest --test-dir "build/$preset" --output-on-failure --no-tests=error \
  --parallel "$jobs" --output-junit "$results" \
  ${filter:+--tests-regex "$filter"} || status=$?
[[ -e $results ]] || die "ctest left no results (exit code $status)"

# count ATTRIBUTE: from the <testsuite ...> element of the results.
count() { sed -n '/<testsuite/,/>/{s/.*[[:space:]]'"$1"'="\([0-9]*\)".*/\1/p}' "$results" | head -n 1; }
failed=$(count failures)
skipped=$(($(count skipped) + $(count disabled)))
echo "$(($(count tests) - failed - skipped)) passed, $failed failed, $skipped skipped"
exit "$status"
