-- The protocols that a provider may speak.
ALTER TABLE provider DROP CONSTRAINT provider_kind_check;
ALTER TABLE provider ADD CONSTRAINT provider_kind_check CHECK (kind IN ('webhook', 'fcm', 'apns', 'webpush'));
