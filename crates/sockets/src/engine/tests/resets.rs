//! Ends that break a connection off, and what the other end is notified of.

use super::harness::{Link, arrives, cases, ends, is_reset, pattern, until};

cases! {
    a_close_with_unread_bytes_is_a_reset_reported_once at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_close_with_linger_of_zero_is_a_reset_reported_once at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_reset_is_reported_by_so_error_and_then_no_more at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_reset_is_reported_to_a_write_and_then_a_broken_pipe at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    bytes_before_a_reset_are_read_first at
        on_tcp granted switched entered revoked left draining back_on_tcp;
}

fn a_close_with_unread_bytes_is_a_reset_reported_once(link: Link) {
    link.answer(b"never read");
    let Link { a, b, unread } = link;
    arrives(&[&a, &b], &b, &unread);
    a.close();
    is_reset(&[&b], &b);
    assert_eq!(b.write(b"x"), Err(libc::EPIPE));
}

fn a_close_with_linger_of_zero_is_a_reset_reported_once(link: Link) {
    let Link { a, b, unread } = link;
    arrives(&[&a, &b], &b, &unread);
    a.abort();
    is_reset(&[&b], &b);
    assert_eq!(b.write(b"x"), Err(libc::EPIPE));
}

fn a_reset_is_reported_by_so_error_and_then_no_more(link: Link) {
    let Link { a, b, unread } = link;
    arrives(&[&a, &b], &b, &unread);
    a.abort();
    let error = until(&[&b], || Some(b.error()).filter(|&error| error != 0));
    assert_eq!((error, b.error()), (libc::ECONNRESET, 0));
    ends(&[&b], &b);
    assert_eq!(b.write(b"x"), Err(libc::EPIPE));
}

fn a_reset_is_reported_to_a_write_and_then_a_broken_pipe(link: Link) {
    let Link { a, b, unread } = link;
    arrives(&[&a, &b], &b, &unread);
    a.abort();
    until(&[&b], || (b.poll(libc::POLLIN) & libc::POLLERR != 0).then_some(()));
    assert_eq!(b.write(b"x"), Err(libc::ECONNRESET));
    assert_eq!(b.write(b"x"), Err(libc::EPIPE));
    ends(&[&b], &b);
}

fn bytes_before_a_reset_are_read_first(link: Link) {
    link.answer(b"never read");
    link.send(&pattern(0, 500));
    let Link { a, b, unread } = link;
    until(&[&a, &b], || (b.unread() == unread.len() + 500).then_some(()));
    a.close();
    arrives(&[&b], &b, &[unread, pattern(0, 500)].concat());
    is_reset(&[&b], &b);
}
