//! The users of the live demo: each has a device, and some have a client that is connected.

use crate::live::crowd::{Crowd, Habits};
use crate::live::network::Network;
use crate::stack::Stack;

use super::super::Args;
use super::super::audience::user;

/// Clients that are connecting at a time.
const CONNECTING: usize = 128;

/// Who is connected, spread over all users.
#[derive(Clone, Copy, Debug)]
pub struct Connected {
    users: u32,
    connected: u32,
    silent: u32,
}

impl Connected {
    pub fn new(args: &Args) -> Self {
        Self { users: args.devices, connected: args.live.connected, silent: args.live.silent }
    }

    /// Their names, in the order in which their clients join.
    pub fn names(self) -> impl Iterator<Item = String> {
        (0..self.connected).map(move |nth| user(self.user(nth)))
    }

    pub fn acknowledging(self) -> usize {
        (self.connected - self.silent) as usize
    }

    fn user(self, nth: u32) -> u32 {
        let user = u64::from(nth) * u64::from(self.users) / u64::from(self.connected.max(1));
        u32::try_from(user).unwrap_or(u32::MAX)
    }

    /// Spread over the connected ones.
    fn is_silent(self, nth: u32) -> bool {
        let until = |n: u32| u64::from(n) * u64::from(self.silent) / u64::from(self.connected.max(1));
        until(nth) < until(nth + 1)
    }

    /// Connects them all, some at a time.
    pub async fn connect(self, stack: &Stack, network: Network) -> anyhow::Result<Crowd> {
        let mut crowd = Crowd::new(network);
        for (nth, name) in (0..).zip(self.names()) {
            let joined = nth as usize;
            crowd
                .until("connecting", super::play::PATIENCE, |crowd| crowd.connected() + CONNECTING > joined)
                .await?;
            let acknowledges_after = (!self.is_silent(nth)).then_some(std::time::Duration::ZERO);
            crowd.join(stack.live_token(&name), Habits { acknowledges_after, ..Habits::default() });
        }
        let all = self.connected as usize;
        crowd.until("connected", super::play::PATIENCE, |crowd| crowd.connected() == all).await?;
        Ok(crowd)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn as_many_are_connected_and_silent_as_asked_for_and_nobody_twice() {
        for (users, connected, silent) in [(10_000, 2_000, 100), (7, 7, 7), (7, 3, 0), (5, 1, 1), (9, 4, 3)] {
            let all = Connected { users, connected, silent };
            let names: HashSet<_> = all.names().collect();
            assert_eq!(names.len(), connected as usize);
            assert!((0..connected).all(|nth| all.user(nth) < users));
            let count = (0..connected).filter(|nth| all.is_silent(*nth)).count();
            assert_eq!((count, all.acknowledging()), (silent as usize, (connected - silent) as usize));
        }
    }
}
