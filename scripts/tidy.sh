#!/usr/bin/env bash
# Runs clang-tidy over host sources, with the flags of build/release.
#
#   scripts/tidy.sh [--all | FILE...]
#
#   --all  every source below src/ and tests/ (default: those that differ from
#          the last commit)
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

cd "$root"
files=()
all=no
for argument in "$@"; do
  case "$argument" in
    --all) all=yes ;;
    -h | --help) print_help && exit 0 ;;
    -*) die "unknown option '$argument'; see $0 --help" ;;
    *) files+=("$argument") ;;
  esac
done
command -v clang-tidy >/dev/null ||
  die "there is no clang-tidy; install it with: apt-get install clang-tidy"
[[ -e build/release/compile_commands.json ]] ||
  die "build/release is not configured; run scripts/test.sh or cmake --preset release first"

if [[ $all == yes ]]; then
  mapfile -t files < <(git ls-files 'src/*.cpp' 'tests/*.cpp')
elif [[ ${#files[@]} -eq 0 ]]; then
  mapfile -t files < <({
    git diff --name-only --diff-filter=d HEAD -- 'src/*.cpp' 'tests/*.cpp'
    git ls-files --others --exclude-standard 'src/*.cpp' 'tests/*.cpp'
  } | sort -u)
fi
if [[ ${#files[@]} -eq 0 ]]; then
  say "no source differs from the last commit; --all checks every one"
  exit 0
fi
say "checking ${#files[@]} files"
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(parallel_jobs)" \
  clang-tidy -p build/release --quiet
say "${#files[@]} files clean"
