//! What answers say of the provider as a whole: parking it, probing it, taking it up again.

use std::sync::Arc;
use std::time::Duration;

use bongsu_store::Probe;
use tokio::time::Instant;

use super::Engine;
use super::breaker::Parked;
use super::hygiene;
use super::line::Line;
use crate::metrics;
use crate::provider::answer::Said;
use crate::provider::{Answer, Trouble};

/// How long a parked provider's answer to a probe puts off the next one at most.
const LONGEST_PUT_OFF: Duration = Duration::from_secs(60);

/// Takes in an answer to a call whose delivery had failed `failures` times before.
pub(super) fn note(engine: &Engine, line: &Arc<Line>, answer: &Answer, failures: i32, probe: Option<Probe>) {
    if let (Answer::Gone { said, .. } | Answer::Suspect(said), Some(probe)) = (answer, probe)
        && probe.doubted
    {
        // Still the same: whoever unparks it by hand knows better.
        return probe_failed(engine, line, probe, said, Duration::ZERO);
    }
    if failures == 0 && probe.is_none() {
        hygiene::weigh(engine, line, answer);
    }
    let Answer::Trouble { trouble, retry_after, said } = answer else {
        line.breaker.works();
        if let Some(probe) = probe {
            resume(engine, line, probe);
        }
        return;
    };
    if let Some(probe) = probe {
        // One page that says "in a day" must not keep everybody from looking for so long.
        return probe_failed(engine, line, probe, said, retry_after.unwrap_or_default().min(LONGEST_PUT_OFF));
    }
    let counts = failures == 0 || matches!(trouble, Trouble::Unreachable | Trouble::Denied);
    if line.breaker.fails(counts, Instant::now()) {
        let (store, line, said) = (engine.store.clone(), line.clone(), said.clone());
        engine.calls.spawn(async move {
            match store.park_provider(line.provider, &said.code, &said.detail).await {
                Ok(true) => {
                    tracing::error!(
                        provider = line.name,
                        code = said.code,
                        "the provider fails as a whole: parked"
                    );
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(
                        provider = line.name,
                        "that the provider fails is not known to others: {error}"
                    );
                }
            }
            line.breaker.parking_done(Instant::now());
        });
    }
}

fn probe_failed(engine: &Engine, line: &Line, probe: Probe, said: &Said, pause: Duration) {
    metrics::probe(&line.name, false);
    let (store, said) = (engine.store.clone(), said.clone());
    engine.calls.spawn(async move {
        // Where it cannot be written, the next probe comes after this one's patience.
        let _ = store.probe_failed(probe, &said.code, &said.detail, pause).await;
    });
}

/// A probe was answered, or there is nothing to probe with but retries, for long: calls start again, a few at first.
pub(super) fn resume(engine: &Engine, line: &Arc<Line>, probe: Probe) {
    metrics::probe(&line.name, true);
    let (store, line) = (engine.store.clone(), line.clone());
    engine.calls.spawn(async move {
        match store.unpark_provider(probe).await {
            Ok(true) => {
                tracing::info!(provider = line.name, "the provider is taken up again");
                let now = Instant::now();
                line.breaker.heed(Parked::NOT, Some(Duration::ZERO), now, now);
            }
            Ok(false) => {}
            Err(error) => tracing::warn!(provider = line.name, "cannot take the provider up again: {error}"),
        }
    });
}
