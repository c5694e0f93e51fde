//! Connections to the two services, and calls with a time-out.

use std::str::FromStr;
use std::time::Duration;

use bongsu_proto::v1::broadcast_service_client::BroadcastServiceClient;
use bongsu_proto::v1::delivery_service_client::DeliveryServiceClient;
use bongsu_proto::v1::device_service_client::DeviceServiceClient;
use bongsu_proto::v1::provider_service_client::ProviderServiceClient;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use crate::error::Failure;
use crate::times::parse_timeout;

/// The largest answer we read, in bytes: a page of broadcasts with the longest bodies.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// A connection may be silent this long before we ask whether the server is still there. Servers of ours allow it.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the services are.
#[derive(clap::Args, Clone, Debug)]
#[group(skip)]
pub struct Servers {
    /// Where intake-svc is
    #[arg(
        long,
        global = true,
        env = "BONGSU_INTAKE",
        value_name = "URL",
        default_value = "http://127.0.0.1:7070",
        help_heading = "Global options"
    )]
    pub intake: Address,

    /// Where sender-svc is
    #[arg(
        long,
        global = true,
        env = "BONGSU_SENDER",
        value_name = "URL",
        default_value = "http://127.0.0.1:7080",
        help_heading = "Global options"
    )]
    pub sender: Address,

    /// How long to wait for a connection, and for the answer to a call; streams may last longer
    #[arg(long, global = true, value_name = "TIME", default_value = "10s", value_parser = parse_timeout,
          help_heading = "Global options")]
    pub timeout: Duration,
}

/// The URL of a server, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(Uri);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "give scheme, host and port, such as http://127.0.0.1:7070";
        let uri: Uri = text.parse().map_err(|error| format!("{error}: {expected}"))?;
        match uri.scheme_str() {
            Some("http") if matches!(uri.path(), "" | "/") && uri.query().is_none() => Ok(Self(uri)),
            Some("http") => Err(format!("a path is not for a gRPC server: {expected}")),
            Some(other) => Err(format!("`{other}` is not spoken here, only plain http: {expected}")),
            None => Err(expected.to_owned()),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.to_string().trim_end_matches('/'))
    }
}

impl Servers {
    pub async fn intake(&self) -> Result<Client, Failure> {
        let advice = "start intake-svc, or give --intake / BONGSU_INTAKE";
        Client::connect(&self.intake, self.timeout, advice).await
    }

    pub async fn sender(&self) -> Result<Client, Failure> {
        let advice = "start sender-svc, or give --sender / BONGSU_SENDER";
        Client::connect(&self.sender, self.timeout, advice).await
    }
}

/// One connection, which comes back by itself after it broke.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
    timeout: Duration,
    /// For messages.
    pub url: String,
}

impl Client {
    /// Connects now, so that a wrong address is told apart from a call that failed.
    pub async fn connect(address: &Address, timeout: Duration, advice: &str) -> Result<Self, Failure> {
        let endpoint = Endpoint::from(address.0.clone())
            .connect_timeout(timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT);
        let connected = tokio::time::timeout(timeout, endpoint.connect()).await;
        let problem = match connected {
            Ok(Ok(channel)) => return Ok(Self { channel, timeout, url: address.to_string() }),
            Ok(Err(error)) if refused(&error) => format!("nothing listens at {address}"),
            Ok(Err(error)) => format!("no connection to {address} ({})", innermost(&error)),
            Err(_) => format!("no connection to {address} within {} s", timeout.as_secs_f64()),
        };
        Err(Failure::Unreachable { message: format!("{problem}: {advice}") })
    }

    pub fn broadcasts(&self) -> BroadcastServiceClient<Channel> {
        BroadcastServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    pub fn devices(&self) -> DeviceServiceClient<Channel> {
        DeviceServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    pub fn deliveries(&self) -> DeliveryServiceClient<Channel> {
        DeliveryServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    pub fn providers(&self) -> ProviderServiceClient<Channel> {
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

fn refused(error: &tonic::transport::Error) -> bool {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
}

fn innermost(error: &tonic::transport::Error) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

fn causes(error: &tonic::transport::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |cause| cause.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_before_anything_is_sent() {
        let address: Address = "http://127.0.0.1:7070/".parse().expect("a good address");
        assert_eq!(address.to_string(), "http://127.0.0.1:7070");
        for text in
            ["127.0.0.1:7070", "https://push.example", "http://host/path", "unix:/tmp/x", "http://", ""]
        {
            let error = text.parse::<Address>().expect_err(text);
            assert!(error.contains("http://127.0.0.1:7070"), "{text}: {error}");
        }
    }

    #[tokio::test]
    async fn an_address_where_nothing_listens_is_reported_with_what_to_do() {
        let port = {
            let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
            free.local_addr().expect("its address").port()
        };
        let intake: Address = format!("http://127.0.0.1:{port}").parse().expect("a good address");
        let servers = Servers { sender: intake.clone(), intake, timeout: Duration::from_secs(5) };
        let failure = servers.intake().await.expect_err("nothing listens there");
        let expected = format!(
            "nothing listens at http://127.0.0.1:{port}: start intake-svc, or give --intake / BONGSU_INTAKE"
        );
        assert_eq!(failure.message(), expected);
        assert!(failure.is_unavailable());
    }
}
