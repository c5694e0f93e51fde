-- Days without a partition of delivery, from today on as far as they are made ahead.
SELECT 'delivery_' || to_char(day, 'YYYYMMDD') AS "subject!", 'is missing' AS "detail!"
FROM generate_series(timezone('UTC', now())::date, timezone('UTC', now())::date + 2, interval '1 day') AS day
WHERE to_regclass('delivery_' || to_char(day, 'YYYYMMDD')) IS NULL
ORDER BY 1
