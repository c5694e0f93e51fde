"""The synchronous loop: a table of pushes, one call after the other over one connection, one commit after each call."""

import http.client
import sys
import time
import urllib.parse

import psycopg

import push


def setup(db):
    db.execute("create table push (id bigint primary key, token text not null, sent_at timestamptz)")


def enqueue(db):
    tokens = (token for chunk in push.chunks() for token in chunk)
    started = time.perf_counter()
    with db.transaction(), db.cursor().copy("copy push (id, token) from stdin") as copy:
        for row in enumerate(tokens):
            copy.write_row(row)
    push.report(started)


def work(db):
    provider = http.client.HTTPConnection(urllib.parse.urlsplit(push.SIM).netloc)
    provider.connect()
    push.wait_for_go()
    while pending := db.execute("select id, token from push where sent_at is null order by id").fetchall():
        for row, token in pending:
            provider.request("POST", "/push", push.body(token), push.headers(token))
            answer = provider.getresponse()
            answer.read()
            if answer.status == 200:
                db.execute("update push set sent_at = now() where id = %s", (row,))
    sys.stdin.read()


with psycopg.connect("", autocommit=True) as db:
    {"setup": setup, "enqueue": enqueue, "work": work}[sys.argv[1]](db)
