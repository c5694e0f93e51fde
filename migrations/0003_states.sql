-- New values of enums, in a migration of their own: Postgres lets nobody use one before it is committed.

ALTER TYPE batch_state ADD VALUE 'held' BEFORE 'leased';
ALTER TYPE delivery_state ADD VALUE 'sending' AFTER 'pending';
ALTER TYPE delivery_state ADD VALUE 'unconfirmed';
ALTER TYPE dead_reason ADD VALUE 'unconfirmed';
ALTER TYPE audience_kind ADD VALUE 'dead_letters';
