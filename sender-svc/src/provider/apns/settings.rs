//! What an `apns` provider is told.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use bongsu_store::APNS_SOUND_BYTES;
use hyper::Uri;
use serde::Deserialize;

use crate::provider::credentials::Source;

/// Apple's ids of keys and teams have so many letters and digits.
const ID_CHARACTERS: usize = 10;

/// What an `apns` provider is told beside what all are.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The signing key as Apple hands it out: the text of the .p8 file.
    pub(super) credentials: Source,
    pub(super) key_id: String,
    pub(super) team_id: String,
    /// The bundle id of the app, mostly.
    pub(super) topic: String,
    environment: Environment,
    /// Instead of Apple's address, for tests.
    endpoint: Option<String>,
    /// Whose certificates to believe instead of the system's.
    pub(super) ca_file: Option<PathBuf>,
    #[serde(default)]
    pub(super) push_type: PushType,
    /// Played with what is shown; none where empty.
    #[serde(default = "default_sound")]
    pub(super) sound: String,
}

/// For which of Apple's environments device tokens were made: by the app's entitlement, and useless in the other.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Environment {
    Production,
    Sandbox,
}

/// What kind of push a notification is that shows something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PushType {
    /// Shown by the system; a broadcast of data alone is a background push.
    #[default]
    Alert,
    /// Handed to the app at once, as a call; the topic ends with `.voip`.
    Voip,
}

impl PushType {
    pub fn name(self) -> &'static str {
        match self {
            Self::Alert => "alert",
            Self::Voip => "voip",
        }
    }
}

fn default_sound() -> String {
    "default".to_owned()
}

impl Settings {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        for (name, id) in [("key_id", &self.key_id), ("team_id", &self.team_id)] {
            let fine = id.len() == ID_CHARACTERS && id.bytes().all(|b| b.is_ascii_alphanumeric());
            ensure!(
                fine,
                "{name} must be {ID_CHARACTERS} letters and digits, as Apple's developer site tells it"
            );
        }
        let visible = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
        ensure!(
            !self.topic.is_empty() && visible(&self.topic),
            "topic must be the bundle id of the app, for example com.example.app"
        );
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        ensure!(
            self.sound.len() <= APNS_SOUND_BYTES && self.sound.bytes().all(plain),
            "sound must be the name of a file in the app, of at most {APNS_SOUND_BYTES} of A-Z a-z 0-9 . - _"
        );
        Ok(())
    }

    /// The host that is called.
    pub(super) fn endpoint(&self) -> anyhow::Result<Uri> {
        let apple = match self.environment {
            Environment::Production => "https://api.push.apple.com",
            Environment::Sandbox => "https://api.sandbox.push.apple.com",
        };
        let endpoint = self.endpoint.as_deref().unwrap_or(apple);
        let uri: Uri = endpoint.parse().with_context(|| format!("endpoint {endpoint:?}"))?;
        // The token that proves who we are must not be readable on the way.
        ensure!(
            uri.scheme_str() == Some("https") && uri.path() == "/",
            "endpoint {endpoint:?} must be https://HOST or https://HOST:PORT"
        );
        Ok(uri)
    }
}
