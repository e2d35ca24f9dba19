#!/usr/bin/env bash
# Builds ik_llama.cpp for this machine's processor, as a peer to measure speed against, and prints the path of its llama-bench, alone, on stdout.
# Usage: build_ik_llama.sh [FOLDER]. A later run finds llama-bench there and only prints the path; to build anew, delete the folder.
# Needs python3 with pip, cmake, ninja and a C++20 compiler. Must not write inside the repository: the peer is neither shipped nor a dependency.
set -euo pipefail

# A pinned release with its hash, so that figures taken on two days are of the same peer. It carries no upstream commit to name it by.
version=0.1.5
sha256=33c67eb99e4dcab5e611050433243815709b8b3067753f9ce18375013cf002ad
archive=ik_llama_cpp_python-$version.tar.gz

folder=$(realpath -m "${1:-${XDG_CACHE_HOME:-$HOME/.cache}/surge/ik_llama.cpp}")
case $folder/ in
  "$(realpath "$(dirname "$0")/..")"/*) echo "build_ik_llama: $folder is inside the repository; name a folder outside it." >&2; exit 64 ;;
esac
# The version is in the names, so that a newer pin is built anew.
source=$folder/src-$version
build=$folder/build-$version
bench=$build/bin/llama-bench
if [ -x "$bench" ]; then
  echo "$bench"
  exit 0
fi

mkdir -p "$folder"

# logged NAME COMMAND...: runs it, what it says goes to FOLDER/NAME.log, whose end is shown when it fails.
logged() {
  local log=$folder/$1.log
  shift
  "$@" >"$log" 2>&1 || { tail -n 40 "$log" >&2; echo "build_ik_llama: failed, see $log" >&2; exit 1; }
}

intact() { echo "$sha256  $folder/$archive" | sha256sum --check --status 2>/dev/null; }

# The index has the source as an sdist. Only this package is refused as a wheel: `:all:` would refuse its build tools as wheels too.
if ! intact; then
  rm -f "$folder/$archive"
  logged download python3 -m pip download "ik-llama-cpp-python==$version" --no-binary ik-llama-cpp-python --no-deps --no-cache-dir --dest "$folder"
  intact || { echo "build_ik_llama: $folder/$archive is not the pinned release; delete it and look at the index." >&2; exit 1; }
fi

# Given its name only when it is whole, so that an interrupted run leaves nothing half there; ninja goes on from where it was.
if [ ! -d "$source" ]; then
  rm -rf "$source.part"
  mkdir "$source.part"
  tar -xzf "$folder/$archive" -C "$source.part" --strip-components=3 "ik_llama_cpp_python-$version/vendor/ik_llama.cpp"
  mv "$source.part" "$source"
fi

# common/CMakeLists.txt runs this file to write build-info.cpp, and the sdist lacks it. llama-bench reports the commit, so the release stands there.
mkdir -p "$source/common/cmake"
cat >"$source/common/cmake/build-info-gen-cpp.cmake" <<END
set(BUILD_NUMBER 0)
set(BUILD_COMMIT "sdist-$version")
set(BUILD_COMPILER "\${CMAKE_C_COMPILER_ID} \${CMAKE_C_COMPILER_VERSION}")
execute_process(COMMAND \${CMAKE_C_COMPILER} -dumpmachine OUTPUT_VARIABLE BUILD_TARGET OUTPUT_STRIP_TRAILING_WHITESPACE)
configure_file("\${CMAKE_CURRENT_LIST_DIR}/../build-info.cpp.in" "\${CMAKE_CURRENT_LIST_DIR}/../build-info.cpp" @ONLY)
END

# GGML_NATIVE gives the peer every instruction this processor has, as a fair comparison asks. llama-bench is one of the examples, hence those are on.
echo "build_ik_llama: compiling in $folder, about a quarter of an hour on two cores" >&2
logged cmake cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DGGML_CUDA=OFF -DLLAMA_CURL=OFF \
  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_EXAMPLES=ON
# As many jobs as processors: ninja's own choice is two more, and each of the large kernel files takes most of a gigabyte to compile.
logged ninja ninja -C "$build" -j "$(nproc)" llama llama-bench
echo "$bench"
