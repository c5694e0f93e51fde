//! Compiles `bongsu/v1/*.proto` with protox, so that no protoc is needed, and keeps the descriptor set for reflection.

use prost::Message;

const PROTOS: [&str; 7] = [
    "bongsu/v1/broadcast.proto",
    "bongsu/v1/device.proto",
    "bongsu/v1/delivery.proto",
    "bongsu/v1/provider.proto",
    "bongsu/v1/history.proto",
    "bongsu/v1/sender.proto",
    "bongsu/v1/live.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for file in PROTOS {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptors = protox::compile(PROTOS, ["."])?;
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?).join("bongsu.v1.bin");
    std::fs::write(out, descriptors.encode_to_vec())?;
    // Ordered maps, so that the same message always encodes to the same bytes.
    tonic_prost_build::configure().btree_map(".").compile_fds(descriptors)?;
    Ok(())
}
