//! Tests of failures. A library, device or permission is missing, or too little memory may be locked. A peer is killed,
//! another program sends requests, or a link goes down. Each test checks that no object is left. All tests except the
//! first need the guest of `scripts/lab`, and may change its devices and links.

use crate::common::*;
use sovia_verbs::live::{PAIRS, REGIONS};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use via::error::{ErrorCode, RegisterError};
use via::{AsyncError, Cause, Connection, MemAttributes, Memory, Nic, Status, Vi, ViState};
use via_verbs::VerbsNic;

/// Environment variable with the role of this program as a child process.
const ROLE: &str = "VIA_VERBS_TEST_ROLE";
/// User ID of a user without privileges.
const NOBODY: u32 = 65_534;

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "not yet: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns a command that runs this program as a child process with one test.
fn another(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["faults::another_process", "--exact", "--nocapture"]).env(ROLE, role);
    command.stdout(Stdio::piped());
    command
}

/// When the NIC's last handle is dropped, the device is closed and the address free. A call of the program's error
/// handler may still run then.
#[test]
fn a_nic_is_closed_while_its_error_handler_runs() {
    let test = "a_nic_is_closed_while_its_error_handler_runs";
    let Some(_one) = in_the_lab(test) else { return };
    let nic = nic();
    let place = nic.address(b"").host;
    let (is_in, began) = mpsc::channel();
    let (lets_go, held) = mpsc::channel::<()>();
    let (is_in, held) = (Mutex::new(is_in), Mutex::new(held));
    nic.set_error_handler(Some(Arc::new(move |_| {
        is_in.lock().expect("one call at a time").send(()).expect("the test waits");
        held.lock().expect("as above").recv().expect("the test lets it go");
    })));
    nic.report(AsyncError::of_vi(0, ErrorCode::ConnLost));
    began.recv_timeout(PATIENCE).expect("the handler is called");
    drop(nic);
    all_gone();
    let [.., high, low] = *place else { panic!("{place:x?}: an address and a port") };
    let port = u16::from_be_bytes([high, low]);
    drop(open(&format!("{AT}:{port}")).expect("the same place"));
    lets_go.send(()).expect("the handler waits");
    all_gone();
}

/// Plays the role of a child process. Does nothing without a role.
#[test]
fn another_process() {
    let say = |what: String| {
        println!("\nsaid: {what}");
        std::io::stdout().flush().expect("the test reads");
    };
    match std::env::var(ROLE).as_deref() {
        Ok("open") => {
            say(open(AT).err().unwrap_or("it is open".into()));
            assert_eq!(live(), [0; 4]);
        }
        Ok("register") => {
            let nic = nic();
            let register =
                |bytes| nic.register_mem(&Memory::zeroed(bytes), MemAttributes::default());
            let small = register(4096).expect("it fits the limit");
            let large = register(1 << 20);
            assert_eq!(large, Err(RegisterError::LockedMemory));
            assert_eq!(REGIONS.get(), 1);
            nic.deregister_mem(small).expect("it was registered");
            let again = register(4096).expect("what was given back can be registered again");
            nic.deregister_mem(again).expect("it was registered");
            drop(nic);
            assert_eq!(live(), [0; 4]);
            say(large.expect_err("it is more than the limit").to_string());
        }
        Ok("echo") => {
            let nic = nic();
            let host: Vec<_> = nic.address(b"").host.iter().map(u8::to_string).collect();
            say(host.join(" "));
            echo(&nic, LONG, 1);
        }
        _ => {}
    }
}

/// Returns what the child process reports.
fn said(child: &mut Child) -> String {
    let lines = BufReader::new(child.stdout.as_mut().expect("a pipe")).lines();
    let mut lines = lines.map_while(Result::ok);
    lines.find_map(|line| line.strip_prefix("said: ").map(str::to_owned)).expect("it says that")
}

#[test]
fn without_a_library_opening_says_which() {
    for library in ["libibverbs.so.1", "librdmacm.so.1"] {
        let folder =
            std::env::temp_dir().join(format!("via-verbs-{library}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        // The loader finds this file first, and then does not search for another one.
        std::fs::write(folder.join(library), "no library").expect("a file");
        let mut child = another("open").env("LD_LIBRARY_PATH", &folder).spawn().expect("it starts");
        let said = said(&mut child);
        assert!(child.wait().expect("it ends").success());
        std::fs::remove_dir_all(&folder).expect("the folder goes");
        // On a host without both libraries, the error names the first one.
        let is_first = said.contains("cannot load libibverbs.so.1");
        assert!(is_first || said.contains(&format!("cannot load {library}")), "{said}");
    }
}

#[test]
fn missing_device_or_address_is_named_in_the_error() {
    let Some(_one) = in_the_lab("missing_device_or_address_is_named_in_the_error") else { return };
    let why = open("nonesuch0").map(drop).expect_err("no such device");
    assert!(why.contains("nonesuch0") && why.contains("ibv_devices"), "{why}");
    // An address of an interface without RDMA, and an address of no interface.
    for place in ["127.0.0.1", "198.51.100.77"] {
        let why = open(place).map(drop).expect_err("no NIC has the address");
        assert!(why.contains("rdma_bind_addr"), "{why}");
    }
    all_gone();
}

#[test]
fn open_without_permission_fails_with_the_reason() {
    let Some(_one) = in_the_lab("open_without_permission_fails_with_the_reason") else { return };
    let chmod = |mode: &str| {
        let changed = Command::new("chmod").args(["-R", mode, "/dev/infiniband"]).status();
        assert!(changed.expect("chmod runs").success());
    };
    chmod("go=");
    let mut child = another("open").uid(NOBODY).spawn().expect("it starts");
    let said = said(&mut child);
    let ended = child.wait().expect("it ends");
    chmod("go=rwX");
    assert!(ended.success());
    assert!(said.contains("rdma_create_event_channel"), "{said}");
    assert!(said.contains("ermission denied") || said.contains("No such"), "{said}");
    all_gone();
}

#[test]
fn registration_beyond_the_locked_memory_limit_fails_and_leaves_nothing() {
    let test = "registration_beyond_the_locked_memory_limit_fails_and_leaves_nothing";
    let Some(_one) = in_the_lab(test) else { return };
    let mut child = Command::new("bash");
    child.args(["-c", r#"ulimit -l 64; exec "$0" faults::another_process --exact --nocapture"#]);
    child.arg(std::env::current_exe().expect("this program"));
    child.env(ROLE, "register").stdout(Stdio::piped()).uid(NOBODY);
    let mut child = child.spawn().expect("it starts");
    let said = said(&mut child);
    assert!(child.wait().expect("it ends").success());
    assert!(said.contains("ulimit -l") && said.contains("LimitMEMLOCK="), "{said}");
    all_gone();
}

/// A message without a posted receive, and one longer than its receive, each put a queue pair into the error state.
/// Both VIs are notified, their posted descriptors are flushed, and they connect again.
#[test]
fn a_queue_pair_in_error_breaks_both_vis_and_they_connect_again() {
    let test = "a_queue_pair_in_error_breaks_both_vis_and_they_connect_again";
    let Some(_one) = in_the_lab(test) else { return };
    const LEN: usize = 4096;
    for is_too_long in [false, true] {
        let (server, client) = (nic(), nic());
        let host = server.address(b"").host;
        let end = End::new(&client, LEN);
        let far = End { len: if is_too_long { LEN / 2 } else { LEN }, ..End::new(&server, LEN) };
        let meet = || {
            thread::scope(|s| {
                s.spawn(|| {
                    let request = server.connect_wait(&server.address(b"server"), Some(PATIENCE));
                    request.expect("a request").accept(&far.vi).expect("accepted");
                });
                connect(&client, &end, &host);
            });
        };
        for _ in 0..2 {
            end.receive();
            if is_too_long {
                far.receive();
            }
            meet();
            let status = end.send(7);
            assert!(status.intersects(Status::TRANSPORT_ERROR), "{status:?}");
            assert_eq!(end.vi.state(), ViState::Error);
            let cause = if is_too_long { Cause::PeerBroke } else { Cause::ReceiveQueueEmpty };
            assert_eq!(end.vi.cause(), Some(cause));
            let later = end.send(8);
            assert!(later.intersects(Status::DESC_FLUSHED_ERROR), "{later:?}");
            assert!(end.received().is_none(), "the receive is flushed");
            until("the far VI is told", || far.vi.state() == ViState::Error);
            if is_too_long {
                assert_eq!(far.vi.cause(), Some(Cause::Descriptor(Status::LENGTH_ERROR)));
                assert!(far.received().is_none(), "the receive has failed");
            } else {
                assert_eq!(far.vi.cause(), Some(Cause::ReceiveQueueEmpty));
            }
            assert_eq!(PAIRS.get(), 0, "a queue pair ends with its connection");
            end.vi.disconnect();
            far.vi.disconnect();
        }
        client.deregister_mem(end.handle).expect("nothing uses the memory");
        drop(end);
        drop(client);
        nothing_left(server, vec![far]);
    }
}

/// Kills the peer's process while messages move. A VI that sends nothing must also notice this.
#[test]
fn a_peer_that_is_killed_is_found_out() {
    let Some(_one) = in_the_lab("a_peer_that_is_killed_is_found_out") else { return };
    for is_silent in [false, true] {
        let mut child = another("echo").spawn().expect("it starts");
        let host = said(&mut child);
        let host: Vec<u8> = host.split(' ').map(|byte| byte.parse().expect("a byte")).collect();
        let nic = nic();
        let end = End::new(&nic, LONG);
        end.receive();
        connect(&nic, &end, &host);
        (1..4).for_each(|byte| end.is_echoed(byte));
        child.kill().expect("it is killed");
        child.wait().expect("it ends");
        if !is_silent {
            until("a send fails", || {
                end.vi.state() == ViState::Error || end.send(5).intersects(Status::ERROR_MASK)
            });
        }
        until("the connection is lost", || end.vi.state() == ViState::Error);
        assert_eq!(end.vi.cause(), Some(Cause::PeerDied));
        assert!(end.received().is_none(), "the receive is flushed");
        nothing_left(nic, vec![end]);
    }
}

/// A program without VIs requests a connection. The NIC refuses, and a VI can connect afterwards.
#[test]
fn request_of_a_program_without_vis_is_refused() {
    let Some(_one) = in_the_lab("request_of_a_program_without_vis_is_refused") else { return };
    let server = nic();
    let host = server.address(b"").host;
    let port = u16::from_be_bytes([host[4], host[5]]).to_string();
    thread::scope(|s| {
        s.spawn(|| echo(&server, LONG, 1));
        for _ in 0..3 {
            let rping = Command::new("rping")
                .args(["-c", "-C", "1", "-a", AT, "-p", &port])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            assert!(!rping.expect("rping runs").success());
        }
        let client = nic();
        let end = End::new(&client, LONG);
        end.receive();
        connect(&client, &end, &host);
        end.is_echoed(9);
        end.vi.disconnect();
        client.deregister_mem(end.handle).expect("nothing uses the memory");
    });
    nothing_left(server, Vec::new());
}

/// Takes the NIC's link down while messages move, and up again. The statuses that both VIs got must be right, and the
/// VIs must connect again.
#[test]
fn a_link_that_goes_down_breaks_and_one_that_is_back_connects() {
    let test = "a_link_that_goes_down_breaks_and_one_that_is_back_connects";
    let Some(_one) = in_the_lab(test) else { return };
    let link = |state: &str| {
        let changed = Command::new("ip").args(["link", "set", "lab0", state]).status();
        assert!(changed.expect("ip runs").success());
    };
    let server = nic();
    let host = server.address(b"").host;
    thread::scope(|s| {
        s.spawn(|| echo(&server, LONG, 2));
        let client = nic();
        let end = End::new(&client, LONG);
        end.receive();
        connect(&client, &end, &host);
        end.is_echoed(1);
        link("down");
        let status = end.send(2);
        link("up");
        assert!(status.intersects(Status::TRANSPORT_ERROR), "{status:?}");
        assert_eq!(end.vi.state(), ViState::Error);
        assert!(end.received().is_none(), "the receive is flushed");
        end.vi.disconnect();
        end.receive();
        connect(&client, &end, &host);
        (3..6).for_each(|byte| end.is_echoed(byte));
        end.vi.disconnect();
        client.deregister_mem(end.handle).expect("nothing uses the memory");
    });
    nothing_left(server, Vec::new());
}

/// Connects 1,000 VIs of one process in pairs. Each VI sends one message.
#[test]
fn a_thousand_connected_vis() {
    let Some(_one) = in_the_lab("a_thousand_connected_vis") else { return };
    const PAIRED: usize = 500;
    const LEN: usize = 64;
    let (server, client) = (nic(), nic());
    let ends = |nic: &VerbsNic| -> Vec<End> {
        (0..PAIRED)
            .map(|_| {
                let end = End::new(nic, LEN);
                end.receive();
                end
            })
            .collect()
    };
    let (accepting, requesting) = (ends(&server), ends(&client));
    let host = server.address(b"").host;
    let begin = Instant::now();
    thread::scope(|s| {
        s.spawn(|| {
            for end in &accepting {
                let request = server.connect_wait(&server.address(b"server"), None).expect("one");
                request.accept(&end.vi).expect("accepted");
            }
        });
        requesting.iter().for_each(|end| connect(&client, end, &host));
    });
    println!("{} connected VIs after {:?}", 2 * PAIRED, begin.elapsed());
    assert_eq!(PAIRS.get(), 2 * PAIRED);
    for (i, (a, b)) in accepting.iter().zip(&requesting).enumerate() {
        for (from, to, byte) in [(a, b, i as u8), (b, a, !i as u8)] {
            assert!(!from.send(byte).intersects(Status::ERROR_MASK), "pair {i}");
            assert_eq!(to.received(), Some(vec![byte; LEN]), "pair {i}");
        }
    }
    for end in requesting {
        end.vi.disconnect();
        client.deregister_mem(end.handle).expect("nothing uses the memory");
    }
    drop(client);
    nothing_left(server, accepting);
}
