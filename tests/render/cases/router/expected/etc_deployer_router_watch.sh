# /etc/deployer/router/watch.sh 0644 root:root
#!/bin/sh
# Asks router.service for its health, and restarts it after 4 misses in a row. Rendered by deployer from units/router.toml.
set -u

unit=router.service
state=${RUNTIME_DIRECTORY:?}

property() { systemctl show --property="$1" --value "$unit"; }
journal() { journalctl --quiet --no-pager --output=cat --unit="$unit" --cursor-file="$state/cursor" "$@"; }

# Not running, about to run again, or stopping: systemd and its Restart= look after that.
[ "$(property ActiveState)" = active ] || exit 0

# Each start is looked at on its own.
start=$(property InvocationID)
if [ "$(cat "$state/start" 2>/dev/null)" != "$start" ]; then
    rm -f "$state/ready" "$state/misses"
    echo "$start" > "$state/start"
fi

# What the log holds so far; what it says while the server is asked, comes behind it.
rm -f "$state/cursor"
journal --lines=1 >/dev/null

status=$(curl --silent --insecure --noproxy '*' --output /dev/null --write-out '%{http_code}' \
    --max-time 25 http://127.0.0.1:8080/health)
ended=$?

if [ "$status" = 200 ]; then
    : > "$state/ready"
    rm -f "$state/misses"
    exit 0
fi

# A start is over when the server has once been healthy: until then nothing counts, however long it takes.
[ -e "$state/ready" ] || exit 0

# Busy is not dead. What asks for a key or for patience is alive; and a server that accepted the connection while its
# scheduler ran batches is behind, not stuck. Nobody accepts connections (7) only when the server is gone.
if [ "$ended" -ne 7 ]; then
    case $status in
        401 | 403 | 429) rm -f "$state/misses"; exit 0 ;;
    esac
    # What was said until now must be there to be read.
    journalctl --sync 2>/dev/null
    if journal | grep --quiet --text --extended-regexp '(Decode|Prefill) batch'; then
        echo "$unit: no healthy answer (status $status, curl $ended), but it ran batches meanwhile: busy"
        rm -f "$state/misses"
        exit 0
    fi
fi

misses=$(($(cat "$state/misses" 2>/dev/null || echo 0) + 1))
echo "$misses" > "$state/misses"
echo "$unit: no healthy answer (status $status, curl $ended): miss $misses of 4"
[ "$misses" -ge 4 ] || exit 0

# Somebody else may have acted meanwhile.
[ "$(property ActiveState) $(property InvocationID)" = "active $start" ] || exit 0
echo "$unit: restarted after $misses misses in a row"
rm -f "$state/ready" "$state/misses"
# This restart is meant: it must not use up the unit's start limit.
systemctl reset-failed "$unit" 2>/dev/null
exec systemctl restart --no-block "$unit"
