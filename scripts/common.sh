# Shared by the scripts beside it; sourced, never run.
# shellcheck shell=bash disable=SC2034

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
script_name=$(basename "$0" .sh)

say() { printf '%s: %s\n' "$script_name" "$*"; }
die() {
  printf '%s: error: %s\n' "$script_name" "$*" >&2
  exit 1
}

# Prints the comment block at the head of the calling script as its help.
print_help() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; }

# run_as_root COMMAND...: as it is for root, through sudo for others.
run_as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  else
    sudo "$@"
  fi
}

package_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# ensure_packages NAME...: installs the Debian packages that are missing.
ensure_packages() {
  local missing=() name log
  for name in "$@"; do
    package_installed "$name" || missing+=("$name")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if [[ $(id -u) -ne 0 ]] && ! command -v sudo >/dev/null; then
    die "installing ${missing[*]} needs root; run this script as root," \
      "or ask for: apt-get install ${missing[*]}"
  fi
  say "installing Debian packages: ${missing[*]}"
  log=$(mktemp)
  # A failing update is not fatal by itself: the lists at hand may do.
  run_as_root apt-get update >"$log" 2>&1 || true
  if ! run_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y \
    --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
    die "apt-get could not install ${missing[*]}:" \
      "$(grep -E '^E:|^W: Failed' "$log" | head -n 1)" \
      "(no network, or wrong package sources? whole output: $log)"
  fi
  rm -f "$log"
}

# Cores, but no more than one for each 3 GiB of memory: a compiler with
# LibTorch's headers takes about 2.
parallel_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable/ {print int($2 / 1048576 / 3)}' /proc/meminfo)
  ((memory >= 1)) || memory=1
  echo $((cores < memory ? cores : memory))
}

# build_preset PRESET JOBS [TARGET...]: configures and builds build/PRESET.
build_preset() {
  local preset=$1 jobs=$2
  shift 2
  say "configuring and building preset $preset"
  (
    cd "$root"
    cmake --preset "$preset" || exit 1
    cmake --build "build/$preset" --parallel "$jobs" ${1:+--target "$@"}
  ) || die "the build of preset $preset failed; its first error stands above"
}
