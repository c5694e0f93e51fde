//! `ListSenders`: who is alive, and what each holds.

use bongsu_ops::api::to_timestamp;
use bongsu_proto::v1;
use bongsu_store::{SenderInfo, SenderLife};
use tonic::Status;

use super::{Deliveries, status};

impl Deliveries {
    pub(super) async fn senders(&self) -> Result<v1::ListSendersResponse, Status> {
        let senders = self.store.senders().await.map_err(|e| status::from_store(&e, "ListSenders"))?;
        Ok(v1::ListSendersResponse { senders: senders.into_iter().map(convert).collect() })
    }
}

fn convert(sender: SenderInfo) -> v1::Sender {
    let state = match sender.life {
        SenderLife::Alive => v1::SenderState::Alive,
        SenderLife::Silent => v1::SenderState::Silent,
        SenderLife::Dead => v1::SenderState::Dead,
    };
    v1::Sender {
        id: sender.id.to_string(),
        state: state.into(),
        version: sender.version.unwrap_or_default(),
        start_time: Some(to_timestamp(sender.started_at)),
        heartbeat_time: Some(to_timestamp(sender.heartbeat_at)),
        heartbeat_age: sender.silent.try_into().ok(),
        calls_in_flight: sender.in_flight,
        leased_batches: sender.batches,
        leased_deliveries: sender.deliveries,
    }
}
