//! What our gRPC servers have in common: bounds, reflection, the listen socket, and an end that comes.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::{TcpListener, TcpSocket};
use tonic::transport::Server;
use tonic_reflection::server::{Builder, v1, v1alpha};

mod serve;
mod tls;

pub use serve::{Peer, serve};
pub use tls::{Tls, TlsFiles};

/// Calls, open streams included, that one connection may have at a time; a client that wants more opens another.
pub const MAX_STREAMS_PER_CONNECTION: u32 = 1_000;
/// How long a connection may be silent before we ask whether the other side is still there.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// How long the other side may take to answer that before the connection is closed.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// What every server of ours offers beside its own.
const STANDARD_SERVICES: [&str; 3] = [
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

/// A server with the bounds every one of ours has. Deadlines belong to the services; TLS and layers to the caller.
pub fn server() -> Server {
    Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .max_concurrent_streams(Some(MAX_STREAMS_PER_CONNECTION))
        .tcp_nodelay(true)
}

/// Both versions of the reflection service, which older and newer clients ask for. Each lists `services` of the given
/// encoded descriptor sets, standard health, and both versions of reflection itself.
///
/// # Errors
///
/// When a descriptor set does not decode.
pub fn reflection(
    descriptor_sets: &[&'static [u8]],
    services: &[&'static str],
) -> anyhow::Result<(
    v1::ServerReflectionServer<impl v1::ServerReflection + use<>>,
    v1alpha::ServerReflectionServer<impl v1alpha::ServerReflection + use<>>,
)> {
    let ours = descriptor_sets.iter().copied();
    let standard = [
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let sets: Vec<&'static [u8]> = ours.chain(standard).collect();
    let builder = || {
        let builder = sets
            .iter()
            .fold(Builder::configure(), |builder, set| builder.register_encoded_file_descriptor_set(set));
        // Named one by one: a descriptor set holds the other service's too.
        services
            .iter()
            .chain(&STANDARD_SERVICES)
            .fold(builder, |builder, name| builder.with_service_name(*name))
    };
    let context = "the gRPC descriptor sets for reflection do not decode";
    Ok((builder().build_v1().context(context)?, builder().build_v1alpha().context(context)?))
}

/// Connections that wait to be accepted, as far as the system allows: all clients of a process that ended come at once, and who
/// finds no place tries again seconds later.
const WAITING_CONNECTIONS: u32 = 4_096;

/// Listens on `addr` (port 0: any free one). `what` names the setting that chose it, as in
/// `--listen (BONGSU_INTAKE_LISTEN)`, for the error.
///
/// # Errors
///
/// When the address cannot be had, with what to do about it.
pub async fn bind(addr: SocketAddr, what: &str) -> anyhow::Result<TcpListener> {
    listen(addr).map_err(|error| {
        let problem = match error.kind() {
            ErrorKind::AddrInUse => "is in use: stop the process that listens there, or",
            ErrorKind::AddrNotAvailable => "is no address of this host:",
            ErrorKind::PermissionDenied => "may not be listened on by this user:",
            _ => "cannot be listened on:",
        };
        anyhow::Error::new(error).context(format!("{addr} {problem} choose another address with {what}"))
    })
}

fn listen(addr: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(WAITING_CONNECTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_in_use_is_reported_with_the_setting_to_change() {
        let taken = bind("127.0.0.1:0".parse().unwrap(), "--listen").await.expect("a free port");
        let addr = taken.local_addr().unwrap();
        let error = bind(addr, "--listen (BONGSU_LISTEN)").await.expect_err("the port is taken");
        let expected = format!(
            "{addr} is in use: stop the process that listens there, or choose another address with --listen (BONGSU_LISTEN)"
        );
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_broken_descriptor_set_is_refused_at_start() {
        let error = reflection(&[b"\xff\xff"], &[]).err().expect("those bytes are no descriptor set");
        assert!(error.to_string().contains("descriptor sets"), "{error}");
    }
}
