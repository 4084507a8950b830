//! Threads that wait on an end, and what lets them go on.

use super::harness::{
    ALL, At, CALL_NS, End, Engines, Epoll, NOW, Progress, WAIT, link, link_by, met,
    met_with_threads, pattern, until,
};
use crate::conn::{Phase, Role};
use libc::{EPOLLIN, EPOLLOUT, POLLIN, POLLOUT};
use sovia_sys::call;
use std::sync::Barrier;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::thread;

/// Runs `waits` in a thread; once that sleeps, `acts`. Returns what `waits` did.
fn waiting<R: Send>(end: &End, waits: impl FnOnce() -> R + Send, acts: impl FnOnce()) -> R {
    end.limit_waits();
    let id = AtomicI32::new(0);
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            id.store(call::gettid(), Ordering::Relaxed);
            waits()
        });
        until(&[], || (is_asleep(&id) || thread.is_finished()).then_some(()));
        acts();
        until(&[], || thread.is_finished().then_some(()));
        thread.join().unwrap()
    })
}

/// TCP has room for a part of the unread bytes only, and the program reads none while it makes the call.
#[test]
fn call_that_falls_back_does_not_wait_for_room_on_tcp() {
    let [a, b] = &met_with_threads();
    let sent = a.fill(0);
    thread::scope(|scope| {
        let call = scope.spawn(|| b.to_tcp());
        until(&[], || call.is_finished().then_some(()));
    });
    let mut bytes = Vec::new();
    until(&[a, b], || {
        bytes.extend(b.drain(64 << 10).0);
        (bytes.len() >= sent).then_some(())
    });
    assert!(bytes == pattern(0, sent), "{} bytes of {sent}", bytes.len());
    until(&[a, b], || (b.phase() == Phase::Plain).then_some(()));
}

/// Whether the kernel has the thread of that number sleep.
fn is_asleep(id: &AtomicI32) -> bool {
    let path = format!("/proc/self/task/{}/stat", id.load(Ordering::Relaxed));
    let stat = std::fs::read_to_string(path).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S"))
}

/// Threads that wait for the connection.
fn sleepers(end: &End) -> usize {
    end.at().map_or(1, |at| end.run(|| at.conn.waiting_here()))
}

#[test]
fn a_blocked_read_is_woken_by_bytes() {
    let [a, b] = &met();
    assert_eq!(waiting(b, || b.take(10, WAIT), || a.put(b"news")), Ok(b"news".to_vec()));
}

#[test]
fn a_blocked_read_before_the_switch_is_woken_by_the_next_bytes() {
    let link = link(At::Granted, Role::Connector);
    let (a, b) = (&link.a, &link.b);
    let act = || {
        a.switch();
        a.put(b"news");
    };
    assert_eq!(waiting(b, || b.take(10, WAIT), act), Ok(b"news".to_vec()));
}

#[test]
fn a_blocked_read_of_all_is_woken_until_all_is_there() {
    let [a, b] = &met();
    let act = || (0..10).for_each(|n| a.put(&pattern(n * 100, 100)));
    assert_eq!(waiting(b, || b.take(1_000, ALL), act), Ok(pattern(0, 1_000)));
}

#[test]
fn a_blocked_read_is_woken_by_a_half_close() {
    let [a, b] = &met();
    assert_eq!(waiting(b, || b.take(10, WAIT), || a.finish()), Ok(Vec::new()));
}

#[test]
fn a_blocked_read_is_woken_by_the_own_shutdown_of_its_half() {
    let [_a, b] = &met();
    let shut = || b.shutdown(libc::SHUT_RD).map(drop).unwrap();
    assert_eq!(waiting(b, || b.take(10, WAIT), shut), Ok(Vec::new()));
}

#[test]
fn a_blocked_read_is_woken_by_a_close() {
    let [a, b] = met_with_threads();
    let b = &b;
    assert_eq!(waiting(b, || b.take(10, WAIT), || a.close()), Ok(Vec::new()));
}

#[test]
fn a_blocked_read_is_woken_by_a_reset() {
    let [a, b] = met_with_threads();
    let b = &b;
    assert_eq!(waiting(b, || b.take(10, WAIT), || a.abort()), Err(libc::ECONNRESET));
}

#[test]
fn a_blocked_read_is_woken_by_a_death() {
    let [a, b] = met_with_threads();
    let b = &b;
    let mut dead = None;
    assert_eq!(waiting(b, || b.take(10, WAIT), || dead = Some(a.die())), Ok(Vec::new()));
}

/// The kernel's poll began before the ends met, and another thread's receives would let the bytes come on the VI.
#[test]
fn a_poll_in_the_kernel_is_woken_by_bytes_after_a_rendezvous() {
    for role in [Role::Connector, Role::Acceptor] {
        let link = link(At::Tcp, role);
        let (a, b) = (&link.a, &link.b);
        let act = || {
            for _ in 0..64 {
                b.put(b"x");
                assert_eq!(link.until(|| a.read(1).ok()), b"x");
                assert_eq!(b.read(1), Err(libc::EAGAIN));
            }
            assert!(a.at().is_some_and(|at| a.run(|| at.is_attached_here())));
            a.put(b"news");
        };
        assert_eq!(waiting(b, || b.poll_for(POLLIN, None), act), Ok(POLLIN));
        assert_eq!(link.until(|| b.read(4).ok()), b"news");
    }
}

#[test]
fn a_blocked_write_is_woken_by_room() {
    let [a, b] = &met();
    let sent = a.fill(0);
    let wrote =
        waiting(a, || a.send(b"more", WAIT), || assert_eq!(b.read_exact(sent), pattern(0, sent)));
    assert_eq!(wrote, Ok(4));
    assert_eq!(b.read(10), Ok(b"more".to_vec()));
}

#[test]
fn a_blocked_write_of_much_ends_when_all_is_accepted() {
    const LEN: usize = 2 << 20;
    let [a, b] = &met();
    let wrote = waiting(
        a,
        || a.send(&pattern(0, LEN), WAIT),
        || {
            assert!(b.read_exact(LEN) == pattern(0, LEN));
        },
    );
    assert_eq!(wrote, Ok(LEN));
}

#[test]
fn a_blocked_write_is_woken_by_the_readers_reset() {
    let [a, b] = met_with_threads();
    a.fill(0);
    let a = &a;
    assert_eq!(waiting(a, || a.send(b"more", WAIT), || b.close()), Err(libc::ECONNRESET));
}

#[test]
fn a_blocked_write_is_woken_by_the_readers_death() {
    let [a, b] = met_with_threads();
    a.fill(0);
    let a = &a;
    let mut dead = None;
    let wrote = waiting(a, || a.send(b"more", WAIT), || dead = Some(b.die()));
    assert_eq!(wrote, Err(libc::ECONNRESET));
}

#[test]
fn a_blocked_write_is_woken_by_the_own_shutdown_of_its_half() {
    let [a, _b] = &met();
    a.fill(0);
    let wrote = waiting(a, || a.send(b"more", WAIT), || a.finish());
    assert_eq!(wrote, Err(libc::EPIPE));
}

#[test]
fn a_blocked_read_goes_on_by_tcp_where_the_peer_has_fallen_back() {
    let [a, b] = &met_with_threads();
    let act = || {
        a.to_tcp();
        a.write_all(b"by TCP");
    };
    assert_eq!(waiting(b, || b.take(10, WAIT), act), Ok(b"by TCP".to_vec()));
}

#[test]
fn a_blocked_read_goes_on_by_tcp_where_its_own_end_has_fallen_back() {
    let [a, b] = &met_with_threads();
    let act = || {
        b.to_tcp();
        a.write_all(b"by TCP");
    };
    assert_eq!(waiting(b, || b.take(10, WAIT), act), Ok(b"by TCP".to_vec()));
}

#[test]
fn a_blocked_write_goes_on_by_tcp_where_the_reader_has_fallen_back() {
    let [a, b] = &met_with_threads();
    let sent = a.fill(0);
    let act = || {
        // Unread bytes have room on TCP only as the program reads them.
        thread::scope(|scope| {
            scope.spawn(|| b.to_tcp());
            assert!(b.read_exact(sent + 4) == [pattern(0, sent), b"more".to_vec()].concat());
        });
    };
    assert_eq!(waiting(a, || a.send(b"more", WAIT), act), Ok(4));
}

#[test]
fn a_blocked_poll_for_one_direction_is_woken_by_bytes() {
    let [a, b] = &met();
    let poll = || b.poll_for(POLLIN, Some(CALL_NS));
    assert_eq!(waiting(b, poll, || a.put(b"news")), Ok(POLLIN));
}

#[test]
fn a_blocked_poll_for_both_directions_is_woken_by_bytes() {
    let [a, b] = &met();
    let sent = b.fill(0);
    let poll = || b.poll_for(POLLIN | POLLOUT, Some(CALL_NS));
    assert_eq!(waiting(b, poll, || a.put(b"news")), Ok(POLLIN));
    assert!(sent > 0);
}

#[test]
fn a_blocked_poll_for_both_directions_is_woken_by_room() {
    let [a, b] = &met();
    let sent = b.fill(0);
    let poll = || b.poll_for(POLLIN | POLLOUT, Some(CALL_NS));
    assert_eq!(waiting(b, poll, || assert!(a.read_exact(sent) == pattern(0, sent))), Ok(POLLOUT));
}

#[test]
fn a_blocked_poll_is_woken_by_the_switch_of_a_peer_that_sends() {
    let link = link(At::Granted, Role::Acceptor);
    let (a, b) = (&link.a, &link.b);
    let act = || {
        a.switch();
        a.put(b"news");
    };
    assert_eq!(waiting(b, || b.poll_for(POLLIN, Some(CALL_NS)), act), Ok(POLLIN));
}

/// Has a thread sleep in the set, then `acts`; returns the events that the thread gets.
fn sleeping(set: &Epoll, acts: impl FnOnce()) -> Vec<(i32, u64)> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| set.wait());
        until(&[], || (set.sleepers() > 0 || thread.is_finished()).then_some(()));
        acts();
        until(&[], || thread.is_finished().then_some(()));
        thread.join().unwrap()
    })
}

#[test]
fn a_sleeper_in_a_set_is_woken_by_bytes() {
    let [a, b] = &met();
    let set = b.watched(EPOLLIN);
    assert_eq!(sleeping(&set, || a.put(b"news")), [(EPOLLIN, b.fd() as u64)]);
}

#[test]
fn a_sleeper_in_a_set_is_woken_by_room() {
    let [a, b] = &met();
    let sent = b.fill(0);
    let set = b.watched(EPOLLOUT);
    let reported = sleeping(&set, || assert!(a.read_exact(sent) == pattern(0, sent)));
    assert_eq!(reported, [(EPOLLOUT, b.fd() as u64)]);
}

#[test]
fn a_sleeper_in_a_set_is_woken_by_an_addition_that_is_ready() {
    let engines = Engines::take(Progress::ByHand);
    let (quiet, loud) = (
        link_by(&engines, At::Entered, Role::Connector),
        link_by(&engines, At::Entered, Role::Connector),
    );
    loud.a.put(b"news");
    let set = quiet.b.watched(EPOLLIN);
    assert_eq!(sleeping(&set, || set.add(&loud.b, EPOLLIN)), [(EPOLLIN, loud.b.fd() as u64)]);
}

#[test]
fn a_sleeper_in_a_set_is_woken_by_bytes_for_what_was_added_without_them() {
    let [a, b] = &met();
    let set = b.epoll();
    let reported = sleeping(&set, || {
        set.add(b, EPOLLIN);
        a.put(b"news");
    });
    assert_eq!(reported, [(EPOLLIN, b.fd() as u64)]);
}

#[test]
fn a_sleeper_in_a_set_is_woken_by_bytes_after_a_change_of_interest() {
    let [a, b] = &met();
    let set = b.watched(0);
    let reported = sleeping(&set, || {
        set.modify(b, EPOLLIN);
        a.put(b"news");
    });
    assert_eq!(reported, [(EPOLLIN, b.fd() as u64)]);
}

#[test]
fn a_sleeper_in_a_set_is_woken_by_a_change_of_interest() {
    let [a, b] = &met();
    a.put(b"news");
    let set = b.watched(0);
    assert_eq!(sleeping(&set, || set.modify(b, EPOLLIN)), [(EPOLLIN, b.fd() as u64)]);
}

#[test]
fn a_sleeper_in_a_set_is_woken_though_another_thread_looks_without_waiting() {
    let [a, b] = &met();
    let set = b.watched(EPOLLIN);
    for _ in 0..200 {
        let reported = sleeping(&set, || {
            a.put(b"x");
            set.now();
        });
        assert_eq!(reported, [(EPOLLIN, b.fd() as u64)]);
        assert_eq!(b.read(1), Ok(b"x".to_vec()));
    }
}

#[test]
fn both_sleepers_in_a_set_are_woken_by_a_level() {
    let [a, b] = &met();
    let set = b.watched(EPOLLIN);
    let reported = thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| set.wait()));
        until(&[], || (set.sleepers() == 2).then_some(()));
        a.put(b"news");
        until(&[], || both.iter().all(|thread| thread.is_finished()).then_some(()));
        both.map(|thread| thread.join().unwrap())
    });
    assert_eq!(reported, [[(EPOLLIN, b.fd() as u64)], [(EPOLLIN, b.fd() as u64)]]);
}

#[test]
fn threads_that_send_on_one_end_send_each_message_whole() {
    const THREADS: usize = 3;
    const MESSAGES: usize = 2_000;
    let [a, b] = &met_with_threads();
    thread::scope(|scope| {
        for sender in 0..THREADS as u8 {
            scope.spawn(move || {
                for n in 0..MESSAGES as u32 {
                    let mut message = [sender; 40];
                    message[4..8].copy_from_slice(&n.to_le_bytes());
                    a.write_all(&message);
                }
            });
        }
        let mut next = [0u32; THREADS];
        for _ in 0..THREADS * MESSAGES {
            let message = b.read_exact(40);
            let sender = message[0];
            let n = u32::from_le_bytes(message[4..8].try_into().unwrap());
            assert!(message[8..].iter().all(|&byte| byte == sender));
            assert_eq!(n, next[usize::from(sender)]);
            next[usize::from(sender)] += 1;
        }
    });
}

/// Reads by several threads what `a` sends, beside `acts`, and checks that each byte comes to one of them.
fn shared_reading(acts: impl FnOnce(&End, &End)) {
    const LEN: usize = 50_000;
    let [a, b] = &met_with_threads();
    let got = AtomicUsize::new(0);
    let total = thread::scope(|scope| {
        let readers = [(); 3].map(|()| {
            scope.spawn(|| {
                let mut sum = 0u64;
                loop {
                    let bytes = b.take(100, WAIT).unwrap();
                    if bytes.is_empty() {
                        return sum;
                    }
                    got.fetch_add(bytes.len(), Ordering::Relaxed);
                    sum += bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
                }
            })
        });
        for from in (0..LEN / 2).step_by(50) {
            a.write_all(&pattern(from, 50));
        }
        acts(a, b);
        for from in (LEN / 2..LEN).step_by(50) {
            a.write_all(&pattern(from, 50));
        }
        a.finish();
        readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u64>()
    });
    assert_eq!(got.into_inner(), LEN);
    assert_eq!(total, pattern(0, LEN).iter().map(|&byte| u64::from(byte)).sum());
}

#[test]
fn threads_that_read_on_one_end_have_each_byte_once() {
    shared_reading(|_, _| {});
}

#[test]
fn threads_that_read_on_one_end_have_each_byte_once_during_the_fallback() {
    shared_reading(|_, b| b.to_tcp());
}

#[test]
fn threads_that_read_on_one_end_have_each_byte_once_while_its_peer_falls_back() {
    shared_reading(|a, _| a.to_tcp());
}

#[test]
fn reads_without_waiting_lose_nothing_while_the_peer_falls_back() {
    const LEN: usize = 20_000;
    let [a, b] = &met_with_threads();
    let begin = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            begin.wait();
            for from in (0..LEN).step_by(100) {
                if from == LEN / 2 {
                    a.to_tcp();
                }
                a.write_all(&pattern(from, 100));
            }
        });
        begin.wait();
        let mut got = 0;
        while got < LEN {
            match b.take(70, NOW) {
                Ok(bytes) => {
                    assert_eq!(bytes, pattern(got, bytes.len()));
                    assert!(!bytes.is_empty());
                    got += bytes.len();
                }
                Err(error) => assert_eq!(error, libc::EAGAIN),
            }
        }
    });
}

#[test]
fn two_ends_that_fall_back_at_once_from_two_threads_both_come_back() {
    let [a, b] = &met_with_threads();
    thread::scope(|scope| {
        scope.spawn(|| a.to_tcp());
        scope.spawn(|| b.to_tcp());
    });
    assert!(!a.info().is_accelerated() && !b.info().is_accelerated());
    a.write_all(&pattern(0, 5_000));
    b.write_all(&pattern(0, 3_000));
    assert_eq!(b.read_exact(5_000), pattern(0, 5_000));
    assert_eq!(a.read_exact(3_000), pattern(0, 3_000));
}

#[test]
fn a_blocked_read_goes_on_though_its_descriptor_is_closed() {
    let [a, b] = met_with_threads();
    b.limit_waits();
    thread::scope(|scope| {
        let b = &b;
        let thread = scope.spawn(|| b.take(10, WAIT));
        until(&[], || (sleepers(b) > 0).then_some(()));
        b.close_number();
        a.put(b"news");
        assert_eq!(thread.join().unwrap(), Ok(b"news".to_vec()));
    });
    // The end comes with the last call on the connection.
    assert_eq!(a.read_exact(1), b"");
}

#[test]
fn a_send_that_waits_goes_on_where_a_buffer_grows() {
    for (grows, name) in [(0, libc::SO_SNDBUF), (1, libc::SO_RCVBUF)] {
        let ends = met();
        let [_, _] = ends.each_ref().map(|end| end.set_buffers(4 << 10));
        let [a, _] = &ends;
        a.fill(0);
        let act = || ends[grows].set(libc::SOL_SOCKET, name, 256 << 10);
        assert_eq!(waiting(a, || a.send(&pattern(0, 5_000), WAIT), act), Ok(5_000));
    }
}

#[test]
fn much_goes_through_buffers_of_every_size_both_ways_at_once() {
    const MUCH: usize = 4 << 20;
    for size in [1, 4 << 10, 40 << 10, 60 << 10, 70 << 10, 400 << 10, 4 << 20] {
        let ends = met_with_threads();
        let [_, _] = ends.each_ref().map(|end| end.set_buffers(size));
        thread::scope(|scope| {
            for (end, part) in [(&ends[0], 1_000), (&ends[1], 100_000)] {
                scope.spawn(move || {
                    (0..MUCH).step_by(part).for_each(|from| {
                        end.write_all(&pattern(from, part.min(MUCH - from)));
                    });
                });
                // Parts that are no parts of what was written.
                scope.spawn(move || {
                    let mut from = 0;
                    for len in (1..).map(|n| n * 7_919 % 30_011) {
                        let len = len.min(MUCH - from);
                        assert!(end.read_exact(len) == pattern(from, len), "{size}: at {from}");
                        from += len;
                        if from == MUCH {
                            break;
                        }
                    }
                });
            }
        });
    }
}
