//! What a field's type is called, and where the page explains it.

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto};

/// As people write it in a proto file, with a link to what is declared by us.
pub fn link(field: &FieldDescriptorProto, message: &DescriptorProto) -> String {
    if let Some(entry) = map_entry(field, message) {
        let of = |name: &str| {
            let member = entry.field.iter().find(|member| member.name() == name).expect("a map has both");
            link(member, message)
        };
        return format!("map of {} to {}", of("key"), of("value"));
    }
    let one = match field.r#type() {
        Type::Message | Type::Enum => declared(field.type_name()),
        scalar => scalar.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    };
    match field.label() {
        Label::Repeated => format!("list of {one}"),
        _ if field.proto3_optional() => format!("{one}, optional"),
        _ => one,
    }
}

fn declared(full: &str) -> String {
    let name = full.rsplit('.').next().unwrap_or(full);
    if full.starts_with(".bongsu.") { format!("[{name}](#{})", name.to_lowercase()) } else { name.to_owned() }
}

fn map_entry<'a>(field: &FieldDescriptorProto, message: &'a DescriptorProto) -> Option<&'a DescriptorProto> {
    let name = field.type_name().rsplit('.').next()?;
    let mut nested = message.nested_type.iter();
    nested.find(|nested| nested.name() == name && nested.options.as_ref().is_some_and(|o| o.map_entry()))
}
