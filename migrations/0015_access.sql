-- A client sees its own broadcasts, newest first, however few they are among all. Nothing reads or writes differently
-- without it, so processes of the version before go on as they are.
CREATE INDEX broadcast_client ON broadcast (client_id, id);
