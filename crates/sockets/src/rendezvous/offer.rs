//! Messages of a first rendezvous: Hello, Ask, Show, Offer and Accept.

use super::first::RendezvousStage;
use super::junk;
use super::proof::{Proof, Sender, receive, sender};
use super::trial::Trials;
use crate::conn::Role;
use crate::message::{Link, Message, MessageKind, Process};
use crate::pair::{OtherUser, Pair, notification_sockets};
use crate::{epoll_sets, kernel_sockets, pair, peers, table};
use core::net::SocketAddr;
use sovia_control::{Junk, Reason};
use sovia_ring::Segment;
use sovia_ring::doorbell::is_doorbell;
use sovia_ring::layout::DOORBELLS;
use sovia_ring::segment::AttachError;
use sovia_sys::datagram::{Datagram, Received};
use sovia_sys::trace::Secret;
use sovia_sys::{Errno, Fd, call, trace};
use std::sync::Arc;

/// Result of handling a message that a connector has received at its rendezvous name.
pub(super) enum Answer {
    /// The message has no effect.
    Ignored,
    /// This process has asked the acceptor to show that it could trace this process.
    Asked,
    /// The connector has put a request into a segment that both processes have.
    Requested(RendezvousStage),
    /// The connector has put a request into a segment that the acceptor does not have yet, so the caller must offer
    /// the segment. The [`Secret`] comes from the acceptor's challenge. For a peer by rule, all bytes of the secret
    /// are zero.
    Offered(RendezvousStage, Secret),
}

/// Answers a Hello or a Show, as the connector.
///
/// # Errors
/// Returns the reason why this process cannot offer a segment.
pub(super) fn answer(
    name: &Datagram,
    link: &Link,
    proof: Proof,
    trials: &mut Trials,
    message: &Message,
    received: &Received,
) -> Result<Answer, Refusal> {
    if !matches!(message.kind, MessageKind::Hello | MessageKind::Show) {
        junk(Junk::Stale);
        return Ok(Answer::Ignored);
    }
    let Some(sender) = sender(link, Role::Connector, proof, trials, message, received) else {
        return Ok(Answer::Ignored);
    };
    let request = |is_complete| {
        let is_its = |pair: &Pair| pair.peer == message.from && sender.may_have(pair);
        let made = pair::request_of(is_its, is_complete, &link.encode())?;
        Some(RendezvousStage::Requested { pair: made.pair, vi: made.vi })
    };
    if let Some(stage) = request(true) {
        trials.over(message.from);
        return Ok(Answer::Requested(stage));
    }
    let begins = message.kind == MessageKind::Hello || !trials.has(message.from);
    if begins && sender.may_be_kin {
        // If the sender has no address, no Ask can be sent, and the sender's trial cannot begin.
        let Some(to) = received.sender else { return Ok(Answer::Ignored) };
        let place = trials.place_for(message.from).map_err(Refusal::Final)?;
        let ask = Message { place, ..Message::new(MessageKind::Ask, pair::me(), *link) };
        let _ = name.send_to(&to, &ask.encode(), &[]);
        return Ok(Answer::Asked);
    }
    let (secret, other_user) = match examine(trials, message, sender) {
        Ok(secret) => (secret, None),
        Err(_) if sender.is_trusted => (Secret::default(), Some(sender.as_other_user())),
        Err(refused) => {
            // An Ask without a challenge means that the connector has refused the acceptor.
            if let Some(to) = received.sender {
                let ask = Message::new(MessageKind::Ask, pair::me(), *link);
                let _ = name.send_to(&to, &ask.encode(), &[]);
            }
            return Err(refused);
        }
    };
    // Another connection to the same process may already have put a segment on offer. Then put the request into
    // that segment.
    let stage = match request(false) {
        Some(stage) => Some(stage),
        None => {
            // The agent vouches for one connection only. So a pair that the agent introduced has no server address,
            // and other connections to the same address do not use the pair.
            let server = (proof == Proof::Kernel).then_some(link.acceptor);
            new_pair(message.from, other_user, server).map_err(Refusal::Final)?;
            request(false)
        }
    };
    Ok(stage.map_or(Answer::Ignored, |stage| Answer::Offered(stage, secret)))
}

/// Refusal of a message whose sender holds the other end.
pub(super) enum Refusal {
    /// The connection stays on TCP for good.
    Final(Reason),
    /// The connection stays on TCP unless a later message is accepted. The refused message proves little, because
    /// any process of the same user could have sent it.
    Doubt(Reason),
}

/// Checks that the sender could trace this process, and that this process could trace the sender. Returns the
/// secret in the sender's challenge.
fn examine(trials: &Trials, message: &Message, sender: Sender) -> Result<Secret, Refusal> {
    let refused = Refusal::Doubt(Reason::NotTraceable);
    if !sender.may_be_kin {
        return Err(refused);
    }
    if !trials.passed_by(message.from, &message.shown) {
        junk(Junk::Unproven);
        return Err(refused);
    }
    trace::read_challenge(message.from.pid, message.place).ok_or(refused)
}

/// Answers an Ask, as the acceptor: sends the secret of the connector's challenge, and a challenge for the
/// connector. Returns true if the connector is now on trial.
///
/// # Errors
/// Returns the reason why this process cannot show the secret.
pub(super) fn show(
    inbox: &Datagram,
    link: &Link,
    proof: Proof,
    trials: &mut Trials,
    message: &Message,
    received: &Received,
) -> Result<bool, Refusal> {
    let sender = sender(link, Role::Acceptor, proof, trials, message, received);
    let Some(sender) = sender else { return Ok(false) };
    let challenge = || trace::read_challenge(message.from.pid, message.place);
    let Some(shown) = sender.may_be_kin.then(challenge).flatten() else {
        // An Ask with a negative place has no challenge: the connector has refused this process, and such an Ask
        // gets no answer.
        if let (0.., Some(to)) = (message.place, received.sender) {
            let show = Message::new(MessageKind::Show, pair::me(), *link);
            let _ = inbox.send_to(&to, &show.encode(), &[]);
            if sender.is_trusted {
                return Ok(false);
            }
        }
        return Err(Refusal::Doubt(Reason::NotTraceable));
    };
    let place = trials.place_for(message.from).map_err(Refusal::Final)?;
    if let Some(to) = received.sender {
        let show = Message { place, shown, ..Message::new(MessageKind::Show, pair::me(), *link) };
        let _ = inbox.send_to(&to, &show.encode(), &[]);
    }
    Ok(true)
}

/// Returns the reason why a segment could not be made or mapped, from the kernel's error.
fn no_memory(error: Errno) -> Reason {
    if error == Errno::ENOMEM && call::soft_limit(libc::RLIMIT_AS).is_some() {
        Reason::AddressSpace
    } else {
        Reason::NoMemory
    }
}

fn new_pair(
    peer: Process,
    other_user: Option<OtherUser>,
    server: Option<SocketAddr>,
) -> Result<(), Reason> {
    // Count the descriptors that will arrive: this pair and each other pair on offer will receive [`OWN`]
    // descriptors from its peer.
    let mut expected = OWN;
    pair::each(|_, pair| expected += if pair.is_on_offer() { OWN } else { 0 });
    if !table::has_room_for(expected + 1) {
        return Err(Reason::NoDescriptors);
    }
    let (segment, fd) = Segment::create().map_err(no_memory)?;
    if !fd.is_high() {
        // The program needs the low descriptor numbers.
        return Err(Reason::NoDescriptors);
    }
    pair::make_room(epoll_sets::forget_pair);
    let added = pair::add(segment, fd, 0, peer, other_user, server);
    added.map(drop).ok_or(Reason::TableFull)
}

/// Sends an Offer for the connection `link`, as the connector, with the secret `shown`. The segment and this process's
/// doorbells go to the sender of the message `to`. The same pair may be offered again, because an earlier offer may have
/// arrived after its connection had ended.
pub(super) fn send_offer(
    pair: &Pair,
    name: Arc<Datagram>,
    link: &Link,
    shown: Secret,
    to: &Received,
) {
    let offer = Message { shown, ..Message::new(MessageKind::Offer, pair::me(), *link) };
    let Some(own) = descriptors_for(pair) else { return };
    let mut fds = [0; 1 + OWN];
    fds[0] = pair.file.raw();
    fds[1..].copy_from_slice(&own);
    if name.answer(to.sender, &offer.encode(), &fds).is_ok() {
        // Keep the name open, because the answer comes to the name that sent the offer, perhaps after the
        // connection has ended.
        pair.with_offers(|names| {
            names.retain(|(link, _)| !link.same_connection(&offer.link));
            if names.len() >= NAMES {
                names.remove(0);
            }
            names.push((offer.link, name));
        });
    }
}

/// Maximum number of names from which a pair is offered. For one more name, the oldest name is closed.
const NAMES: usize = 128;

/// Handles an Offer for one of this process's connections, as the acceptor.
///
/// # Errors
/// Returns the reason why this process cannot use the segment.
pub(super) fn take_offer(
    inbox: &Datagram,
    link: &Link,
    proof: Proof,
    trials: &mut Trials,
    message: &Message,
    mut received: Received,
) -> Result<(), Refusal> {
    let dropped = |kind| {
        junk(kind);
        Ok(())
    };
    let sender = sender(link, Role::Acceptor, proof, trials, message, &received);
    let Some(sender) = sender else { return Ok(()) };
    let is_kin = sender.may_be_kin && trials.passed_by(message.from, &message.shown);
    if !is_kin && !sender.is_trusted {
        junk(Junk::Unproven);
        if sender.may_be_kin && !trials.has(message.from) {
            // The connector's trial has ended together with another connection's rendezvous. The connector sends
            // Ask again.
            return Ok(());
        }
        return Err(Refusal::Doubt(Reason::NotTraceable));
    }
    let other_user = (!is_kin).then(|| sender.as_other_user());
    if received.fds.len() != 1 + OWN {
        return dropped(Junk::Descriptor);
    }
    let uid = other_user.map(|other_user| other_user.uid);
    let mut theirs = received.fds.split_off(1);
    if !are_descriptors_of_a_peer(&theirs, uid) {
        return dropped(Junk::Descriptor);
    }
    if uid.is_none() {
        theirs.iter_mut().for_each(Fd::vouch);
    }
    if !theirs.iter().chain(&received.fds).all(Fd::is_high) {
        return Err(Refusal::Final(Reason::NoDescriptors));
    }
    let Ok(id) = call::file_id(received.fds[0].raw()) else { return dropped(Junk::Seal) };
    let is_its = |pair: &Pair| pair.peer == message.from && sender.may_have(pair);
    let pair = match pair::offered(is_its, id) {
        // This process has the segment already. The answer to an earlier offer was lost, or the earlier offer was
        // for another connection.
        Some(pair) => pair,
        None => {
            let segment = match Segment::attach(&received.fds[0]) {
                Ok(segment) => segment,
                Err(AttachError::Seals) => return dropped(Junk::Seal),
                Err(AttachError::Layout) => return dropped(Junk::Version),
                Err(AttachError::Map(error)) => return Err(Refusal::Final(no_memory(error))),
            };
            received.fds.iter_mut().for_each(Fd::vouch);
            let Some(file) = received.fds.pop() else { return dropped(Junk::Descriptor) };
            pair::make_room(epoll_sets::forget_pair);
            let added =
                pair::add(segment, file, 1, message.from, other_user, None).and_then(pair::get);
            added.ok_or(Refusal::Final(Reason::TableFull))?
        }
    };
    // Answer only after the pair is in the table: after the answer, the peer assumes that this process has the
    // segment.
    let own = descriptors_for(&pair).ok_or(Refusal::Final(Reason::NoDescriptors))?;
    let accept = Message::new(MessageKind::Accept, pair::me(), *link).encode();
    let is_answered = inbox.answer(received.sender, &accept, &own).is_ok();
    if !pair.has_doorbells() {
        // Keep the descriptors that report the peer's death, even if the answer could not be sent.
        let doorbells = keep_notices(&pair, theirs);
        if is_answered && let Some(doorbells) = doorbells {
            pair.keep_doorbells(doorbells);
            kernel_sockets::ring();
        }
    }
    Ok(())
}

/// Number of descriptors that a rendezvous needs: those from the peer, the segment, a name and a challenge.
pub(super) const NEEDED: usize = OWN + 3;

/// Number of descriptors that a process sends to its peer. First come the doorbells, or ends of notification
/// sockets for a peer by rule. Then come the two descriptors that report the death of the process and of its
/// family.
const OWN: usize = DOORBELLS + peers::NOTICES;
const _: () =
    assert!(OWN < sovia_sys::datagram::FDS_MAX && notification_sockets::HANDED + 1 == OWN);

/// Returns this process's own descriptors, or `None` if one is missing. The caller sends them only to a peer that could
/// trace this process, and that this process could trace.
pub(super) fn own_descriptors() -> Option<[i32; OWN]> {
    let mut all = [0; OWN];
    all[..DOORBELLS].copy_from_slice(&pair::doorbells()?);
    all[DOORBELLS..].copy_from_slice(&peers::notices()?);
    Some(all)
}

/// Returns the descriptors that this process sends to the peer of `pair`.
fn descriptors_for(pair: &Pair) -> Option<[i32; OWN]> {
    if pair.other_user.is_none() {
        return own_descriptors();
    }
    let [process, _] = peers::notices()?;
    let [ends @ .., death_socket] = pair.ends_for_other_user()?;
    let mut all = [0; OWN];
    all[..DOORBELLS].copy_from_slice(&ends);
    all[DOORBELLS..].copy_from_slice(&[process, death_socket]);
    Some(all)
}

/// Returns true if received descriptors have the types that a peer must send. Calls on descriptors of these types
/// cannot block. `other_user` is the user of a peer by rule.
pub(super) fn are_descriptors_of_a_peer(fds: &[Fd], other_user: Option<u32>) -> bool {
    if fds.len() != OWN {
        return false;
    }
    let (doorbells, notices) = fds.split_at(DOORBELLS);
    let [process, all] = notices else { return false };
    peers::is_process(process.raw())
        && match other_user {
            None => doorbells.iter().all(is_doorbell) && peers::is_end_of_pipe(all.raw()),
            Some(_) => doorbells.iter().chain([all]).all(notification_sockets::is_end),
        }
}

/// Stores a peer's descriptors. The doorbells are stored last, because a pair with doorbells counts as complete.
pub(super) fn keep(pair: &Pair, fds: Vec<Fd>) {
    if let Some(doorbells) = keep_notices(pair, fds) {
        pair.keep_doorbells(doorbells);
        // Wakes the progress thread, which must watch for the peer's death.
        kernel_sockets::ring();
    }
}

/// Stores the descriptors that report a peer's death. Returns the other descriptors in `fds`, which are the peer's
/// doorbells.
fn keep_notices(pair: &Pair, mut fds: Vec<Fd>) -> Option<Vec<Fd>> {
    let notices = fds.split_off(DOORBELLS);
    peers::keep(pair.peer, notices).then_some(fds)
}

/// Receives the Accept with the peer's doorbells, as the connector. The peer sends Accept before it accepts the
/// request in the segment.
pub(super) fn receive_accept(index: u32) {
    let Some(pair) = pair::get(index) else { return };
    pair.with_offers(|names| {
        for (_, name) in names.iter() {
            while let Some((message, received)) = receive(name) {
                take_accept(&pair, &message, received);
            }
        }
    });
    settle(&pair);
}

/// Closes the names of a pair once the pair has the peer's doorbells. Such a pair needs no more offers.
pub(super) fn settle(pair: &Pair) {
    if pair.has_doorbells() {
        pair.is_equipped();
        pair.with_offers(Vec::clear);
    }
}

/// Takes the peer's Accept, as the connector. `message` came to a name from which this pair was offered. Drops any
/// other message.
pub(super) fn take_accept(pair: &Pair, message: &Message, mut received: Received) {
    let from_peer = message.kind == MessageKind::Accept
        && message.from == pair.peer
        && received.credentials.is_some_and(|(pid, uid)| match pair.other_user {
            None => (pid, uid) == (pair.peer.pid, call::geteuid()),
            Some(other_user) => uid == other_user,
        });
    if pair.has_doorbells()
        || !from_peer
        || !are_descriptors_of_a_peer(&received.fds, pair.other_user)
    {
        junk(Junk::Stale);
        return;
    }
    if pair.other_user.is_none() {
        received.fds.iter_mut().for_each(Fd::vouch);
    }
    keep(pair, received.fds);
}

/// Returns the rendezvous name from which an unanswered offer for this connection was sent. The caller can offer
/// the pair from this name again.
pub(super) fn name_of(index: u32, link: &Link) -> Option<Arc<Datagram>> {
    pair::get(index)?.with_offers(|names| {
        let name = names.iter().find(|(of, _)| of.same_connection(link));
        name.map(|(_, name)| name.clone())
    })
}
