//! Sun RPC: rpcgen's client and server over libtirpc, neither of which knows of Sovia. Each case is told the same as over the
//! kernel.

use sovia_tests::{Client, Pairing, Service, TempDir, free_port, skipped};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder with `server` and `client`, built once; `None` where something is missing that they are built from.
fn programs() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<(TempDir, PathBuf)>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let tirpc = Path::new("/usr/include/tirpc/rpc/rpc.h");
        if skipped("rpc", &["rpcgen"]) {
            return None;
        }
        if !tirpc.exists() {
            println!("SKIPPED: rpc: not installed: libtirpc-dev");
            return None;
        }
        let folder = TempDir::new();
        let path = folder.path().to_path_buf();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-rpc");
        for name in ["service.x", "server.c", "client.c"] {
            fs::copy(sources.join(name), path.join(name)).expect("a source file");
        }
        let run = |program: &str, words: &[&str]| {
            let mut command = Command::new(program);
            let done = command.args(words).current_dir(&path).status().expect("it starts");
            assert!(done.success(), "{program} {words:?}");
        };
        for (what, file) in [
            ("-h", "service.h"),
            ("-c", "service_xdr.c"),
            ("-l", "service_clnt.c"),
            ("-m", "service_svc.c"),
        ] {
            run("rpcgen", &[what, "-o", file, "service.x"]);
        }
        for (program, stubs) in [("server", "service_svc.c"), ("client", "service_clnt.c")] {
            let source = format!("{program}.c");
            run(
                "cc",
                &[
                    "-O1",
                    "-w",
                    "-I",
                    "/usr/include/tirpc",
                    "-o",
                    program,
                    &source,
                    stubs,
                    "service_xdr.c",
                    "-ltirpc",
                ],
            );
        }
        Some((folder, path))
    });
    built.as_ref().map(|(_, path)| path.as_path())
}

/// A server of its own for a test, and a client's words.
fn serve(programs: &Path, pairing: Pairing) -> (Service, impl Fn(&str) -> String) {
    let port = free_port();
    let server =
        Service::start(pairing.server, &format!("{}/server {port}", programs.display()), port);
    let client = programs.join("client").display().to_string();
    (server, move |case: &str| format!("{client} {port} {case}"))
}

/// Every case named, one after the other with one server, in every pairing; what the kernel's clients say.
fn is_told_the_same(cases: &[&str]) -> Option<Vec<String>> {
    let programs = programs()?;
    let told = |pairing: Pairing| -> Vec<String> {
        let (server, client) = serve(programs, pairing);
        let told = cases.iter().map(|case| Client::of(pairing).run(&client(case))).collect();
        // Some of the cases end it.
        drop(server.end(libc::SIGTERM));
        told
    };
    let kernel = told(Pairing::KERNEL);
    assert!(kernel[0].contains("2000 of 2000 sums are right"), "{kernel:?}");
    for pairing in Pairing::OTHERS {
        assert_eq!(told(pairing), kernel, "{pairing}");
    }
    Some(kernel)
}

#[test]
fn records_of_every_size_come_back() {
    is_told_the_same(&["large"]);
}

#[test]
fn a_call_that_times_out_leaves_the_next_one_right() {
    is_told_the_same(&["late"]);
}

#[test]
fn a_server_that_dies_is_told() {
    if let Some(told) = is_told_the_same(&["death"]) {
        // RPC_CANTRECV.
        assert!(told[0].contains("a server that dies: RPC: Unable to receive"), "{told:?}");
    }
}

/// A client that leaves in the middle of a call, and one whose record never ends, harm no other.
#[test]
fn bad_clients_harm_no_other() {
    is_told_the_same(&["leaves", "calls", "endless", "calls", "large"]);
}

#[test]
fn several_clients_are_served_at_once() {
    let Some(programs) = programs() else { return };
    for pairing in Pairing::OTHERS {
        let (server, client) = serve(programs, pairing);
        std::thread::scope(|scope| {
            for case in ["calls", "large", "calls", "large", "calls", "calls"] {
                let (line, programs) = (client(case), Client::of(pairing));
                scope.spawn(move || {
                    let told = programs.run(&line);
                    assert!(told.contains("2000 of 2000 sums are right"), "{pairing}: {told}");
                    assert!(!told.contains("NO"), "{pairing}: {told}");
                });
            }
        });
        drop(server.end(libc::SIGTERM));
    }
}
