//! Who may call what: settings, callers and their roles, and the layer that asks before every call.
//!
//! * [`AccessArgs`] are the settings of both services, checked whole at the start
//! * [`Caller`] is who calls, in the extensions of each request
//! * [`AccessLayer`] finds out who that is, by the access file, and refuses what is not theirs
//!
//! Without an access file everybody who can connect is one client that may do everything.

mod args;
mod caller;
mod clients;
mod layer;
mod methods;
mod refusal;
mod usage;

pub use args::{AccessArgs, ENVIRONMENT, ReflectionPolicy};
pub use caller::{Caller, Role};
pub use clients::{MIN_TOKEN_BYTES, token_sha256};
pub use layer::AccessLayer;
pub use methods::{Method, described};
