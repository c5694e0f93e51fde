//! The page: services with their calls, then the messages and enums that several of them have in common.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use prost_types::{
    DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto,
    ServiceDescriptorProto,
};

use crate::comments::{Comments, ENUM, MEMBER, MESSAGE, ONEOF, SERVICE};
use crate::{markdown, types};

const PREFACE: &str = "\
# API

All calls of the services, made from the comments in [proto/bongsu/v1](../proto/bongsu/v1). Not to be edited: change a comment,
then run `BONGSU_UPDATE_DOCS=1 cargo test -p bongsu-proto --test reference`.

The package is `bongsu.v1`. In JSON a 64-bit number is a string, `Timestamp` is RFC 3339 (`\"2026-11-30T12:00:00Z\"`), `Duration` is
seconds (`\"3600s\"`), an enum is its name, and names of fields may be written as here or in lowerCamelCase. Every status carries a
`google.rpc.ErrorInfo` whose `reason` is what a program should look at. Lines to copy are in [grpcurl.md](grpcurl.md), programs in
[examples/](../examples).
";

/// One file of ours, with what it takes to write it down.
struct Source<'a> {
    file: &'a FileDescriptorProto,
    comments: Comments<'a>,
}

fn sources(set: &FileDescriptorSet) -> Vec<Source<'_>> {
    let ours = set.file.iter().filter(|file| file.package() == "bongsu.v1");
    ours.map(|file| Source { file, comments: Comments::of(file) }).collect()
}

pub fn of(set: &FileDescriptorSet) -> String {
    let sources = sources(set);
    let names = names(&sources);
    let mut out = PREFACE.to_owned();
    contents(&sources, &mut out);
    for source in &sources {
        for (i, service) in (0..).zip(&source.file.service) {
            self::service(&sources, source, i, service, &names, &mut out);
        }
    }
    out.push_str("\n## Messages\n");
    for source in &sources {
        for (i, message) in (0..).zip(&source.file.message_type) {
            if !belongs_to_a_call(&sources, message.name()) {
                self::message("###", source, i, message, &names, &mut out);
            }
        }
    }
    out.push_str("\n## Enums\n");
    for source in &sources {
        for (i, declared) in (0..).zip(&source.file.enum_type) {
            self::enumeration(source, i, declared, &names, &mut out);
        }
    }
    out
}

/// Calls and services that say nothing of themselves; one whose name says all (GetDevice) still has to.
pub fn without_comment(set: &FileDescriptorSet) -> Vec<String> {
    let mut bare = vec![];
    for source in sources(set) {
        for (s, service) in (0..).zip(&source.file.service) {
            if source.comments.at(&[SERVICE, s]).is_empty() {
                bare.push(service.name().to_owned());
            }
            let methods = (0..).zip(&service.method);
            let silent = methods.filter(|(m, _)| source.comments.at(&[SERVICE, s, MEMBER, *m]).is_empty());
            bare.extend(silent.map(|(_, method)| format!("{}.{}", service.name(), method.name())));
        }
    }
    bare
}

/// What comments may name: of more than one word, so that no sentence that begins with one is taken for a name.
fn names(sources: &[Source]) -> BTreeSet<String> {
    let files = || sources.iter().map(|source| source.file);
    let messages = files().flat_map(|f| &f.message_type).map(|m| m.name());
    let enums = files().flat_map(|f| &f.enum_type).map(|e| e.name());
    let services = files().flat_map(|f| &f.service).map(|s| s.name());
    let calls = files().flat_map(|f| &f.service).flat_map(|s| &s.method).map(|m| m.name());
    let all = messages.chain(enums).chain(services).chain(calls);
    all.filter(|name| name.matches(char::is_uppercase).count() > 1).map(str::to_owned).collect()
}

fn contents(sources: &[Source], out: &mut String) {
    out.push('\n');
    for service in sources.iter().flat_map(|source| &source.file.service) {
        let link = |name: &str| format!("[{name}](#{})", name.to_lowercase());
        let calls: Vec<_> = service.method.iter().map(|method| link(method.name())).collect();
        writeln!(out, "- {}: {}", link(service.name()), calls.join(", ")).expect("a string takes it");
    }
    out.push_str("- [Messages](#messages), [Enums](#enums)\n");
}

fn service(
    sources: &[Source],
    source: &Source,
    index: i32,
    service: &ServiceDescriptorProto,
    names: &BTreeSet<String>,
    out: &mut String,
) {
    let comment = source.comments.at(&[SERVICE, index]);
    write!(out, "\n## {}\n\n{}", service.name(), markdown::paragraphs(&comment, names))
        .expect("a string takes it");
    for (m, method) in (0..).zip(&service.method) {
        let comment = source.comments.at(&[SERVICE, index, MEMBER, m]);
        call(service, method, &markdown::paragraphs(&comment, names), out);
        for full in [method.input_type(), method.output_type()] {
            let name = full.rsplit('.').next().unwrap_or(full);
            let (of, i, found) = find(sources, name);
            self::message("####", of, i, found, names, out);
        }
    }
}

fn call(service: &ServiceDescriptorProto, method: &MethodDescriptorProto, comment: &str, out: &mut String) {
    let side = |streams: bool, full: &str| {
        let name = full.rsplit('.').next().unwrap_or(full);
        let link = format!("[{name}](#{})", name.to_lowercase());
        if streams { format!("a stream of {link}") } else { link }
    };
    writeln!(
        out,
        "\n### {}\n\n{comment}\n`bongsu.v1.{}/{}`: {} → {}. Errors: [{}](#{}).",
        method.name(),
        service.name(),
        method.name(),
        side(method.client_streaming(), method.input_type()),
        side(method.server_streaming(), method.output_type()),
        service.name(),
        service.name().to_lowercase(),
    )
    .expect("a string takes it");
}

fn find<'a>(sources: &'a [Source<'a>], name: &str) -> (&'a Source<'a>, i32, &'a DescriptorProto) {
    let all = sources
        .iter()
        .flat_map(|source| (0..).zip(&source.file.message_type).map(move |(i, m)| (source, i, m)));
    all.into_iter()
        .find(|(_, _, message)| message.name() == name)
        .expect("buf makes calls have messages of their own")
}

fn belongs_to_a_call(sources: &[Source], name: &str) -> bool {
    let mut calls =
        sources.iter().flat_map(|source| &source.file.service).flat_map(|service| &service.method);
    let is = |full: &str| full.rsplit('.').next() == Some(name);
    calls.any(|method| is(method.input_type()) || is(method.output_type()))
}

fn message(
    heading: &str,
    source: &Source,
    index: i32,
    message: &DescriptorProto,
    names: &BTreeSet<String>,
    out: &mut String,
) {
    let comment = markdown::paragraphs(&source.comments.at(&[MESSAGE, index]), names);
    writeln!(out, "\n{heading} {}\n", message.name()).expect("a string takes it");
    if !comment.is_empty() {
        writeln!(out, "{comment}").expect("a string takes it");
    }
    if message.field.is_empty() {
        out.push_str("No fields.\n");
        return;
    }
    out.push_str("| field | type | meaning |\n| --- | --- | --- |\n");
    for (f, field) in (0..).zip(&message.field) {
        let own = markdown::cell(&source.comments.at(&[MESSAGE, index, MEMBER, f]), names);
        let group = match field.oneof_index {
            Some(oneof) if !field.proto3_optional() => choice(source, index, message, oneof, names),
            _ => String::new(),
        };
        let meaning = [group, own].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        writeln!(out, "| `{}` | {} | {meaning} |", field.name(), types::link(field, message))
            .expect("a string takes it");
    }
}

/// What a field that shares a oneof has in common with the others of it.
fn choice(
    source: &Source,
    message_index: i32,
    message: &DescriptorProto,
    oneof: i32,
    names: &BTreeSet<String>,
) -> String {
    let members =
        message.field.iter().filter(|field| field.oneof_index == Some(oneof) && !field.proto3_optional());
    let members: Vec<_> = members.map(|field| format!("`{}`", field.name())).collect();
    let comment = markdown::cell(&source.comments.at(&[MESSAGE, message_index, ONEOF, oneof]), names);
    let one_of = format!("*One of {}.*", members.join(", "));
    if comment.is_empty() { one_of } else { format!("{one_of} {comment}") }
}

fn enumeration(
    source: &Source,
    index: i32,
    declared: &EnumDescriptorProto,
    names: &BTreeSet<String>,
    out: &mut String,
) {
    let comment = markdown::paragraphs(&source.comments.at(&[ENUM, index]), names);
    writeln!(out, "\n### {}\n", declared.name()).expect("a string takes it");
    if !comment.is_empty() {
        writeln!(out, "{comment}").expect("a string takes it");
    }
    out.push_str("| value | number | meaning |\n| --- | --- | --- |\n");
    for (v, value) in (0..).zip(&declared.value) {
        let meaning = markdown::cell(&source.comments.at(&[ENUM, index, MEMBER, v]), names);
        writeln!(out, "| `{}` | {} | {meaning} |", value.name(), value.number()).expect("a string takes it");
    }
}
