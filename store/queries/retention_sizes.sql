-- Bytes of tables with their indexes, of those that are still there.
SELECT c.relname::text AS "name!", pg_total_relation_size(c.oid) AS "bytes?"
FROM pg_class c
WHERE c.oid = ANY (SELECT to_regclass(name)::oid FROM unnest($1::text[]) AS of (name))
