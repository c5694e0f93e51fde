INSERT INTO sender (id, lock_key, in_flight) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET heartbeat_at = now(), in_flight = EXCLUDED.in_flight
RETURNING heartbeat_at
