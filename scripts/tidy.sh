#!/bin/sh
# clang-tidy on the host sources that ship (tests have the compiler's warnings).
# scripts/tidy.sh: all of them, up to eight files as one translation unit. Parsing headers is most of the work, so all files
#   take a tenth of the time that they take one by one. Of the checks only misc-unused-alias-decls sees less: it looks at
#   main files alone.
# scripts/tidy.sh REGEX: the files whose paths match, one by one
# Nothing is built but what headers include.
set -eu
cd "$(dirname "$0")/.."
build=build/tidy
command -v run-clang-tidy-14 >/dev/null || { echo "tidy.sh: clang-tidy-14 is missing; scripts/setup.sh --ci installs it" >&2; exit 1; }
log=$build/tidy.log
if [ $# = 0 ]; then
  unity=ON files="/Unity/unity_|^$PWD/(?!build/|tests/)" checks=-bugprone-suspicious-include
else
  unity=OFF files="^$PWD/(?!build/|tests/).*$1" checks=
fi
cmake --preset tidy -DCMAKE_UNITY_BUILD=$unity >/dev/null
cmake --build --preset tidy --target cubit_commit_header >/dev/null
# The generated file of embedded templates lies in build/ and is nobody's to tidy. GCC's options are no finding of clang's.
# fmt is analysed as it is declared, not once more in every file.
if run-clang-tidy-14 -quiet -p "$build" -j "${JOBS:-2}" -extra-arg=-Wno-unknown-warning-option -extra-arg=-UFMT_HEADER_ONLY \
    -checks="$checks" "$files" >"$log" 2>&1; then
  looked_at=$(grep -c '^clang-tidy-14 ' "$log") || { echo "tidy.sh: no file matches" >&2; exit 1; }
  echo "clang-tidy: $looked_at files are clean"
else
  grep -E '(warning|error):' "$log" | sort -u
  echo "clang-tidy: the whole text is in $log" >&2
  exit 1
fi
