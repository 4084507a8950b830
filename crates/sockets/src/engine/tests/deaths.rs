//! Ends whose process dies: the kernel closes the socket, and the engine says nothing.

use super::harness::{End, Link, arrives, cases, ends, is_reset, pattern, until};
use libc::{
    EPOLLERR, EPOLLET, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP, POLLERR, POLLHUP, POLLIN, POLLOUT,
    POLLRDHUP,
};

cases! {
    bytes_of_a_dead_peer_arrive_and_then_the_end at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_peer_that_dies_with_unread_bytes_is_a_reset_reported_once at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    bytes_of_a_peer_that_died_with_unread_bytes_are_read_first at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    poll_reports_the_reset_by_a_death_with_unread_bytes at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    an_edge_reports_a_death_once at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    an_edge_reports_a_reset_by_a_death_once at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_full_sender_learns_of_its_readers_death at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_death_after_a_half_close_ends_the_other_half at
        on_tcp granted switched entered revoked left draining back_on_tcp;
}

fn bytes_of_a_dead_peer_arrive_and_then_the_end(link: Link) {
    link.send(&pattern(0, 500));
    let Link { a, b, unread } = link;
    let _dead = a.die();
    arrives(&[&b], &b, &[unread, pattern(0, 500)].concat());
    ends(&[&b], &b);
}

fn a_peer_that_dies_with_unread_bytes_is_a_reset_reported_once(link: Link) {
    link.arrives(b"");
    link.answer(b"never read");
    let Link { a, b, .. } = link;
    let _dead = a.die();
    is_reset(&[&b], &b);
    assert_eq!(b.write(b"x"), Err(libc::EPIPE));
}

fn bytes_of_a_peer_that_died_with_unread_bytes_are_read_first(link: Link) {
    link.answer(b"never read");
    link.send(&pattern(0, 500));
    let Link { a, b, unread } = link;
    until(&[&a, &b], || (b.unread() == unread.len() + 500).then_some(()));
    let _dead = a.die();
    arrives(&[&b], &b, &[unread, pattern(0, 500)].concat());
    is_reset(&[&b], &b);
}

fn poll_reports_the_reset_by_a_death_with_unread_bytes(link: Link) {
    const ALL: i16 = POLLIN | POLLOUT | POLLRDHUP | POLLHUP;
    link.arrives(b"");
    link.answer(b"never read");
    let Link { a, b, .. } = link;
    let _dead = a.die();
    until(&[&b], || (b.poll(ALL) == ALL | POLLERR).then_some(()));
    assert_eq!((b.error(), b.error()), (libc::ECONNRESET, 0));
    assert_eq!(b.poll(ALL), ALL);
}

fn an_edge_reports_a_death_once(link: Link) {
    link.arrives(b"");
    let set = link.b.watched(EPOLLIN | EPOLLRDHUP | EPOLLET);
    assert_eq!(set.mask(), 0);
    let Link { a, b, .. } = link;
    let _dead = a.die();
    let mask = until(&[&b], || Some(set.mask()).filter(|&mask| mask != 0));
    assert_eq!(mask & !EPOLLHUP, EPOLLIN | EPOLLRDHUP);
    ends(&[&b], &b);
}

fn an_edge_reports_a_reset_by_a_death_once(link: Link) {
    link.arrives(b"");
    link.answer(b"never read");
    let set = link.b.watched(EPOLLOUT | EPOLLET);
    link.becomes(|| set.mask() == EPOLLOUT);
    let Link { a, b, .. } = link;
    let _dead = a.die();
    let mask = until(&[&b], || Some(set.mask()).filter(|mask| mask & EPOLLERR != 0));
    assert_eq!(mask, EPOLLOUT | EPOLLERR | EPOLLHUP);
    for _ in 0..3 {
        b.round();
        assert_eq!(set.mask(), 0, "an edge was reported twice");
    }
}

fn a_full_sender_learns_of_its_readers_death(link: Link) {
    link.ends().into_iter().for_each(End::shrink_buffer);
    link.arrives(b"");
    link.until(|| (link.b.fill(0) > 0).then_some(()));
    let Link { a, b, .. } = link;
    let _dead = a.die();
    let error = until(&[&b], || b.write(b"x").err().filter(|&error| error != libc::EAGAIN));
    assert_eq!(error, libc::ECONNRESET);
    assert_eq!(b.write(b"x"), Err(libc::EPIPE));
    ends(&[&b], &b);
}

fn a_death_after_a_half_close_ends_the_other_half(link: Link) {
    link.arrives(b"");
    link.a.finish();
    ends(&link.ends(), &link.b);
    let Link { a, b, .. } = link;
    let _dead = a.die_with_its_process();
    // The kernel learns by an answer to what is sent.
    let error = until(&[&b], || b.write(b"x").err().filter(|&error| error != libc::EAGAIN));
    assert_eq!(error, libc::EPIPE);
    ends(&[&b], &b);
}
