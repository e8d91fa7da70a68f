#!/usr/bin/env bash
# Installs what a build of osdn needs and this machine lacks; safe to run twice.
#
#   scripts/setup.sh [--gpu | --no-gpu] [--libtorch SOURCE] [--no-packages]
#
#   --gpu, --no-gpu    fetch the CUDA libraries that LibTorch needs on a GPU, or
#                      do not (default: where a GPU driver is loaded)
#   --libtorch SOURCE  auto, python, archive or wheel (default auto: the first
#                      that is there, in that order)
#   --no-packages      leave Debian packages alone
#
# LibTorch 2.11 is taken from $LIBTORCH_DIR; else from a Python that has torch;
# else from the official archive; else from the torch wheel, without its
# Python. The choice is written to .deps/libtorch.path, which CMake reads.
#
# OSDN_CACHE  keeps what was fetched (default: .cache in the source folder)
# OSDN_DEPS   holds what was unpacked (default: .deps in the source folder)
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source-path=SCRIPTDIR source=libtorch.sh
source "$(dirname "$0")/libtorch.sh"

packages=(g++ cmake ninja-build pkg-config git ccache ca-certificates curl
  unzip python3 iproute2 nlohmann-json3-dev libspdlog-dev libcli11-dev
  libsentencepiece-dev libopenmpi-dev openmpi-bin libxxhash-dev libzstd-dev
  zstd libgtest-dev libgmock-dev libbenchmark-dev bible-kjv)

want_gpu=auto
libtorch_source=auto
want_packages=yes
while [[ $# -gt 0 ]]; do
  case "$1" in
    --gpu) want_gpu=yes ;;
    --no-gpu) want_gpu=no ;;
    --no-packages) want_packages=no ;;
    --libtorch)
      libtorch_source=${2:-}
      [[ $libtorch_source =~ ^(auto|python|archive|wheel)$ ]] ||
        die "--libtorch takes auto, python, archive or wheel, not '$libtorch_source'"
      shift
      ;;
    -h | --help) print_help && exit 0 ;;
    *) die "unknown option '$1'; see $0 --help" ;;
  esac
  shift
done

check_processor() {
  [[ $(uname -s) == Linux && $(uname -m) == x86_64 ]] ||
    die "this is $(uname -s) on $(uname -m); osdn builds on Linux on x86_64"
}

check_distribution() {
  [[ -r /etc/os-release ]] ||
    die "there is no /etc/os-release; use Debian 12 or Ubuntu 24.04, or install the packages by hand and pass --no-packages"
  local id version oldest
  id=$(. /etc/os-release && echo "${ID:-unknown}")
  version=$(. /etc/os-release && echo "${VERSION_ID:-0}")
  case "$id" in
    debian) oldest=12 ;;
    ubuntu) oldest=24.04 ;;
    *) oldest="" ;;
  esac
  if [[ -z $oldest || $(printf '%s\n' "$oldest" "$version" | sort -V | head -n 1) != "$oldest" ]]; then
    die "$id $version is not supported; use Debian 12 or Ubuntu 24.04 or newer, or install the packages by hand and pass --no-packages"
  fi
}

if [[ $want_gpu == auto ]]; then
  want_gpu=no
  [[ ! -e /proc/driver/nvidia/version && ! -e /dev/nvidiactl ]] || want_gpu=yes
fi

check_processor
if [[ $want_packages == yes ]]; then
  check_distribution
  ensure_packages "${packages[@]}"
fi

deps=${OSDN_DEPS:-$root/.deps}
cache=${OSDN_CACHE:-$root/.cache}
mkdir -p "$deps" "$cache"
# One at a time: two set-ups would unpack over each other.
exec 9>"$deps/setup.lock"
flock 9

choose_libtorch
check_libtorch_loads "$libtorch"
if [[ $(cat "$deps/libtorch.path" 2>/dev/null) != "$libtorch" ]]; then
  printf '%s\n' "$libtorch" >"$deps/libtorch.path"
fi
# What sudo made belongs to the one who called it.
if [[ $(id -u) -eq 0 && -n ${SUDO_UID:-} ]]; then
  chown -R "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$deps" "$cache"
fi
say "ready: LibTorch $(libtorch_version "$libtorch") from $libtorch_origin, $libtorch"
