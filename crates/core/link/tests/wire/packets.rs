//! Strategies for arbitrary packets.

use proptest::prelude::*;
use sovia_link::wire::{
    Answer, Closing, EndId, Held, Item, Meeting, Operation, Packet, Part, Readable, Report,
    Request, Seen, Sending,
};
use via::{NetAddress, Reliability, ViAttributes};

/// A packet that owns its bytes.
pub(crate) type Owned = Packet<Vec<u8>>;

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        Just(Operation::Send),
        any::<(u64, u32)>().prop_map(|(address, handle)| Operation::Write { address, handle }),
        any::<u64>().prop_map(|read| Operation::ReadReply { read }),
    ]
}

fn part() -> impl Strategy<Value = Part<Vec<u8>>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..300);
    (operation(), any::<Option<u32>>(), bytes, 0u32..1 << 20, 0u32..1 << 20).prop_map(
        |(operation, immediate, bytes, before, after)| {
            let length = bytes.len() as u32;
            let (start, total) =
                if length == 0 { (0, 0) } else { (before, before + length + after) };
            Part { operation, immediate, total, start, bytes }
        },
    )
}

fn closing() -> impl Strategy<Value = Closing> {
    prop_oneof![
        Just(Closing::Disconnected),
        Just(Closing::Broke),
        any::<u64>().prop_map(Closing::NoReceive),
        any::<u64>().prop_map(Closing::BadReceive),
        any::<u64>().prop_map(Closing::RdmaDenied),
    ]
}

fn item() -> impl Strategy<Value = Item<Vec<u8>>> {
    prop_oneof![
        3 => part().prop_map(Item::Part),
        1 => any::<(u64, u32, u32)>()
            .prop_map(|(address, handle, length)| Item::Read { address, handle, length }),
        1 => closing().prop_map(Item::Close),
    ]
}

fn sending() -> impl Strategy<Value = Sending> {
    any::<(u32, u32)>().prop_map(|(number, transmission)| Sending { number, transmission })
}

pub(crate) fn report() -> impl Strategy<Value = Report> {
    let seen = prop::option::of((sending(), any::<u32>()));
    let ranges = prop::collection::vec((1u32..1 << 26, 1u32..1 << 26), 0..=Report::RANGES);
    (any::<u32>(), 0u32..=1 << 31, seen, any::<Option<u32>>(), ranges, any::<bool>()).prop_map(
        |(next, room, seen, marked, ranges, not_taken)| {
            let mut report = Report::plain(next);
            report.seen = seen.map(|(sending, delay)| Seen { sending, delay });
            (report.room, report.marked) = (room, marked);
            for (at, (skip, length)) in ranges.into_iter().enumerate() {
                let skip = if at == 0 && not_taken { 0 } else { skip };
                assert!(report.push(Held { skip, length }));
            }
            report
        },
    )
}

fn end() -> impl Strategy<Value = EndId> {
    any::<u64>().prop_map(EndId)
}

fn address() -> impl Strategy<Value = NetAddress> {
    let part = || prop::collection::vec(any::<u8>(), 0..=64);
    (part(), part()).prop_map(|(host, discriminator)| NetAddress::new(&host, &discriminator))
}

fn attributes() -> impl Strategy<Value = ViAttributes> {
    let level = prop::sample::select(vec![
        Reliability::UNRELIABLE,
        Reliability::RELIABLE_DELIVERY,
        Reliability::RELIABLE_RECEPTION,
    ]);
    (level, any::<(u32, bool, bool)>()).prop_map(
        |(reliability, (max_transfer_size, enable_rdma_write, enable_rdma_read))| ViAttributes {
            reliability,
            max_transfer_size,
            ptag: None,
            enable_rdma_write,
            enable_rdma_read,
        },
    )
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        (end(), attributes()).prop_map(|(conn, attributes)| Answer::Accepted { conn, attributes }),
        Just(Answer::NoMatch),
        Just(Answer::Rejected),
        Just(Answer::Reliability),
        Just(Answer::MaxTransferSize),
    ]
}

fn meeting() -> impl Strategy<Value = Meeting> {
    let request = (end(), address(), address(), attributes(), any::<bool>()).prop_map(
        |(id, local, remote, attributes, peer)| Request { id, local, remote, attributes, peer },
    );
    prop_oneof![
        request.prop_map(|request| Meeting::Request(Box::new(request))),
        end().prop_map(|request| Meeting::Pending { request }),
        (end(), answer()).prop_map(|(request, answer)| Meeting::Answer { request, answer }),
        (end(), any::<bool>())
            .prop_map(|(request, connected)| Meeting::Settled { request, connected }),
        end().prop_map(|request| Meeting::Cancel { request }),
        (address(), address()).prop_map(|(local, remote)| Meeting::Poke { local, remote }),
        (address(), address()).prop_map(|(local, remote)| Meeting::Poked { local, remote }),
    ]
}

/// Any packet.
pub(crate) fn packet() -> impl Strategy<Value = Owned> {
    prop_oneof![
        4 => (end(), end(), (sending(), any::<u32>()), item()).prop_map(
            |(to, from, (sending, ack), item)| Packet::Stream { to, from, sending, ack, item }
        ),
        2 => (end(), end(), report())
            .prop_map(|(to, from, report)| Packet::Ack { to, from, report }),
        2 => (end(), end(), any::<u64>(), part())
            .prop_map(|(to, from, message, part)| Packet::Datagram { to, from, message, part }),
        1 => end().prop_map(|to| Packet::Gone { to }),
        1 => (end(), end()).prop_map(|(to, from)| Packet::Hello { to, from }),
        1 => (end(), end(), (any::<u64>(), 0u32..300))
            .prop_map(|(to, from, (nonce, padding))| Packet::Probe { to, from, nonce, padding }),
        1 => (end(), end(), any::<u64>())
            .prop_map(|(to, from, nonce)| Packet::Echo { to, from, nonce }),
        4 => meeting().prop_map(Packet::Meeting),
    ]
}

/// Returns the frame of a packet.
pub(crate) fn frame<B: Readable>(packet: &Packet<B>) -> Vec<u8> {
    let mut frame = vec![0xEE; 5];
    packet.emit(&mut frame);
    frame
}

/// Returns the packet with its own copy of its bytes.
pub(crate) fn owned(packet: Packet<&[u8]>) -> Owned {
    match packet {
        Packet::Stream { to, from, sending, ack, item } => {
            Packet::Stream { to, from, sending, ack, item: item.into_owned() }
        }
        Packet::Datagram { to, from, message, part } => {
            Packet::Datagram { to, from, message, part: part.into_owned() }
        }
        Packet::Ack { to, from, report } => Packet::Ack { to, from, report },
        Packet::Gone { to } => Packet::Gone { to },
        Packet::Hello { to, from } => Packet::Hello { to, from },
        Packet::Probe { to, from, nonce, padding } => Packet::Probe { to, from, nonce, padding },
        Packet::Echo { to, from, nonce } => Packet::Echo { to, from, nonce },
        Packet::Meeting(meeting) => Packet::Meeting(meeting),
    }
}
