//! Which addresses may be called. The endpoints of web push come from devices, so without this anybody who can register one
//! could have us call what only we can reach.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::dns;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// No address that a name stands for is public.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotPublic;

impl fmt::Display for NotPublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the host has no public address")
    }
}

impl Error for NotPublic {}

impl NotPublic {
    /// Whether this is why a call was not made.
    pub fn caused(error: &(dyn Error + 'static)) -> bool {
        let mut next = Some(error);
        while let Some(error) = next {
            if error.is::<Self>() {
                return true;
            }
            next = error.source();
        }
        false
    }
}

/// Looks names up for the connection that is then made, so that a name cannot stand for one address when it is looked at
/// and for another when it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    Any,
    PublicOnly,
}

type Found = std::vec::IntoIter<SocketAddr>;
type NotFound = Box<dyn Error + Send + Sync>;

impl Lookup {
    async fn find(self, name: &str) -> Result<Found, NotFound> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        let may = |address: &SocketAddr| self == Self::Any || is_public(address.ip());
        let found: Vec<SocketAddr> = found.filter(may).collect();
        if found.is_empty() && self == Self::PublicOnly {
            return Err(NotPublic.into());
        }
        Ok(found.into_iter())
    }
}

/// For our connections.
impl tower::Service<dns::Name> for Lookup {
    type Response = Found;
    type Error = NotFound;
    type Future = BoxFuture<'static, Result<Found, NotFound>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NotFound>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: dns::Name) -> Self::Future {
        let lookup = *self;
        Box::pin(async move { lookup.find(name.as_str()).await })
    }
}

/// For reqwest.
impl Resolve for Lookup {
    fn resolve(&self, name: Name) -> Resolving {
        let lookup = *self;
        Box::pin(async move { Ok(Box::new(lookup.find(name.as_str()).await?) as Addrs) })
    }
}

/// Networks of IPv4 that are not the public internet (IANA's special-purpose registry), with the length of their prefix.
const NOT_PUBLIC_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// Of IPv6 only 2000::/3 is public, and of that not these: protocols' own (Teredo among them), documentation, 6to4,
/// documentation again.
const NOT_PUBLIC_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0x0db8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Where a network without IPv4 finds the hosts that have nothing else (NAT64, RFC 6052).
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);
const GLOBAL_UNICAST: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

pub(crate) fn is_public(address: IpAddr) -> bool {
    let v6_within = |address: Ipv6Addr, (network, prefix): (Ipv6Addr, u32)| {
        (address.to_bits() ^ network.to_bits()) >> (128 - prefix) == 0
    };
    match address {
        IpAddr::V4(address) => NOT_PUBLIC_V4
            .iter()
            .all(|(network, prefix)| (address.to_bits() ^ network.to_bits()) >> (32 - prefix) != 0),
        IpAddr::V6(address) if v6_within(address, NAT64) => {
            is_public(IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() as u32)))
        }
        IpAddr::V6(address) => {
            v6_within(address, GLOBAL_UNICAST)
                && NOT_PUBLIC_V6.iter().all(|&network| !v6_within(address, network))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_called() {
        for public in [
            "1.1.1.1",
            "9.255.255.255",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.1",
            "192.167.1.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450:4001::200a",
            "64:ff9b::808:808",
        ] {
            assert!(is_public(public.parse().expect("an address")), "{public}");
        }
        for not in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.250",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:1.1.1.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(not.parse().expect("an address")), "{not}");
        }
    }

    #[tokio::test]
    async fn a_name_that_stands_for_this_machine_is_not_resolved() {
        let refused = Lookup::PublicOnly.find("localhost").await;
        assert!(refused.is_err_and(|error| NotPublic::caused(&*error)));
        assert!(Lookup::Any.find("localhost").await.is_ok_and(|found| found.len() > 0));
    }
}
