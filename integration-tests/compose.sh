#!/usr/bin/env bash
# The images and docker-compose.yml as a user gets them: builds, starts, imports 1,000 devices, sends one broadcast twice
# with the same key, and looks at what came out at the provider. Needs docker with compose version 2, and nothing else.
#
# It has a compose project of its own and free ports, so it leaves a stack that runs beside it alone, and it always takes
# away what it made.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

devices=1000
key=compose-check

export BONGSU_INTAKE_PORT=0 BONGSU_INTAKE_ADMIN_PORT=0 BONGSU_SENDER_PORT=0 BONGSU_SENDER_ADMIN_PORT=0 BONGSU_SIM_PORT=0
compose() { docker compose --project-name bongsu-check "$@"; }
remove() { compose --profile tools down --volumes --remove-orphans --rmi local --timeout 10 >/dev/null 2>&1 || true; }

say() { printf '[compose %3d s] %s\n' "$SECONDS" "$*"; }
fail() { say "FAILED: $*" >&2; exit 1; }

clean_up() {
    local code=$?
    if [ "$code" != 0 ]; then
        say 'what the containers said last:' >&2
        compose ps --all >&2 || true
        compose logs --no-color --tail 40 >&2 || true
    fi
    say 'taking everything down'
    remove
    rm -f "$log"
    exit "$code"
}
log=$(mktemp)
trap clean_up EXIT
trap 'exit 130' INT TERM

# The operator's tool, in a container of its own on the same network.
bongsu() { compose run --rm -T --no-deps bongsu "$@"; }
# The first value of field $1 in the JSON $2, without quotes.
field() { if [[ $2 =~ \"$1\":\"?([^,\"}]*) ]]; then printf '%s' "${BASH_REMATCH[1]}"; fi; }
# What the provider counted; its image has no curl.
provider_stats() {
    compose exec -T provider-sim bash -c \
        'exec 3<>/dev/tcp/127.0.0.1/8090 && printf "GET /stats HTTP/1.0\r\n\r\n" >&3 && cat <&3'
}
# Fails unless $2 (what was found) is $3; $1 says what it is.
expect() {
    if [ "$2" != "$3" ]; then fail "$1 is ${2:-missing}, expected $3"; fi
    say "$1: $2"
}

compose version
remove
say 'building the images'
# In a subshell, so that what an interruption has to say does not go into the log.
(compose --profile tools build) >"$log" 2>&1 || { tail -n 60 "$log" >&2; fail 'the build'; }
say 'starting'
compose up --detach --wait --wait-timeout 120

say "importing $devices devices"
import=$({
    echo user_id,provider,token
    for ((i = 1; i <= devices; i++)); do echo "user-$i,push,token-$i"; done
} | bongsu --json devices import -)
expect 'devices created' "$(field created "$import")" "$devices"

say 'sending to everyone'
sent=$(bongsu --json send --to-everyone --title 'Hello' --body 'from compose' --key "$key" --watch)
last=$(tail -n 1 <<<"$sent")
id=$(field broadcast_id "$last")
expect "state of broadcast $id" "$(field state "$last")" completed
expect 'sent' "$(field sent "$last")" "$devices"

say 'sending again with the same key'
again=$(bongsu --json send --to-everyone --title 'Hello' --body 'from compose' --key "$key" --watch)
expect 'answered as a replay' "$(field replayed "$again")" true
expect 'the broadcast answered' "$(field broadcast_id "$(tail -n 1 <<<"$again")")" "$id"

stats=$(provider_stats)
expect 'accepted by the provider' "$(field accepted "$stats")" "$devices"
expect 'calls it got' "$(field calls "$stats")" "$devices"
expect 'duplicates it saw' "$(field duplicates "$stats")" 0

say 'all as promised'
