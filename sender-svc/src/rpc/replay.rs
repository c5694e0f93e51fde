//! `ReplayDeadLetters`: from a request to a broadcast of its own.

use std::time::Duration;

use bongsu_ops::access::Caller;
use bongsu_ops::api::Violations;
use bongsu_proto::v1::{ReplayDeadLettersRequest, ReplayDeadLettersResponse};
use bongsu_store::{
    Acceptance, DEFAULT_TTL, DeadLetterMatch, DeviceId, EXPIRY_RANGE, MAX_REPLAY_DEVICES, NewReplay, Replay,
    ReplayLetters, StoreError,
};
use tonic::Status;

use super::{Deliveries, convert, status};

const MAX_KEY_BYTES: usize = 255;

impl Deliveries {
    pub(super) async fn replay(
        &self,
        request: ReplayDeadLettersRequest,
        caller: &Caller,
    ) -> Result<ReplayDeadLettersResponse, Status> {
        let failed = |e: StoreError| status::from_store(&e, "ReplayDeadLetters");
        let validate_only = request.validate_only;
        let mut violations = Violations::default();
        let letters = self.replay_letters(&request, &mut violations).await.map_err(failed)?;
        let new = NewReplay {
            client_id: caller.client_id().to_owned(),
            broadcast: convert::broadcast_id(request.broadcast_id, &mut violations),
            letters,
            ttl: ttl(request.ttl.as_ref(), &mut violations),
            max_rate_per_second: max_rate(request.max_rate_per_second, &mut violations),
            replay_id: request.replay_id,
        };
        check_key(&new.replay_id, &mut violations);
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        self.reach(new.broadcast, caller.controls_only()).await?;
        if validate_only {
            let Some(_) = self.store.status(new.broadcast).await.map_err(failed)? else {
                return Err(status::broadcast_not_found(new.broadcast));
            };
            let count = self.store.count_replay(&new).await.map_err(failed)?;
            return Ok(convert::replay_count(&count));
        }
        let (broadcast, replayed) = match self.store.replay(&new).await.map_err(failed)? {
            Replay::NotFound => return Err(status::broadcast_not_found(new.broadcast)),
            Replay::Accepted(Acceptance::New(broadcast)) => (broadcast, false),
            Replay::Accepted(Acceptance::Replayed(broadcast)) => (broadcast, true),
            Replay::Accepted(Acceptance::KeyReused(existing)) => {
                return Err(status::replay_id_reused(&new.replay_id, existing));
            }
            // The expiry of a replay is counted by the database, from a length that was checked here, and it starts at once.
            Replay::Accepted(Acceptance::ExpiryOutOfRange { .. } | Acceptance::TooFarAhead { .. }) => {
                return Err(status::invalid(&Violations::one("ttl", "is out of range")));
            }
        };
        if !replayed {
            tracing::info!(broadcast_id = broadcast.id.0, of = new.broadcast.0, "dead letters are replayed");
        }
        Ok(ReplayDeadLettersResponse { broadcast_id: broadcast.id.0, replayed, ..Default::default() })
    }

    /// Those that match, or those of the devices that are named.
    async fn replay_letters(
        &self,
        request: &ReplayDeadLettersRequest,
        violations: &mut Violations,
    ) -> Result<ReplayLetters, StoreError> {
        let these = DeadLetterMatch {
            reasons: convert::dead_reasons(&request.reasons, violations),
            code: Some(request.code.clone()).filter(|code| !code.is_empty()),
            provider: self.provider(&request.provider, violations).await?,
            from: convert::moment("from_time", request.from_time.as_ref(), violations),
            to: convert::moment("to_time", request.to_time.as_ref(), violations),
        };
        convert::check_order(these.from, these.to, violations);
        if request.device_ids.is_empty() {
            return Ok(ReplayLetters::Matching(these));
        }
        check_alone(request, violations);
        Ok(ReplayLetters::Devices(devices(&request.device_ids, violations)))
    }
}

/// A list says all: a condition beside it would be taken for one that the list has to meet, or for one that adds to it.
fn check_alone(request: &ReplayDeadLettersRequest, violations: &mut Violations) {
    let conditions = [
        ("reasons", !request.reasons.is_empty()),
        ("code", !request.code.is_empty()),
        ("provider", !request.provider.is_empty()),
        ("from_time", request.from_time.is_some()),
        ("to_time", request.to_time.is_some()),
    ];
    for (field, _) in conditions.into_iter().filter(|(_, given)| *given) {
        violations.add(field, "is given together with device_ids; leave out one of the two");
    }
}

fn devices(ids: &[i64], violations: &mut Violations) -> Vec<DeviceId> {
    if ids.len() > MAX_REPLAY_DEVICES {
        let problem = format!("has {} ids; give at most {MAX_REPLAY_DEVICES}, in several replays", ids.len());
        violations.add("device_ids", problem);
        return vec![];
    }
    for (i, id) in ids.iter().enumerate().filter(|(_, id)| **id <= 0) {
        violations.add(format_args!("device_ids[{i}]"), format!("is {id}; give the id of a device"));
    }
    let mut devices: Vec<_> = ids.iter().map(|id| DeviceId(*id)).collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}

fn check_key(key: &str, violations: &mut Violations) {
    if key.is_empty() || key.len() > MAX_KEY_BYTES || !key.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        let problem = format!("must be 1 to {MAX_KEY_BYTES} printable ASCII characters, unique per replay");
        violations.add("replay_id", problem);
    }
}

/// None where there is no limit.
fn max_rate(sent: i32, violations: &mut Violations) -> Option<u32> {
    if sent < 0 {
        let problem = format!("is {sent}; give calls within a second at most, or 0 for no limit");
        violations.add("max_rate_per_second", problem);
    }
    u32::try_from(sent).ok().filter(|rate| *rate > 0)
}

fn ttl(sent: Option<&prost_types::Duration>, violations: &mut Violations) -> Duration {
    let Some(sent) = sent else { return DEFAULT_TTL };
    let (least, most) = EXPIRY_RANGE;
    match Duration::try_from(*sent).ok().filter(|ttl| (least..=most).contains(ttl)) {
        Some(ttl) => ttl,
        None => {
            violations.add("ttl", "must be from 1 second to 7 days");
            DEFAULT_TTL
        }
    }
}
