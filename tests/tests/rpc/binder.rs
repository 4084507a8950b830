//! The example with rpcbind. Client and server differ from those over TCP only in the transport's name.
//!
//! Needs root: namespaces of the test have rpcbind's port and its socket.

use crate::rpc::programs::{library_folder, workspace};
use sovia_tests::{Launch, Stack, TempDir, installed, skipped, sovia};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Returns rpcbind, as unpacked by `scripts/setup`.
fn rpcbind() -> Option<PathBuf> {
    let build = sovia();
    let target = build.ancestors().nth(2).expect("the build lies two folders deep");
    let unpacked = target.join("unpacked/rpcbind/sbin/rpcbind");
    if unpacked.exists() { Some(unpacked) } else { installed("rpcbind") }
}

/// Script in the namespaces: runs two servers in turn, and clients of both transports.
const SCRIPT: &str = r#"
set -eu
ip link set lo up
mount -t tmpfs none /run
mkdir /run/lock
# The user that it becomes: root, here.
grep -v '^_rpc:' /etc/passwd >/run/passwd
echo '_rpc:x:0:0::/run:/bin/false' >>/run/passwd
mount --bind /run/passwd /etc/passwd
"$RPCBIND" -f -i &
binder=$!
trap 'kill $binder' EXIT
# A server that comes while it is starting is registered for some of its addresses only.
listens() { grep -q ':006F .* 0A ' "/proc/net/$1"; }
until listens tcp && listens tcp6 && [ -S /run/rpcbind.sock ]; do
    kill -0 $binder
    sleep 0.05
done
for transport in tcp via; do
    until ./server $transport >served 2>/dev/null & server=$!; sleep 0.3; kill -0 $server 2>/dev/null; do
        kill -0 $binder
    done
    cat served
    ./client localhost tcp 'some line'
    ./client localhost via 'some line'
    ./client ::1 via 'some line'
    kill $server
    wait $server || true
    ./client localhost via 'some line' 2>&1 || true
done
"#;

#[test]
fn the_example_differs_by_the_transports_name() {
    let test = "the_example_differs_by_the_transports_name";
    // SAFETY: reads nothing but this process's user id.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIPPED: {test}: only root can run an rpcbind");
        return;
    }
    let (Some(rpcbind), Some(library)) = (rpcbind(), library_folder(test)) else {
        println!("SKIPPED: {test}: not there: rpcbind");
        return;
    };
    if skipped(test, &["make", "rpcgen", "unshare", "ip"]) {
        return;
    }
    let folder = TempDir::new();
    for entry in fs::read_dir(workspace().join("abi/rpc/examples")).expect("the example") {
        let source = entry.expect("an entry");
        fs::copy(source.path(), folder.path().join(source.file_name())).expect("a copy");
    }
    let library = library.display();
    let built = Command::new("make")
        .current_dir(folder.path())
        .arg("CPPFLAGS=-I/usr/include/tirpc")
        .arg(format!("LDLIBS=-L{library} -Wl,-rpath,{library} -lsovia-rpc -lsovia -ltirpc"))
        .output()
        .expect("make");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let words = ["unshare", "--net", "--mount", "sh", "-c", SCRIPT];
    let launch = Launch::new(Stack::Kernel, words)
        .env("RPCBIND", &rpcbind.display().to_string())
        .current_dir(folder.path());
    let outcome = launch.start().finish(Duration::from_secs(120));
    assert!(outcome.success(), "{outcome:#?}");
    let answers = "9 bytes, says the server over tcp\n9 bytes, says the server over via\n\
                   9 bytes, says the server over via\nlocalhost: RPC: Remote system error - Connection refused\n";
    assert_eq!(outcome.stdout, format!("serving over tcp\n{answers}serving over via\n{answers}"));
}
