//! The statements whose plans must not change: on which connection each runs, with what, and what it returns.

/// Which of a store's connections runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    Lane,
    /// The lanes that record outcomes.
    Keyed,
    Pool,
}

#[derive(Debug)]
pub struct Statement {
    pub name: &'static str,
    pub sql: &'static str,
    pub on: On,
    /// `$1` and on, as SQL. Names and numbers in it are those of `names.sql` and `work.sql`.
    pub parameters: &'static str,
    /// Rows that it returns, or writes where it returns none, where there is the work of `work.sql`.
    pub rows: u64,
}

macro_rules! statements {
    ($($on:ident $file:literal $(of $what:literal)? ($parameters:literal) $rows:literal,)*) => {
        &[$(Statement {
            name: concat!($file $(, "_of_", $what)?),
            sql: include_str!(concat!("../../../queries/", $file, ".sql")),
            on: On::$on,
            parameters: $parameters,
            rows: $rows,
        },)*]
    };
}

/// A new one is a line here: connection, file, where a file has several what it is of, parameters, rows.
#[rustfmt::skip]
pub const STATEMENTS: &[Statement] = statements! {
    // shard, providers, batches a lane, deliveries, floors, sender, lease, up for (reclaim), held, our heartbeat, ceilings, retries, batches passed, due within seconds
    Lane "batch_claim"        ("0, '{1}', '{3}', '{100000}', '{0}', me(), 20, 0, '{}', now(), '{9223372036854775807}', '{t}', '{0}', '{1e9}'") 9,
    // shard, batches, sender
    Lane "batch_read_range"   ("0, '{11}', me()") 1,
    Lane "batch_read_listed"  ("0, '{25}', me()") 1,
    // shard, batches, providers, first and last devices
    Lane "target_range"       ("0, '{11, 12}', '{1, 1}', '{5001, 5501}', '{5500, 6000}'") 2,
    // shard, batch and device of each delivery
    Lane "target_listed"      ("0, repeated(25::bigint, 100), ids(5001, 5100)") 100,
    // shard, sender, batches, epochs, lease
    Lane "lease_renew"        ("0, me(), '{11, 12, 25}', '{1, 1, 1}', 20") 3,
    // shard, sender, batches kept, epochs
    Lane "lease_release"      ("0, me(), '{11, 25}', '{1, 1}'") 6,
    // broadcasts
    Lane "broadcast_work"     ("ARRAY[at_work(), ended()]") 2,
    Lane "broadcast_flags"    ("ARRAY[at_work(), ended(), paused()]") 2,
    // shard, sender, batches
    Keyed "flush_lock"         ("0, me(), '{11, 12, 25}'") 3,
    // shard, batches, broadcasts, providers, attempts, first and last devices, bits
    Keyed "flush_sent"         ("0, '{11, 12}', repeated(at_work(), 2), '{1, 1}', '{1, 1}', '{5001, 5501}', '{5500, 6000}',
                                repeated(decode(repeat('ff', 63), 'hex'), 2)") 2,
    // shard, broadcasts, providers, devices, attempts before, states, reasons, waits, codes, attempts
    Keyed "flush_deliveries"   ("0, repeated(at_work(), 500), repeated(1, 500), ids(5001, 5500), repeated(0, 500),
                                repeated('sent'::text, 500)::delivery_state[], repeated(NULL::text, 500)::dead_reason[],
                                repeated(NULL::float8, 500), repeated(NULL::text, 500), repeated(1, 500)") 500,
    // shard, batches, close, sent, dead (three reasons), expired, skipped, cancelled, unconfirmed, retried
    Keyed "flush_batches"      ("0, '{11, 12}', '{t, f}', '{500, 7}', '{0, 0}', '{0, 0}', '{0, 0}', '{0, 0}', '{0, 0}', '{0, 0}',
                                '{0, 0}', '{0, 0}'") 2,
    // shard, broadcasts, providers, devices, attempts, reasons, codes, details
    Keyed "flush_dead_letters" ("0, repeated(at_work(), 50), repeated(1, 50)::smallint[], ids(5001, 5050), repeated(1, 50),
                                repeated('rejected'::text, 50)::dead_reason[], repeated('400'::text, 50), repeated(''::text, 50)") 50,
    // shard, kept, broadcasts, providers, devices, attempts, waits, charged, codes, details
    Keyed "flush_failures"     ("0, 20, repeated(at_work(), 50), repeated(1, 50)::smallint[], ids(5001, 5050), repeated(1, 50),
                                repeated(2::float8, 50), repeated(true, 50), repeated('503'::text, 50), repeated(''::text, 50)") 50,
    // provider, slots at most, share of the rate, seconds ahead at most, seconds that the answer may take
    Lane "provider_reserve"   ("1, 50, 0.975, 0.2, 0.005") 1,
    Lane "capped_list"        ("") 1,
    // broadcasts, slots at most, share of the rate, seconds ahead at most, seconds that the answer may take
    Lane "capped_reserve"     ("ARRAY[capped()], '{100}', 0.93, 1, 0.01") 1,
    // shard, broadcasts, deliveries at most, providers, sender, lease: a due retry, a whole batch, and the beginning of the next
    Lane "capped_claim"       ("0, ARRAY[capped()], '{700}', '{1}', me(), 20") 3,
    // broadcasts, seconds, from when
    Lane "capped_advance"     ("ARRAY[capped()], '{0.5}', '{1800000000}'") 1,
    // shard, broadcasts, providers, attempts, failures, ranks, waits, number and device of each delivery
    Keyed "flush_retries"      ("0, repeated(at_work(), 2), '{1, 1}', '{2, 2}', '{1, 1}', '{5, 6}', '{1, 2}',
                                repeated(1::bigint, 250) || repeated(2::bigint, 250), ids(5001, 5500)") 2,
    // shard, devices, tokens, registrations, broadcasts, codes (and details)
    Keyed "device_retire_unregistered" ("0, '{5001, 5002, 5003}', '{token-5001, token-5002, token-5003}',
                                        repeated(timestamptz '2025-01-01', 3), repeated(at_work(), 3), repeated('410'::text, 3)") 3,
    Lane "device_quarantine"  ("0, '{5001, 5002, 5003}', '{token-5001, token-5002, token-5003}',
                                repeated(timestamptz '2025-01-01', 3), repeated(at_work(), 3), repeated('403'::text, 3),
                                repeated(''::text, 3)") 3,
    // shard, sender, batches, epochs, batch and device of each delivery
    Keyed "delivery_mark_sending" ("0, me(), '{11}', '{1}', repeated(11::bigint, 500), ids(5001, 5500)") 500,
    // shard, broadcast and device of each delivery
    Lane "live_due"           ("0, repeated(at_work(), 500), ids(5001, 5500)") 500,
    // user and broadcast of each acknowledgement; the row counts those of a broadcast
    Pool "live_acknowledge"   ("ids(5001, 5500), repeated(at_work(), 500)") 1,
    // broadcasts, how many more
    Pool "live_acknowledged"  ("ARRAY[at_work(), live()], '{1000, 0}'") 2,
    // shard, batches at most, broadcasts
    Pool "live_wake"          ("0, 1000, ARRAY[live(), at_work()]") 2,
    // shard, provider, sender, lease, our heartbeat, held
    Lane "batch_claim_probe"  ("0, 1, me(), 20, now(), '{}'") 1,
    // from
    Lane "sweep_open"         ("at_work()") 1,
    // broadcasts
    Lane "sweep_still_open"   ("ARRAY[at_work(), final(), paused()]") 2,
    // shard, batches at most, broadcasts
    Lane "sweep_hold"         ("0, 1000, ARRAY[at_work(), ended(), paused(), resumed(), capped()]") 12,
    Lane "sweep_unhold"       ("0, 1000, ARRAY[at_work(), ended(), paused(), resumed(), capped()]") 4,
    // broadcasts
    Lane "sweep_ended"        ("ARRAY[at_work(), ended(), paused()]") 1,
    // shard, batches at most, broadcasts
    Lane "sweep_lock"         ("0, 20, ARRAY[ended()]") 8,
    // shard, batches, states
    Lane "sweep_settle"       ("0, '{31, 35}', '{cancelled, cancelled}'") 2,
    // shard, sender, seconds of silence, our heartbeat
    Lane "sender_revoke_dead" ("0, me(), 1.5, now()") 0,
    // broadcasts
    Pool "sweep_complete"     ("ARRAY[at_work(), all_done()]") 1,
    Pool "broadcast_complete" ("ARRAY[all_done(), at_work()]") 1,
    Pool "broadcast_counts"   ("ARRAY[at_work(), final()]") 2,
    Pool "broadcast_get"      ("at_work()") 1,
    // client, idempotency key
    Pool "broadcast_by_key"   ("'test', 'work-' || at_work()") 1,
    Pool "fan_out_pick"       ("") 1,
    // broadcasts at most
    Pool "broadcast_start"    ("100") 1,
    // broadcast, kind, shard, provider, cursor, until, topics, devices at most
    Pool "fan_out_bound" of "everyone"     ("fanning_out(), 'everyone', 0, 1, 5000, 1000000, '{}', 1000") 1,
    Pool "fan_out_bound" of "topics"       ("fanning_out(), 'topics', 0, 1, 5000, 1000000, '{news, sports}', 500") 1,
    Pool "fan_out_bound" of "dead_letters" ("fanning_out(), 'dead_letters', 0, 1, 3500, 1000000, '{}', 1000") 1,
    Pool "fan_out_bound" of "users"        ("fanning_out(), 'users', 0, 1, 0, 1000000, '{}', 1000") 1,
    Pool "fan_out_bound" of "named_dead_letters" ("naming(), 'dead_letters', 0, 1, 0, 1000000, '{}', 1000") 1,
    // broadcast, kind, shard, provider, cursor, its end, until, topics, rank, deliveries a batch, weight
    Pool "fan_out_page" of "everyone"      ("fanning_out(), 'everyone', 0, 1, 5000, 5200, 1000000, '{}', 0, 50, 1") 4,
    Pool "fan_out_page" of "topics"        ("fanning_out(), 'topics', 0, 1, 5000, 5200, 1000000, '{news, sports}', 0, 50, 1") 4,
    Pool "fan_out_page" of "users"         ("fanning_out(), 'users', 0, 1, 0, 1, 1000000, '{}', 0, 50, 1") 4,
    Pool "fan_out_page" of "devices"       ("fanning_out(), 'devices', 0, 1, 1, 2, 1000000, '{}', 0, 50, 1") 4,
    Pool "fan_out_page" of "dead_letters"  ("fanning_out(), 'dead_letters', 0, 1, 3000, 3250, 1000000, '{}', 0, 50, 1") 4,
    Pool "fan_out_page" of "named_dead_letters"  ("naming(), 'dead_letters', 0, 1, 0, 1, 1000000, '{}', 0, 50, 1") 4,
    // of two broadcasts: client, key, hash, title, body, data, priority, audience, seconds, moment, ids, guarantee, weight; expiry
    // from and to, users, of which broadcast each, devices, of which each, deliveries a batch; trace contexts, routings, seconds
    Lane "broadcast_insert_short" ("'{test, test}', '{short-1, short-2}', '{00, 01}', '{t, t}', '{b, b}', repeated('{}'::text, 2),
                                    '{normal, low}', '{users, devices}', '{60, NULL}', ARRAY[NULL, now() + interval '1 hour'],
                                    '{100, 100}', '{at_least_once, at_least_once}', '{4, 1}', 1, 604800, users(5001, 5100), repeated(1::bigint, 100),
                                    ids(5001, 5100), repeated(2::bigint, 100), 500, ARRAY[NULL, '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'],
                                    '{push, live_then_push}', '{NULL, 10}'") 2,
    // devices, broadcast of each
    Lane "live_users_of_devices" ("ids(5001, 5100), repeated(at_work(), 100)") 100,
    // users, how many numbers each
    Lane "live_number"        ("users(3001, 3200), repeated(1::bigint, 200)") 200,
    Pool "live_number" of "a_page" ("users(3001, 3200), repeated(1::bigint, 200)") 200,
    // user, number and broadcast of each event; broadcasts, how many each
    Lane "live_insert"        ("ids(9000001, 9000100), repeated(1::bigint, 100), repeated(fanning_out(), 100), ARRAY[fanning_out()], '{100}'") 1,
    Pool "live_insert" of "a_page" ("ids(9000001, 9000100), repeated(1::bigint, 100), repeated(fanning_out(), 100), ARRAY[fanning_out()], '{100}'") 1,
    // broadcast, users
    Pool "live_unseen"        ("fanning_out(), users(3001, 3200)") 100,
    // user before, users at most
    Pool "live_known_users"   ("50, 40") 40,
    // broadcast, row before
    Pool "live_listed_users"  ("fanning_out(), 0") 1,
    // broadcast, kind, shard, provider, cursor, its end, until, topics
    Pool "fan_out_users" of "everyone"     ("fanning_out(), 'everyone', 0, 1, 5000, 5200, 1000000, '{}'") 200,
    Pool "fan_out_users" of "topics"       ("fanning_out(), 'topics', 0, 1, 5000, 5200, 1000000, '{news, sports}'") 200,
    Pool "fan_out_users" of "users"        ("fanning_out(), 'users', 0, 1, 0, 1, 1000000, '{}'") 200,
    Pool "fan_out_users" of "devices"      ("fanning_out(), 'devices', 0, 1, 1, 2, 1000000, '{}'") 200,
    // broadcast, state, provider, cursor, rank, until, shard
    Pool "fan_out_advance"    ("fanning_out(), 'fanning_out', 1, 5500, 500000, 1000000, 0") 1,
    // broadcast, shard, provider and device before, limit, reasons, code, provider, from, to
    Pool "replay_count"       ("final(), 0, 1, 2500, 500, '{}', NULL, NULL, NULL, NULL") 1,
    // broadcast, devices, shards
    Pool "replay_count_named" ("final(), ids(3001, 3250), '{0}'") 1,
    // provider, seconds, rounds, broadcasts at most, client
    Pool "slow_tier_step"     ("1, 0, 3, 100, 'bongsu:slow-tier'") 1,
    // broadcast, shard, provider and device before, broadcast, reasons, code, provider, from, to, limit, count only
    Pool "dead_letter_purge"  ("final(), 0, 1, 2500, final(), '{rejected}', '400', 1, NULL, NULL, 100, false") 1,
    Pool "dead_letter_purge" of "a_time"   ("0, -32768, 0, 0, NULL, '{}', NULL, NULL, NULL, now(), 100, false") 1,
    // before, states, limit, client
    Pool "broadcast_list"     ("fanning_out(), '{}', 3, NULL") 3,
    Pool "broadcast_list" of "a_client"    ("fanning_out(), '{}', 3, 'test'") 3,
    Pool "broadcast_client"   ("at_work()") 1,
    // broadcast, shards, provider and device before, last provider, states, reasons, code, settled from and to, looked at, limit
    Pool "delivery_list"      ("at_work(), '{0}', 1, 5000, 32767, '{}', '{}', NULL, NULL, NULL, 100, 100") 100,
    Pool "delivery_list" of "a_state"      ("at_work(), '{0}', 1, 0, 1, '{pending}', '{}', NULL, NULL, NULL, 1000, 100") 100,
    // … user, devices, limit
    Pool "delivery_list_devices" of "a_user"    ("at_work(), '{0}', 0, 0, 32767, '{}', '{}', NULL, NULL, NULL, 'user-5001', '{}', 100") 1,
    Pool "delivery_list_devices" of "some"      ("at_work(), '{0}', 0, 0, 32767, '{pending}', '{}', NULL, NULL, NULL, NULL,
                                                  ids(5001, 5100), 100") 100,
    // user, devices at most
    Pool "explain_devices_user" ("'many', 100") 100,
    // broadcast, shard and id of each device, topics, the broadcast that it replays
    Pool "explain_devices"    ("fanning_out(), repeated(0, 100)::smallint[], ids(4001, 4100), '{news}', final()") 100,
    // broadcast; shard, provider and id of each device
    Pool "explain_failures"   ("at_work(), repeated(0, 100)::smallint[], repeated(1, 100)::smallint[], ids(10001, 10100)") 100,
    // shard and id of each device, events of each
    Pool "explain_events"     ("repeated(0, 100)::smallint[], ids(4001, 4100), 50") 100,
    // broadcast, shard, provider and id of each delivery
    Pool "explain_replays"    ("repeated(ended(), 100), repeated(0, 100)::smallint[], repeated(1, 100)::smallint[], ids(1, 100)") 100,
    // shard before, broadcast, reasons, code, provider, from, to, broadcast, provider and device before, limit, looked at at most
    Pool "dead_letter_list"   ("32767, NULL, '{}', NULL, NULL, NULL, NULL, 9223372036854775807, 32767, 9223372036854775807, 100, 100") 100,
    Pool "dead_letter_list" of "a_later_page" ("0, NULL, '{}', NULL, NULL, NULL, NULL, final(), 1, 2500, 100, 100") 100,
    Pool "dead_letter_list" of "a_broadcast"  ("0, final(), '{rejected}', '400', 1, NULL, NULL, final(), 1, 2500, 100, 100") 100,
    Pool "dead_letter_list" of "what_is_rare" ("0, NULL, '{}', '418', NULL, NULL, NULL, final(), 1, 2500, 100, 100") 0,
    // shard before, broadcast, broadcast, provider and device before, looked at at most, to
    Pool "dead_letter_reach"  ("32767, NULL, 9223372036854775807, 32767, 9223372036854775807, 500, NULL") 1,
    Pool "device_get"         ("'{0}', 5000") 1,
    // shards, device before, not retired, not quarantined, provider, limit
    Pool "device_list"        ("'{0}', 5000, 0, 2, NULL, 100") 100,
    Pool "device_list" of "a_provider"     ("'{0}', 5000, 2, 2, 'push', 100") 100,
    // shards, device before, provider, limit
    Pool "device_list_quarantined" ("'{0}', 19000, NULL, 20") 20,
    Pool "device_list_retired" ("'{0}', 19000, 'push', 20") 20,
    // shard, device after, devices at most, provider, code, from, to (and shards)
    Pool "device_restorable_quarantined" ("0, 19041, 20, 1, NULL, NULL, NULL") 20,
    Pool "device_restorable_retired" ("0, 19041, 20, 1, '410', NULL, NULL, '{0}'") 20,
    // shard, devices (and shards)
    Pool "device_restorable_listed" ("0, ids(19001, 19040), '{0}'") 40,
    Pool "device_restore"     ("0, ids(19001, 19040)") 1,
    // user, …, topic
    Pool "device_list_user"   ("'many', 13000, 0, 2, NULL, 100, NULL") 100,
    Pool "device_list_user" of "a_topic"   ("'many', 13000, 0, 2, 'push', 100, 'news'") 100,
    // … topic
    Pool "device_list_topic"  ("'{0}', 5000, 0, 2, NULL, 100, 'news'") 100,
    // shard, providers and tokens, providers and installations
    Pool "device_lock"        ("0, '{1, 1}', '{token-5001, token-5002}', '{1}', '{nobody}'") 2,
    // shard, devices that were quarantined, devices whose consent changes, to what
    Pool "device_event_refresh" ("0, ids(19001, 19020), '{5001, 5002}', '{f, t}'") 22,
    // shards, device, consent
    Pool "device_set_consent" ("'{0}', 5001, false") 1,
    // shards, user, consent
    Pool "device_set_user_consent" ("'{0}', 'user-5001', false") 1,
    // users
    Pool "inbox_known"        ("users(1, 100)") 100,
    Pool "inbox_join"         ("users(20001, 20100)") 100,
    // users, epochs and numbers of what their clients have, events of each
    Pool "inbox_backlog"      ("ids(5000001, 5000050), repeated(epoch(), 50), repeated(0::bigint, 50), 1000") 1000,
    Pool "inbox_backlog" of "a_full_inbox" ("ARRAY[full_inbox()], ARRAY[epoch()], '{1001000}', 1000") 1000,
    Pool "inbox_backlog" of "what_nobody_acknowledged" ("ARRAY[full_inbox()], '{-1}', '{0}', 1000") 1,
    // user, before, unread only, limit
    Pool "inbox_list"         ("full_inbox(), 1002000, false, 101") 101,
    Pool "inbox_list" of "what_was_not_read" ("full_inbox(), 9223372036854775807, true, 21") 21,
    // user, counted up to
    Pool "inbox_unread"       ("full_inbox(), 1000") 1,
    // user, broadcasts
    Pool "inbox_mark_read"    ("full_inbox(), ids(7000001, 7000100)") 100,
    // user, after, up to, limit
    Pool "inbox_mark_read_up_to" ("full_inbox(), 0, 9223372036854775807, 1000") 1,
};

pub fn statement(name: &str) -> &'static Statement {
    STATEMENTS.iter().find(|s| s.name == name).expect(name)
}

/// The names of those that run there.
pub fn all(on: On) -> Vec<&'static str> {
    names(|statement| statement.on == on)
}

/// The names of those that are such.
pub fn names(such: impl Fn(&Statement) -> bool) -> Vec<&'static str> {
    STATEMENTS.iter().filter(|statement| such(statement)).map(|statement| statement.name).collect()
}

impl Statement {
    /// Runs it where it is prepared.
    pub fn execute(&self) -> String {
        let Self { name, parameters, .. } = self;
        if parameters.is_empty() {
            format!("EXECUTE {name}")
        } else {
            format!("EXECUTE {name}({parameters})")
        }
    }

    /// Whether it has a page from each of several: broadcasts, providers, topics. Its LIMIT then runs once for each.
    pub fn takes_turns(&self) -> bool {
        [
            "sweep_",
            "capped_claim",
            "live_wake",
            "device_list_topic",
            "fan_out_bound_of_topics",
            "explain_events",
            "inbox_backlog",
        ]
        .iter()
        .any(|s| self.name.starts_with(s))
    }
}
