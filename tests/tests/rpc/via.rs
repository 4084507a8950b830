//! The transport "via", with itself and with programs that use libtirpc.

use crate::rpc::programs::{End, Ends, Programs, library_folder, programs_for_via, workspace};
use crate::rpc::{serve_several, told};
use sovia_tests::{Launch, Stack, installed};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

const ENDS: [Ends; 7] = [
    Ends { server: End::VIA, client: End::VIA },
    Ends { server: End::VIA, client: End::KERNEL },
    Ends { server: End::KERNEL, client: End::VIA },
    Ends { server: End::VIA, client: End::SOVIA },
    Ends { server: End::SOVIA, client: End::VIA },
    Ends { server: End::BOTH, client: End::VIA },
    Ends { server: End::VIA, client: End::BOTH },
];

/// Runs every case with each transport of the server and the client.
fn is_told_the_same(cases: &[&str]) {
    let Some(programs) = programs_for_via() else { return };
    let kernel = told(programs, Ends::KERNEL, cases);
    assert!(kernel[0].contains("2000 of 2000 sums are right"), "{kernel:?}");
    for ends in ENDS {
        assert_eq!(told(programs, ends, cases), kernel, "{ends}");
    }
}

/// Returns the output of a "via" client about its connection.
fn place(programs: &Programs, server: End) -> String {
    told(programs, Ends { server, client: End::VIA }, &["where"]).concat()
}

#[test]
fn calls_go_over_a_vi_where_both_ends_speak_sovia() {
    let Some(programs) = programs_for_via() else { return };
    for server in [End::VIA, End::SOVIA, End::BOTH] {
        assert!(place(programs, server).contains("on a VI: yes"), "{server:?}");
    }
    assert!(place(programs, End::KERNEL).contains("on a VI: no"));
}

#[test]
fn records_of_every_size_come_back() {
    is_told_the_same(&["large"]);
}

#[test]
fn handles_do_what_libtirpcs_do() {
    is_told_the_same(&["handle"]);
}

#[test]
fn errors_equal_those_of_libtirpc() {
    is_told_the_same(&["errors"]);
}

#[test]
fn a_call_that_times_out_leaves_the_next_one_right() {
    is_told_the_same(&["late"]);
}

#[test]
fn death_of_the_server_is_an_error() {
    is_told_the_same(&["death"]);
}

#[test]
fn hostile_clients_harm_no_other() {
    is_told_the_same(&[
        "leaves",
        "calls",
        "endless",
        "calls",
        "garbage",
        "calls",
        "empties",
        "calls",
        "huge",
        "calls",
        "partial",
        "calls",
        "no-call",
        "calls",
        "large-claim",
        "calls",
    ]);
}

/// A server of libtirpc would wait half a minute for the rest of the record before it served another client.
#[test]
fn half_a_record_holds_up_no_other_client() {
    let Some(programs) = programs_for_via() else { return };
    for client in [End::VIA, End::KERNEL] {
        let ends = Ends { server: End::VIA, client };
        let (server, line) = programs.serve(ends);
        let words: Vec<String> = line("stays").split_whitespace().map(str::to_owned).collect();
        let stays = Launch::new(Stack::Kernel, words).start();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !stays.stdout_so_far().contains("waiting") {
            assert!(Instant::now() < deadline, "{ends}: {:?}", stays.stdout_so_far());
            sleep(Duration::from_millis(10));
        }
        let begun = Instant::now();
        let told = ends.client().run(&line("calls"));
        assert!(told.contains("2000 of 2000 sums are right"), "{ends}: {told}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{ends}: {:?}", begun.elapsed());
        stays.signal(libc::SIGKILL);
        stays.finish(Duration::from_secs(60));
        drop(server.end(libc::SIGTERM));
    }
}

/// Sends a call in fragments of a few bytes, one byte at a time, and several calls in a row.
#[test]
fn fragments_are_put_together() {
    let Some(programs) = programs_for_via() else { return };
    let (server, line) = programs.serve(Ends { server: End::VIA, client: End::KERNEL });
    let port = line("").split_whitespace().nth(1).and_then(|port| port.parse().ok());
    let mut stream = TcpStream::connect(("127.0.0.1", port.expect("a port"))).expect("a server");
    stream.set_nodelay(true).expect("no delay");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    for length in [1, 3, 5, 56] {
        // SUM(40, 2).
        let call = words(&[length as u32, 0, 2, 0x2000_0f01, 1, 2, 0, 0, 0, 0, 40, 2]);
        let count = call.chunks(length).count();
        let mut record = Vec::new();
        for (number, piece) in call.chunks(length).enumerate() {
            let last = u32::from(number + 1 == count) << 31;
            record.extend(words(&[last | piece.len() as u32]));
            record.extend(piece);
        }
        for byte in &record {
            stream.write_all(&[*byte]).expect("a byte that is taken");
        }
        stream.write_all(&record.repeat(20)).expect("calls that are taken");
        let answer = words(&[0x8000_0000 | 28, length as u32, 1, 0, 0, 0, 0, 42]);
        for _ in 0..21 {
            let mut got = vec![0; answer.len()];
            stream.read_exact(&mut got).expect("an answer");
            assert_eq!(got, answer, "fragments of {length} bytes");
        }
    }
    drop(server.end(libc::SIGTERM));
}

#[test]
fn several_clients_are_served_at_once() {
    let Some(programs) = programs_for_via() else { return };
    for ends in ENDS {
        serve_several(programs, ends);
    }
}

/// Checks that the examples in docs/develop/rpc.md are the ones that tests compile and run.
#[test]
fn the_guides_examples_are_those_that_run() {
    let bare = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let guide = fs::read_to_string(workspace().join("docs/develop/rpc.md")).expect("the guide");
    let mut count = 0;
    for part in guide.split("<!-- ").skip(1) {
        let (file, rest) = part.split_once(" -->\n```c\n").expect("a file's name and a block");
        let (block, _) = rest.split_once("\n```").expect("a block ends");
        let source = fs::read_to_string(workspace().join(file)).expect(file);
        assert!(bare(&source).contains(&bare(block)), "not in {file}:\n{block}");
        count += 1;
    }
    assert_eq!(guide.matches("\n```c\n").count(), count);
}

/// Compiles with all warnings as errors.
#[test]
fn its_sources_are_without_warnings() {
    if programs_for_via().is_none() || installed("cc").is_none() {
        return;
    }
    let (sources, include) = (workspace().join("abi/rpc/src"), workspace().join("include"));
    for entry in fs::read_dir(sources).expect("the sources") {
        let source = entry.expect("an entry").path();
        if source.extension().is_none_or(|ending| ending != "c") {
            continue;
        }
        let words =
            ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-isystem"];
        let mut command = Command::new("cc");
        command.args(words).args(["/usr/include/tirpc", "-I"]).arg(&include);
        let done = command.args(["-c", "-o", "/dev/null"]).arg(&source).status().expect("cc");
        assert!(done.success(), "{}", source.display());
    }
}

/// The library exports the names in the map, and the archive has no other names.
#[test]
fn library_exports_exactly_the_names_in_its_map() {
    let Some(folder) = library_folder("library_exports_exactly_the_names_in_its_map") else {
        return;
    };
    if sovia_tests::skipped("library_exports_exactly_the_names_in_its_map", &["nm"]) {
        return;
    }
    let map = fs::read_to_string(workspace().join("abi/rpc/sovia-rpc.map")).expect("the map");
    let (_, global) = map.split_once("global:").expect("a list");
    let (global, _) = global.split_once("local:").expect("its end");
    let mut named: Vec<&str> =
        global.split(';').map(str::trim).filter(|name| !name.is_empty()).collect();
    named.sort_unstable();
    for (file, option) in [("libsovia-rpc.so", "-D"), ("libsovia-rpc.a", "-g")] {
        let mut command = Command::new("nm");
        let output =
            command.args([option, "--defined-only"]).arg(folder.join(file)).output().expect("nm");
        let text = String::from_utf8(output.stdout).expect("names");
        let mut exported: Vec<&str> = text
            .lines()
            .filter(|line| line.contains(" T "))
            .filter_map(|line| line.split_whitespace().last()?.split('@').next())
            .collect();
        exported.sort_unstable();
        assert_eq!(exported, named, "{file}");
    }
}
