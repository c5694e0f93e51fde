//! Tokens that were checked a while ago: a client sends its token with each acknowledgement, and the signature of a public key
//! costs a hundred times as much to check as a token to look up.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use ring::digest;

use super::User;
use super::keys::Keys;

/// Twice as many are remembered at most: as many as there may be streams, and some.
const GENERATION: usize = 32_768;

/// A token's SHA-256: the token itself is not kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub fn of(token: &str) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
        Self(bytes)
    }
}

/// Whose the tokens are that were let in lately.
pub(super) struct Known {
    generation: usize,
    tokens: Mutex<Tokens>,
}

struct Tokens {
    /// What they were checked with. With other keys they have to be checked again.
    keys: Arc<Keys>,
    recent: HashMap<Fingerprint, User>,
    /// What was recent until there were too many; what is asked for again becomes recent.
    older: HashMap<Fingerprint, User>,
}

impl Known {
    pub fn new(keys: Arc<Keys>) -> Self {
        Self::with_generation(keys, GENERATION)
    }

    fn with_generation(keys: Arc<Keys>, generation: usize) -> Self {
        let tokens = Tokens { keys, recent: HashMap::new(), older: HashMap::new() };
        Self { generation, tokens: Mutex::new(tokens) }
    }

    /// The user of a token that was checked with these keys and has not expired.
    pub fn user(&self, keys: &Arc<Keys>, token: Fingerprint, now: SystemTime) -> Option<User> {
        let mut tokens = self.lock(keys);
        let user = match tokens.recent.get(&token) {
            Some(user) => user.clone(),
            None => {
                let user = tokens.older.remove(&token)?;
                tokens.add(token, user.clone(), self.generation);
                user
            }
        };
        user.expires_at.is_none_or(|end| now < end).then_some(user)
    }

    /// Remembers one that was checked with these keys.
    pub fn remember(&self, keys: &Arc<Keys>, token: Fingerprint, user: User) {
        self.lock(keys).add(token, user, self.generation);
    }

    /// Forgets what was checked with other keys.
    fn lock(&self, keys: &Arc<Keys>) -> MutexGuard<'_, Tokens> {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&tokens.keys, keys) {
            *tokens = Tokens { keys: Arc::clone(keys), recent: HashMap::new(), older: HashMap::new() };
        }
        tokens
    }
}

impl Tokens {
    fn add(&mut self, token: Fingerprint, user: User, generation: usize) {
        if self.recent.len() >= generation {
            self.older = mem::take(&mut self.recent);
        }
        self.recent.insert(token, user);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::keys::parse_keys;
    use super::*;

    fn keys() -> Arc<Keys> {
        let set = br#"{"keys":[{"kty":"oct","k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}]}"#;
        Arc::new(parse_keys(&[set.to_vec()]).expect("good"))
    }

    fn user(id: &str, expires_at: Option<SystemTime>) -> User {
        User { id: id.to_owned(), expires_at }
    }

    #[test]
    fn a_token_is_known_until_it_expires_and_with_the_keys_that_it_was_checked_with() {
        let (keys, now) = (keys(), SystemTime::now());
        let known = Known::new(Arc::clone(&keys));
        let (token, end) = (Fingerprint::of("a.b.c"), now + Duration::from_secs(60));
        assert_eq!(known.user(&keys, token, now), None);
        known.remember(&keys, token, user("anna", Some(end)));
        assert_eq!(known.user(&keys, token, now), Some(user("anna", Some(end))));
        assert_eq!(known.user(&keys, Fingerprint::of("a.b.d"), now), None, "another token");
        assert_eq!(known.user(&keys, token, end), None, "it has expired");
        assert_eq!(known.user(&self::keys(), token, now), None, "the file was read again");
        assert_eq!(known.user(&keys, token, now), None, "nothing comes back with the old keys");
    }

    #[test]
    fn no_more_are_remembered_than_fit_and_those_in_use_stay() {
        let (keys, now) = (keys(), SystemTime::now());
        let known = Known::with_generation(Arc::clone(&keys), 10);
        let busy = Fingerprint::of("busy");
        known.remember(&keys, busy, user("anna", None));
        for number in 0..100 {
            known.remember(&keys, Fingerprint::of(&number.to_string()), user("berta", None));
            assert!(known.user(&keys, busy, now).is_some(), "after {number}");
            let tokens = known.tokens.lock().expect("no panic");
            assert!(tokens.recent.len() + tokens.older.len() <= 20);
        }
        assert_eq!(known.user(&keys, Fingerprint::of("0"), now), None, "long ago");
    }
}
