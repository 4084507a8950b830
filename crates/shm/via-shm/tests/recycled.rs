//! A process that has got the process id of an ended peer never gets the peer's RDMAs. Not even a process forked from
//! the peer gets them, although it has the same memory at the same addresses.
#![cfg(not(loom))]

use crate::common::start;
use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use via::{Reliability, Status, Vi, ViAttributes, ViState};
use via_conformance::{Context, End, Target};
use via_shm::ShmNic;

/// File with the last process id that the kernel has assigned. Writable with privileges.
const LAST: &str = "/proc/sys/kernel/ns_last_pid";
/// Length of an RDMA in bytes; short enough for direct access.
const LEN: usize = 512;

fn attributes() -> ViAttributes {
    ViAttributes {
        reliability: Reliability::RELIABLE_DELIVERY,
        max_transfer_size: 4096,
        ptag: None,
        enable_rdma_write: true,
        enable_rdma_read: false,
    }
}

/// Runs the peer, which reports where its memory is. Returns at once if its environment variables are not set.
#[test]
fn peer() {
    let (Ok(file), Ok(name)) = (env::var("VIA_FILE"), env::var("VIA_NIC")) else { return };
    let nic = ShmNic::open(&name).unwrap();
    let cx = Context { nic: &nic, server: nic.address(b"recycled") };
    let end = End::with(&cx, 4096, attributes());
    end.post_recv(0, 1000, 100);
    end.accept(&cx);
    end.write(2000, &end.target().words().map(u64::to_le_bytes).concat());
    end.send(1, 2000, 16);
    end.received().result().unwrap();
    if env::var_os("VIA_EXECUTES").is_some() {
        panic!("{}", Command::new("sleep").arg("60").exec());
    }
    leave_a_forked_relative(&end, Path::new(&file));
    thread::sleep(crate::common::PATIENCE);
}

/// Forks a child that waits until this process has ended. The child then forks a process with this process's id. That
/// process writes to `file` if its inherited memory was changed.
fn leave_a_forked_relative(end: &End<'_, ShmNic>, file: &Path) {
    // SAFETY: the system calls take plain numbers and a pointer to a local variable. The children only sleep, read
    // their own memory, write files and exit.
    unsafe {
        let number = libc::getpid();
        if libc::fork() != 0 {
            return;
        }
        let before = end.bytes(0, LEN);
        let _ = fs::write(file, "waits");
        while libc::kill(number, 0) == 0 {
            libc::usleep(50);
        }
        for _ in 0..200 {
            let _ = fs::write(LAST, (number - 1).to_string());
            match libc::fork() {
                0 if libc::getpid() == number => {
                    let _ = fs::write(file, "there");
                    libc::usleep(300_000);
                    let same = end.bytes(0, LEN) == before;
                    let _ = fs::write(file, if same { "untouched" } else { "written to" });
                    libc::_exit(0);
                }
                0 => libc::_exit(1),
                child => {
                    let mut status = 0;
                    libc::waitpid(child, &raw mut status, 0);
                    if status == 0 {
                        libc::_exit(0);
                    }
                }
            }
        }
        let _ = fs::write(file, "not possible");
        libc::_exit(0);
    }
}

fn wait_for(file: &Path, what: &[&str]) -> String {
    let begin = Instant::now();
    loop {
        let output = fs::read_to_string(file).unwrap_or_default();
        if what.contains(&output.as_str()) {
            return output;
        }
        assert!(begin.elapsed() < crate::common::PATIENCE, "it says {output:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn scratch(test: &str) -> PathBuf {
    let file = env::temp_dir().join(format!("sovia-recycled-{test}-{}", std::process::id()));
    let _ = fs::remove_file(&file);
    file
}

/// Connects to a peer, and receives the address of its memory.
fn connected<'n>(nic: &'n ShmNic) -> (End<'n, ShmNic>, Target) {
    let cx = Context { nic, server: nic.address(b"recycled") };
    let end = End::with(&cx, 4096, attributes());
    end.post_recv(0, 1000, 100);
    end.request(&cx).unwrap();
    assert_eq!(end.received().result(), Ok(16));
    let words = end.bytes(1000, 16);
    let word = |i: usize| u64::from_le_bytes(words[8 * i..][..8].try_into().unwrap());
    let target = Target::heard(&[word(0), word(1)]);
    (end, target)
}

fn write(end: &End<'_, ShmNic>, target: Target, seed: usize) -> Result<u32, Status> {
    end.fill(2000, LEN, seed);
    end.post_write(2, 2000, LEN, target.at(0));
    end.sent().result()
}

/// Kills the peer and checks that the relative gets no RDMA. With `first`, RDMAs go to the peer before, so that this
/// process has opened its memory.
fn a_forked_relative_gets_nothing(test: &str, first: bool) {
    let file = scratch(test);
    let name = format!("recycled-{test}-{}", std::process::id());
    let path = file.to_string_lossy();
    let mut child = start("recycled::peer", &[("VIA_NIC", &name), ("VIA_FILE", &path)]);
    let nic = ShmNic::open(&name).unwrap();
    let (end, target) = connected(&nic);
    if first {
        // The target executes the first RDMA. The others use direct access.
        (0..5).for_each(|i| assert_eq!(write(&end, target, i), Ok(LEN as u32)));
    }
    end.send(3, 0, 0);
    wait_for(&file, &["waits"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let output = wait_for(&file, &["there", "untouched", "written to", "not possible"]);
    if output == "not possible" {
        println!("SKIPPED: {test}: no process can be given a number here");
        return;
    }
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(100) && end.vi.state() == ViState::Connected {
        let _ = write(&end, target, 99);
    }
    end.await_state(ViState::Error);
    assert_eq!(wait_for(&file, &["untouched", "written to"]), "untouched");
    let _ = fs::remove_file(file);
}

#[test]
fn a_forked_relative_with_the_number_of_a_peer_gets_nothing() {
    a_forked_relative_gets_nothing("after-rdma", true);
}

#[test]
fn a_forked_relative_of_a_peer_never_reached_for_gets_nothing() {
    a_forked_relative_gets_nothing("before-rdma", false);
}

#[test]
fn a_program_that_a_peer_executes_gets_nothing() {
    let name = format!("recycled-exec-{}", std::process::id());
    let variables = [("VIA_NIC", name.as_str()), ("VIA_FILE", ""), ("VIA_EXECUTES", "")];
    let mut child = start("recycled::peer", &variables);
    let nic = ShmNic::open(&name).unwrap();
    let (end, target) = connected(&nic);
    (0..5).for_each(|i| assert_eq!(write(&end, target, i), Ok(LEN as u32)));
    end.send(3, 0, 0);
    let begin = Instant::now();
    // No write may hang or be lost silently: it succeeds, or the connection ends.
    while write(&end, target, 7).is_ok() {
        assert!(begin.elapsed() < crate::common::PATIENCE);
    }
    end.await_state(ViState::Error);
    assert_eq!(child.try_wait().unwrap(), None, "the process itself lives");
    child.kill().unwrap();
    child.wait().unwrap();
}
