-- What parameters are made of; the parameters of EXECUTE may call functions, but not select.
CREATE FUNCTION me() RETURNS uuid LANGUAGE sql IMMUTABLE AS $$ SELECT '00000000-0000-4000-8000-000000000001'::uuid $$;
CREATE FUNCTION somebody() RETURNS uuid LANGUAGE sql IMMUTABLE AS $$ SELECT '00000000-0000-4000-8000-000000000002'::uuid $$;
CREATE FUNCTION at_work() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT broadcast_id_at('2025-02-05 12:00+00') $$;
CREATE FUNCTION ended() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT broadcast_id_at('2025-02-06 12:00+00') $$;
CREATE FUNCTION all_done() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT broadcast_id_at('2025-02-07 12:00+00') $$;
CREATE FUNCTION final() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT broadcast_id_at('2025-02-08 12:00+00') $$;
CREATE FUNCTION fanning_out() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT broadcast_id_at('2025-02-09 12:00+00') $$;
CREATE FUNCTION paused() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT broadcast_id_at('2025-02-10 12:00+00') $$;
CREATE FUNCTION resumed() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT broadcast_id_at('2025-02-11 12:00+00') $$;
CREATE FUNCTION scheduled() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT broadcast_id_at('2025-02-12 12:00+00') $$;
CREATE FUNCTION capped() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT broadcast_id_at('2025-02-12 18:00+00') $$;
CREATE FUNCTION naming() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT broadcast_id_at('2025-02-12 20:00+00') $$;
CREATE FUNCTION live() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT broadcast_id_at('2025-02-13 12:00+00') $$;
CREATE FUNCTION ids(first bigint, last bigint) RETURNS bigint[] LANGUAGE sql IMMUTABLE AS
    $$ SELECT array_agg(n) FROM generate_series(first, last) AS n $$;
CREATE FUNCTION repeated(value anyelement, times int) RETURNS anyarray LANGUAGE sql IMMUTABLE AS
    $$ SELECT array_fill(value, ARRAY[times]) $$;

CREATE FUNCTION users(first bigint, last bigint) RETURNS text[] LANGUAGE sql IMMUTABLE AS
    $$ SELECT array_agg('user-' || n) FROM generate_series(first, last) AS n $$;

CREATE FUNCTION full_inbox() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 5001000::bigint $$;
CREATE FUNCTION epoch() RETURNS bigint LANGUAGE sql STABLE AS $$ SELECT inbox_epoch FROM settings $$;

-- Below are the ids of the work.
ALTER SEQUENCE batch_id_seq RESTART 1001;
-- Above are the numbers of all users.
ALTER SEQUENCE inbox_user_id_seq RESTART 9000001;

-- A fortnight of partitions, as in production, ten days before it, and those of what is stored now. Only the tests say when
-- statistics are taken.
SELECT ensure_delivery_partition(day::date) FROM generate_series('2025-01-22', '2025-02-14', interval '1 day') AS day;
SELECT ensure_delivery_partition((now() AT TIME ZONE 'UTC')::date + n) FROM generate_series(0, 1) AS n;
DO $$
DECLARE
    name regclass;
BEGIN
    FOR name IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', name);
    END LOOP;
END
$$;
CREATE FUNCTION past(n int) RETURNS bigint LANGUAGE sql IMMUTABLE AS
    $$ SELECT broadcast_id_at(timestamptz '2025-02-01 00:00+00' + n % 12 * interval '1 day') + n $$;

-- Of the users of the list that is being fanned out, the first half is known, and has an event of it: also before there is work, since
-- it is asked who has none.
INSERT INTO inbox_user (id, user_id, last_seq) OVERRIDING SYSTEM VALUE SELECT n, 'user-' || n, 1 FROM generate_series(3001, 3100) AS n;
INSERT INTO inbox (user_no, seq, broadcast_id) SELECT id, 1, fanning_out() FROM inbox_user;
