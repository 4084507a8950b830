//! Reports of epoll at each place, and across them.

use super::harness::at::{entered, on_tcp};
use super::harness::{
    At, End, Epoll, Link, acquainted, arrives, cases, ends, exchange, fresh, link_by, meet, met_by,
    pattern, send, until,
};
use crate::conn::Role;
use libc::{EPOLLERR, EPOLLET, EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP};

cases! {
    a_level_is_reported_as_long_as_bytes_are_unread at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    an_edge_is_reported_once_for_each_arrival at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    one_shot_is_reported_once_until_it_is_armed_again at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    an_edge_of_room_is_reported_after_a_full_sender at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    an_edge_of_the_end_is_reported_once at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_reset_is_reported_though_nothing_was_asked_for at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    an_instance_gives_the_outcomes_of_add_modify_and_remove at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_change_of_interest_reports_what_holds_already at
        on_tcp granted switched entered revoked left draining back_on_tcp;
}

cases! {
    each_number_of_a_connection_is_reported_by_itself at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    each_instance_is_reported_by_itself at
        on_tcp granted switched entered revoked
        #[ignore = "an edge is reported a second time when the connection has come back to TCP: the kernel's instance, which gets \
                    the entry then, reports what holds"]
        left draining back_on_tcp;
    a_number_outlives_another_one_that_is_closed at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    a_registration_goes_with_the_last_number at
        on_tcp granted switched entered revoked left draining back_on_tcp;
    exclusive_interest_is_taken_and_not_changed at
        on_tcp granted switched entered revoked left draining back_on_tcp;
}

/// Data of the events that are there now, in order of their values.
fn reported(set: &Epoll) -> Vec<u64> {
    let mut data: Vec<u64> = set.now().into_iter().map(|(_, data)| data).collect();
    data.sort_unstable();
    data
}

fn each_number_of_a_connection_is_reported_by_itself(link: Link) {
    link.arrives(b"");
    let (set, second) = (link.b.epoll(), link.b.dup());
    set.control(libc::EPOLL_CTL_ADD, link.b.fd(), EPOLLIN | EPOLLET, 1).unwrap();
    set.control(libc::EPOLL_CTL_ADD, second.fd(), EPOLLIN, 2).unwrap();
    assert_eq!(reported(&set), []);
    link.send(b"news");
    link.becomes(|| link.b.unread() == 4);
    let mut seen = Vec::new();
    link.becomes_with(|| {
        seen.extend(reported(&set));
        seen.contains(&1) && seen.contains(&2)
    });
    link.turn();
    assert_eq!(reported(&set), [2]);
}

fn each_instance_is_reported_by_itself(link: Link) {
    link.arrives(b"");
    let sets = [(); 3].map(|()| link.b.watched(EPOLLIN | EPOLLET));
    link.send(b"news");
    for set in &sets {
        link.becomes(|| set.mask() == EPOLLIN);
    }
    link.turn();
    assert!(sets.iter().all(|set| set.mask() == 0));
    sets[1].remove(&link.b).unwrap();
    link.send(b"more");
    link.becomes(|| link.b.unread() == 8);
    link.becomes(|| sets[2].mask() == EPOLLIN);
    link.becomes(|| sets[0].mask() == EPOLLIN);
    assert_eq!(sets[1].mask(), 0);
}

fn a_number_outlives_another_one_that_is_closed(link: Link) {
    link.arrives(b"");
    let (set, second) = (link.b.epoll(), link.b.dup());
    set.control(libc::EPOLL_CTL_ADD, second.fd(), EPOLLIN, 2).unwrap();
    set.control(libc::EPOLL_CTL_ADD, link.b.fd(), EPOLLIN, 1).unwrap();
    assert_eq!(set.control(libc::EPOLL_CTL_DEL, second.fd(), 0, 0), Ok(0));
    drop(second);
    link.send(b"news");
    link.becomes(|| reported(&set) == [1]);
    link.arrives_there(b"news");
    assert_eq!(reported(&set), []);
}

fn a_registration_goes_with_the_last_number(link: Link) {
    link.arrives(b"");
    let set = link.b.watched(EPOLLOUT);
    link.becomes(|| set.mask() == EPOLLOUT);
    let Link { b, .. } = link;
    b.close();
    assert_eq!(set.now(), []);
}

fn exclusive_interest_is_taken_and_not_changed(link: Link) {
    link.arrives(b"");
    let set = link.b.epoll();
    let control = |op, events| set.control(op, link.b.fd(), events, 3);
    let exclusive = libc::EPOLLEXCLUSIVE;
    assert_eq!(control(libc::EPOLL_CTL_ADD, exclusive | EPOLLONESHOT), Err(libc::EINVAL));
    assert_eq!(control(libc::EPOLL_CTL_ADD, exclusive | EPOLLIN), Ok(0));
    assert_eq!(control(libc::EPOLL_CTL_MOD, EPOLLIN), Err(libc::EINVAL));
    link.send(b"news");
    link.becomes(|| reported(&set) == [3]);
}

impl Link {
    /// Lets `b` receive what `a` has sent after all else had been read.
    #[track_caller]
    fn arrives_there(&self, sent: &[u8]) {
        arrives(&self.ends(), &self.b, sent);
    }

    #[track_caller]
    fn becomes_with(&self, mut fact: impl FnMut() -> bool) {
        self.until(|| fact().then_some(()));
    }
}

/// Takes both ends back to TCP.
fn fall_back(link: &Link) {
    link.b.leave();
    while link.b.info().is_accelerated() || link.a.info().is_accelerated() {
        link.turn();
        exchange(&link.a, &link.b);
    }
}

#[test]
fn two_numbers_of_a_connection_are_both_watched_after_the_fallback() {
    let link = entered(Role::Connector);
    let (set, second) = (link.b.epoll(), link.b.dup());
    set.control(libc::EPOLL_CTL_ADD, link.b.fd(), EPOLLIN, 1).unwrap();
    set.control(libc::EPOLL_CTL_ADD, second.fd(), EPOLLIN, 2).unwrap();
    fall_back(&link);
    link.send(b"news");
    link.becomes(|| reported(&set) == [1, 2]);
}

#[test]
fn a_registration_of_a_closed_number_is_reported_after_the_connection_fell_back() {
    let link = entered(Role::Connector);
    let (set, second) = (link.b.epoll(), link.b.dup());
    set.control(libc::EPOLL_CTL_ADD, second.fd(), EPOLLIN, 2).unwrap();
    set.control(libc::EPOLL_CTL_ADD, link.b.fd(), EPOLLIN, 1).unwrap();
    drop(second);
    fall_back(&link);
    link.send(b"news");
    // The kernel reports both, since the open file lives on.
    link.becomes(|| reported(&set) == [1, 2]);
}

#[test]
fn instances_beyond_the_sixty_fourth_are_reported_though_one_is_closed() {
    let link = on_tcp(Role::Connector);
    let mut sets: Vec<Epoll> = (0..70).map(|_| link.b.epoll()).collect();
    let last = sets.pop().unwrap();
    last.add(&link.b, EPOLLIN);
    sets.remove(66);
    let [a, b] = link.ends();
    let is_on_vi = || a.info().is_accelerated() && b.info().is_accelerated();
    while !is_on_vi() {
        exchange(a, b);
    }
    link.send(b"news");
    link.becomes(|| reported(&last) == [b.fd() as u64]);
}

fn assert_reported_in_order_of_arrival(looks_before: bool) {
    let engines = acquainted();
    let links = [(); 3].map(|()| link_by(&engines, At::Entered, Role::Connector));
    let set = links[0].b.epoll();
    links.iter().for_each(|link| set.add(&link.b, EPOLLIN | EPOLLET));
    if looks_before {
        assert_eq!(set.now(), []);
    }
    let order = [2, 0, 1];
    order.iter().for_each(|&n| links[n].a.put(b"news"));
    let reported: Vec<u64> = set.now().into_iter().map(|(_, data)| data).collect();
    assert_eq!(reported, order.map(|n| links[n].b.fd() as u64));
}

#[test]
fn connections_are_reported_in_order_of_arrival() {
    assert_reported_in_order_of_arrival(true);
}

#[test]
fn connections_are_reported_in_order_of_arrival_at_the_first_look() {
    assert_reported_in_order_of_arrival(false);
}

#[test]
fn no_connection_starves_where_one_event_is_asked_for() {
    let engines = acquainted();
    let links = [(); 3].map(|()| link_by(&engines, At::Entered, Role::Connector));
    let set = links[0].b.epoll();
    for link in &links {
        set.add(&link.b, EPOLLIN);
        link.a.put(b"news");
    }
    let mut reported: Vec<u64> = (0..3).map(|_| set.wait_for(1, Some(0))[0].1).collect();
    reported.sort_unstable();
    let mut all = links.each_ref().map(|link| link.b.fd() as u64);
    all.sort_unstable();
    assert_eq!(reported, all);
}

#[test]
fn a_plain_connection_beside_a_vi_is_reported_though_the_vi_is_always_ready() {
    let engines = acquainted();
    let (fast, plain) = (
        link_by(&engines, At::Entered, Role::Connector),
        link_by(&engines, At::Back, Role::Connector),
    );
    let set = fast.b.watched(EPOLLIN);
    set.add(&plain.b, EPOLLIN);
    fast.a.put(b"always");
    plain.a.put(b"news");
    plain.becomes(|| set.wait_for(1, Some(0)).iter().any(|&(_, data)| data == plain.b.fd() as u64));
}

fn a_level_is_reported_as_long_as_bytes_are_unread(link: Link) {
    link.arrives(b"");
    let set = link.b.watched(EPOLLIN);
    assert_eq!(set.mask(), 0);
    link.send(b"news");
    link.becomes(|| set.mask() == EPOLLIN);
    arrives(&link.ends(), &link.b, b"new");
    assert_eq!((set.mask(), set.mask()), (EPOLLIN, EPOLLIN));
    arrives(&link.ends(), &link.b, b"s");
    link.turn();
    assert_eq!(set.mask(), 0);
}

fn an_edge_is_reported_once_for_each_arrival(link: Link) {
    link.arrives(b"");
    let set = link.b.watched(EPOLLIN | EPOLLET);
    assert_eq!(set.mask(), 0);
    for _ in 0..3 {
        link.send(b"news");
        link.becomes(|| set.mask() == EPOLLIN);
        link.turn();
        assert_eq!(set.mask(), 0, "an edge was reported twice");
        arrives(&link.ends(), &link.b, b"news");
        assert_eq!(link.b.read(1), Err(libc::EAGAIN));
        link.turn();
        assert_eq!(set.mask(), 0, "an edge was reported for nothing");
    }
}

fn one_shot_is_reported_once_until_it_is_armed_again(link: Link) {
    link.arrives(b"");
    let set = link.b.watched(EPOLLIN | EPOLLONESHOT);
    link.send(b"news");
    link.becomes(|| set.mask() == EPOLLIN);
    link.send(b"more");
    link.becomes(|| link.b.unread() == 8);
    link.turn();
    assert_eq!(set.mask(), 0);
    set.modify(&link.b, EPOLLIN | EPOLLONESHOT);
    link.becomes(|| set.mask() == EPOLLIN);
}

fn an_edge_of_room_is_reported_after_a_full_sender(link: Link) {
    link.ends().into_iter().for_each(End::shrink_buffer);
    link.arrives(b"");
    let set = link.a.watched(EPOLLOUT | EPOLLET);
    link.becomes(|| set.mask() == EPOLLOUT);
    // Rounds that the place needs may give room, and so an edge.
    let mut sent = 0;
    link.until(|| {
        sent += link.a.fill(sent);
        link.turn();
        (set.mask() == 0).then_some(())
    });
    arrives(&link.ends(), &link.b, &pattern(0, sent));
    link.becomes(|| set.mask() == EPOLLOUT);
    assert!(link.a.write(b"more").is_ok());
}

fn an_edge_of_the_end_is_reported_once(link: Link) {
    link.arrives(b"");
    let set = link.b.watched(EPOLLIN | EPOLLRDHUP | EPOLLET);
    assert_eq!(set.mask(), 0);
    link.a.finish();
    link.becomes(|| set.mask() == EPOLLIN | EPOLLRDHUP);
    link.turn();
    link.turn();
    assert_eq!(set.mask(), 0, "the end was reported twice");
    ends(&link.ends(), &link.b);
    link.turn();
    assert_eq!(set.mask(), 0, "the end was reported again");
}

fn a_reset_is_reported_though_nothing_was_asked_for(link: Link) {
    link.arrives(b"");
    let Link { a, b, .. } = link;
    let set = b.watched(0);
    a.abort();
    until(&[&b], || (set.mask() == EPOLLERR | EPOLLHUP).then_some(()));
}

fn an_instance_gives_the_outcomes_of_add_modify_and_remove(link: Link) {
    let (fd, data) = (link.b.fd(), 7);
    let set = link.b.epoll();
    let control = |op| set.control(op, fd, EPOLLOUT, data);
    assert_eq!(control(libc::EPOLL_CTL_MOD), Err(libc::ENOENT));
    assert_eq!(control(libc::EPOLL_CTL_DEL), Err(libc::ENOENT));
    assert_eq!(control(libc::EPOLL_CTL_ADD), Ok(0));
    assert_eq!(control(libc::EPOLL_CTL_ADD), Err(libc::EEXIST));
    link.becomes(|| set.now() == [(EPOLLOUT, data)]);
    assert_eq!(control(libc::EPOLL_CTL_DEL), Ok(0));
    assert_eq!(set.now(), []);
    assert_eq!(control(libc::EPOLL_CTL_DEL), Err(libc::ENOENT));
    assert_eq!(control(libc::EPOLL_CTL_ADD), Ok(0));
    link.becomes(|| set.now() == [(EPOLLOUT, data)]);
}

fn a_change_of_interest_reports_what_holds_already(link: Link) {
    link.arrives(b"");
    let set = link.b.watched(EPOLLRDHUP | EPOLLET);
    link.send(b"news");
    link.becomes(|| link.b.unread() == 4);
    link.turn();
    assert_eq!(set.mask(), 0);
    set.modify(&link.b, EPOLLIN | EPOLLET);
    link.becomes(|| set.mask() == EPOLLIN);
    assert_eq!(set.mask(), 0);
    set.modify(&link.b, EPOLLIN | EPOLLET);
    link.becomes(|| set.mask() == EPOLLIN);
    send(&link.ends(), &link.b, b"x");
}

#[test]
fn all_that_is_ready_is_reported_if_there_is_room() {
    let engines = acquainted();
    let mut pairs: Vec<[End; 2]> = (0..4).map(|_| met_by(&engines)).collect();
    // One of them is on TCP.
    pairs[0] = fresh(&engines);
    let set = pairs[0][1].epoll();
    for [a, b] in &pairs {
        set.add(b, EPOLLIN);
        a.put(b"x");
    }
    until(&[&pairs[0][0]], || (set.wait_for(8, Some(0)).len() == 4).then_some(()));
    for room in [4, 5, 6, 7].repeat(8) {
        assert_eq!(set.wait_for(room, Some(0)).len(), 4, "with room for {room}");
    }
    // User data need not be different.
    for [_, b] in &pairs {
        set.control(libc::EPOLL_CTL_MOD, b.fd(), EPOLLIN, 7).unwrap();
    }
    for room in [4, 5, 6, 7].repeat(8) {
        assert_eq!(set.wait_for(room, Some(0)).len(), 4, "of the same data, with room for {room}");
    }
}

#[test]
fn one_shot_that_was_reported_stays_disabled_when_the_connection_moves() {
    let engines = acquainted();
    loop {
        let both = fresh(&engines);
        let sets = both.each_ref().map(|end| end.watched(EPOLLOUT | EPOLLONESHOT));
        assert_eq!(sets.each_ref().map(Epoll::mask), [EPOLLOUT; 2]);
        if meet(&both) {
            assert_eq!(sets.each_ref().map(Epoll::mask), [0; 2]);
            for (set, end) in sets.iter().zip(&both) {
                set.modify(end, EPOLLOUT | EPOLLONESHOT);
                assert_eq!((set.mask(), set.mask()), (EPOLLOUT, 0));
                end.leave();
            }
            exchange(&both[0], &both[1]);
            assert_eq!(sets.each_ref().map(Epoll::mask), [0; 2]);
            return;
        }
    }
}

#[test]
fn all_levels_of_a_connection_are_reported_with_the_first() {
    let link = entered(Role::Connector);
    let (set, second, third) = (link.b.epoll(), link.b.dup(), link.b.dup());
    set.add(&link.b, EPOLLIN);
    for (number, events) in [(&second, EPOLLIN | EPOLLOUT), (&third, EPOLLIN | EPOLLET)] {
        set.control(libc::EPOLL_CTL_ADD, number.fd(), events, number.fd() as u64).unwrap();
    }
    link.a.put(b"x");
    set.lose_marks();
    for _ in 0..2 {
        let mut events = set.now();
        events.sort_unstable();
        let expected = [(EPOLLIN, link.b.fd()), (EPOLLIN | EPOLLOUT, second.fd())];
        assert_eq!(events, expected.map(|(mask, fd)| (mask, fd as u64)));
    }
}
