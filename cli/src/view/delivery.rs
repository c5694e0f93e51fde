//! A delivery, and a dead letter.

use bongsu_proto::v1;
use serde::Serialize;

use super::{none_if_empty, time};
use crate::table::{Align, shortened};
use crate::times::to_the_second;
use crate::words::word;

/// How much of a provider's words a list shows, in columns.
const DETAIL_COLUMNS: usize = 60;

#[derive(Debug, Serialize)]
pub struct DeliveryView<'a> {
    broadcast_id: String,
    device_id: String,
    user_id: &'a str,
    provider: &'a str,
    state: String,
    attempts: i32,
    next_attempt_time: Option<String>,
    last_code: Option<&'a str>,
    dead_reason: Option<String>,
    settle_time: Option<String>,
}

impl<'a> From<&'a v1::Delivery> for DeliveryView<'a> {
    fn from(delivery: &'a v1::Delivery) -> Self {
        let reason = word::<v1::DeadReason>(delivery.dead_reason);
        Self {
            broadcast_id: delivery.broadcast_id.to_string(),
            device_id: delivery.device_id.to_string(),
            user_id: &delivery.user_id,
            provider: &delivery.provider,
            state: word::<v1::DeliveryState>(delivery.state),
            attempts: delivery.attempts,
            next_attempt_time: time(delivery.next_attempt_time.as_ref()),
            last_code: none_if_empty(&delivery.last_code),
            dead_reason: Some(reason).filter(|reason| !reason.is_empty()),
            settle_time: time(delivery.settle_time.as_ref()),
        }
    }
}

pub fn delivery_columns() -> [(&'static str, Align); 8] {
    [
        ("DEVICE", Align::Right),
        ("USER", Align::Left),
        ("PROVIDER", Align::Left),
        ("STATE", Align::Left),
        ("ATTEMPTS", Align::Right),
        ("LAST CODE", Align::Left),
        ("REASON", Align::Left),
        ("SETTLED OR NEXT", Align::Left),
    ]
}

pub fn delivery_row(delivery: &v1::Delivery) -> Vec<String> {
    let settled = to_the_second(delivery.settle_time.as_ref());
    let next = to_the_second(delivery.next_attempt_time.as_ref());
    vec![
        delivery.device_id.to_string(),
        delivery.user_id.clone(),
        delivery.provider.clone(),
        word::<v1::DeliveryState>(delivery.state),
        delivery.attempts.to_string(),
        delivery.last_code.clone(),
        word::<v1::DeadReason>(delivery.dead_reason),
        if settled.is_empty() { next } else { settled },
    ]
}

#[derive(Debug, Serialize)]
pub struct DeadLetterView<'a> {
    broadcast_id: String,
    device_id: String,
    provider: &'a str,
    user_id: &'a str,
    reason: String,
    code: &'a str,
    detail: &'a str,
    attempts: i32,
    create_time: Option<String>,
    replayed_by: Option<String>,
}

impl<'a> From<&'a v1::DeadLetter> for DeadLetterView<'a> {
    fn from(letter: &'a v1::DeadLetter) -> Self {
        Self {
            broadcast_id: letter.broadcast_id.to_string(),
            device_id: letter.device_id.to_string(),
            provider: &letter.provider,
            user_id: &letter.user_id,
            reason: word::<v1::DeadReason>(letter.reason),
            code: &letter.code,
            detail: &letter.detail,
            attempts: letter.attempts,
            create_time: time(letter.create_time.as_ref()),
            replayed_by: Some(letter.replayed_by).filter(|id| *id != 0).map(|id| id.to_string()),
        }
    }
}

pub fn dead_letter_columns() -> [(&'static str, Align); 10] {
    [
        ("BROADCAST", Align::Left),
        ("DEVICE", Align::Right),
        ("USER", Align::Left),
        ("PROVIDER", Align::Left),
        ("REASON", Align::Left),
        ("CODE", Align::Left),
        ("ATTEMPTS", Align::Right),
        ("AT", Align::Left),
        ("REPLAYED BY", Align::Left),
        ("DETAIL", Align::Left),
    ]
}

pub fn dead_letter_row(letter: &v1::DeadLetter) -> Vec<String> {
    vec![
        letter.broadcast_id.to_string(),
        letter.device_id.to_string(),
        letter.user_id.clone(),
        letter.provider.clone(),
        word::<v1::DeadReason>(letter.reason),
        letter.code.clone(),
        letter.attempts.to_string(),
        to_the_second(letter.create_time.as_ref()),
        if letter.replayed_by == 0 { String::new() } else { letter.replayed_by.to_string() },
        shortened(&letter.detail, DETAIL_COLUMNS),
    ]
}
