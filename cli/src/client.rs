//! Connections to the two services, and calls with a time-out.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use bongsu_proto::v1::broadcast_service_client::BroadcastServiceClient;
use bongsu_proto::v1::delivery_service_client::DeliveryServiceClient;
use bongsu_proto::v1::device_service_client::DeviceServiceClient;
use bongsu_proto::v1::provider_service_client::ProviderServiceClient;
use tonic::codegen::http::Uri;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Response, Status};

use crate::broken::{causes, innermost, tls_problem};
use crate::error::Failure;

/// The largest answer we read, in bytes: a page of broadcasts with the longest bodies.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// A connection may be silent this long before we ask whether the server is still there. Servers of ours allow it.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The URL of a server, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(Uri);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            "give scheme, host and port, such as http://127.0.0.1:7070 or https://push.example:7070";
        let uri: Uri = text.parse().map_err(|error| format!("{error}: {expected}"))?;
        match uri.scheme_str() {
            Some("http" | "https") if matches!(uri.path(), "" | "/") && uri.query().is_none() => {
                Ok(Self(uri))
            }
            Some("http" | "https") => Err(format!("a path is not for a gRPC server: {expected}")),
            Some(other) => Err(format!("`{other}` is not spoken here: {expected}")),
            None => Err(expected.to_owned()),
        }
    }
}

impl Address {
    /// Whether whoever is on the way can read what is sent there.
    pub fn is_exposed(&self) -> bool {
        let host = self.0.host().unwrap_or_default().trim_matches(['[', ']']);
        let on_this_host = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        self.0.scheme_str() != Some("https") && !on_this_host
    }

    fn is_tls(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.to_string().trim_end_matches('/'))
    }
}

/// One connection, which comes back by itself after it broke.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Transport,
    timeout: Duration,
    /// For messages.
    pub url: String,
}

/// A connection that says who we are with each call.
pub type Transport = InterceptedService<Channel, Bearer>;

/// Adds the token, where there is one.
#[derive(Clone, Default)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

// Not the token.
impl std::fmt::Debug for Bearer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Bearer(hidden)" } else { "Bearer(none)" })
    }
}

impl Bearer {
    /// None where it has characters that no header may have.
    pub fn new(token: &str) -> Option<Self> {
        let mut value: MetadataValue<Ascii> = format!("Bearer {token}").parse().ok()?;
        value.set_sensitive(true);
        Some(Self(Some(value)))
    }

    fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

/// What we prove to a server who we are with, and what it has to prove to us.
#[derive(Clone, Default)]
pub struct Proof {
    /// The CAs that servers' certificates may be of; None: those of this host.
    pub ca: Option<Certificate>,
    pub identity: Option<Identity>,
    pub bearer: Bearer,
}

// Not the key.
impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Proof({:?}, client certificate: {})", self.bearer, self.identity.is_some())
    }
}

impl Client {
    /// Connects without proof to a server of this host, which belongs to this run.
    pub async fn connect(address: &Address, timeout: Duration, advice: &str) -> Result<Self, Failure> {
        Self::connect_with(address, &Proof::default(), timeout, advice).await
    }

    /// Connects now, so that a wrong address is told apart from a call that failed.
    pub async fn connect_with(
        address: &Address,
        proof: &Proof,
        timeout: Duration,
        advice: &str,
    ) -> Result<Self, Failure> {
        if proof.bearer.is_some() && address.is_exposed() {
            let message = format!(
                "the token would go to {address} unencrypted, for everybody on the way to read: give an https:// address"
            );
            return Err(Failure::Refused { message });
        }
        let mut endpoint = Endpoint::from(address.0.clone())
            .connect_timeout(timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT);
        if address.is_tls() {
            bongsu_ops::telemetry::install_crypto();
            endpoint = endpoint.tls_config(proof.tls()).map_err(|error| Failure::Refused {
                message: format!("TLS cannot be set up with what was given: {}", innermost(&error)),
            })?;
        }
        let connected = tokio::time::timeout(timeout, endpoint.connect()).await;
        let problem = match connected {
            Ok(Ok(channel)) => {
                let channel = InterceptedService::new(channel, proof.bearer.clone());
                return Ok(Self { channel, timeout, url: address.to_string() });
            }
            Ok(Err(error)) if refused(&error) => format!("nothing listens at {address}"),
            Ok(Err(error)) => match tls_problem(&error) {
                // Neither starting a service nor another address helps.
                Some(problem) => {
                    return Err(Failure::Unreachable {
                        message: format!("no connection to {address}: {problem}"),
                    });
                }
                None => format!("no connection to {address} ({})", innermost(&error)),
            },
            Err(_) => format!("no connection to {address} within {} s", timeout.as_secs_f64()),
        };
        Err(Failure::Unreachable { message: format!("{problem}: {advice}") })
    }

    pub fn broadcasts(&self) -> BroadcastServiceClient<Transport> {
        BroadcastServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    pub fn devices(&self) -> DeviceServiceClient<Transport> {
        DeviceServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    pub fn deliveries(&self) -> DeliveryServiceClient<Transport> {
        DeliveryServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    pub fn providers(&self) -> ProviderServiceClient<Transport> {
        ProviderServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// Waits for the answer to a call, for at most `--timeout`; then the call is cancelled at the server, too. `what`
    /// is what the server is asked to do: "list devices".
    pub async fn call<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(self.timeout, call).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(self.failed(status)),
            Err(_) => Err(self.timed_out(what)),
        }
    }

    pub fn failed(&self, status: Status) -> Failure {
        Failure::rpc(status, &self.url)
    }

    fn timed_out(&self, what: &str) -> Failure {
        Failure::TimedOut { what: what.to_owned(), url: self.url.clone(), after: self.timeout }
    }
}

impl Proof {
    fn tls(&self) -> ClientTlsConfig {
        let config = match &self.ca {
            Some(ca) => ClientTlsConfig::new().ca_certificate(ca.clone()),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        match &self.identity {
            Some(identity) => config.identity(identity.clone()),
            None => config,
        }
    }
}

fn refused(error: &tonic::transport::Error) -> bool {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_before_anything_is_sent() {
        let address: Address = "http://127.0.0.1:7070/".parse().expect("a good address");
        assert_eq!(address.to_string(), "http://127.0.0.1:7070");
        for text in ["127.0.0.1:7070", "ftp://push.example", "http://host/path", "unix:/tmp/x", "http://", ""]
        {
            let error = text.parse::<Address>().expect_err(text);
            assert!(error.contains("http://127.0.0.1:7070"), "{text}: {error}");
        }
    }

    #[tokio::test]
    async fn a_token_never_leaves_this_host_unencrypted() {
        let exposed = |text: &str| text.parse::<Address>().expect(text).is_exposed();
        assert!(exposed("http://push.example:7070") && exposed("http://10.0.0.1:7070"));
        assert!(!exposed("https://push.example:7070") && !exposed("http://[::1]:7070"));
        assert!(!exposed("http://127.0.0.1:7070") && !exposed("http://localhost:7070"));
        let proof = Proof { bearer: Bearer::new("secret-token").expect("ASCII"), ..Proof::default() };
        let address = "http://push.example:7070".parse().expect("a good address");
        let failure =
            Client::connect_with(&address, &proof, Duration::from_secs(1), "").await.expect_err("exposed");
        assert!(failure.message().contains("unencrypted"), "{failure}");
        assert!(!format!("{failure:?} {proof:?}").contains("secret-token"));
    }
}
