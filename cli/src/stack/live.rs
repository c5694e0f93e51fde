//! What senders of a stack with the live channel believe: a key of this stack's own, by which tokens of users are signed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use tempfile::TempDir;

use super::private_directory;
use crate::live::token::{Claims, SigningKey};

/// How long a token is good for: longer than anybody tries things out in one go.
const TOKEN_TTL: Duration = Duration::from_secs(12 * 60 * 60);

/// A key that lives as long as the stack: its file is removed with it.
pub(super) struct Keys {
    key: SigningKey,
    jwks: PathBuf,
    _directory: TempDir,
}

// Nothing of the key.
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("jwks", &self.jwks).finish_non_exhaustive()
    }
}

impl Keys {
    /// Makes the key and writes the file that senders read.
    pub fn make() -> anyhow::Result<Self> {
        let key = SigningKey::fresh(None)?;
        let directory = private_directory("bongsu-live-")?;
        let jwks = directory.path().join("jwks.json");
        std::fs::write(&jwks, key.jwks().to_string())
            .with_context(|| format!("{} was not written", jwks.display()))?;
        Ok(Self { key, jwks, _directory: directory })
    }

    /// The file, as `--live-jwks` takes it.
    pub fn jwks(&self) -> &Path {
        &self.jwks
    }

    /// A token of this user; one that is refused, where there can be no such user.
    pub fn token(&self, user: &str) -> String {
        self.key.token(&Claims::of(user, TOKEN_TTL)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn nobody_else_on_this_machine_can_read_the_key_that_tokens_are_signed_with() {
        let keys = Keys::make().expect("keys");
        let directory = keys.jwks().parent().expect("a directory");
        let mode = std::fs::metadata(directory).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
