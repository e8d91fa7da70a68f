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

# watched WHAT FOLDER LOG COMMAND...: runs a command that is long and silent, its
# output appended to LOG, with signs of life: the time, and how much lies in
# FOLDER ("" for none). They are redrawn on a terminal, elsewhere one line every
# half minute (OSDN_WATCH_SECONDS).
watched() {
  local what=$1 folder=$2 log=$3 watcher status=0
  shift 3
  (
    SECONDS=0 tick=${OSDN_WATCH_SECONDS:-30}
    [[ ! -t 1 ]] || tick=1
    # It ends by itself when the script is stopped.
    while sleep 1 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
      ((SECONDS % tick == 0)) || continue
      line="$script_name: $what: $SECONDS s"
      [[ ! -e $folder ]] || line+=", $(du -sm "$folder" 2>/dev/null | cut -f 1) MB"
      if [[ -t 1 ]]; then printf '\r%s\033[K' "$line"; else echo "$line"; fi
    done
  ) &
  watcher=$!
  "$@" >>"$log" 2>&1 || status=$?
  kill "$watcher" 2>/dev/null || true
  wait "$watcher" 2>/dev/null || true
  [[ ! -t 1 ]] || printf '\r\033[K'
  return "$status"
}

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
  watched "updating the package lists" "" "$log" run_as_root apt-get update || true
  if ! watched "installing packages" "" "$log" run_as_root env \
    DEBIAN_FRONTEND=noninteractive apt-get install -y \
    --no-install-recommends "${missing[@]}"; then
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
