-- Whose it is.
SELECT client_id FROM broadcast WHERE id = $1
