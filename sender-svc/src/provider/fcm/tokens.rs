//! The access token of now: however many calls need one, one request is made for it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _, Shared};
use hyper::header::HeaderValue;
use tokio::time::Instant;

use super::super::credentials::Credentials;
use super::account::ServiceAccount;
use super::token_endpoint::{Granted, NotGranted, TokenEndpoint};

/// No token is believed to live longer. Google's live for an hour.
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 3_600);
/// A new token is fetched so long before the present one ends, or in the last fifth of its life where that is later.
const AHEAD: Duration = Duration::from_secs(300);
/// A token is not used in the last part of its life, so that it is still good when the call arrives.
const MARGIN: Duration = Duration::from_secs(10);
/// After a request that failed, or whose token was refused, the next one comes so much later.
const PAUSE: Duration = Duration::from_secs(1);

/// An access token, and whose it is.
pub(super) struct Token {
    pub account: Arc<ServiceAccount>,
    pub bearer: HeaderValue,
    refresh_at: Instant,
    ends_at: Instant,
}

// Nothing of the token.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an access token of {:?}", self.account)
    }
}

type Fetched = Result<Arc<Token>, NotGranted>;
type Fetching = Shared<BoxFuture<'static, Fetched>>;

/// Access tokens for the service account that the credentials hold.
#[derive(Debug)]
pub(super) struct Tokens {
    credentials: Arc<Credentials<ServiceAccount>>,
    pub endpoint: TokenEndpoint,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    token: Option<Arc<Token>>,
    /// What is under way, and for whom.
    fetching: Option<(Arc<ServiceAccount>, Fetching)>,
    /// No request before.
    not_before: Option<Instant>,
    /// What was logged last: the same is not logged twice.
    trouble: Option<NotGranted>,
}

impl Tokens {
    pub fn new(credentials: Arc<Credentials<ServiceAccount>>, endpoint: TokenEndpoint) -> Arc<Self> {
        Arc::new(Self { credentials, endpoint, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token to use now. Waits only where there is none that is good, and no longer than until `deadline`.
    pub async fn get(self: &Arc<Self>, deadline: Instant) -> Fetched {
        let fetching = {
            let (account, now) = (self.credentials.get(), Instant::now());
            let mut state = self.state();
            let good = state
                .token
                .as_ref()
                .filter(|token| Arc::ptr_eq(&token.account, &account) && now < token.ends_at)
                .cloned();
            match good {
                Some(token) if now < token.refresh_at => return Ok(token),
                Some(token) => {
                    // It goes on by itself.
                    drop(self.fetch(&mut state, account));
                    return Ok(token);
                }
                None => self.fetch(&mut state, account),
            }
        };
        let late = || Err(NotGranted::unreachable("no access token came in time"));
        tokio::time::timeout_at(deadline, fetching).await.unwrap_or_else(|_| late())
    }

    /// FCM does not take this token: nobody uses it any more.
    pub fn refused(&self, token: &Arc<Token>) {
        let mut state = self.state();
        if state.token.as_ref().is_some_and(|now| Arc::ptr_eq(now, token)) {
            state.token = None;
        }
    }

    /// The request under way for this account, or a new one: a task of its own, since whoever waits may give up.
    fn fetch(self: &Arc<Self>, state: &mut State, account: Arc<ServiceAccount>) -> Fetching {
        if let Some((whose, fetching)) = &state.fetching
            && Arc::ptr_eq(whose, &account)
            && fetching.peek().is_none()
        {
            return fetching.clone();
        }
        let not_before = state.not_before;
        let (tokens, whose) = (Arc::clone(self), Arc::clone(&account));
        let task = tokio::spawn(async move {
            if let Some(not_before) = not_before {
                tokio::time::sleep_until(not_before).await;
            }
            let granted = tokens.endpoint.ask(&whose).await;
            tokens.take(whose, granted)
        });
        let ended = |ended: Result<Fetched, _>| {
            ended.unwrap_or_else(|_| Err(NotGranted::unreachable("asking for an access token ended early")))
        };
        let fetching = task.map(ended).boxed().shared();
        state.fetching = Some((account, fetching.clone()));
        fetching
    }

    /// Takes in the end of a request.
    fn take(&self, account: Arc<ServiceAccount>, granted: Result<Granted, NotGranted>) -> Fetched {
        let mut state = self.state();
        // Not where the credentials have changed meanwhile.
        let wanted = state.fetching.take_if(|(whose, _)| Arc::ptr_eq(whose, &account)).is_some();
        // After a success, too: what makes the next one needed within it is that the token was refused.
        state.not_before = Some(Instant::now() + PAUSE);
        match granted {
            Ok(granted) => {
                if state.trouble.take().is_some() {
                    tracing::info!("there are access tokens again for {account:?}");
                }
                let token = Arc::new(Token::new(account, granted));
                if wanted {
                    state.token = Some(Arc::clone(&token));
                }
                Ok(token)
            }
            Err(not_granted) => {
                if state.trouble.as_ref() != Some(&not_granted) {
                    tracing::warn!("no access token for {account:?}: {not_granted}");
                    state.trouble = Some(not_granted.clone());
                }
                Err(not_granted)
            }
        }
    }
}

impl Token {
    fn new(account: Arc<ServiceAccount>, granted: Granted) -> Self {
        let Granted { bearer, lifetime, asked_at } = granted;
        let lifetime = lifetime.min(LONGEST_LIFE);
        Self {
            account,
            bearer,
            refresh_at: asked_at + lifetime - AHEAD.min(lifetime / 5),
            ends_at: asked_at + lifetime - MARGIN.min(lifetime / 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use tokio::net::TcpListener;

    use super::super::super::credentials::Source;
    use super::super::super::http::Trust;
    use super::super::account::tests::key_file;
    use super::*;

    /// Tokens from an endpoint that hangs up on everybody, and how many it has heard.
    async fn hopeless() -> (Arc<Tokens>, Arc<AtomicUsize>) {
        bongsu_ops::telemetry::install_crypto();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let count = Arc::<AtomicUsize>::default();
        let counting = Arc::clone(&count);
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                counting.fetch_add(1, Ordering::Relaxed);
            }
        });
        let path = std::env::temp_dir().join(format!("bongsu-tokens-{}.json", address.port()));
        std::fs::write(&path, key_file(&format!("https://{address}/token")).to_string()).expect("written");
        let credentials = Credentials::load(Source::File(path.clone()), ServiceAccount::parse);
        std::fs::remove_file(path).expect("removed");
        let endpoint = TokenEndpoint::new(None, &Trust::new(None).expect("certificates"));
        (Tokens::new(credentials.expect("a key file"), endpoint.expect("a client")), count)
    }

    #[tokio::test]
    async fn however_many_wait_one_request_is_made_and_the_next_one_only_after_a_pause() {
        let (tokens, requests) = hopeless().await;
        for round in 1..=2 {
            let began = Instant::now();
            let deadline = began + Duration::from_secs(60);
            for fetched in join_all((0..50).map(|_| tokens.get(deadline))).await {
                let not_granted = fetched.expect_err("nobody gives any");
                assert!(!not_granted.refused, "{not_granted}");
            }
            assert_eq!(requests.load(Ordering::Relaxed), round);
            assert!(round == 1 || began.elapsed() > PAUSE * 9 / 10, "{:?}", began.elapsed());
        }
    }

    #[tokio::test]
    async fn whoever_cannot_wait_goes_without_and_takes_the_request_from_nobody() {
        let (tokens, requests) = hopeless().await;
        let now = Instant::now();
        let hasty = tokens.get(now).await.expect_err("no time");
        assert!(hasty.detail.contains("in time"), "{hasty}");
        let patient = tokens.get(now + Duration::from_secs(60)).await.expect_err("nobody gives any");
        assert!(patient.detail.contains("does not answer"), "{patient}");
        assert_eq!(requests.load(Ordering::Relaxed), 1);
    }
}
