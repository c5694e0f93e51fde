-- An epoch that was never before, also where this database is one that was restored: later ones are larger.
UPDATE settings AS s
SET inbox_epoch = greatest(o.inbox_epoch + 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
FROM (SELECT id, inbox_epoch FROM settings FOR UPDATE) AS o
WHERE s.id = o.id
RETURNING o.inbox_epoch AS old, s.inbox_epoch AS new
