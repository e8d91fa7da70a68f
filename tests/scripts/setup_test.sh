#!/usr/bin/env bash
# scripts/setup.sh on a LibTorch of a few bytes, served from a folder: what is
# broken, partial, foreign or missing is noticed; what is sound is left alone.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=assert.sh
source "$(dirname "$0")/assert.sh"

python3 -m pip --version >/dev/null 2>&1 || skip "there is no pip"
unset LIBTORCH_DIR OSDN_CACHE OSDN_DEPS SUDO_UID

# ---- the small LibTorch, as wheel and as archive ---------------------------------
mkdir -p "$work/index" "$work/tree"/{lib,include/ATen,include/torch/headeronly,share}
echo 'int osdn_fake;' | "${CXX:-c++}" -x c++ -shared -fPIC - -o "$work/tree/lib/libtorch_cpu.so"
echo '#pragma once' >"$work/tree/include/ATen/ATen.h"
printf '#define TORCH_VERSION_%s\n' 'MAJOR 2' 'MINOR 11' 'PATCH 0' \
  >"$work/tree/include/torch/headeronly/version.h"
echo 'share' >"$work/tree/share/note"
name=torch-2.11.0-cp312-cp312-manylinux_2_28_x86_64.whl
python3 - "$work" "$name" <<'EOF'
import pathlib, sys, zipfile
work, name = pathlib.Path(sys.argv[1]), sys.argv[2]
files = [p for p in (work / "tree").rglob("*") if p.is_file()]
with zipfile.ZipFile(work / "index" / name, "w") as wheel:
    for p in files:
        wheel.write(p, f"torch/{p.relative_to(work / 'tree')}")
    wheel.writestr("torch/__init__.py", "")
    info = "torch-2.11.0.dist-info"
    wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 2.11.0\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: cp312-cp312-manylinux_2_28_x86_64\n")
    wheel.writestr(f"{info}/RECORD", "")
(work / "archive" / "cpu").mkdir(parents=True)
with zipfile.ZipFile(work / "archive/cpu/libtorch-shared-with-deps-2.11.0+cpu.zip", "w") as archive:
    for p in files:
        archive.write(p, f"libtorch/{p.relative_to(work / 'tree')}")
EOF
sha256=$(sha256sum "$work/index/$name" | cut -d ' ' -f 1)
echo "torch==2.11.0 base libtorch_cpu.so $sha256" >"$work/lock"

export PIP_NO_INDEX=1 PIP_FIND_LINKS=$work/index PIP_DISABLE_PIP_VERSION_CHECK=1
export OSDN_LIBTORCH_LOCK=$work/lock OSDN_CACHE=$work/cache OSDN_DEPS=$work/deps
export OSDN_LIBTORCH_ARCHIVE=file://$work/nowhere
setup=("$source_dir/scripts/setup.sh" --no-packages --no-gpu)
unpacked=$work/deps/libtorch/torch

echo "- a first run fetches and unpacks, without the Python"
expect_ok "${setup[@]}" --libtorch wheel
expect_output "fetching torch==2.11.0"
[[ $(cat "$work/deps/libtorch.path") == "$unpacked" ]] || fail "wrong libtorch.path"
cmp -s "$work/tree/lib/libtorch_cpu.so" "$unpacked/lib/libtorch_cpu.so" || fail "not unpacked"
[[ ! -e $unpacked/__init__.py ]] || fail "the Python was unpacked"

echo "- a long fetch shows that it lives, in plain lines where there is no terminal"
mkdir "$work/slow"
cat >"$work/slow.sh" <<'EOF'
source "$1/scripts/common.sh"
watched "fetching it" "$2" "$2/log" \
  bash -c "echo word; sleep 2.5; echo last >&2; exit 3" || echo "status $?"
EOF
expect_ok env OSDN_WATCH_SECONDS=1 bash "$work/slow.sh" "$source_dir" "$work/slow"
expect_output "slow: fetching it: 2 s, 1 MB"
expect_output "status 3"
expect_no_output "word"
[[ $(cat "$work/slow/log") == $'word\nlast' ]] || fail "the log is not what it wrote"
if grep -q $'[\r\033]' "$work/output"; then fail "control codes outside a terminal"; fi

echo "- a second run does nothing"
expect_ok "${setup[@]}" --libtorch wheel
expect_no_output "fetching"
expect_no_output "unpacking"

echo "- a folder that lost a file is unpacked again, from the cache"
rm "$unpacked/share/note"
expect_ok "${setup[@]}" --libtorch wheel
expect_output "is not whole"
expect_no_output "fetching"
[[ -e $unpacked/share/note ]] || fail "the lost file did not come back"

echo "- a file cut short is noticed too"
: >"$unpacked/lib/libtorch_cpu.so"
expect_ok "${setup[@]}" --libtorch wheel
[[ -s $unpacked/lib/libtorch_cpu.so ]] || fail "the cut file stayed"

echo "- what a killed run left behind is cleared"
rm "$work/deps/libtorch/stamp"
mkdir -p "$work/deps/libtorch.unpacking/torch/lib" "$work/cache/partial"
echo half >"$work/cache/partial/$name"
expect_ok "${setup[@]}" --libtorch wheel
[[ ! -e $work/deps/libtorch.unpacking && -e $work/deps/libtorch/stamp ]] || fail "left half-unpacked"

echo "- a damaged wheel in the cache is fetched again"
rm -rf "$work/deps"
head -c 100 "$work/index/$name" >"$work/cache/$name"
expect_ok "${setup[@]}" --libtorch wheel
expect_output "is damaged"
expect_output "fetching torch==2.11.0"
cmp -s "$work/index/$name" "$work/cache/$name" || fail "the cache kept the damaged wheel"

echo "- another file under the right name is refused"
rm -rf "$work/deps" "$work/cache"
echo "torch==2.11.0 base libtorch_cpu.so ${sha256//[0-9]/0}" >"$work/lock"
expect_error "${setup[@]}" --libtorch wheel
expect_output "another SHA-256"
[[ ! -e $work/deps/libtorch.path ]] || fail "it was used all the same"
echo "torch==2.11.0 base libtorch_cpu.so $sha256" >"$work/lock"

echo "- no source at all is one line"
PIP_FIND_LINKS=$work/nothing expect_error "${setup[@]}" --libtorch wheel
expect_output "pip could not fetch torch==2.11.0"
expect_error "${setup[@]}" --libtorch archive
expect_output "cannot be reached"

echo "- the archive is taken where it can be reached, and its damage noticed"
export OSDN_LIBTORCH_ARCHIVE=file://$work/archive
expect_ok "${setup[@]}" --libtorch archive
expect_output "official archive"
[[ $(cat "$work/deps/libtorch.path") == "$work/deps/libtorch/libtorch" ]] || fail "wrong libtorch.path"
rm -rf "$work/deps"
echo damage >>"$work/cache/libtorch-shared-with-deps-2.11.0+cpu.zip"
expect_ok "${setup[@]}" --libtorch archive
expect_output "is damaged"

echo "- LIBTORCH_DIR comes first, and must hold a LibTorch"
LIBTORCH_DIR=$work/tree expect_ok "${setup[@]}"
expect_output "from LIBTORCH_DIR"
LIBTORCH_DIR=$work expect_error "${setup[@]}"
expect_output "holds no LibTorch 2.11"
sed -i 's/MINOR 11/MINOR 5/' "$work/tree/include/torch/headeronly/version.h"
LIBTORCH_DIR=$work/tree expect_error "${setup[@]}"

echo "- wrong options are one line"
expect_error "${setup[@]}" --libtorch conda
expect_error "${setup[@]}" --frobnicate
