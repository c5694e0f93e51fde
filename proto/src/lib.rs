//! The wire contract of Bongsu: messages, clients and servers of `bongsu.v1`, and the file descriptor set that the
//! services give to gRPC reflection. No logic lives here; the `.proto` comments are the API reference.

/// Package `bongsu.v1`.
#[allow(clippy::all, clippy::semicolon_if_nothing_returned, rustdoc::all)]
pub mod v1 {
    tonic::include_proto!("bongsu.v1");
}

/// All files of `bongsu.v1` with what they import, encoded as a `google.protobuf.FileDescriptorSet`.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bongsu.v1.bin"));
