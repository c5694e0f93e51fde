//! The comments above what a proto file declares.

use std::collections::HashMap;

use prost_types::FileDescriptorProto;

/// Numbers of fields in descriptor.proto, of which the paths of comments are made.
pub const MESSAGE: i32 = 4;
pub const ENUM: i32 = 5;
pub const SERVICE: i32 = 6;
/// A field of a message, a value of an enum, a method of a service.
pub const MEMBER: i32 = 2;
pub const ONEOF: i32 = 8;

/// Those of one file, by path.
pub struct Comments<'a>(HashMap<&'a [i32], &'a str>);

impl<'a> Comments<'a> {
    pub fn of(file: &'a FileDescriptorProto) -> Self {
        let info = file.source_code_info.as_ref().expect("build.rs keeps the comments");
        let locations = info.location.iter();
        Self(locations.map(|l| (l.path.as_slice(), l.leading_comments())).collect())
    }

    /// The lines at a path, without the space after the slashes.
    pub fn at(&self, path: &[i32]) -> Vec<&'a str> {
        let text = self.0.get(path).copied().unwrap_or_default().trim_end();
        text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect()
    }
}
