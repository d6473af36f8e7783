#!/bin/sh
# clang-tidy on the host sources that ship (tests have the compiler's warnings, and tidy would take a third of CI), each by
# the compile command of preset tidy, of which nothing is built but what headers include.
# scripts/tidy.sh [a regular expression that the files' paths must match]
set -eu
cd "$(dirname "$0")/.."
build=build/tidy
command -v run-clang-tidy-14 >/dev/null || { echo "tidy.sh: clang-tidy-14 is missing; scripts/setup.sh --ci installs it" >&2; exit 1; }
cmake --preset tidy >/dev/null
cmake --build --preset tidy --target cubit_commit_header >/dev/null
log=$build/tidy.log
# The generated file of embedded templates lies in build/ and is nobody's to tidy. GCC's options are no finding of clang's.
# fmt is analysed as it is declared, not once more in every file.
if run-clang-tidy-14 -quiet -p "$build" -j "${JOBS:-2}" -extra-arg=-Wno-unknown-warning-option -extra-arg=-UFMT_HEADER_ONLY \
    "^$PWD/(?!build/|tests/).*${1:-}" >"$log" 2>&1; then
  echo "clang-tidy: clean"
else
  grep -E '(warning|error):' "$log" | sort -u
  echo "clang-tidy: the whole text is in $log" >&2
  exit 1
fi
