//! Ends that close one half or both, in good order.

use super::harness::{
    At, End, Link, NOW, PEEK, WAIT, arrives, cases, ends, link, next, pattern, send, until,
};
use crate::conn::Role;

cases! {
    bytes_before_a_half_close_arrive_and_the_other_half_goes_on at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    bytes_before_a_close_arrive at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    both_halves_may_close_at_once at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_write_after_the_own_half_close_is_a_broken_pipe at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_gathered_write_to_a_closed_peer_is_taken_as_a_whole at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_write_to_a_closed_peer_is_a_broken_pipe_in_the_end at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    receives_of_no_bytes_wait_for_bytes_or_the_end at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_receiver_that_shuts_its_half_reads_the_rest_and_the_end at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    an_answer_after_the_peers_half_close_arrives_though_the_end_is_unread at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_reset_after_the_own_half_close_is_reported_once at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_reset_that_so_error_has_reported_shows_in_poll at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_reset_that_a_receive_has_reported_is_not_reported_to_a_send at
        on_tcp granted switched entered revoked left draining back_on_tcp;
}

fn bytes_before_a_half_close_arrive_and_the_other_half_goes_on(link: Link) {
    link.send(&pattern(0, 3_000));
    link.a.finish();
    link.arrives(&pattern(0, 3_000));
    ends(&link.ends(), &link.b);
    send(&link.ends(), &link.b, b"answer");
    link.is_answered(b"answer");
    link.b.finish();
    ends(&link.ends(), &link.a);
}

fn bytes_before_a_close_arrive(link: Link) {
    link.send(&pattern(0, 3_000));
    let Link { a, b, unread } = link;
    a.close();
    arrives(&[&b], &b, &[unread, pattern(0, 3_000)].concat());
    ends(&[&b], &b);
}

fn both_halves_may_close_at_once(link: Link) {
    link.send(b"last of a");
    send(&link.ends(), &link.b, b"last of b");
    link.a.finish();
    link.b.finish();
    link.arrives(b"last of a");
    link.is_answered(b"last of b");
    ends(&link.ends(), &link.a);
    ends(&link.ends(), &link.b);
}

fn a_write_after_the_own_half_close_is_a_broken_pipe(link: Link) {
    link.a.finish();
    for _ in 0..2 {
        assert_eq!(link.a.write(b"too late"), Err(libc::EPIPE));
    }
    link.arrives(b"");
    ends(&link.ends(), &link.b);
}

fn a_write_to_a_closed_peer_is_a_broken_pipe_in_the_end(link: Link) {
    let Link { a, b, unread } = link;
    arrives(&[&a, &b], &b, &unread);
    a.close();
    ends(&[&b], &b);
    // TCP takes the first write: the kernel learns by the answer that nothing is read any more.
    send(&[&b], &b, b"first");
    let error = until(&[&b], || b.write(b"more").err());
    assert_eq!(error, libc::EPIPE);
    ends(&[&b], &b);
}

fn receives_of_no_bytes_wait_for_bytes_or_the_end(link: Link) {
    let both = || [PEEK, NOW].map(|flags| link.b.take(0, flags));
    link.arrives(b"");
    assert_eq!(both(), [Err(libc::EAGAIN), Err(libc::EAGAIN)]);
    link.send(b"x");
    link.becomes(|| link.b.unread() == 1);
    assert_eq!(both(), [Ok(Vec::new()), Ok(Vec::new())]);
    arrives(&link.ends(), &link.b, b"x");
    link.a.finish();
    link.becomes(|| link.b.poll(libc::POLLIN) != 0);
    for _ in 0..3 {
        assert_eq!(both(), [Ok(Vec::new()), Ok(Vec::new())]);
        assert_eq!(link.b.take(1, PEEK), Ok(Vec::new()));
    }
}

fn a_gathered_write_to_a_closed_peer_is_taken_as_a_whole(link: Link) {
    let Link { a, b, unread } = link;
    arrives(&[&a, &b], &b, &unread);
    a.close();
    ends(&[&b], &b);
    let parts = [10, 0, 300, 5_000, 7, 3_000].map(|len| pattern(0, len));
    let parts = parts.each_ref().map(|part| &part[..]);
    assert_eq!(b.send_parts(&parts, WAIT), Ok(8_317));
    assert_eq!(until(&[&b], || b.send_parts(&parts, WAIT).err()), libc::EPIPE);
}

fn a_receiver_that_shuts_its_half_reads_the_rest_and_the_end(link: Link) {
    link.send(&pattern(0, 100));
    link.becomes(|| link.b.unread() == link.unread.len() + 100);
    link.b.shutdown(libc::SHUT_RD).unwrap();
    link.arrives(&pattern(0, 100));
    ends(&link.ends(), &link.b);
}

fn an_answer_after_the_peers_half_close_arrives_though_the_end_is_unread(link: Link) {
    link.a.finish();
    link.turn();
    send(&link.ends(), &link.b, b"answer");
    link.is_answered(b"answer");
    link.b.finish();
    assert_eq!(next(&link.ends(), &link.a), Ok(Vec::new()));
    link.arrives(b"");
    ends(&link.ends(), &link.b);
}

/// Lets `b` close with bytes unread, so that the kernel resets the connection. Returns `a`.
fn reset(link: Link) -> End {
    link.becomes(|| link.b.unread() == link.unread.len() + 6);
    let Link { a, b, .. } = link;
    b.close();
    a
}

fn a_reset_after_the_own_half_close_is_reported_once(link: Link) {
    link.send(b"unread");
    link.a.finish();
    let a = reset(link);
    // The kernel, too, reports the reset to one call, whichever comes first.
    assert_eq!(until(&[&a], || a.write(b"too late").err()), libc::ECONNRESET);
    assert_eq!(a.error(), 0);
    assert_eq!(a.write(b"too late"), Err(libc::EPIPE));
    ends(&[&a], &a);
}

fn a_reset_that_so_error_has_reported_shows_in_poll(link: Link) {
    const ENDS: i16 = libc::POLLHUP | libc::POLLRDHUP;
    link.send(b"unread");
    let a = reset(link);
    // No round of the progress thread comes before the program's call.
    assert_eq!(until(&[], || Some(a.error()).filter(|&error| error != 0)), libc::ECONNRESET);
    assert_eq!(a.poll(libc::POLLIN | libc::POLLRDHUP) & ENDS, ENDS);
    assert_eq!(a.read(10), Ok(Vec::new()));
    assert_eq!(a.write(b"too late"), Err(libc::EPIPE));
}

fn a_reset_that_a_receive_has_reported_is_not_reported_to_a_send(link: Link) {
    link.send(b"unread");
    link.a.finish();
    let a = reset(link);
    assert_eq!(next(&[&a], &a), Err(libc::ECONNRESET));
    assert_eq!(a.write(b"too late"), Err(libc::EPIPE));
    assert_eq!(a.error(), 0);
    ends(&[&a], &a);
}

#[test]
fn a_stored_error_comes_after_the_bytes_on_tcp() {
    let link = link(At::Back, Role::Connector);
    link.send(b"first");
    link.becomes(|| link.b.unread() == link.unread.len() + 5);
    link.b.at().unwrap().conn.keep_error(libc::ECONNRESET);
    link.arrives(b"first");
    assert_eq!(link.b.read(10), Err(libc::ECONNRESET));
}
