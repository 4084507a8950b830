//! Descriptors that a peer hands over: the honest side refuses what could hurt it, and survives what the peer
//! does with the rest.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sovia_fuzz::gift::{self, Gift, Use};
use sovia_fuzz::input::Input;
use sovia_fuzz::stand::{Stand, own_descriptors, step};
use sovia_fuzz::{honest, open};
use sovia_ring::Segment;
use sovia_ring::layout::DOORBELLS;
use sovia_sockets::conn::Role;
use sovia_sys::Fd;
use std::io::Write;
use std::sync::OnceLock;

/// Returns the use of the descriptor that is expected at a position in a message.
fn expected(offer: bool, place: usize) -> Option<Use> {
    match place.checked_sub(usize::from(offer)) {
        None => Some(Use::Segment),
        Some(0..DOORBELLS) => Some(Use::Doorbell),
        Some(DOORBELLS..8) => Some(Use::Notice),
        Some(_) => None,
    }
}

const _: () = assert!(DOORBELLS + 2 == 8);

/// Returns the descriptors of an honest peer's message, some of them replaced, left out or added.
fn descriptors(stand: &mut Stand, offer: bool, input: &mut Input<'_>) -> Vec<Gift> {
    let mut all = Vec::new();
    if offer {
        let fd = stand.own_segment();
        let fd = sovia_sys::call::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0).expect("no descriptor");
        all.push(Gift { fd: Fd::keep(fd as i32), good_as: Some(Use::Segment) });
    }
    let mut own = own_descriptors();
    // The writing end of the pipe stays with its maker: it is closed here, as if the maker had died.
    own.pop();
    for (place, fd) in own.into_iter().enumerate() {
        let good_as = if place < DOORBELLS { Use::Doorbell } else { Use::Notice };
        all.push(Gift { fd, good_as: Some(good_as) });
    }
    for _ in 0..input.below(3) {
        let place = input.below(all.len() + 2);
        let Some(gift) = gift::choose(input) else { continue };
        match all.get_mut(place) {
            Some(of) => *of = gift,
            None => all.push(gift),
        }
    }
    if input.below(8) == 1 {
        all.truncate(input.below(all.len()));
    }
    all
}

/// Plays a story. Whether the connection was accelerated.
fn play(input: &mut Input<'_>) -> bool {
    let role = if input.flag() { Role::Connector } else { Role::Acceptor };
    let mut stand = Stand::new(role);
    // Gifts are not closed before the end: the peer may change them.
    let mut sent: Vec<Gift> = Vec::new();
    // Set while every message with descriptors had to be refused.
    let mut lies_only = true;
    let offer = role == Role::Acceptor;
    stand.transfer();
    stand.transfer();
    for step in if offer { &[step::ASK][..] } else { &[step::HELLO, step::SHOW] } {
        stand.send(&stand.message(*step), &[]);
        stand.transfer();
    }
    for _ in 0..1 + input.below(3) {
        let gifts = descriptors(&mut stand, offer, input);
        let fits = |(place, gift): (usize, &Gift)| {
            gift.good_as.is_some() && gift.good_as == expected(offer, place)
        };
        let whole = gifts.len() == DOORBELLS + 2 + usize::from(offer);
        let honest = whole && gifts.iter().enumerate().all(fits);
        lies_only &= !honest;
        if offer && gifts.first().is_some_and(|gift| gift.good_as == Some(Use::Segment)) {
            let fd = sovia_sys::call::fcntl(gifts[0].fd.raw(), libc::F_DUPFD_CLOEXEC, 0);
            let file = Fd::keep(fd.expect("no descriptor") as i32);
            stand.segment = Segment::attach(&file).ok().map(|segment| (segment, file));
        }
        if !offer {
            stand.settle();
        }
        let message = stand.message(if offer { step::OFFER } else { step::ACCEPT });
        let fds: Vec<i32> = gifts.iter().map(|gift| gift.fd.raw()).collect();
        stand.send(&message, &fds);
        sent.extend(gifts);
        stand.transfer();
        if offer {
            stand.settle();
        }
        stand.transfer();
    }
    let attached = stand.honest.is_attached();
    assert!(!(attached && lies_only), "the honest side has taken descriptors that could hurt it");
    for _ in 0..input.below(8) {
        if !sent.is_empty() && input.flag() {
            let which = input.below(sent.len());
            gift::change(sent[which].fd.raw(), input);
        }
        let _ = stand.tcp().write(&[0; 8]);
        // EFAULT would mean a bad address in the segment, because every buffer of the program is
        // valid.
        assert_ne!(stand.honest.send(&[7; 700]), Err(libc::EFAULT));
        assert_ne!(stand.honest.receive(&mut [0; 700], false), Err(libc::EFAULT));
        assert_ne!(stand.honest.unread(), Err(libc::EFAULT));
    }
    stand.end();
    attached
}

fuzz_target!(|bytes: &[u8]| {
    static BEFORE: OnceLock<Vec<i32>> = OnceLock::new();
    let before = BEFORE.get_or_init(|| {
        honest::start();
        for role in [1, 0] {
            let attached = play(&mut Input::new(&[role]));
            assert!(attached, "story {role} without a lie is not accelerated: nothing is tested");
        }
        open::descriptors()
    });
    play(&mut Input::new(bytes));
    open::expect_no_more_than(before);
});
