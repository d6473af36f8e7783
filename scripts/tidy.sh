#!/bin/sh
# clang-tidy on the host sources that ship (tests have the compiler's warnings, and tidy would take a third of CI), each by
# the compile command of preset tidy, of which nothing is built but what headers include.
# scripts/tidy.sh [a regular expression that the files' paths must match]
# scripts/tidy.sh --sample COMMIT: one part in 3 of the files, which the hash of the commit chooses
set -eu
cd "$(dirname "$0")/.."
build=build/tidy
command -v run-clang-tidy-14 >/dev/null || { echo "tidy.sh: clang-tidy-14 is missing; scripts/setup.sh --ci installs it" >&2; exit 1; }
cmake --preset tidy >/dev/null
cmake --build --preset tidy --target cubit_commit_header >/dev/null
log=$build/tidy.log
parts=3
files=.*${1:-}
if [ "${1:-}" = --sample ]; then
  commit=$(git rev-parse --verify "$2^{commit}")
  part=$((0x$(printf '%.8s' "$commit") % parts))
  echo "tidy: part $part of $parts, chosen by $commit; again: scripts/tidy.sh --sample $commit"
  files=$(git ls-files '*.cpp' '*.c' | grep -v '^tests/' | while read -r file; do
            if [ $(($(printf %s "$file" | cksum | cut -d ' ' -f 1) % parts)) = "$part" ]; then printf '%s\n' "$file"; fi
          done | sed 's/[.]/[.]/g' | paste -s -d '|')
  files="($files)\$"
fi
# The generated file of embedded templates lies in build/ and is nobody's to tidy. GCC's options are no finding of clang's.
# fmt is analysed as it is declared, not once more in every file.
if run-clang-tidy-14 -quiet -p "$build" -j "${JOBS:-2}" -extra-arg=-Wno-unknown-warning-option -extra-arg=-UFMT_HEADER_ONLY \
    "^$PWD/(?!build/|tests/)$files" >"$log" 2>&1; then
  looked_at=$(grep -c '^clang-tidy-14 ' "$log") || { echo "tidy.sh: no file matches" >&2; exit 1; }
  echo "clang-tidy: $looked_at files are clean"
else
  grep -E '(warning|error):' "$log" | sort -u
  echo "clang-tidy: the whole text is in $log" >&2
  exit 1
fi
