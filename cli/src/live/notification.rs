//! A notification as it comes over HTTP.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// See `bongsu.v1.Notification`. Ids are as they come: strings.
#[derive(Clone, Deserialize, Serialize)]
pub struct Notification {
    pub event_id: String,
    pub notification_id: String,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub body: String,
    #[serde(default)]
    pub data: BTreeMap<String, String>,
    pub create_time: Option<String>,
    pub expire_time: Option<String>,
    #[serde(default)]
    pub acknowledged: bool,
    #[serde(default)]
    pub read: bool,
}

impl Notification {
    /// None where the server wrote no number.
    pub fn id(&self) -> Option<i64> {
        self.notification_id.parse().ok()
    }
}

// Not what it says.
impl std::fmt::Debug for Notification {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Notification({}, event {})", self.notification_id, self.event_id)
    }
}
