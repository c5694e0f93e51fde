# The guard of a private PostgreSQL cluster: see mod.rs.
#   sh -c <this> bongsu-postgres-guard run|clean BIN DIR
# `run` makes the cluster in DIR and starts it, obeys orders from its input (`stop`, `start`, `restart MODE`), and when
# that ends, stops and removes everything. It answers `ready`, or the end of the log and then `failed`.
# `clean` only does the last part, for a guard that was killed.

mode=$1 bin=$2 dir=$3
data=$dir/data log=$dir/server.log

# Only the end of our input ends us: a signal, or nobody left to read an answer, must not leave a server behind.
trap '' HUP INT QUIT TERM PIPE
# Nothing that our caller inherited may stay open in a server (a jobserver, a pipe that somebody reads to its end).
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
umask 077

# Every child gets neither our input nor our output, for the same reason.
quietly() { "$@" </dev/null >>"$log" 2>&1; }

make() {
    # No sync here even where commits are synced: a power cut would take the guard too, hence the cluster.
    quietly "$bin/initdb" -D "$data" -U postgres -A trust -E UTF8 --locale=C --no-sync --no-instructions &&
        cat "$dir/settings.conf" >>"$data/postgresql.conf" 2>>"$log"
}

start() { quietly "$bin/pg_ctl" start -D "$data" -l "$log" -w -t 60 -s; }

restart() { quietly "$bin/pg_ctl" restart -D "$data" -l "$log" -m "$1" -w -t 60 -s; }

stop() {
    pid=
    [ -f "$data/postmaster.pid" ] && read -r pid <"$data/postmaster.pid"
    [ -n "$pid" ] || return 0
    kill -CONT "$pid" 2>/dev/null # a test may have stopped it
    quietly "$bin/pg_ctl" stop -D "$data" -m immediate -w -t 15 -s || kill -KILL "$pid" 2>/dev/null
}

clean() {
    stop
    # A last process may still be writing into the directory.
    rm -rf "$dir" 2>/dev/null || { sleep 1 && rm -rf "$dir" 2>/dev/null; }
}

failed() {
    tail -n 25 "$log" 2>/dev/null
    echo failed
}

if [ "$mode" = run ]; then
    if make && start; then
        echo ready
        while read -r order mode; do
            case $order in
            stop | start | restart) "$order" "$mode" && echo ready || failed ;;
            esac
        done
    else
        failed
    fi
fi
clean
