//! What users ask for, checked: the same over HTTP and gRPC.

use std::time::{Duration, SystemTime};

use bongsu_ops::api::Violations;
use bongsu_store::{After, BroadcastId};
use tokio::time::Instant;

use super::auth::User;
use super::hub::Caller;
use super::listener::Cut;
use super::metrics::Transport;

/// Notifications acknowledged by one call at most.
const MAX_NOTIFICATIONS: usize = 1_000;
/// A token that ends later is as good as one that does not end: clocks cannot say it.
const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

/// Who asks for a stream, and from where on.
pub fn caller(user: &User, last_event_id: Option<&str>, transport: Transport, cut: Option<&Cut>) -> Caller {
    let after = match last_event_id {
        None | Some("") => After::Start,
        Some(id) => id.parse().map_or(After::Unknown, After::Event),
    };
    let left = user.expires_at.map(|at| at.duration_since(SystemTime::now()).unwrap_or_default());
    Caller {
        user: user.id.as_str().into(),
        after,
        transport,
        expires_at: left.filter(|left| *left < FAR).map(|left| Instant::now() + left),
        cut: cut.map(|cut| cut.0.clone()),
    }
}

/// The notifications that are named, each as `read` reads it.
pub fn notifications<T>(
    named: &[T],
    violations: &mut Violations,
    read: impl Fn(&T) -> Option<BroadcastId>,
) -> Vec<BroadcastId> {
    if named.is_empty() || named.len() > MAX_NOTIFICATIONS {
        violations.add("notification_ids", format!("has {} ids: give 1 to {MAX_NOTIFICATIONS}", named.len()));
        return vec![];
    }
    let mut ids = vec![];
    for (n, named) in named.iter().enumerate() {
        match read(named) {
            Some(id) => ids.push(id),
            None => violations.add(
                format_args!("notification_ids[{n}]"),
                "is no notification's id: give a notification_id as it was received",
            ),
        }
    }
    ids
}
