INSERT INTO sender (id, lock_key, in_flight, providers, version) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (id) DO UPDATE SET heartbeat_at = now(), in_flight = EXCLUDED.in_flight, providers = EXCLUDED.providers
RETURNING heartbeat_at
