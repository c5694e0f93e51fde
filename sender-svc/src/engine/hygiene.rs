//! What answers say of devices: which of them are not to be called again, and whether the provider is believed.

use std::sync::Arc;
use std::time::Duration;

use bongsu_store::{DeviceId, Fate, Target, Unfit};
use time::OffsetDateTime;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::Engine;
use super::flush::Settled;
use super::held::HeldBatch;
use super::line::Line;
use crate::provider::Answer;

/// How often it is looked whether devices that were held back can be written. A doubted provider stays parked for longer.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Devices written at a time.
const MOST_AT_A_TIME: usize = 1_000;

/// Writes what providers said of devices, once they are believed.
pub(super) async fn run(engine: Arc<Engine>, settled: mpsc::Sender<Settled>, drain: CancellationToken) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = drain.cancelled() => return,
        }
        for line in &engine.lines {
            if line.breaker.doubts() {
                line.doubt.forget();
                continue;
            }
            let believed = line.doubt.believed(MOST_AT_A_TIME, Instant::now());
            // Closed by an abandoned drain only.
            if !believed.is_empty() && settled.send(Settled::Unfit(believed)).await.is_err() {
                return;
            }
        }
    }
}

/// Asks of a definite answer to a first attempt whether the provider is still to be believed, and parks it where not.
pub(super) fn weigh(engine: &Engine, line: &Arc<Line>, answer: &Answer) {
    let unfit = match answer {
        Answer::Gone { .. } | Answer::Suspect(_) => true,
        Answer::Accepted | Answer::Rejected(_) => false,
        Answer::SlowDown { .. } | Answer::Trouble { .. } => return,
    };
    let Some(evidence) = line.doubt.count(unfit, Instant::now()) else { return };
    if !line.breaker.doubt() {
        return;
    }
    let detail = format!(
        "{} of {} answers said that the token is of no use, the last one: {}",
        evidence.unfit,
        evidence.answers,
        code(answer)
    );
    let (store, line) = (engine.store.clone(), line.clone());
    engine.calls.spawn(async move {
        match store.doubt_provider(line.provider, &detail).await {
            Ok(true) => {
                tracing::error!(
                    provider = line.name,
                    detail,
                    "the provider calls implausibly many tokens gone: parked, and no device is retired for that"
                );
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(
                    provider = line.name,
                    "that the provider is not believed is not known to others: {error}"
                );
            }
        }
        line.breaker.parking_done(Instant::now());
    });
}

fn code(answer: &Answer) -> &str {
    match answer {
        Answer::Gone { said, .. } | Answer::Suspect(said) => &said.code,
        _ => "",
    }
}

/// What becomes of a device that had registered then.
fn fate(answer: &Answer, registered_at: OffsetDateTime) -> Option<Fate> {
    match answer {
        // One that has registered since is there again.
        Answer::Gone { since, .. } if since.is_none_or(|since| registered_at < since) => Some(Fate::Retired),
        Answer::Suspect(said) => Some(Fate::Quarantined { detail: said.detail.clone() }),
        _ => None,
    }
}

/// The device that is not to be called again by this answer, where that can be written at once.
pub(super) fn unfit(
    line: &Line,
    held: &HeldBatch,
    device: DeviceId,
    target: Target,
    answer: &Answer,
) -> Option<Unfit> {
    let Target { token, registered_at } = target;
    let fate = fate(answer, registered_at)?;
    if line.breaker.doubts() {
        return None;
    }
    let (shard, broadcast, code) = (held.lease.shard, held.lease.broadcast, code(answer).to_owned());
    line.doubt.hold(Unfit { shard, device, token, registered_at, broadcast, code, fate }, Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Trouble;
    use crate::provider::answer::{Said, SlowDown};

    #[test]
    fn only_gone_retires_only_suspect_quarantines_and_nothing_else_touches_a_device() {
        let said = || Said::new("code", "words");
        let at = OffsetDateTime::UNIX_EPOCH;
        assert_eq!(fate(&Answer::Gone { since: None, said: said() }, at), Some(Fate::Retired));
        let quarantined = Fate::Quarantined { detail: "words".into() };
        assert_eq!(fate(&Answer::Suspect(said()), at), Some(quarantined));
        let (whom, trouble, retry_after) = (SlowDown::Device, Trouble::Denied, None);
        for answer in [
            Answer::Accepted,
            Answer::Rejected(said()),
            Answer::SlowDown { whom, retry_after, said: said() },
            Answer::Trouble { trouble, retry_after, said: said() },
        ] {
            assert_eq!(fate(&answer, at), None, "{answer:?}");
        }
    }

    #[test]
    fn a_device_that_has_registered_since_the_moment_that_the_provider_names_stays() {
        let since = OffsetDateTime::UNIX_EPOCH;
        let gone = Answer::Gone { since: Some(since), said: Said::new("410", "") };
        let second = Duration::from_secs(1);
        assert_eq!(fate(&gone, since - second), Some(Fate::Retired));
        assert_eq!(fate(&gone, since), None);
        assert_eq!(fate(&gone, since + second), None);
    }
}
