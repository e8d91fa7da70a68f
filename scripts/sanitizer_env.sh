# How the sanitizers of preset asan run; sourced.
# shellcheck shell=bash
#
# detect_container_overflow=0: LibTorch's libraries are built without the
#   sanitizer, so a std::vector that they fill and we read looks overrun.
# Leaks: LibTorch keeps registries and thread pools until the process ends; what
#   is still reachable through them is not ours (see lsan.supp).
scripts_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export ASAN_OPTIONS="detect_container_overflow=0:detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export LSAN_OPTIONS="suppressions=$scripts_folder/lsan.supp:print_suppressions=0${LSAN_OPTIONS:+:$LSAN_OPTIONS}"
export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
