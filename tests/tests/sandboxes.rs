//! Daemons that restrict themselves: limits, other users, empty roots, filters of system calls.

use std::fmt::Write;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use sovia_tests::{Client, Pairing, Service, TempDir, free_port, skipped};

/// Returns true if the test must be skipped, because programs or the right to become another user
/// are missing.
fn left_out(test: &str, programs: &[&str]) -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0);
    if !root {
        println!("SKIPPED: {test}: not root");
    }
    !root || skipped(test, programs)
}

/// Opens a folder to every user.
fn open_folder(path: &Path) {
    fs::create_dir_all(path).expect("a folder");
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("its permissions");
}

fn numbers() -> String {
    (0..200_000).fold(String::new(), |mut text, i| {
        let _ = writeln!(text, "{}", i * 7919);
        text
    })
}

/// The child of sshd that serves the network has a filter, which allows some twenty calls and forbids
/// queries of limits. `-v` changes nothing.
#[test]
fn sshd_lets_a_user_in() {
    if left_out("sshd_lets_a_user_in", &["sshd", "ssh", "ssh-keygen"]) {
        return;
    }
    let folder = TempDir::new();
    let path = folder.path().display().to_string();
    for key in ["host", "user"] {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.path().join(key));
        assert!(keygen.status().expect("ssh-keygen starts").success());
    }
    // sshd separates privileges in an empty folder, which its service would make.
    open_folder(Path::new("/run/sshd"));
    let sent = folder.path().join("sent");
    fs::write(&sent, numbers()).expect("a file");
    for pairing in Pairing::others() {
        let port = free_port();
        let settings = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {path}/host\nStrictModes no\nUsePAM no\n\
             AuthorizedKeysFile {path}/user.pub\nPermitRootLogin yes\nPidFile none\n"
        );
        fs::write(folder.path().join("settings"), settings).expect("its settings");
        let sshd = format!("sshd -D -e -f {path}/settings");
        let service = Service::start_verbose(pairing.server, &sshd, port);
        let ssh = format!(
            "ssh -F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -i {path}/user \
             -p {port} root@127.0.0.1 cat"
        );
        let client = Client::of(pairing).may_stay_on_tcp();
        let told = client.run_with_input(&ssh, Some(sent.clone()));
        assert!(told == numbers(), "{pairing}: {} bytes came back", told.len());
        let _ = service.end(libc::SIGTERM);
    }
}

/// vsftpd limits its address space to 200 MB, and each of its sessions is a child with a filter.
#[test]
fn vsftpd_serves_files() {
    if left_out("vsftpd_serves_files", &["vsftpd", "curl"]) {
        return;
    }
    let folder = TempDir::new();
    open_folder(folder.path());
    for part in ["files", "empty"] {
        open_folder(&folder.path().join(part));
    }
    let file = folder.path().join("files/numbers");
    fs::write(&file, numbers()).expect("a file");
    fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("its permissions");
    let path = folder.path().display().to_string();
    for pairing in Pairing::others() {
        let port = free_port();
        let settings = format!(
            "listen=YES\nlisten_address=127.0.0.1\nlisten_port={port}\nbackground=NO\n\
             anonymous_enable=YES\nno_anon_password=YES\nanon_root={path}/files\n\
             secure_chroot_dir={path}/empty\n"
        );
        fs::write(folder.path().join("settings"), settings).expect("its settings");
        let vsftpd = format!("vsftpd {path}/settings");
        let service = Service::start_verbose(pairing.server, &vsftpd, port);
        let client = Client::of(pairing).may_stay_on_tcp();
        for _ in 0..3 {
            let told = client.run(&format!("curl -sS ftp://127.0.0.1:{port}/numbers"));
            assert!(told == numbers(), "{pairing}: {} bytes came", told.len());
        }
        let list = client.run(&format!("curl -sS ftp://127.0.0.1:{port}/"));
        assert!(list.contains("numbers"), "{pairing}: {list}");
        let _ = service.end(libc::SIGTERM);
    }
}
