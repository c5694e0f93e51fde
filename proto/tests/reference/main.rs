//! docs/api.md is what the comments of the proto files say, for people who do not read proto files.

mod comments;
mod markdown;
mod page;
mod types;

use std::path::Path;

use prost::Message as _;

/// Set, it makes the test write the page instead of comparing it.
const UPDATE: &str = "BONGSU_UPDATE_DOCS";

#[test]
fn the_api_reference_says_what_the_proto_files_say() {
    let set = prost_types::FileDescriptorSet::decode(bongsu_proto::FILE_DESCRIPTOR_SET).expect("our own");
    let made = page::of(&set);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/api.md");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, made).expect("docs/ can be written");
        return;
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let stale = made.lines().zip(there.lines().chain(std::iter::repeat(""))).find(|(new, old)| new != old);
    assert!(
        made == there,
        "docs/api.md is stale, first at {stale:?}: renew it with `{UPDATE}=1 cargo test -p bongsu-proto --test reference`"
    );
}

#[test]
fn nothing_of_the_contract_goes_without_a_comment() {
    let set = prost_types::FileDescriptorSet::decode(bongsu_proto::FILE_DESCRIPTOR_SET).expect("our own");
    let bare = page::without_comment(&set);
    assert!(bare.is_empty(), "these RPCs and services need a comment, which is their reference: {bare:?}");
}
