//! Every process can send to the rendezvous names. Messages from processes that are no end of a
//! connection change nothing: the connection carries every byte, and no end is delayed. Dropped
//! messages are counted.

use crate::intruder::kernel::{
    SEALS, SEGMENT, Uid, doors, eventfd, is_root, memory, offering, squat,
};
use crate::intruder::message::{ACCEPT, ASK, Forgery, HELLO, LEN, OFFER, SHOW, STAY};
use crate::intruder::{
    Intruder, Scene, dropped, rendezvous, to_both_ends, undisturbed, undisturbed_by,
};
use sovia_tests::{Launch, Stack};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// How a segment begins.
const MAGIC: u64 = 0x534f_5649_4153_4d03;

/// Both users' part in turn, where another one's can be played.
fn each_user(test: impl Fn(Uid)) {
    test(Uid::Same);
    if can_be_nobody() {
        test(Uid::Nobody);
    }
}

fn can_be_nobody() -> bool {
    if !is_root() {
        println!("SKIPPED: another user's part: only root can play it");
    }
    is_root()
}

#[test]
fn another_process_holds_the_name() {
    each_user(|uid| {
        undisturbed(uid, |intruder, scene| {
            for connection in &scene.fresh {
                let name = rendezvous(connection);
                if let Some(socket) = squat(&name) {
                    intruder.squats.insert(name, socket);
                }
            }
        });
    });
}

#[test]
fn messages_of_no_form_at_all() {
    each_user(|uid| {
        dropped("of a wrong size", uid, |intruder, scene| {
            to_both_ends(intruder, scene, |forgery, send| {
                let bytes = forgery.bytes();
                send(b"");
                send(b"x");
                send(&bytes[..LEN - 1]);
                send(&[&bytes[..], b"x"].concat());
                send(&[0xff; LEN]);
                send(&[0; 20_000]);
                send(&Forgery { magic: *b"SOVIAMT1", ..forgery.clone() }.bytes());
                send(&Forgery { step: 0, ..forgery.clone() }.bytes());
                send(&Forgery { step: u32::MAX, ..forgery.clone() }.bytes());
                send(&Forgery { families: Some(5), ..forgery.clone() }.bytes());
            });
        });
    });
}

#[test]
fn messages_of_another_version() {
    each_user(|uid| {
        dropped("of another protocol version", uid, |intruder, scene| {
            to_both_ends(intruder, scene, |forgery, send| {
                for version in [0, 1, 2, u32::MAX] {
                    send(&Forgery { version, ..forgery.clone() }.bytes());
                }
            });
        });
    });
}

#[test]
fn messages_about_other_connections() {
    dropped(
        "late: the connection had already ended, or found its peer",
        Uid::Same,
        |intruder, scene| {
            to_both_ends(intruder, scene, |forgery, send| {
                let (connector, acceptor) = (forgery.connector, forgery.acceptor);
                let mut foreign = connector;
                foreign.set_port(connector.port().wrapping_add(1));
                send(&Forgery { connector: foreign, ..forgery.clone() }.bytes());
                let turned = (acceptor, connector);
                let (connector, acceptor) = turned;
                send(&Forgery { connector, acceptor, ..forgery.clone() }.bytes());
                send(&Forgery { families: Some(6), ..forgery.clone() }.bytes());
                // The right connection, but not its cookie.
                for step in [forgery.step, STAY] {
                    send(&Forgery { step, cookie: forgery.cookie ^ 1, ..forgery.clone() }.bytes());
                    send(&Forgery { step, cookie: 0, ..forgery.clone() }.bytes());
                }
            });
        },
    );
}

/// Whatever step it is, it is not the one that is due. And ends are said to stay on TCP, whose own processes know better.
#[test]
fn right_messages_at_the_wrong_place() {
    dropped(
        "late: the connection had already ended, or found its peer",
        Uid::Same,
        |intruder, scene| {
            for connection in &scene.connections {
                for step in [OFFER, ACCEPT, ASK] {
                    let bytes = Forgery::by_connector(connection, step).bytes();
                    intruder.to_connector(connection, &bytes, doors());
                }
                let stay = Forgery { step: STAY, ..Forgery::about(connection) };
                intruder.to_connector(connection, &stay.bytes(), doors());
            }
            for (connection, inbox) in scene.fresh.iter().zip(&scene.inboxes) {
                for step in [HELLO, ACCEPT, SHOW] {
                    intruder.send(inbox, &Forgery::by_connector(connection, step).bytes(), doors());
                }
            }
        },
    );
}

/// All that can be known is right: addresses, cookies, even the process id that is claimed.
#[test]
fn right_messages_from_another_user() {
    if !can_be_nobody() {
        return;
    }
    dropped("from another user", Uid::Nobody, |intruder, scene| {
        to_both_ends(intruder, scene, |forgery, send| send(&forgery.bytes()));
    });
}

/// A process that says it is another one.
#[test]
fn messages_in_the_name_of_another_process() {
    dropped("from another user", Uid::Same, |intruder, scene| {
        to_both_ends(intruder, scene, |forgery, send| {
            for pid in [0, 1, -1, forgery.pid + 1] {
                send(&Forgery { pid, ..forgery.clone() }.bytes());
            }
        });
    });
}

/// Offers about the right connection by a process of the same user, with these descriptors.
fn offer(intruder: &Intruder, scene: &Scene, fds: impl Fn(usize) -> Vec<OwnedFd>) {
    for connection in &scene.fresh {
        let offer = Forgery::by_connector(connection, OFFER).bytes();
        for inbox in &scene.inboxes {
            intruder.offer(inbox, &offer, fds(intruder.seen.len()));
        }
    }
}

#[test]
fn offers_with_the_wrong_descriptors() {
    dropped("with missing or wrong descriptors", Uid::Same, |intruder, scene| {
        offer(intruder, scene, |n| {
            let null = || OwnedFd::from(File::open("/dev/null").expect("/dev/null opens"));
            let segment = || memory(SEGMENT, SEALS);
            match n % 8 {
                0 => Vec::new(),
                1 => vec![segment()],
                2 => doors(),
                3 => offering().into_iter().rev().collect(),
                4 => std::iter::once(segment()).chain((0..8).map(|_| null())).collect(),
                5 => (0..9).map(|_| segment()).collect(),
                6 => (0..60).map(|_| null()).collect(),
                // Doorbells at which a ringer would stand and wait.
                _ => std::iter::once(segment()).chain((0..8).map(|_| eventfd(0))).collect(),
            }
        });
    });
}

/// All is right, but its sender has not shown that it could trace the acceptor.
#[test]
fn offers_without_a_proof() {
    dropped(
        "from a process that may not read this process's memory",
        Uid::Same,
        |intruder, scene| {
            for connection in &scene.fresh {
                let offer = Forgery::by_connector(connection, OFFER).bytes();
                for inbox in &scene.inboxes {
                    intruder.send(inbox, &offer, offering());
                }
            }
        },
    );
}

/// An acceptor that shows nothing, or the wrong thing, is offered nothing.
#[test]
fn acceptors_without_a_proof() {
    dropped(
        "from a process that may not read this process's memory",
        Uid::Same,
        |intruder, scene| {
            for connection in &scene.connections {
                for place in [-1, 0, 3, i32::MAX] {
                    let hello = Forgery::about(connection);
                    intruder.to_connector(connection, &hello.bytes(), Vec::new());
                    let show = Forgery { step: SHOW, place, ..hello };
                    intruder.to_connector(connection, &show.bytes(), doors());
                }
            }
        },
    );
}

#[test]
fn offers_with_a_segment_that_could_shrink() {
    dropped("with a segment that is not sealed", Uid::Same, |intruder, scene| {
        offer(intruder, scene, |n| {
            let segment = match n % 4 {
                0 => memory(SEGMENT, 0),
                1 => memory(SEGMENT, libc::F_SEAL_GROW | libc::F_SEAL_SEAL),
                2 => memory(SEGMENT - 4096, SEALS),
                _ => memory(4096, SEALS),
            };
            std::iter::once(segment).chain(doors()).collect()
        });
    });
}

/// A process of the same user may offer what it likes: the other end attaches to it, finds
/// nonsense there, and goes on.
#[test]
fn offers_with_a_segment_full_of_garbage() {
    undisturbed(Uid::Same, |intruder, scene| {
        offer(intruder, scene, |seed| {
            let file = File::from(memory(SEGMENT, SEALS));
            let mut state = seed as u64;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as u8
            };
            for (from, len) in [(0, 128 << 10), (256 << 10, 64 << 10), (4 << 20, 64 << 10)] {
                let garbage: Vec<u8> = (0..len).map(|_| next()).collect();
                file.write_all_at(&garbage, from).expect("memory is written to");
            }
            file.write_all_at(&MAGIC.to_ne_bytes(), 0).expect("memory is written to");
            std::iter::once(OwnedFd::from(file)).chain(doors()).collect()
        });
    });
}

#[test]
fn floods() {
    each_user(|uid| {
        dropped("of a wrong size", uid, |intruder, scene| {
            for connection in &scene.connections {
                let forgery = Forgery::about(connection);
                for n in 0..300 {
                    let foreign = Forgery { nonce: n as u64, pid: 1, ..forgery.clone() };
                    for bytes in [&forgery.bytes()[..n % LEN], &foreign.bytes()] {
                        intruder.to_connector(connection, bytes, Vec::new());
                        for inbox in &scene.inboxes {
                            intruder.send(inbox, bytes, Vec::new());
                        }
                    }
                }
            }
        });
    });
}

/// Descriptors that block the thread which closes them for a minute.
#[test]
fn descriptors_that_take_long_to_close() {
    each_user(|uid| {
        let user = if uid == Uid::Nobody { "nobody" } else { "same" };
        undisturbed_by(|notes, done| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-py");
            let command = ["python3".into(), folder.join("slow_present.py").into_os_string()];
            let arguments = [notes.into(), user.into()];
            let giver = Launch::new(Stack::Kernel, command.into_iter().chain(arguments)).start();
            while !done.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(5));
            }
            fs::write(notes.join("done"), "").expect("a note");
            let outcome = giver.finish(Duration::from_secs(60));
            assert!(outcome.success(), "{outcome:#?}");
        });
    });
}
