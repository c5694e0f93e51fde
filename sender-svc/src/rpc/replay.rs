//! `ReplayDeadLetters`: from a request to a broadcast of its own.

use std::time::Duration;

use bongsu_ops::api::Violations;
use bongsu_proto::v1::{ReplayDeadLettersRequest, ReplayDeadLettersResponse};
use bongsu_store::{Acceptance, CLIENT_ID, DEFAULT_TTL, EXPIRY_RANGE, NewReplay, Replay, StoreError};
use tonic::Status;

use super::{Deliveries, convert, status};

const MAX_KEY_BYTES: usize = 255;

impl Deliveries {
    pub(super) async fn replay(
        &self,
        request: ReplayDeadLettersRequest,
    ) -> Result<ReplayDeadLettersResponse, Status> {
        let failed = |e: StoreError| status::from_store(&e, "ReplayDeadLetters");
        let validate_only = request.validate_only;
        let mut violations = Violations::default();
        let provider = self.provider(&request.provider, &mut violations).await.map_err(failed)?;
        let new = NewReplay {
            client_id: CLIENT_ID.to_owned(),
            broadcast: convert::broadcast_id(request.broadcast_id, &mut violations),
            reasons: convert::dead_reasons(&request.reasons, &mut violations),
            code: Some(request.code).filter(|code| !code.is_empty()),
            provider,
            ttl: ttl(request.ttl.as_ref(), &mut violations),
            max_rate_per_second: None,
            replay_id: request.replay_id,
        };
        check_key(&new.replay_id, &mut violations);
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        if validate_only {
            let Some(_) = self.store.status(new.broadcast).await.map_err(failed)? else {
                return Err(status::broadcast_not_found(new.broadcast));
            };
            let matching = self.store.count_replay(&new).await.map_err(failed)?;
            return Ok(ReplayDeadLettersResponse { matching, ..Default::default() });
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
        Ok(ReplayDeadLettersResponse { broadcast_id: broadcast.id.0, replayed, matching: 0 })
    }
}

fn check_key(key: &str, violations: &mut Violations) {
    if key.is_empty() || key.len() > MAX_KEY_BYTES || !key.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        let problem = format!("must be 1 to {MAX_KEY_BYTES} printable ASCII characters, unique per replay");
        violations.add("replay_id", problem);
    }
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
