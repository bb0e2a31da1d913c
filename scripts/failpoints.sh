#!/usr/bin/env bash
# Plays the campaign that CAMPAIGN names (short, singles or pairs) over the
# failpoints; see pkg/e2e/failpoints_test.go for what else the environment may
# say. The reports are .umavez/failpoints-*.
set -euo pipefail
cd "$(dirname "$0")/.."

"${GO:-go}" test -tags failpoints -count=1 -v -timeout 12h -run '^TestFailpoints$' ./pkg/e2e
