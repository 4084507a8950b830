//! Reports of poll at each place.

use super::harness::{End, Link, arrives, cases, ends, met_as, pattern, send, until};
use libc::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP};

/// All that is asked for.
const EVERYTHING: i16 = POLLIN | POLLOUT | POLLRDHUP;

cases! {
    bytes_make_an_end_readable_until_they_are_read at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_full_sender_is_not_writable_until_the_receiver_has_read at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_half_close_is_reported_with_bytes_before_it_unread at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    two_half_closes_are_a_hang_up at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_reset_is_an_error_and_a_hang_up at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    the_own_half_close_leaves_the_end_writable_and_not_hung_up at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_receiver_that_shuts_its_half_is_readable_for_good at
        on_tcp granted switched entered revoked left draining back_on_tcp;
}

fn bytes_make_an_end_readable_until_they_are_read(link: Link) {
    link.arrives(b"");
    link.turn();
    assert_eq!(link.b.poll(POLLIN | POLLRDHUP), 0);
    link.send(b"news");
    link.becomes(|| link.b.poll(POLLIN | POLLRDHUP) == POLLIN);
    arrives(&link.ends(), &link.b, b"ne");
    assert_eq!(link.b.poll(EVERYTHING), POLLIN | POLLOUT);
    arrives(&link.ends(), &link.b, b"ws");
    link.turn();
    assert_eq!(link.b.poll(EVERYTHING), POLLOUT);
}

fn a_full_sender_is_not_writable_until_the_receiver_has_read(link: Link) {
    link.ends().into_iter().for_each(End::shrink_buffer);
    link.arrives(b"");
    link.becomes(|| link.a.is_writable());
    let mut sent = 0;
    link.until(|| {
        sent += link.a.fill(sent);
        (link.a.poll(EVERYTHING) == 0).then_some(())
    });
    arrives(&link.ends(), &link.b, &pattern(0, sent));
    link.becomes(|| link.a.poll(EVERYTHING) == POLLOUT);
    send(&link.ends(), &link.a, b"more");
    arrives(&link.ends(), &link.b, b"more");
}

fn a_half_close_is_reported_with_bytes_before_it_unread(link: Link) {
    link.send(b"last");
    link.a.finish();
    link.becomes(|| link.b.poll(EVERYTHING) == EVERYTHING);
    link.arrives(b"last");
    assert_eq!(link.b.poll(EVERYTHING), EVERYTHING);
    ends(&link.ends(), &link.b);
    assert_eq!(link.b.poll(EVERYTHING), EVERYTHING);
}

fn two_half_closes_are_a_hang_up(link: Link) {
    link.arrives(b"");
    link.a.finish();
    link.b.finish();
    link.becomes(|| link.a.poll(EVERYTHING) == EVERYTHING | POLLHUP);
    link.becomes(|| link.b.poll(EVERYTHING) == EVERYTHING | POLLHUP);
    ends(&link.ends(), &link.b);
    assert_eq!(link.b.poll(EVERYTHING), EVERYTHING | POLLHUP);
}

fn a_reset_is_an_error_and_a_hang_up(link: Link) {
    link.arrives(b"");
    let Link { a, b, .. } = link;
    a.abort();
    until(&[&b], || (b.poll(EVERYTHING) == EVERYTHING | POLLERR | POLLHUP).then_some(()));
    assert_eq!(b.read(1), Err(libc::ECONNRESET));
    assert_eq!(b.poll(EVERYTHING), EVERYTHING | POLLHUP);
}

fn the_own_half_close_leaves_the_end_writable_and_not_hung_up(link: Link) {
    link.a.finish();
    link.becomes(|| link.a.poll(EVERYTHING) == POLLOUT);
    send(&link.ends(), &link.b, b"answer");
    link.becomes(|| link.a.poll(EVERYTHING) == POLLIN | POLLOUT);
}

fn a_receiver_that_shuts_its_half_is_readable_for_good(link: Link) {
    link.arrives(b"");
    link.b.shutdown(libc::SHUT_RD).unwrap();
    link.becomes(|| link.b.poll(EVERYTHING) == EVERYTHING);
    assert_eq!(link.b.read(1), Ok(Vec::new()));
    assert_eq!(link.b.poll(EVERYTHING), EVERYTHING);
}

/// FIONREAD counts messages that the thread which handles them has not come to.
#[test]
fn bytes_that_are_counted_are_reported() {
    for choice in ["handler", "notify"] {
        let [a, b] = &met_as(choice);
        let set = b.epoll();
        set.add(b, libc::EPOLLIN);
        for n in 0..200 {
            a.put(b"some");
            until(&[], || (b.unread() == 4).then_some(()));
            assert_eq!(set.now(), [(libc::EPOLLIN, b.fd() as u64)], "{choice}, {n}");
            assert_eq!(b.read(4), Ok(b"some".to_vec()));
        }
    }
}
