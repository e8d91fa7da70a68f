#!/usr/bin/env bash
# Formats the C++ and CUDA sources with clang-format.
#
#   scripts/format.sh [--check] [FILE...]
#
#   --check  change nothing; name the files that are not formatted and fail
#   FILE     these files only (default: every file that git knows)
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

check=no
files=()
for argument in "$@"; do
  case "$argument" in
    --check) check=yes ;;
    -h | --help) print_help && exit 0 ;;
    -*) die "unknown option '$argument'; see $0 --help" ;;
    *) files+=("$argument") ;;
  esac
done
command -v clang-format >/dev/null ||
  die "there is no clang-format; install it with: apt-get install clang-format"

if [[ ${#files[@]} -eq 0 ]]; then
  cd "$root"
  mapfile -t files < <(git ls-files '*.cpp' '*.h' '*.cu' '*.cuh')
fi
[[ ${#files[@]} -gt 0 ]] || die "there is nothing to format"

if [[ $check == no ]]; then
  clang-format -i "${files[@]}"
  say "${#files[@]} files formatted"
  exit 0
fi
bad=0
for file in "${files[@]}"; do
  if ! clang-format --dry-run -Werror "$file" 2>/dev/null; then
    echo "$file is not formatted"
    bad=$((bad + 1))
  fi
done
say "${#files[@]} files checked, $bad not formatted"
[[ $bad -eq 0 ]]
