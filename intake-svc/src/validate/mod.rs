//! Parsing at the edge: a request becomes domain types here, or a list of what is wrong with it. Behind it nothing is
//! checked again.

mod broadcast;
mod device;
mod fit;
mod text;

pub(crate) use broadcast::{list_states, new_broadcast, new_start};
pub(crate) use device::{
    device_ids, list_filter, provider_token, registration, restore_filter, stored_token, user_id,
};
pub(crate) use fit::fits;
pub(crate) use text::topic;
