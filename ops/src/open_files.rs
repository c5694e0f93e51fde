//! How many files this process may have open: each connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process, and those that it starts from now on, have `wanted` open files, or as many as the system allows it. Returns
/// how many it may have.
///
/// A process usually begins with 1,024, since select(2) cannot count further, and may raise that to its hard limit.
pub fn raise(wanted: u64) -> u64 {
    let now = getrlimit(Resource::Nofile);
    // No number means no limit.
    let may = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    if may(now.current) >= wanted {
        return may(now.current);
    }
    // Only a privileged process may have more than its hard limit.
    for limit in [wanted, may(now.maximum)] {
        let maximum = now.maximum.map(|maximum| maximum.max(limit));
        if setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum }).is_ok() {
            return limit;
        }
    }
    may(now.current)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_allows_is_had_and_never_less_than_before() {
        assert!(raise(10) >= 10);
        let before = getrlimit(Resource::Nofile);
        let all = raise(1 << 40);
        assert!(all < 1 << 40, "no system has so many");
        assert!(all >= before.maximum.expect("a limit"));
        assert_eq!(raise(10), all);
    }
}
