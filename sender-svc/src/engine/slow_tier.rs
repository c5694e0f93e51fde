//! Rounds of the slow tier. Any sender makes those that are due, and makes none twice: what is due is in Postgres.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Engine;
use super::line::Line;
use crate::metrics;

/// How late a round may be, as a share of the time before it …
const LATE: f64 = 0.1;
/// … but it is looked no more often than this, and no more seldom.
const LOOK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// What used up its attempts is replayed this long after its broadcast ended, so many times at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowTier {
    pub every: Duration,
    pub rounds: u32,
}

/// Looks for rounds that are due until `drain`; does nothing where no provider has a slow tier.
pub(super) async fn run(engine: Arc<Engine>, drain: CancellationToken) {
    let tiers: Vec<_> = engine.lines.iter().filter_map(|line| Some((line, line.slow_tier?))).collect();
    let Some(shortest) = tiers.iter().map(|(_, tier)| tier.every).min() else {
        return drain.cancelled().await;
    };
    let look = shortest.mul_f64(LATE).clamp(LOOK.0, LOOK.1);
    let mut troubled = false;
    loop {
        // The jitter keeps senders apart.
        let pause = look.mul_f64(0.75 + 0.5 * rand::random::<f64>());
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = drain.cancelled() => return,
        }
        for (line, tier) in &tiers {
            match make_rounds(&engine, line, *tier, &drain).await {
                Ok(()) => troubled = false,
                Err(error) => {
                    // Nothing is lost: what is due stays due.
                    if !troubled {
                        tracing::warn!(
                            provider = line.name,
                            "cannot look for rounds of the slow tier: {error}"
                        );
                    }
                    troubled = true;
                }
            }
        }
    }
}

async fn make_rounds(
    engine: &Engine,
    line: &Line,
    tier: SlowTier,
    drain: &CancellationToken,
) -> bongsu_store::Result<()> {
    while !drain.is_cancelled() {
        let step = engine.store.make_slow_rounds(line.provider, tier.every, tier.rounds).await?;
        for id in &step.made {
            tracing::info!(broadcast_id = id.0, provider = line.name, "a round of the slow tier begins");
        }
        metrics::slow_rounds(&line.name, step.made.len());
        if !step.more {
            break;
        }
    }
    Ok(())
}
