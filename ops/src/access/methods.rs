//! Which methods there are, and which roles each takes.

use anyhow::Context as _;
use prost::Message as _;
use prost_types::FileDescriptorSet;

use super::caller::Role;

/// Who may call a method. A service has a table of all of its own; what is not in it is open to nobody.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// `/bongsu.v1.BroadcastService/GetBroadcast`.
    pub path: &'static str,
    /// Any of these is enough.
    pub roles: &'static [Role],
    /// Whether either side streams, and the call counts as a stream of its client until it ends.
    pub streams: bool,
}

impl Method {
    /// A call with one request and one answer.
    pub const fn new(path: &'static str, roles: &'static [Role]) -> Self {
        Self { path, roles, streams: false }
    }

    /// A call that streams.
    pub const fn stream(path: &'static str, roles: &'static [Role]) -> Self {
        Self { path, roles, streams: true }
    }
}

/// Path of every method that a descriptor set knows of these services (full names), and whether it streams: for a test that
/// a table leaves none out.
///
/// # Errors
///
/// When the descriptor set does not decode.
pub fn described(descriptor_set: &[u8], services: &[&str]) -> anyhow::Result<Vec<(String, bool)>> {
    let set = FileDescriptorSet::decode(descriptor_set).context("the descriptor set does not decode")?;
    let mut methods = Vec::new();
    for file in &set.file {
        for service in &file.service {
            let name = format!("{}.{}", file.package(), service.name());
            if services.contains(&&*name) {
                methods.extend(service.method.iter().map(|method| {
                    let streams = method.client_streaming() || method.server_streaming();
                    (format!("/{name}/{}", method.name()), streams)
                }));
            }
        }
    }
    methods.sort_unstable();
    Ok(methods)
}
