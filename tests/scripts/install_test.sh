#!/usr/bin/env bash
# cmake --install into a folder of its own: the programs run from there, find
# the installed configurations, and the libraries serve another CMake project.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=assert.sh
source "$(dirname "$0")/assert.sh"

build=${OSDN_BUILD_DIR:?set OSDN_BUILD_DIR to the build folder}
prefix=$work/prefix
unset OSDN_CONFIG_PATH LD_LIBRARY_PATH
expect_ok cmake --install "$build" --prefix "$prefix"

echo "- the target osdn, which the quickstart builds, makes all that is installed"
needed=$(cmake --build "$build" --target help >/dev/null && ninja -C "$build" -t inputs osdn)
while read -r file; do
  # ninja names a program by the objects that it is linked from.
  grep -qE "(^|/)${file##*/}(\$|\.dir/)" <<<"$needed" || fail "target osdn does not build ${file##*/}"
done < <(find "$prefix" -name '*.a' -o -path '*/bin/*')

cd "$work"
for source in "$source_dir"/src/apps/osdn_*.cpp; do
  program=$(basename "$source" .cpp | tr _ -)
  echo "- $program --help"
  [[ -x $prefix/bin/$program ]] || fail "$program was not installed"
  expect_ok "$prefix/bin/$program" --help
done

echo "- the installed configurations are those of the source"
expect_ok diff -r "$source_dir/configs" "$prefix/share/osdn/configs"
echo "- osdn-train finds them by name"
cp "$prefix/share/osdn/configs/340m_osdn_apf.json" "$prefix/share/osdn/configs/only_installed.json"
expect_ok "$prefix/bin/osdn-train" --config only_installed.json --dry-run
expect_output "374,583,488"

echo "- another project finds headers and libraries"
mkdir consumer
cat >consumer/CMakeLists.txt <<'EOF'
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
find_package(osdn REQUIRED)
add_executable(consumer main.cpp)
target_compile_features(consumer PRIVATE cxx_std_20)
target_link_libraries(consumer PRIVATE osdn::core)
EOF
cat >consumer/main.cpp <<'EOF'
#include <osdn/core/error.h>
int main() {
  try {
    throw osdn::Error("expected");
  } catch (const osdn::Error&) {
    return 0;
  }
}
EOF
# What was built with a sanitizer has to be linked with it.
sanitize=$(sed -n 's/^OSDN_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")
expect_ok cmake -S consumer -B consumer/build -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS="${sanitize:+-fsanitize=$sanitize}"
expect_ok cmake --build consumer/build
expect_ok consumer/build/consumer
