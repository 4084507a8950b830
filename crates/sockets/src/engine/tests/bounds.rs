//! Senders that get rid of as much as there is room for.

use super::harness::{End, Link, arrives, cases, ends, pattern, send, until};

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
