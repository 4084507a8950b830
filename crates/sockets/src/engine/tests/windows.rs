//! Messages and the window, and calls that take a part of what is there.

use super::harness::{
    ALL, At, End, Link, NOW, PEEK, WAIT, arrives, cases, ends, link, met, met_as, pattern, send,
};
use crate::conn::Role;
use crate::ops::Flags;

cases! {
    one_read_takes_all_that_is_there at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_look_takes_nothing at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    the_count_of_unread_bytes_falls_with_each_read at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_write_of_nothing_sends_nothing at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_read_of_all_returns_less_at_the_end at
        on_tcp granted switched entered left back_on_tcp;
    a_look_for_nothing_at_the_end_does_not_wait at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_short_write_finds_room_where_nothing_is_unread at
        on_tcp granted switched entered revoked left draining back_on_tcp;
}

fn one_read_takes_all_that_is_there(link: Link) {
    link.arrives(b"");
    for n in 0..3 {
        link.send(&pattern(n * 50, 50));
    }
    link.becomes(|| link.b.unread() == 150);
    assert_eq!(link.b.read(1_000), Ok(pattern(0, 150)));
}

fn a_look_takes_nothing(link: Link) {
    link.arrives(b"");
    for n in 0..3 {
        link.send(&pattern(n * 100, 100));
    }
    link.becomes(|| link.b.unread() == 300);
    assert_eq!(link.b.take(250, PEEK), Ok(pattern(0, 250)));
    assert_eq!(link.b.read(120), Ok(pattern(0, 120)));
    assert_eq!(link.b.take(1_000, PEEK), Ok(pattern(120, 180)));
    assert_eq!(link.b.read(1_000), Ok(pattern(120, 180)));
    assert_eq!(link.b.take(1, PEEK), Err(libc::EAGAIN));
}

fn the_count_of_unread_bytes_falls_with_each_read(link: Link) {
    link.arrives(b"");
    assert_eq!(link.b.unread(), 0);
    link.send(&pattern(0, 5_000));
    link.becomes(|| link.b.unread() == 5_000);
    assert_eq!(link.b.read(4_999), Ok(pattern(0, 4_999)));
    assert_eq!(link.b.unread(), 1);
    link.send(b"x");
    link.becomes(|| link.b.unread() == 2);
}

fn a_write_of_nothing_sends_nothing(link: Link) {
    link.arrives(b"");
    assert_eq!(link.a.write(b""), Ok(0));
    link.turn();
    assert_eq!(link.b.read(1), Err(libc::EAGAIN));
    assert_eq!(link.b.take(0, NOW), Err(libc::EAGAIN));
    link.send(b"x");
    link.arrives_now(b"x");
}

fn a_read_of_all_returns_less_at_the_end(link: Link) {
    link.send(b"less");
    link.a.finish();
    link.becomes(|| link.b.unread() == 4 && link.b.poll(libc::POLLRDHUP) != 0);
    assert_eq!(link.b.take(100, ALL), Ok(b"less".to_vec()));
    assert_eq!(link.b.take(100, ALL), Ok(Vec::new()));
}

fn a_look_for_nothing_at_the_end_does_not_wait(link: Link) {
    link.arrives(b"");
    link.a.finish();
    ends(&link.ends(), &link.b);
    for _ in 0..2 {
        assert_eq!(link.b.take(0, PEEK), Ok(Vec::new()));
    }
}

fn a_short_write_finds_room_where_nothing_is_unread(link: Link) {
    if link.unread.is_empty() {
        assert_eq!(link.a.write(b"short"), Ok(5));
        link.arrives(b"short");
    } else {
        // The kernel takes as much though the receiver has read nothing.
        assert_eq!(link.a.write(b"short"), Ok(5));
    }
    assert_eq!(link.b.write(b"answer"), Ok(6));
}

impl Link {
    /// Lets `b` receive what `a` has sent after all else had been read.
    #[track_caller]
    fn arrives_now(&self, sent: &[u8]) {
        arrives(&self.ends(), &self.b, sent);
    }
}

/// Messages that the end has sent, in the protocol's count.
fn messages(end: &End) -> u64 {
    end.info().messages_sent
}

/// Sends a message of `len` bytes each way on the VI, read in one piece and in pieces of `step` bytes.
fn message(len: usize, packets: u64, step: usize) {
    let [a, b] = &met();
    let on_tcp = (a.tx_tcp(), b.tx_tcp());
    for (from, to) in [(a, b), (b, a)] {
        let before = messages(from);
        from.put(&pattern(0, len));
        assert_eq!(messages(from) - before, packets);
        assert_eq!(to.unread(), len);
        assert_eq!(to.drain(len), (pattern(0, len), Err(libc::EAGAIN)));
        from.put(&pattern(len, len));
        assert_eq!(to.drain(step), (pattern(len, len), Err(libc::EAGAIN)));
    }
    assert_eq!((a.tx_tcp(), b.tx_tcp()), on_tcp);
}

macro_rules! messages {
    ($($name:ident: $len:expr, $packets:expr, $step:expr;)+) => {
        mod a_message_arrives_whole {
            $(#[test] fn $name() { super::message($len, $packets, $step); })+
        }
    };
}
messages! {
    of_one_byte: 1, 1, 1;
    that_fits_half_an_entry: 48, 1, 7;
    of_one_byte_more_than_half_an_entry: 49, 1, 48;
    that_fits_an_entry: 112, 1, 111;
    of_one_byte_more_than_an_entry: 113, 1, 112;
    of_a_page: 4_096, 1, 100;
    of_one_byte_less_than_a_chunk: (32 << 10) - 1, 1, 4_096;
    of_a_chunk: 32 << 10, 1, (32 << 10) - 1;
    of_one_byte_more_than_a_chunk: (32 << 10) + 1, 2, 32 << 10;
    of_three_chunks: 96 << 10, 3, 10_000;
}

#[test]
fn a_message_larger_than_all_buffers_arrives_in_order() {
    let ends = met();
    let [a, b] = &ends;
    const LEN: usize = 1 << 20;
    let (mut sent, mut got) = (0, Vec::new());
    while got.len() < LEN {
        if sent < LEN {
            sent += a.write(&pattern(sent, LEN - sent)).unwrap_or(0);
        }
        got.extend(b.drain(10_000).0);
    }
    assert!(got == pattern(0, LEN));
}

fn is_coalescing(end: &End) -> bool {
    end.run(|| end.at().unwrap().attached().unwrap().coalescer.is_coalescing())
}

fn unacknowledged(end: &End) -> u16 {
    end.run(|| end.at().unwrap().attached().unwrap().flow.unacked())
}

/// Sends as many messages as the window has, and some more, which are coalesced.
fn window(choice: &str, window: usize) {
    let [a, b] = &met_as(choice);
    let mut sent = 0;
    for round in 0..3 {
        for n in 0..window {
            assert!(!is_coalescing(a), "message {n} of round {round} found no window");
            a.put(&pattern(sent, 10));
            sent += 10;
        }
        assert_eq!(usize::from(unacknowledged(a)), window);
        assert_eq!(b.unread(), 10 * window);
        for len in [10, 500, 5_000] {
            a.put(&pattern(sent, len));
            sent += len;
            assert!(is_coalescing(a));
        }
        let from = sent - 10 * window - 5_510;
        assert_eq!(b.drain(4_000), (pattern(from, sent - from), Err(libc::EAGAIN)));
        // The next message is a packet again, and carries the acknowledgements that are owed the other way.
        b.put(b"x");
        assert_eq!(a.read(1), Ok(b"x".to_vec()));
        a.put(&pattern(sent, 1));
        assert_eq!(b.read(1), Ok(pattern(sent, 1)));
        sent += 1;
        b.put(b"y");
        assert_eq!(a.read(1), Ok(b"y".to_vec()));
    }
}

macro_rules! windows {
    ($($name:ident: $choice:literal, $window:literal;)+) => {
        mod messages_beyond_the_window_are_coalesced {
            $(#[test] fn $name() { super::window($choice, $window); })+
        }
    };
}
windows! {
    of_one: "w=1,t=1", 1;
    of_two: "w=2,t=1", 2;
    of_three_with_three_owed: "w=3,t=3", 3;
    of_four: "w=4,t=2", 4;
    of_the_papers: "w=32,t=16", 32;
}

#[test]
fn acknowledgements_below_the_threshold_wait_for_a_message() {
    let [a, b] = &met_as("w=8,t=4");
    for _ in 0..8 {
        a.put(b"m");
    }
    b.read(3).unwrap();
    assert_eq!(a.read(1), Err(libc::EAGAIN));
    assert_eq!(unacknowledged(a), 8);
    b.put(b"answer");
    assert_eq!(a.read(6), Ok(b"answer".to_vec()));
    assert_eq!(unacknowledged(a), 5);
}

#[test]
fn acknowledgements_at_the_threshold_go_alone() {
    let [a, b] = &met_as("w=8,t=4");
    for _ in 0..8 {
        a.put(b"m");
    }
    b.read(4).unwrap();
    assert_eq!(a.read(1), Err(libc::EAGAIN));
    assert_eq!(unacknowledged(a), 4);
    a.put(b"m");
    assert!(!is_coalescing(a));
}

#[test]
fn a_sender_that_never_reads_finds_acknowledgements_behind_unread_bytes() {
    let [a, b] = &met_as("w=4,t=2");
    b.put(b"unread");
    for n in 0..20 {
        a.put(&pattern(n, 1));
        assert_eq!(b.read(1), Ok(pattern(n, 1)));
    }
    assert!(!is_coalescing(a));
    assert_eq!(a.drain(10), (b"unread".to_vec(), Err(libc::EAGAIN)));
}

/// Receives into parts of these lengths; what each has afterwards.
fn read_parts(end: &End, lens: &[usize], flags: Flags) -> Result<Vec<Vec<u8>>, i32> {
    let mut parts: Vec<Vec<u8>> = lens.iter().map(|&len| vec![0; len]).collect();
    let mut refs: Vec<&mut [u8]> = parts.iter_mut().map(Vec::as_mut_slice).collect();
    let mut left = end.receive_parts(&mut refs, flags)?;
    for part in &mut parts {
        let n = part.len().min(left);
        part.truncate(n);
        left -= n;
    }
    Ok(parts)
}

fn parts_at(at: At) {
    let link = link(at, Role::Connector);
    let whole = pattern(0, 200);
    for lens in [vec![200], vec![1, 199], vec![0, 100, 0, 100, 0], vec![50; 4], vec![150, 100]] {
        link.send(&whole);
        link.becomes(|| link.b.unread() == 200);
        for flags in [PEEK, NOW] {
            assert_eq!(read_parts(&link.b, &lens, flags).unwrap().concat(), whole, "{lens:?}");
        }
    }
    assert_eq!(read_parts(&link.b, &[1, 1], NOW), Err(libc::EAGAIN));
}

#[test]
fn parts_are_filled_one_after_the_other_on_the_vi() {
    parts_at(At::Entered);
}

#[test]
fn parts_are_filled_one_after_the_other_before_the_switch_is_entered() {
    parts_at(At::Switched);
}

#[test]
fn parts_are_filled_one_after_the_other_while_unread_bytes_come_on_tcp() {
    let link = link(At::Draining, Role::Acceptor);
    link.becomes(|| link.b.unread() == link.unread.len());
    let parts = read_parts(&link.b, &[300, 300, 1_000], NOW).unwrap();
    assert_eq!(parts.concat(), link.unread);
}

/// Sends parts of these lengths as one message.
fn assert_gathered_write_arrives(lens: &[usize], packets: u64) {
    let [a, b] = &met();
    let total: usize = lens.iter().sum();
    let whole = pattern(0, total);
    let mut from = 0;
    let parts: Vec<&[u8]> = lens
        .iter()
        .map(|&len| {
            from += len;
            &whole[from - len..from]
        })
        .collect();
    let before = messages(a);
    assert_eq!(a.send_parts(&parts, NOW), Ok(total));
    assert_eq!(messages(a) - before, packets);
    assert_eq!(b.drain(total.max(1)), (whole, Err(libc::EAGAIN)));
}

#[test]
fn parts_that_fit_an_entry_are_one_packet() {
    assert_gathered_write_arrives(&[1, 0, 60, 51], 1);
}

#[test]
fn parts_of_a_page_are_one_packet() {
    assert_gathered_write_arrives(&[100, 3_000, 996], 1);
}

#[test]
fn parts_of_more_than_a_page_are_sent_in_order() {
    assert_gathered_write_arrives(&[5_000, 1, 40_000], 4);
}

#[test]
fn no_parts_are_no_message() {
    assert_gathered_write_arrives(&[0, 0], 0);
}

#[test]
fn a_read_of_all_takes_packets_and_coalesced_bytes_together() {
    let [a, b] = &met_as("w=2,t=1");
    for n in 0..10 {
        a.put(&pattern(n * 10, 10));
    }
    assert_eq!(b.take(95, ALL), Ok(pattern(0, 95)));
    assert_eq!(b.take(5, WAIT), Ok(pattern(95, 5)));
}

#[test]
fn a_look_goes_from_packets_on_to_coalesced_bytes() {
    let [a, b] = &met_as("w=2,t=1");
    for n in 0..10 {
        a.put(&pattern(n * 10, 10));
    }
    assert_eq!(b.take(1_000, PEEK), Ok(pattern(0, 100)));
    assert_eq!(b.read(15), Ok(pattern(0, 15)));
    assert_eq!(b.take(1_000, PEEK), Ok(pattern(15, 85)));
    send(&[a, b], a, &pattern(100, 10));
    assert_eq!(b.drain(1_000), (pattern(15, 95), Err(libc::EAGAIN)));
}
