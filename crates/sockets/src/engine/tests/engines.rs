//! Two engines beside each other in a process, each with its progress thread.

use super::harness::{
    At, Engines, NOW, PEEK, Progress, ends, fresh, link, met, met_with_threads, pattern,
};
use crate::conn::{Role, flag};
use crate::stream::handler_queue;
use crate::{pair, table};
use core::sync::atomic::Ordering;
use std::thread;

#[test]
fn the_ends_of_a_connection_meet_in_one_process() {
    let [a, b] = &met_with_threads();
    a.write_all(b"over the VI");
    assert_eq!(b.read_exact(11), b"over the VI");
    assert!(a.info().is_accelerated() && b.info().is_accelerated());
    assert!(a.info().bytes_sent >= 11 && b.info().bytes_received >= 11);
}

#[test]
fn an_engine_knows_nothing_of_the_other_ones_connections() {
    let [a, b] = &fresh(&Engines::take(Progress::ByHand));
    assert!(a.at().is_some() && b.at().is_some());
    assert!(a.run(|| table::conn(b.fd())).is_none() && b.run(|| table::conn(a.fd())).is_none());
}

#[test]
fn unread_bytes_are_read_in_order_after_either_end_fell_back() {
    for leaves in 0..2 {
        let ends = met_with_threads();
        let [a, b] = &ends;
        a.write_all(&pattern(0, 5_000));
        assert_eq!(b.read_exact(1_000), pattern(0, 1_000));
        thread::scope(|scope| {
            // One end asks, and the other one answers when it calls.
            let going = scope.spawn(|| ends[leaves].to_tcp());
            a.write_all(&pattern(5_000, 3_000));
            assert_eq!(b.read_exact(7_000), pattern(1_000, 7_000));
            going.join().unwrap();
        });
        while a.info().is_accelerated() || b.info().is_accelerated() {
            a.write_all(b"x");
            assert_eq!(b.read_exact(1), b"x");
            b.write_all(b"y");
            assert_eq!(a.read_exact(1), b"y");
        }
    }
}

#[test]
fn coalesced_bytes_behind_packets_that_no_thread_has_handled_are_not_the_end_of_the_stream() {
    const LEN: usize = 64 * 200;
    let [a, b] = &met();
    let at = b.at().unwrap();
    // A thread that handles messages and stands still.
    b.run(|| {
        let pair = pair::share(at.conn.pair.load(Ordering::Relaxed)).unwrap();
        let ready_list = pair.take_ready_list(0).unwrap();
        handler_queue::begin(&mut at.attached().unwrap(), ready_list, 0);
    });
    // More packets than the window has: bytes behind them are coalesced.
    for from in (0..LEN).step_by(64) {
        a.put(&pattern(from, 64));
    }
    for how in [NOW, PEEK] {
        // Events of the socket have a call look closely.
        at.conn.set(flag::KERNEL_SOCKET);
        assert_eq!(b.take(64, how), Err(libc::EAGAIN));
    }
    b.run(|| handler_queue::handle_own(&mut at.attached().unwrap()));
    assert_eq!(b.drain(LEN), (pattern(0, LEN), Err(libc::EAGAIN)));
}

#[test]
fn bytes_of_tcp_that_were_read_and_not_counted_are_counted_where_tcp_ends() {
    let link = link(At::Switched, Role::Connector);
    let conn = link.b.at().unwrap().conn;
    link.b.run(|| conn.rx_tcp.fetch_sub(3, Ordering::Relaxed));
    link.a.put(b"the rest");
    link.a.finish();
    link.arrives(b"the rest");
    ends(&link.ends(), &link.b);
}
