#!/bin/sh
# Runs the tests of one preset, which must be built: scripts/test.sh [preset [tier [commit]]]. The tiers:
#
#   fast    (default) what a contributor runs: all tests without the labels slow and product
#   all     every test
#   sample  one part in 16 of the tests that are labelled slow, and of the kernels in the tests that are labelled
#           product. The hash of the commit (HEAD) chooses the part; the same hash chooses the same part again.
#
# The last line is 'N passed, N failed, N skipped'; tests that need a GPU skip where there is none. Fails if a test does.
# CUBIT_EXPECT_NVRTC=1: NVRTC is installed, and a test that skips for want of NVRTC counts as failed.
set -eu
cd "$(dirname "$0")/.."
preset=${1:-release}
tier=${2:-fast}
commit=${3:-}
parts=16

# The names of the tests that `ctest --preset` lists with the arguments, one per line.
names() { ctest --preset "$preset" -N "$@" | sed -n 's/^ *Test *#[0-9]*: //p'; }

case $tier in
  fast) set -- -LE '^(slow|product)$' ;;
  all) set -- ;;
  sample)
    commit=$(git rev-parse --verify --quiet "${commit:-HEAD}^{commit}" || echo "$commit")
    part=$((0x$(printf '%.8s' "$commit") % parts))
    export CUBIT_TEST_SAMPLE="$part/$parts"
    echo "sample: part $part of $parts, chosen by $commit; again: make test-sample SAMPLE=$commit"
    chosen=$( { names -L '^product$'; names -L '^slow$' | awk "NR % $parts == $part"; } | paste -s -d '|')
    [ -n "$chosen" ] || { echo "test.sh: preset $preset has no tests to sample" >&2; exit 1; }
    set -- -R "^($chosen)\$"
    ;;
  *) echo "test.sh: $tier: not a tier; the tiers are fast, all and sample" >&2; exit 2 ;;
esac

report=build/$preset/test-report.xml
rm -f "$report"
status=0
ctest --preset "$preset" -j2 --output-junit "$PWD/$report" "$@" || status=$?
[ -e "$report" ] || { echo "test.sh: ctest ran no tests" >&2; exit 1; }

# The attributes of <testsuite>; a disabled test counts as skipped, so that the three add up to all tests. The report
# calls a test skipped, too, whose program is missing or whose fixture failed: those are failures.
count() { sed -n "/<testsuite/,/>/s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$report" | head -n 1; }
not_run=$(grep '<skipped message=' "$report" | grep -cvE '"(SKIP_REGULAR_EXPRESSION_MATCHED|SKIP_RETURN_CODE=[0-9]*)"' || true)
# Tests say "no NVRTC" or "no compiler" when they skip, unless they fail by themselves (tests/support/missing_nvrtc.hpp).
without_nvrtc=0
[ -z "${CUBIT_EXPECT_NVRTC:-}" ] || without_nvrtc=$(grep -cE '^(no NVRTC|no compiler)' "$report" || true)
[ "$without_nvrtc" = 0 ] || { echo "test.sh: NVRTC is installed, and $without_nvrtc tests skipped for want of NVRTC" >&2; status=1; }
failed=$(($(count failures) + not_run + without_nvrtc))
skipped=$(($(count skipped) - not_run - without_nvrtc + $(count disabled)))
echo "$(($(count tests) - failed - skipped)) passed, $failed failed, $skipped skipped"
exit "$status"
