//! Ids, each a type of its own so that a device never travels where a broadcast is meant.

use serde::Serialize;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, sqlx::Type)]
        #[sqlx(transparent)]
        pub struct $name(pub $inner);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A broadcast; made by the database, ordered by time of creation.
    BroadcastId(i64)
);
id!(
    /// A device registration; made by the database, unique over all shards.
    DeviceId(i64)
);
id!(
    /// A configured provider.
    ProviderId(i16)
);
id!(
    /// A batch; made by the database, unique over all shards.
    BatchId(i64)
);
id!(
    /// One run of one sender process: random at every start, so that a restarted sender is never taken for the one that
    /// died.
    SenderId(uuid::Uuid)
);

impl SenderId {
    /// A fresh id for this process.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4())
    }

    /// Key of the session advisory lock that says "this sender is alive".
    pub(crate) fn lock_key(self) -> i64 {
        self.0.as_u64_pair().0.cast_signed()
    }
}

/// What keeps each hot statement on one node where the tables are distributed: from 0. A plain Postgres needs one.
pub type Shard = i16;
