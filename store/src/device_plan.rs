//! What a chunk of registrations does to the devices that stand in its way: a pure function, decided while those are
//! locked, so that the statements which carry it out need no conditions.
//!
//! The newest registration of a token wins, and so does the newest token of an installation; "newest" within a chunk is
//! its later row.

use std::collections::{HashMap, HashSet};

use crate::device_register::Registration;
use crate::ids::{DeviceId, ProviderId};

type Key<'a> = (ProviderId, &'a str);

/// The rows of a chunk that count.
pub(crate) struct Chunk<'a> {
    /// No two with the same token, no two with the same installation.
    pub rows: Vec<&'a Registration>,
    /// Tokens of rows whose installation came again with another token: with the row that won.
    beaten: Vec<(Key<'a>, usize)>,
    /// Rows that a later one made void.
    pub superseded: usize,
}

impl<'a> Chunk<'a> {
    pub fn new(registrations: &'a [Registration]) -> Self {
        let mut chunk = Self { rows: Vec::with_capacity(registrations.len()), beaten: vec![], superseded: 0 };
        let mut tokens = HashSet::with_capacity(registrations.len());
        let mut installations: HashMap<Key<'a>, usize> = HashMap::new();
        for row in registrations.iter().rev() {
            if !tokens.insert(row.token_key()) {
                chunk.superseded += 1;
                continue;
            }
            if let Some(installation) = row.installation_key() {
                let winner = *installations.entry(installation).or_insert(chunk.rows.len());
                if winner < chunk.rows.len() {
                    chunk.superseded += 1;
                    chunk.beaten.push((row.token_key(), winner));
                    continue;
                }
            }
            chunk.rows.push(row);
        }
        chunk
    }

    /// Every token whose live device matters.
    pub fn tokens(&self) -> impl Iterator<Item = Key<'a>> {
        self.rows.iter().map(|row| row.token_key()).chain(self.beaten.iter().map(|(token, _)| *token))
    }

    /// Every installation whose live device matters.
    pub fn installations(&self) -> impl Iterator<Item = Key<'a>> {
        self.rows.iter().filter_map(|row| row.installation_key())
    }
}

/// A live device that stands under a token or an installation of the chunk, locked.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    pub id: DeviceId,
    pub provider_id: ProviderId,
    pub token: String,
    pub user_id: String,
    pub installation_id: Option<String>,
    pub consent: bool,
    pub quarantined: bool,
}

/// A row that becomes a new device.
pub(crate) struct NewDevice<'a> {
    pub registration: &'a Registration,
    pub consent: bool,
    /// Devices of the same user whose topics it takes over.
    pub ancestors: Vec<DeviceId>,
}

/// What to do, in this order.
#[derive(Default)]
pub(crate) struct Plan<'a> {
    /// Devices that are replaced.
    pub retire: Vec<DeviceId>,
    /// Devices that lose their installation to another row, or are about to change it.
    pub vacate: Vec<DeviceId>,
    /// The same registration again.
    pub refresh: Vec<(DeviceId, &'a Registration)>,
    /// In order of provider and token, so that two chunks at the same time wait for each other in one direction only.
    pub insert: Vec<NewDevice<'a>>,
}

/// Decides what `chunk` does to what is `standing`, which is in order of id.
pub(crate) fn plan<'a>(chunk: &Chunk<'a>, standing: &[Standing]) -> Plan<'a> {
    let row_tokens: HashMap<Key<'_>, usize> = chunk.rows.iter().map(|row| row.token_key()).zip(0..).collect();
    let beaten: HashMap<Key<'_>, usize> = chunk.beaten.iter().copied().collect();
    let installations: HashMap<Key<'_>, usize> = chunk
        .rows
        .iter()
        .enumerate()
        .filter_map(|(index, row)| Some((row.installation_key()?, index)))
        .collect();

    let mut plan = Plan::default();
    let mut refreshed = vec![false; chunk.rows.len()];
    let mut ancestors: Vec<Vec<&Standing>> = vec![vec![]; chunk.rows.len()];
    for device in standing {
        let token = (device.provider_id, device.token.as_str());
        let by_installation = device
            .installation_id
            .as_deref()
            .and_then(|installation| installations.get(&(device.provider_id, installation)).copied());
        let by_token = row_tokens.get(&token).copied();
        if let Some(index) = by_token
            && chunk.rows[index].user_id == device.user_id
        {
            let row = chunk.rows[index];
            refreshed[index] = true;
            plan.refresh.push((device.id, row));
            let changes = row.installation_id.is_some() && row.installation_id != device.installation_id;
            let loses = by_installation.is_some_and(|winner| winner != index);
            if device.installation_id.is_some() && (changes || loses) {
                plan.vacate.push(device.id);
            }
            continue;
        }
        let heirs = [by_token, beaten.get(&token).copied(), by_installation];
        if heirs.iter().any(Option::is_some) {
            plan.retire.push(device.id);
        }
        for index in heirs.into_iter().flatten() {
            let known = ancestors[index].last().is_some_and(|last| last.id == device.id);
            if chunk.rows[index].user_id == device.user_id && !known {
                ancestors[index].push(device);
            }
        }
    }
    plan.insert = new_devices(chunk, &refreshed, &ancestors);
    plan
}

fn new_devices<'a>(
    chunk: &Chunk<'a>,
    refreshed: &[bool],
    ancestors: &[Vec<&Standing>],
) -> Vec<NewDevice<'a>> {
    let mut new: Vec<NewDevice<'a>> = chunk
        .rows
        .iter()
        .zip(refreshed)
        .zip(ancestors)
        .filter(|((_, refreshed), _)| !**refreshed)
        .map(|((registration, _), ancestors)| NewDevice {
            registration,
            consent: registration
                .consent
                .or_else(|| ancestors.last().map(|newest| newest.consent))
                .unwrap_or(true),
            ancestors: ancestors.iter().map(|device| device.id).collect(),
        })
        .collect();
    new.sort_unstable_by(|a, b| a.registration.token_key().cmp(&b.registration.token_key()));
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(token: &str, user: &str, installation: Option<&str>) -> Registration {
        Registration {
            provider_id: ProviderId(1),
            token: token.into(),
            user_id: user.into(),
            installation_id: installation.map(Into::into),
            consent: None,
            topics: vec![],
        }
    }

    fn device(id: i64, token: &str, user: &str, installation: Option<&str>, consent: bool) -> Standing {
        Standing {
            id: DeviceId(id),
            provider_id: ProviderId(1),
            token: token.into(),
            user_id: user.into(),
            installation_id: installation.map(Into::into),
            consent,
            quarantined: false,
        }
    }

    #[test]
    fn of_several_rows_with_one_token_the_last_counts() {
        let rows = [row("a", "u", None), row("b", "u", None), row("a", "v", None)];
        let chunk = Chunk::new(&rows);
        assert_eq!(chunk.superseded, 1);
        let plan = plan(&chunk, &[]);
        let users: Vec<&str> = plan.insert.iter().map(|new| new.registration.user_id.as_str()).collect();
        assert_eq!(users, ["v", "u"], "in order of token");
    }

    #[test]
    fn of_several_tokens_of_one_installation_the_last_counts_and_the_others_are_retired() {
        let rows = [row("a", "u", Some("i")), row("b", "u", Some("i"))];
        let chunk = Chunk::new(&rows);
        assert_eq!(chunk.superseded, 1);
        let plan = plan(&chunk, &[device(7, "a", "u", None, false)]);
        assert_eq!(plan.retire, [DeviceId(7)]);
        assert_eq!(plan.insert.len(), 1);
        assert_eq!(plan.insert[0].registration.token, "b");
        assert!(!plan.insert[0].consent, "inherited");
        assert_eq!(plan.insert[0].ancestors, [DeviceId(7)]);
    }

    #[test]
    fn another_user_inherits_nothing() {
        let rows = [row("a", "new", Some("i"))];
        let plan = plan(&Chunk::new(&rows), &[device(7, "a", "old", Some("i"), false)]);
        assert_eq!(plan.retire, [DeviceId(7)]);
        assert!(plan.insert[0].consent && plan.insert[0].ancestors.is_empty());
    }

    #[test]
    fn two_devices_may_swap_their_installations() {
        let rows = [row("a", "u", Some("j")), row("b", "u", Some("i"))];
        let standing = [device(1, "a", "u", Some("i"), true), device(2, "b", "u", Some("j"), true)];
        let plan = plan(&Chunk::new(&rows), &standing);
        assert!(plan.retire.is_empty() && plan.insert.is_empty());
        assert_eq!(plan.vacate, [DeviceId(1), DeviceId(2)]);
        assert_eq!(plan.refresh.len(), 2);
    }

    #[test]
    fn a_device_refreshed_without_its_installation_gives_it_up_to_another_row() {
        let rows = [row("a", "u", None), row("b", "u", Some("i"))];
        let plan = plan(&Chunk::new(&rows), &[device(1, "a", "u", Some("i"), true)]);
        assert_eq!(plan.vacate, [DeviceId(1)]);
        assert_eq!((plan.retire.len(), plan.refresh.len(), plan.insert.len()), (0, 1, 1));
    }
}
