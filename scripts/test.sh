#!/bin/sh
# Runs the tests of one preset, which must be built: scripts/test.sh [preset] [ctest arguments].
# The last line is 'N passed, N failed, N skipped'; tests that need a GPU skip where there is none. Fails if a test does.
set -eu
cd "$(dirname "$0")/.."
preset=${1:-release}
[ $# = 0 ] || shift

report=build/$preset/test-report.xml
rm -f "$report"
status=0
ctest --preset "$preset" --output-junit "$PWD/$report" "$@" || status=$?
[ -e "$report" ] || { echo "test.sh: ctest ran no tests" >&2; exit 1; }

# The attributes of <testsuite>; a disabled test counts as skipped, so that the three add up to all tests. The report
# calls a test skipped, too, whose program is missing or whose fixture failed: those are failures.
count() { sed -n "/<testsuite/,/>/s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$report" | head -n 1; }
not_run=$(grep '<skipped message=' "$report" | grep -cvE '"(SKIP_REGULAR_EXPRESSION_MATCHED|SKIP_RETURN_CODE=[0-9]*)"' || true)
failed=$(($(count failures) + not_run))
skipped=$(($(count skipped) - not_run + $(count disabled)))
echo "$(($(count tests) - failed - skipped)) passed, $failed failed, $skipped skipped"
exit "$status"
