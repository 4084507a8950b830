//! Checks that `sovia.h` and the library have the same values.

#[path = "../../testing/commands.rs"]
mod commands;

use std::collections::BTreeMap;
use std::fs;
use std::mem::offset_of;
use std::process::Command;

use sovia_sockets::native::{Info, State};

use self::commands::{folder, include, printed_by, skipped};
use crate::{kind, option};

fn own() -> BTreeMap<String, u64> {
    let values = [
        ("SOCK_VIA", kind::SOCK_VIA as u64),
        ("SOL_SOVIA", option::SOL_SOVIA as u64),
        ("SOV_ON_VIA", option::SOV_ON_VIA as u64),
        ("SOV_REASON", option::SOV_REASON as u64),
        ("SOV_INFO", option::SOV_INFO as u64),
        ("SOV_ACCELERATE", option::SOV_ACCELERATE as u64),
        ("SOV_PROTOCOL", option::SOV_PROTOCOL as u64),
        ("SOV_KERNEL", State::Kernel as u64),
        ("SOV_MEETING", State::Meeting as u64),
        ("SOV_VIA", State::Via as u64),
        ("SOV_TCP", State::Tcp as u64),
        ("SOV_LEND_MAX", sovia_sockets::loan::MAX as u64),
        ("sizeof(struct sov_info)", size_of::<Info>() as u64),
        ("offsetof(struct sov_info, state)", offset_of!(Info, state) as u64),
        ("offsetof(struct sov_info, reason)", offset_of!(Info, reason) as u64),
        ("offsetof(struct sov_info, sends)", offset_of!(Info, sends) as u64),
        ("offsetof(struct sov_info, receives)", offset_of!(Info, receives) as u64),
        ("offsetof(struct sov_info, bytes_sent)", offset_of!(Info, bytes_sent) as u64),
        ("offsetof(struct sov_info, messages_sent)", offset_of!(Info, messages_sent) as u64),
        ("offsetof(struct sov_info, bytes_received)", offset_of!(Info, bytes_received) as u64),
    ];
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Compiles a program that includes the header, and returns the values that the program prints.
fn told(compiler: &str, standard: &str, ending: &str) -> BTreeMap<String, u64> {
    let lines: String = own()
        .keys()
        .map(|name| format!("    printf(\"{name}=%lu\\n\", (unsigned long)({name}));\n"))
        .collect();
    let text = format!(
        "#include <sovia.h>\n#include <stdio.h>\n#include <stddef.h>\nint main(void) {{\n{lines}    return 0;\n}}\n"
    );
    let source = folder().join(format!("values.{ending}"));
    fs::write(&source, text).expect("a source can be written");
    let mut command = Command::new(compiler);
    command
        .arg(format!("-std={standard}"))
        .args(["-pedantic", "-Wall", "-Wextra", "-Werror", "-D_POSIX_C_SOURCE=200809L", "-I"])
        .arg(include());
    let value = |line: &str| {
        let (name, value) = line.rsplit_once('=').expect("a name and a value");
        (name.to_owned(), value.parse().expect("a number"))
    };
    let lines = printed_by(&mut command, &source, &format!("values-{ending}"));
    lines.lines().map(value).collect()
}

#[test]
fn values_agree_in_c() {
    assert_eq!(told("cc", "c99", "c"), own());
}

#[test]
fn values_agree_in_cpp() {
    if !skipped("values_agree_in_cpp", "g++") {
        assert_eq!(told("g++", "c++17", "cc"), own());
    }
}
