# Finds or fetches LibTorch; part of setup.sh, which sets deps, cache,
# want_gpu, want_packages and libtorch_source. Leaves the folder in $libtorch.
# shellcheck shell=bash disable=SC2034,SC2154

libtorch_series=2.11
libtorch_lock=${OSDN_LIBTORCH_LOCK:-$root/scripts/libtorch.lock}
archive_base=${OSDN_LIBTORCH_ARCHIVE:-https://download.pytorch.org/libtorch}

# Wheels are built for several ages of the C library; all of these run here.
pip_target=(--no-deps --only-binary=:all: --implementation cp
  --python-version 3.12 --platform manylinux_2_28_x86_64
  --platform manylinux_2_27_x86_64 --platform manylinux_2_25_x86_64
  --platform manylinux_2_18_x86_64 --platform manylinux_2_17_x86_64
  --platform manylinux2014_x86_64 --platform manylinux_2_12_x86_64)

libtorch_version() {
  awk '/^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) / {
    printf "%s%s", (found++ ? "." : ""), $3}' \
    "$1/include/torch/headeronly/version.h" 2>/dev/null
}

is_libtorch() {
  [[ -e $1/lib/libtorch_cpu.so && -e $1/include/ATen/ATen.h &&
    $(libtorch_version "$1") == "$libtorch_series".* ]]
}

loader_knows() {
  [[ -n ${loader_cache:-} ]] || loader_cache=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p)
  [[ $loader_cache == *"$1 "* ]]
}

sha256_of() { sha256sum "$1" | cut -d ' ' -f 1; }

# Files and bytes below a folder: tells a whole folder from a damaged one.
folder_size() {
  find "$1" -type f ! -name stamp -printf '%s\n' |
    awk '{bytes += $1} END {printf "%d files %d bytes\n", NR, bytes}'
}

choose_libtorch() {
  if [[ -n ${LIBTORCH_DIR:-} ]]; then
    is_libtorch "$LIBTORCH_DIR" ||
      die "LIBTORCH_DIR=$LIBTORCH_DIR holds no LibTorch $libtorch_series (lib/libtorch_cpu.so, include/ATen); point it to one or unset it"
    libtorch=$LIBTORCH_DIR libtorch_origin="LIBTORCH_DIR"
    return
  fi
  case "$libtorch_source" in
    python) from_python || die "no python3 or python on the PATH has torch $libtorch_series" ;;
    archive) from_archive || die "the archive at $archive_base cannot be reached" ;;
    wheel) from_wheel ;;
    auto) from_python || kept_wheel || from_archive || from_wheel ;;
  esac
}

from_python() {
  local python folder
  for python in python3 python; do
    folder=$("$python" - 2>/dev/null <<'EOF'
import importlib.util
spec = importlib.util.find_spec("torch")
print(spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else "")
EOF
    ) || continue
    if [[ -n $folder ]] && is_libtorch "$folder"; then
      libtorch=$folder libtorch_origin="the Python package of $(command -v "$python")"
      return 0
    fi
  done
  return 1
}

# ---- the official archive ----------------------------------------------------

from_archive() {
  local kind=cpu url name
  [[ $want_gpu == no ]] || kind=cu130
  name="libtorch-shared-with-deps-2.11.0+$kind.zip"
  url="$archive_base/$kind/${name/+/%2B}"
  if unpacked_holds "archive $kind"; then
    libtorch=$deps/libtorch/libtorch libtorch_origin="the official archive"
    return 0
  fi
  if ! archive_is_whole "$cache/$name"; then
    curl -fsI --connect-timeout 5 --max-time 20 -o /dev/null "$url" || return 1
    say "fetching $url"
    rm -f "$cache/$name" "$cache/$name.sha256" "$cache/$name.partial"
    watched "fetching $name" "$cache/$name.partial" "$cache/fetch.log" \
      curl -fsS --connect-timeout 5 --retry 3 -o "$cache/$name.partial" "$url" ||
      die "$url broke off: $(tail -n 1 "$cache/fetch.log"); run again"
    rm -f "$cache/fetch.log"
    unzip -tqq "$cache/$name.partial" >/dev/null ||
      die "$url gave a damaged archive; run again"
    # No hash is published for it: the first sound copy's is kept beside it.
    sha256_of "$cache/$name.partial" >"$cache/$name.sha256"
    mv "$cache/$name.partial" "$cache/$name"
  fi
  begin_unpacking
  watched "unpacking" "$unpacking" /dev/null unzip -q "$cache/$name" 'libtorch/lib/*' \
    'libtorch/include/*' 'libtorch/share/*' -d "$unpacking" || die "$cache/$name cannot be unpacked (disk full?)"
  finish_unpacking "archive $kind"
  libtorch=$deps/libtorch/libtorch libtorch_origin="the official archive"
}

archive_is_whole() {
  [[ -e $1 && -e $1.sha256 ]] || return 1
  [[ $(sha256_of "$1") == "$(cat "$1.sha256")" ]] && return 0
  say "cached $(basename "$1") is damaged; fetching it again"
  return 1
}

# ---- wheels --------------------------------------------------------------------

# The lock's rows that this machine needs: "package sha256" lines.
wanted_wheels() {
  local package when library sha256
  while read -r package when library sha256; do
    [[ -n $package && $package != \#* ]] || continue
    case "$when" in
      base) ;;
      cpu) ! loader_knows "$library" || continue ;;
      gpu) if [[ $want_gpu == no ]] || loader_knows "$library"; then continue; fi ;;
      *) die "$libtorch_lock: '$when' is no kind of row; use base, cpu or gpu" ;;
    esac
    printf '%s %s\n' "$package" "$sha256"
  done <"$libtorch_lock"
}

# Succeeds where an earlier run already unpacked all that is wanted.
kept_wheel() {
  local row rows=()
  mapfile -t rows < <(wanted_wheels)
  for row in "${rows[@]}"; do
    unpacked_holds "$row" || return 1
  done
  libtorch=$deps/libtorch/torch libtorch_origin="the torch wheel"
}

from_wheel() {
  local row rows=() package sha256 files=()
  kept_wheel && return
  mapfile -t rows < <(wanted_wheels)
  for row in "${rows[@]}"; do
    read -r package sha256 <<<"$row"
    fetch_wheel "$package" "$sha256"
    files+=("$fetched")
  done
  begin_unpacking
  for fetched in "${files[@]}"; do
    say "unpacking $(basename "$fetched")"
    watched "unpacking" "$unpacking" /dev/null unzip -q "$fetched" 'torch/lib/*' \
      'torch/include/*' 'torch/share/*' 'nvidia/*/lib/*' -d "$unpacking" || [[ $? -eq 11 ]] ||
      die "$fetched cannot be unpacked (disk full?)"
  done
  finish_unpacking "${rows[@]}"
  libtorch=$deps/libtorch/torch libtorch_origin="the torch wheel"
}

# fetch_wheel PACKAGE==VERSION SHA256: leaves its path in $fetched. The cache
# is searched by hash, so a file of any name serves and a broken one does not.
fetch_wheel() {
  local package=$1 sha256=$2 stem file folder
  stem=$(tr - _ <<<"${package%%==*}")-${package##*==}-
  for file in "$cache/$stem"*.whl; do
    [[ -e $file ]] || continue
    if [[ $(sha256_of "$file") == "$sha256" ]]; then
      fetched=$file
      return
    fi
    say "cached $(basename "$file") is damaged or another build; fetching it again"
    rm -f "$file"
  done
  if ! python3 -m pip --version >/dev/null 2>&1; then
    [[ $want_packages == yes ]] || die "fetching $package needs python3-pip, which is not installed"
    ensure_packages python3-pip
  fi
  say "fetching $package"
  folder=$cache/partial
  rm -rf "$folder"
  mkdir -p "$folder"
  printf '%s --hash=sha256:%s\n' "$package" "$sha256" >"$folder/requirements.txt"
  # Its temporary files belong here too: seen growing, and removed with the rest.
  if ! watched "fetching $package" "$folder" "$folder/log" \
    env TMPDIR="$folder" python3 -m pip download --quiet --no-cache-dir \
    --require-hashes "${pip_target[@]}" --dest "$folder" \
    -r "$folder/requirements.txt"; then
    die "pip could not fetch $package: $(pip_cause "$folder/log") (whole output: $folder/log)"
  fi
  file=$(find "$folder" -maxdepth 1 -name '*.whl')
  [[ $(sha256_of "$file") == "$sha256" ]] ||
    die "$(basename "$file") has another SHA-256 than scripts/libtorch.lock names"
  fetched=$cache/$(basename "$file")
  mv "$file" "$fetched"
  rm -rf "$folder"
}

# The line of pip's output that says most: pip reports a dead network and a bad
# certificate as "no matching distribution" in its last lines.
pip_cause() {
  local cause
  cause=$(grep -oE 'CERTIFICATE_VERIFY_FAILED|name resolution|Name or service not known|Connection refused|Network is unreachable|timed out|No space left on device|HASHES FROM THE REQUIREMENTS FILE' "$1" | head -n 1)
  case "$cause" in
    "") grep -E 'ERROR' "$1" | tail -n 1 ;;
    HASHES*) echo "what the index serves has another SHA-256 than scripts/libtorch.lock names" ;;
    *) echo "no connection to the package index, $cause" ;;
  esac
}

# ---- unpacking: aside first, then renamed, then stamped ------------------------

begin_unpacking() {
  unpacking=$deps/libtorch.unpacking
  rm -rf "$unpacking" "$deps/libtorch.old"
  mkdir -p "$unpacking"
}

# finish_unpacking ROW...: the stamp names each row and the folder's size.
finish_unpacking() {
  local size
  size=$(folder_size "$unpacking")
  printf '%s\n' "$@" "$size" >"$unpacking/stamp"
  [[ ! -e $deps/libtorch ]] || mv "$deps/libtorch" "$deps/libtorch.old"
  mv "$unpacking" "$deps/libtorch"
  rm -rf "$deps/libtorch.old"
}

unpacked_holds() {
  local stamp=$deps/libtorch/stamp
  [[ -e $stamp ]] && grep -qxF "$1" "$stamp" || return 1
  [[ $(tail -n 1 "$stamp") == "$(folder_size "$deps/libtorch")" ]] && return 0
  say "$deps/libtorch is not whole; unpacking it again"
  return 1
}

lost_libraries() {
  ldd "$1" 2>&1 | awk '/not found/ {print $1}' | sort -u | tr '\n' ' '
}

check_libtorch_loads() {
  local lost
  lost=$(lost_libraries "$1/lib/libtorch_cpu.so")
  [[ -z $lost ]] ||
    die "$1/lib/libtorch_cpu.so needs ${lost% }, which the loader does not find; install it, or run with --libtorch wheel"
  if [[ $want_gpu == yes && -e $1/lib/libtorch_cuda.so ]]; then
    lost=$(lost_libraries "$1/lib/libtorch_cuda.so")
    [[ -z $lost ]] || say "warning: on the GPU LibTorch will miss ${lost% }"
  fi
}
