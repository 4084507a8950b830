//! Senders that get rid of as much as there is room for.

use super::harness::{At, End, Link, arrives, cases, ends, link, pattern, send, until};
use crate::conn::Role;
use crate::options::SO_BUF_LOCK;

cases! {
    all_that_a_full_sender_got_rid_of_arrives_in_order at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_full_sender_that_closes_loses_nothing at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    both_ends_may_be_full_at_once at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_write_of_more_than_there_is_room_for_takes_the_first_bytes at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_full_end_may_half_close at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_full_end_that_falls_back_loses_nothing at
        on_tcp granted switched entered revoked left draining back_on_tcp;
}

/// Fills the direction from `a` to `b`; how many bytes.
fn fill(link: &Link) -> usize {
    link.ends().into_iter().for_each(End::shrink_buffer);
    let mut sent = 0;
    link.until(|| {
        let more = link.a.fill(sent);
        sent += more;
        (sent > 0 && more == 0).then_some(sent)
    })
}

fn all_that_a_full_sender_got_rid_of_arrives_in_order(link: Link) {
    link.arrives(b"");
    let mut sent = fill(&link);
    let mut got = 0;
    // Room for some more each time that some has been read.
    for _ in 0..4 {
        let part = (sent - got) / 2;
        arrives(&link.ends(), &link.b, &pattern(got, part));
        got += part;
        sent += link.a.fill(sent);
    }
    arrives(&link.ends(), &link.b, &pattern(got, sent - got));
    link.turn();
    assert_eq!(link.b.read(1), Err(libc::EAGAIN));
}

fn a_full_sender_that_closes_loses_nothing(link: Link) {
    link.arrives(b"");
    let sent = fill(&link);
    let Link { a, b, .. } = link;
    a.close();
    arrives(&[&b], &b, &pattern(0, sent));
    ends(&[&b], &b);
}

fn both_ends_may_be_full_at_once(link: Link) {
    link.arrives(b"");
    let sent = fill(&link);
    let mut answered = 0;
    link.until(|| {
        answered += link.b.fill(answered);
        (answered > 0).then_some(())
    });
    arrives(&link.ends(), &link.a, &pattern(0, answered));
    arrives(&link.ends(), &link.b, &pattern(0, sent));
    send(&link.ends(), &link.a, b"more");
    arrives(&link.ends(), &link.b, b"more");
}

fn a_write_of_more_than_there_is_room_for_takes_the_first_bytes(link: Link) {
    const MORE: usize = 16 << 20;
    link.arrives(b"");
    let all = pattern(0, MORE);
    let n = link.until(|| link.a.write(&all).ok());
    assert!(0 < n && n < MORE, "{n}");
    arrives(&link.ends(), &link.b, &all[..n]);
}

fn a_full_end_may_half_close(link: Link) {
    link.arrives(b"");
    let sent = fill(&link);
    link.a.finish();
    assert_eq!(link.a.write(b"x"), Err(libc::EPIPE));
    arrives(&link.ends(), &link.b, &pattern(0, sent));
    ends(&link.ends(), &link.b);
}

fn a_full_end_that_falls_back_loses_nothing(link: Link) {
    link.arrives(b"");
    let sent = fill(&link);
    link.a.leave();
    let (half, rest) = (sent / 2, sent - sent / 2);
    arrives(&link.ends(), &link.b, &pattern(0, half));
    link.b.leave();
    arrives(&link.ends(), &link.b, &pattern(half, rest));
    send(&link.ends(), &link.a, b"more");
    arrives(&link.ends(), &link.b, b"more");
    until(&link.ends(), || link.b.write(b"answer").ok());
    link.is_answered(b"answer");
}

/// Sizes of buffers: some leave less than the largest message, others more.
const SIZES: [i32; 6] = [0, 4 << 10, 16 << 10, 40 << 10, 64 << 10, 400 << 10];

/// Links whose sender is on the VI, or goes there with its next byte, in both directions.
fn on_vi() -> impl Iterator<Item = Link> {
    let places = [At::Granted, At::Switched, At::Entered];
    places.into_iter().flat_map(|at| [Role::Connector, Role::Acceptor].map(|role| link(at, role)))
}

#[test]
fn a_sender_gets_rid_of_what_two_buffers_hold() {
    on_vi().for_each(fills_buffers);
}

fn fills_buffers(link: Link) {
    link.ends().into_iter().for_each(End::has_memory);
    let mut sent = 0;
    for size in SIZES {
        let bound = link.ends().map(|end| end.set_buffers(size))[0];
        let begin = sent;
        sent += link.a.fill(sent);
        let most = sent - begin;
        assert!((bound / 2..=bound).contains(&most), "{most} of {bound}");
        assert!(!link.a.is_writable());
        // Room comes with what is read, however it is read, before all has been.
        let mut got = begin;
        while sent - got > most / 4 {
            let n = (most / 16).min(sent - got);
            arrives(&link.ends(), &link.b, &pattern(got, n));
            got += n;
        }
        link.becomes(|| link.a.is_writable());
        let more = link.a.fill(sent);
        assert!(more > 0 && sent + more - got <= bound, "{more} more of {bound}");
        sent += more;
        arrives(&link.ends(), &link.b, &pattern(got, sent - got));
    }
    // The kernel chooses the size of a buffer that is not set any more.
    link.ends().into_iter().for_each(|end| end.set(libc::SOL_SOCKET, SO_BUF_LOCK, 0));
    assert!(link.a.fill(sent) > 1 << 20);
}

#[test]
fn without_sizes_the_hosts_limits_for_a_socket_hold() {
    on_vi().for_each(|link| {
        for end in link.ends() {
            end.has_memory();
            end.host_gives(100 << 10, 200 << 10);
        }
        let sent = link.a.fill(0);
        assert!((150 << 10..=300 << 10).contains(&sent), "{sent}");
        assert!(!link.a.is_writable());
        arrives(&link.ends(), &link.b, &pattern(0, sent));
        link.becomes(|| link.a.is_writable());
        // A host that gives more than the segment holds bounds nothing.
        link.ends().into_iter().for_each(|end| end.host_gives(64 << 20, 64 << 20));
        assert!(link.a.fill(sent) > 1 << 20);
    });
}

#[test]
fn a_buffer_that_grows_gives_room() {
    on_vi().for_each(grows);
}

fn grows(link: Link) {
    link.ends().into_iter().for_each(End::has_memory);
    let [_, _] = link.ends().map(|end| end.set_buffers(4 << 10));
    let mut sent = link.a.fill(0);
    for (end, name, size) in
        [(&link.a, libc::SO_SNDBUF, 20 << 10), (&link.b, libc::SO_RCVBUF, 80 << 10)]
    {
        assert!(!link.a.is_writable());
        end.set(libc::SOL_SOCKET, name, size);
        link.becomes(|| link.a.is_writable());
        sent += link.a.fill(sent);
    }
    link.a.set(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, 1);
    assert!(!link.a.is_writable());
    arrives(&link.ends(), &link.b, &pattern(0, sent));
    link.becomes(|| link.a.is_writable());
}
