//! Everything remembered per key, small enough for a million keys in 120 MB.
//!
//! A `HashMap<Box<str>, _>` needs about 120 bytes a key and a third more while it grows. Here the keys' text stands in
//! one buffer, the counts in another, both in order of arrival (which is what `/deliveries` lists), and the map holds
//! only a hash and a position: about 105 bytes a key of 30, see the test.

use std::collections::HashMap;
use std::num::NonZeroU64;

use crate::DeliveryRecord;

/// Beyond this a push is answered 507: a simulator that eats the machine's memory would blame the sender.
pub(crate) const MAX_KEYS: usize = 20_000_000;

/// The longest key, so that its length fits the record.
pub(crate) const MAX_KEY_BYTES: usize = u16::MAX as usize;

#[derive(Debug, thiserror::Error)]
#[error("{MAX_KEYS} keys are remembered, no more fit: POST /reset")]
pub(crate) struct NoRoom;

/// The counts of one key. 32 bytes; the order of the fields leaves no padding.
#[derive(Debug, Default)]
pub(crate) struct KeyRecord {
    text_at: u64,
    pub first_accepted_unix_us: Option<NonZeroU64>,
    pub calls: u32,
    pub accepted: u32,
    pub transient: u32,
    pub throttled: u16,
    text_len: u16,
}

#[derive(Debug, Default)]
pub(crate) struct Keys {
    records: Vec<KeyRecord>,
    text: String,
    /// From the key's hash to its record. Two keys of one hash: the later one stands at the next free number.
    positions: HashMap<u64, u32>,
}

impl Keys {
    /// The position of `key`, which is remembered from now on. `hash` is [`crate::decision::key_hash`] of it.
    pub fn position_or_insert(&mut self, key: &str, hash: u64) -> Result<usize, NoRoom> {
        let vacant = match self.find(key, hash) {
            Ok(position) => return Ok(position),
            Err(vacant) => vacant,
        };
        debug_assert!(key.len() <= MAX_KEY_BYTES);
        let position = self.records.len();
        if position >= MAX_KEYS {
            return Err(NoRoom);
        }
        let (text_at, text_len) = (self.text.len() as u64, key.len() as u16);
        self.records.push(KeyRecord { text_at, text_len, ..KeyRecord::default() });
        self.text.push_str(key);
        self.positions.insert(vacant, position as u32);
        Ok(position)
    }

    pub fn record_mut(&mut self, position: usize) -> &mut KeyRecord {
        &mut self.records[position]
    }

    pub fn get(&self, key: &str, hash: u64) -> Option<DeliveryRecord> {
        self.find(key, hash).ok().map(|position| self.delivery(&self.records[position]))
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// The records at the given positions, in order of arrival.
    pub fn deliveries(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = DeliveryRecord> {
        self.records[range].iter().map(|record| self.delivery(record))
    }

    /// Its position, or the number under which it would be entered.
    fn find(&self, key: &str, hash: u64) -> Result<usize, u64> {
        let mut slot = hash;
        while let Some(&position) = self.positions.get(&slot) {
            if self.text_of(&self.records[position as usize]) == key {
                return Ok(position as usize);
            }
            slot = slot.wrapping_add(1);
        }
        Err(slot)
    }

    fn text_of(&self, record: &KeyRecord) -> &str {
        let at = record.text_at as usize;
        &self.text[at..at + usize::from(record.text_len)]
    }

    fn delivery(&self, record: &KeyRecord) -> DeliveryRecord {
        DeliveryRecord {
            key: self.text_of(record).to_owned(),
            calls: record.calls,
            accepted: record.accepted,
            transient: record.transient,
            first_accepted_unix_us: record.first_accepted_unix_us.map(NonZeroU64::get),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::key_hash;

    #[test]
    fn keys_of_one_hash_are_kept_apart() {
        let mut keys = Keys::default();
        let positions = ["a", "b", "c", "b", "a"].map(|key| keys.position_or_insert(key, 5).expect("room"));
        assert_eq!(positions, [0, 1, 2, 1, 0]);
        assert!(keys.get("d", 5).is_none());
        assert_eq!(keys.get("c", 5).expect("known").key, "c");
    }

    #[test]
    fn a_million_keys_of_thirty_bytes_fit_in_120_mb() {
        const BUDGET_BYTES: usize = 120_000_000;
        let mut keys = Keys::default();
        for n in 0..1_000_000 {
            let key = format!("1234567890123456789:{n:010}");
            keys.position_or_insert(&key, key_hash(&key)).expect("room");
        }
        // The map fills 7 of 8 buckets at most; a bucket is its entry and one byte of control.
        let buckets = keys.positions.capacity() / 7 * 8;
        let bytes = keys.records.capacity() * size_of::<KeyRecord>()
            + keys.text.capacity()
            + buckets * (size_of::<(u64, u32)>() + 1);
        assert_eq!(keys.len(), 1_000_000);
        assert!(bytes < BUDGET_BYTES, "{bytes}");
    }
}
