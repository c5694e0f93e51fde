//! The call itself, made again where that may help.

use std::time::Duration;

use bongsu_proto::v1;

use crate::client::Client;
use crate::error::Failure;
use crate::output::Output;

/// How often the call is made at most.
const MAX_CALLS: u32 = 5;
/// The wait before the second call; doubled for each further one.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);
/// The longest wait a server may ask for.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);

/// Calls until there is an answer. Every call carries the same key, so one whose answer was lost does no harm.
pub async fn create(
    client: &Client,
    request: &v1::CreateBroadcastRequest,
    output: Output,
) -> Result<v1::CreateBroadcastResponse, Failure> {
    let mut delay = FIRST_RETRY_DELAY;
    for calls in 1.. {
        let call = async { client.broadcasts().create_broadcast(request.clone()).await };
        let failure = match client.call("accept the broadcast", call).await {
            Err(failure) if failure.is_unavailable() && calls < MAX_CALLS => failure,
            answer => return answer,
        };
        let wait = failure.retry_delay().map_or(delay, |asked| asked.clamp(delay, MAX_RETRY_DELAY));
        output.note(&format!(
            "{}; asking again with the same key in {} s (call {} of {MAX_CALLS})",
            failure.message(),
            wait.as_secs_f64(),
            calls + 1
        ));
        tokio::time::sleep(wait).await;
        delay = (delay * 2).min(MAX_RETRY_DELAY);
    }
    unreachable!("the last call returns")
}
