#!/bin/sh
# clang-tidy on the host sources that ship (tests have the compiler's warnings, and tidy would take a third of CI), by the
# compile commands of a preset that is built.
# scripts/tidy.sh [preset] [a regular expression that the files' paths must match]
set -eu
cd "$(dirname "$0")/.."
build=build/${1:-release}
command -v run-clang-tidy-14 >/dev/null || { echo "tidy.sh: clang-tidy-14 is missing; scripts/setup.sh --ci installs it" >&2; exit 1; }
[ -e "$build/compile_commands.json" ] || { echo "tidy.sh: $build is not configured" >&2; exit 1; }
log=$build/tidy.log
# The generated file of embedded templates lies in build/ and is nobody's to tidy. GCC's options are no finding of clang's.
# fmt is analysed as it is declared, not once more in every file.
if run-clang-tidy-14 -quiet -p "$build" -j "${JOBS:-2}" -extra-arg=-Wno-unknown-warning-option -extra-arg=-UFMT_HEADER_ONLY \
    "^$PWD/(?!build/|tests/).*${2:-}" >"$log" 2>&1; then
  echo "clang-tidy: clean"
else
  grep -E '(warning|error):' "$log" | sort -u
  echo "clang-tidy: the whole text is in $log" >&2
  exit 1
fi
