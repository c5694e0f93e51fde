//! What Bongsu proves to a provider who it is: from a file or the environment, and read again when the file changes, so that
//! credentials are rotated without a restart.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Deserialize;

/// How often a file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// No key is longer. Whatever is was named by mistake.
const MOST_BYTES: u64 = 1 << 20;

/// Where a secret is: `{ file = "path" }` or `{ env = "NAME" }`. Never in the configuration itself, which is shown and shared.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Source {
    File(PathBuf),
    Env(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "the file {}", path.display()),
            Self::Env(name) => write!(f, "the environment variable {name}"),
        }
    }
}

impl Source {
    fn read(&self) -> anyhow::Result<Vec<u8>> {
        let read = match self {
            Self::File(path) => std::fs::metadata(path).map_err(anyhow::Error::from).and_then(|file| {
                if file.len() > MOST_BYTES {
                    bail!("it has {} bytes, and credentials at most {MOST_BYTES}", file.len());
                }
                Ok(std::fs::read(path)?)
            }),
            Self::Env(name) => std::env::var(name).map(String::into_bytes).map_err(anyhow::Error::from),
        };
        read.with_context(|| format!("cannot read credentials from {self}"))
    }
}

/// Turns what was read into what is used, or says what is wrong with it without repeating it.
pub type Parse<T> = fn(&[u8]) -> anyhow::Result<T>;

/// Credentials as they are now.
pub struct Credentials<T> {
    source: Source,
    parse: Parse<T>,
    now: RwLock<(Vec<u8>, Arc<T>)>,
}

// Nothing of what it holds.
impl<T> fmt::Debug for Credentials<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials from {}", self.source)
    }
}

impl<T: Send + Sync + 'static> Credentials<T> {
    /// Reads them, and goes on looking whether they change for as long as what is returned is kept. Must be called within a
    /// runtime.
    ///
    /// # Errors
    ///
    /// When they cannot be read, or are not what they should be.
    pub fn load(source: Source, parse: Parse<T>) -> anyhow::Result<Arc<Self>> {
        let bytes = source.read()?;
        let parsed = parse(&bytes).with_context(|| format!("credentials in {source}"))?;
        let credentials = Arc::new(Self { source, parse, now: RwLock::new((bytes, Arc::new(parsed))) });
        if matches!(credentials.source, Source::File(_)) {
            let watched = Arc::downgrade(&credentials);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(LOOK_EVERY).await;
                    let Some(credentials) = watched.upgrade() else { return };
                    // A file system may take its time.
                    let _ = tokio::task::spawn_blocking(move || credentials.look()).await;
                }
            });
        }
        Ok(credentials)
    }

    /// As they are now.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner).1)
    }

    /// Takes in what has changed; what is wrong is told, and what was there before stays in use. True where it changed.
    pub fn look(&self) -> bool {
        let changed = self.source.read().and_then(|bytes| {
            if self.now.read().unwrap_or_else(PoisonError::into_inner).0 == bytes {
                return Ok(None);
            }
            let parsed = (self.parse)(&bytes).with_context(|| format!("credentials in {}", self.source))?;
            Ok(Some((bytes, Arc::new(parsed))))
        });
        match changed {
            Ok(None) => false,
            Ok(Some(now)) => {
                *self.now.write().unwrap_or_else(PoisonError::into_inner) = now;
                tracing::info!("took up changed credentials from {}", self.source);
                true
            }
            Err(error) => {
                tracing::error!("credentials are those of before: {error:#}");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(bytes: &[u8]) -> anyhow::Result<u32> {
        std::str::from_utf8(bytes)?.trim().parse().context("is no number")
    }

    #[tokio::test]
    async fn a_changed_file_is_taken_up_and_a_broken_one_leaves_what_was_there() {
        let path = std::env::temp_dir().join(format!("bongsu-credentials-{}", std::process::id()));
        std::fs::write(&path, "1").expect("written");
        let credentials = Credentials::load(Source::File(path.clone()), number).expect("read");
        assert!(!credentials.look());
        for (text, now) in [("2", 2), ("broken", 2), ("3", 3)] {
            std::fs::write(&path, text).expect("written");
            assert_eq!(credentials.look(), text != "broken", "{text}");
            assert_eq!(*credentials.get(), now, "{text}");
        }
        std::fs::remove_file(&path).expect("removed");
        assert!(!credentials.look());
        assert_eq!(*credentials.get(), 3);
        let missing = Credentials::load(Source::File(path.clone()), number).expect_err("missing");
        assert!(format!("{missing:#}").contains(&path.display().to_string()), "{missing:#}");
    }

    #[tokio::test]
    async fn what_is_wrong_with_credentials_names_where_they_are_and_not_what() {
        let error = Credentials::load(Source::Env("PATH".into()), number).expect_err("no number");
        let told = format!("{error:#}");
        assert!(told.contains("PATH") && !told.contains("/bin"), "{told}");
    }
}
