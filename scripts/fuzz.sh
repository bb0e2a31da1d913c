#!/usr/bin/env bash
# Runs every fuzz target for a few seconds (FUZZ_SECONDS, 3). Longer campaigns
# are the same with a larger number.
set -euo pipefail
cd "$(dirname "$0")/.."

go="${GO:-go}"
seconds="${FUZZ_SECONDS:-3}"
found=0
while IFS=: read -r file name; do
  found=$((found + 1))
  echo "fuzz $name in $(dirname "$file") for ${seconds}s"
  "$go" test -run '^$' -fuzz "^$name\$" -fuzztime "${seconds}s" -parallel 2 "./$(dirname "$file")" >/tmp/umavez-fuzz.$$ 2>&1 || {
    cat /tmp/umavez-fuzz.$$
    rm -f /tmp/umavez-fuzz.$$
    exit 1
  }
  rm -f /tmp/umavez-fuzz.$$
done < <(grep -rHoE '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' pkg | sed 's/:func /:/')
if [ "$found" -eq 0 ]; then
  echo "no fuzz target was found" >&2
  exit 1
fi
echo "$found fuzz targets ran"
