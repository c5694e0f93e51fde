# The guard of a private Redis: see mod.rs.
#   sh -c <this> bongsu-redis-guard SERVER DIR
# Starts SERVER with DIR/redis.conf, obeys orders from its input (`kill`, `start`, `pause`, `resume`), answering `done` to each, and
# when that ends, kills the server and removes DIR.

server=$1 dir=$2 pid=

# Only the end of our input ends us: a signal, or nobody left to read an answer, must not leave a server behind.
trap '' HUP INT QUIT TERM PIPE
# Nothing that our caller inherited may stay open in the server.
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
umask 077

start() {
    [ -z "$pid" ] || return 0
    rm -f "$dir/redis.sock"
    "$server" "$dir/redis.conf" </dev/null >>"$dir/server.log" 2>&1 &
    pid=$!
    echo "$pid" >"$dir/pid"
}

end() {
    [ -n "$pid" ] || return 0
    kill -KILL "$pid" 2>/dev/null # also one that is stopped
    wait "$pid" 2>/dev/null
    pid=
}

start
echo done
while read -r order; do
    case $order in
    start) start ;;
    kill) end ;;
    pause) kill -STOP "$pid" ;;
    resume) kill -CONT "$pid" ;;
    esac
    echo done
done
end
rm -rf "$dir"
