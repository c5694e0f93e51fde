//! Who calls, and what they may do.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

/// What a client may do. It has as many as it is given, and nothing follows from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Create broadcasts; see and control those, and only those.
    Submit,
    /// Register devices and all else of DeviceService.
    Devices,
    /// See and control everybody's broadcasts; providers and dead letters.
    Operate,
    /// See everybody's broadcasts, and what became of them.
    Read,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Submit => "submit",
            Self::Devices => "devices",
            Self::Operate => "operate",
            Self::Read => "read",
        })
    }
}

/// Who calls: in the extensions of every request that [`super::AccessLayer`] lets through. By default nobody, who has no
/// role and no broadcasts.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    client_id: Arc<str>,
    roles: Arc<[Role]>,
}

impl Caller {
    pub(super) fn new(client_id: &str, roles: &[Role]) -> Self {
        Self { client_id: client_id.into(), roles: roles.into() }
    }

    /// The one caller there is where there is no access file.
    pub(super) fn everybody(client_id: &str) -> Self {
        Self::new(client_id, &[Role::Submit, Role::Devices, Role::Operate, Role::Read])
    }

    /// Who made this request; nobody, where no [`super::AccessLayer`] saw it.
    pub fn of<T>(request: &tonic::Request<T>) -> Self {
        request.extensions().get::<Self>().cloned().unwrap_or_default()
    }

    /// Whose broadcasts and idempotency keys they are that this caller creates.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    pub fn has_any(&self, roles: &[Role]) -> bool {
        roles.iter().any(|role| self.roles.contains(role))
    }

    /// The client whose broadcasts alone this caller may see; None: everybody's.
    pub fn sees_only(&self) -> Option<&str> {
        (!self.has_any(&[Role::Operate, Role::Read])).then_some(self.client_id())
    }

    /// The client whose broadcasts alone this caller may control; None: everybody's.
    pub fn controls_only(&self) -> Option<&str> {
        (!self.has_any(&[Role::Operate])).then_some(self.client_id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_only_submits_or_reads_reaches_no_further() {
        let of = |roles: &[Role]| Caller::new("a", roles);
        assert_eq!(of(&[Role::Submit]).sees_only(), Some("a"));
        assert_eq!(of(&[Role::Submit, Role::Read]).sees_only(), None);
        assert_eq!(of(&[Role::Submit, Role::Read]).controls_only(), Some("a"));
        assert_eq!(of(&[Role::Operate]).sees_only(), None);
        assert_eq!(Caller::everybody("default").controls_only(), None);
    }

    #[test]
    fn a_request_that_no_layer_saw_is_nobodys() {
        let caller = Caller::of(&tonic::Request::new(()));
        assert_eq!((caller.sees_only(), caller.controls_only()), (Some(""), Some("")));
        assert!(!caller.has_any(&[Role::Submit, Role::Devices, Role::Operate, Role::Read]));
    }
}
