//! The statements whose plans must not change: on which connection each runs, with what, and what it returns.

/// Which of a store's connections runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    Lane,
    Pool,
}

#[derive(Debug)]
pub struct Statement {
    pub name: &'static str,
    pub sql: &'static str,
    pub on: On,
    /// `$1` and on, as SQL. Names and numbers in it are those of `names.sql` and `work.sql`.
    pub parameters: &'static str,
    /// Rows that it returns where there is the work of `work.sql`.
    pub rows: u64,
}

macro_rules! statements {
    ($($on:ident $name:literal ($parameters:literal) $rows:literal,)*) => {
        &[$(Statement {
            name: $name,
            sql: include_str!(concat!("../../../queries/", $name, ".sql")),
            on: On::$on,
            parameters: $parameters,
            rows: $rows,
        },)*]
    };
}

/// A new one is a line here: connection, file, parameters, rows.
#[rustfmt::skip]
pub const STATEMENTS: &[Statement] = statements! {
    // shard, providers, batches a lane, deliveries, floors, sender, lease, up for (reclaim), held, our heartbeat
    Lane "batch_claim"        ("0, '{1}', '{3}', '{100000}', '{0}', me(), 20, 0, '{}', now()") 9,
    // shard, batches, sender
    Lane "batch_read_range"   ("0, '{11}', me()") 500,
    Lane "batch_read_listed"  ("0, '{25}', me()") 100,
    // shard, sender, batches, epochs, lease
    Lane "lease_renew"        ("0, me(), '{11, 12, 25}', '{1, 1, 1}', 20") 3,
    // shard, sender, batches
    Lane "flush_lock"         ("0, me(), '{11, 12, 25}'") 3,
    // shard, broadcasts, providers, devices, attempts before, states, reasons, waits, codes, attempts
    Lane "flush_deliveries"   ("0, repeated(at_work(), 500), repeated(1, 500), ids(5001, 5500), repeated(0, 500),
                                repeated('sent'::text, 500)::delivery_state[], repeated(NULL::text, 500)::dead_reason[],
                                repeated(NULL::float8, 500), repeated(NULL::text, 500), repeated(1, 500)") 500,
    // shard, batches, close, sent, dead (three reasons), expired, skipped, cancelled, unconfirmed, retried
    Lane "flush_batches"      ("0, '{11, 12}', '{t, f}', '{500, 7}', '{0, 0}', '{0, 0}', '{0, 0}', '{0, 0}', '{0, 0}', '{0, 0}',
                                '{0, 0}', '{0, 0}'") 2,
    // shard, sender, batches, epochs, batch and device of each delivery
    Lane "delivery_mark_sending" ("0, me(), '{11}', '{1}', repeated(11::bigint, 500), ids(5001, 5500)") 500,
    // shard, provider, sender, lease, our heartbeat, held
    Lane "batch_claim_probe"  ("0, 1, me(), 20, now(), '{}'") 1,
    // shard, batches at most
    Lane "sweep_hold"         ("0, 1000") 0,
    Lane "sweep_unhold"       ("0, 1000") 0,
    Lane "sweep_ended"        ("") 1,
    // shard, batches at most, broadcasts
    Lane "sweep_lock"         ("0, 20, ARRAY[ended()]") 8,
    // shard, batches, states
    Lane "sweep_settle"       ("0, '{31, 35}', '{cancelled, cancelled}'") 2,
    // shard, sender, seconds of silence, our heartbeat
    Lane "sender_revoke_dead" ("0, me(), 1.5, now()") 0,
    Pool "sweep_complete"     ("") 1,
    // broadcasts
    Pool "broadcast_complete" ("ARRAY[all_done(), at_work()]") 1,
    Pool "broadcast_counts"   ("ARRAY[at_work(), final()]") 2,
};

pub fn statement(name: &str) -> &'static Statement {
    STATEMENTS.iter().find(|s| s.name == name).expect(name)
}

/// The names of those that run there.
pub fn all(on: On) -> Vec<&'static str> {
    STATEMENTS.iter().filter(|s| s.on == on).map(|s| s.name).collect()
}
