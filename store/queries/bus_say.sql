SELECT pg_notify($1, message) FROM unnest($2::text[]) AS message
