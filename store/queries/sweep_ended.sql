-- Broadcasts of which nothing more is to be sent, but that are not final.
SELECT id
FROM broadcast
WHERE settled_at IS NULL AND (state = 'cancelling' OR expires_at <= now())
ORDER BY id
LIMIT 1000
