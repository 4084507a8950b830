//! Each possible fault of a descriptor, in sends and in receives.

use super::prelude::*;
use via::{DataSegment, DescriptorRef};

group! { "descriptor errors":
    alone reserved_control_bits_are_a_format_error,
    alone the_reserved_operation_is_a_format_error,
    alone too_many_segments_are_a_format_error,
    alone segments_beyond_the_region_are_an_error,
    alone an_rdma_without_its_address_segment_is_a_format_error,
    alone a_receive_that_asks_for_an_rdma_is_a_format_error,
    alone lengths_that_overflow_in_sum_are_a_length_error,
    alone a_range_that_overflows_is_a_protection_error,
    alone a_range_across_two_regions_is_a_protection_error,
    alone the_last_of_many_segments_is_checked_too,
    alone an_empty_segment_of_no_region_does_no_harm,
    alone memory_of_another_tag_is_a_protection_error,
    alone a_descriptor_of_another_tag_is_refused,
    alone a_misaligned_descriptor_is_refused,
    alone a_descriptor_outside_its_region_is_refused,
    alone a_descriptor_that_changes_after_posting_does_no_harm,
    alone a_scribbled_status_is_not_believed,
    alone an_error_flushes_what_follows_in_order,
    alone what_precedes_an_error_is_carried_out,
    both an_error_breaks_both_sides_and_is_told,
}

/// Checks that a send with a fault ends in this error and breaks the connection.
#[track_caller]
fn spoilt_send<N: Nic>(cx: &Context<'_, N>, error: Status, spoil: impl Fn(DescriptorRef<'_>)) {
    let (a, b) = pair(cx, ViAttributes::default());
    b.post_recv(0, 0, 100);
    let descriptor = a.descriptor(0, &[a.data(0, 8)], None);
    spoil(a.place(0));
    a.vi.post_send(descriptor).unwrap();
    ends_in(&a, error);
    b.await_state(ViState::Error);
    b.received_in(Status::DESC_FLUSHED_ERROR);
}

/// Like [`spoilt_send`], with these data segments.
#[track_caller]
fn wrong_send<N: Nic>(
    cx: &Context<'_, N>,
    error: Status,
    of: impl Fn(&End<'_, N>) -> Vec<DataSegment>,
) {
    let (a, b) = pair(cx, ViAttributes::default());
    b.post_recv(0, 0, 100);
    a.vi.post_send(a.descriptor(0, &of(&a), None)).unwrap();
    ends_in(&a, error);
    b.await_state(ViState::Error);
    b.received_in(Status::DESC_FLUSHED_ERROR);
}

#[track_caller]
fn ends_in<N: Nic>(end: &End<'_, N>, error: Status) {
    let sent = end.sent();
    let status = sent.result().expect_err("carried out");
    assert_eq!((status.errors() & error, sent.length), (error, 0), "{status:?}");
    end.await_state(ViState::Error);
    assert!(matches!(end.vi.cause(), Some(Cause::Descriptor(_))), "{:?}", end.vi.cause());
}

/// Checks that a receive with a fault ends in this error, when a message uses it or before.
#[track_caller]
fn spoilt_receive<N: Nic>(cx: &Context<'_, N>, error: Status, spoil: impl Fn(DescriptorRef<'_>)) {
    let (a, b) = pair(cx, ViAttributes::default());
    let descriptor = b.descriptor(0, &[b.data(0, 8)], None);
    spoil(b.place(0));
    b.vi.post_recv(descriptor).unwrap();
    // The connection may be broken already.
    let _ = a.vi.post_send(a.descriptor(0, &[a.data(0, 8)], None));
    let received = b.received();
    let status = received.result().expect_err("received into");
    assert!(status.contains(error), "{status:?}");
    a.await_state(ViState::Error);
    b.await_state(ViState::Error);
}

/// Checks each of the twelve reserved bits.
fn reserved_control_bits_are_a_format_error<N: Nic>(cx: &Context<'_, N>) {
    for bit in 4..16 {
        let control = Control::from_bits_retain(1 << bit);
        spoilt_send(cx, Status::FORMAT_ERROR, |d| d.set_control(control));
    }
    spoilt_receive(cx, Status::FORMAT_ERROR, |d| d.set_control(Control::RESERVED));
}

fn the_reserved_operation_is_a_format_error<N: Nic>(cx: &Context<'_, N>) {
    spoilt_send(cx, Status::FORMAT_ERROR, |d| d.set_control(Control::OP_MASK));
    spoilt_receive(cx, Status::FORMAT_ERROR, |d| d.set_control(Control::OP_MASK));
}

fn too_many_segments_are_a_format_error<N: Nic>(cx: &Context<'_, N>) {
    let max = cx.nic.attributes().max_segments_per_desc;
    for count in [max + 1, u16::MAX] {
        spoilt_send(cx, Status::FORMAT_ERROR, |d| d.set_seg_count(count));
        spoilt_receive(cx, Status::FORMAT_ERROR, |d| d.set_seg_count(count));
    }
}

/// The descriptor claims segments beyond its region. The NIC must read no byte beyond the region.
fn segments_beyond_the_region_are_an_error<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    b.post_recv(0, 0, 100);
    let memory = Memory::zeroed(128);
    let handle = cx.nic.register_mem(&memory, MemAttributes::default()).unwrap();
    let place = memory.descriptor(64).unwrap();
    place.prepare(&[a.data(0, 4), a.data(4, 4)], None).unwrap();
    place.set_seg_count(3);
    a.vi.post_send(DescriptorAddress { address: memory.address(64), handle }).unwrap();
    let status = a.vi.send_wait(SOON).unwrap().result().unwrap_err();
    assert!(status.intersects(Status::FORMAT_ERROR | Status::PROTECTION_ERROR), "{status:?}");
    a.await_state(ViState::Error);
}

fn an_rdma_without_its_address_segment_is_a_format_error<N: Nic>(cx: &Context<'_, N>) {
    for operation in [Control::OP_RDMAWRITE, Control::OP_RDMAREAD] {
        spoilt_send(cx, Status::FORMAT_ERROR, |d| {
            d.set_control(operation);
            d.set_seg_count(0);
        });
    }
}

fn a_receive_that_asks_for_an_rdma_is_a_format_error<N: Nic>(cx: &Context<'_, N>) {
    for operation in [Control::OP_RDMAWRITE, Control::OP_RDMAREAD] {
        spoilt_receive(cx, Status::FORMAT_ERROR, |d| d.set_control(operation));
    }
}

/// The sum overflows 32 bits, to zero and to eight bytes. Each segment is inside a region.
fn lengths_that_overflow_in_sum_are_a_length_error<N: Nic>(cx: &Context<'_, N>) {
    const EACH: usize = 1 << 26;
    let large = Memory::zeroed(EACH + 8);
    let handle = cx.nic.register_mem(&large, MemAttributes::default()).unwrap();
    for more in [0, 8] {
        wrong_send(cx, Status::LENGTH_ERROR, |_| {
            let mut all = vec![large.segment(0, EACH as u32, handle); 63];
            all.push(large.segment(0, EACH as u32 + more, handle));
            all
        });
    }
}

fn a_range_that_overflows_is_a_protection_error<N: Nic>(cx: &Context<'_, N>) {
    for address in [u64::MAX, u64::MAX - 3, 0] {
        let wrong = |good: DataSegment| DataSegment { address, ..good };
        wrong_send(cx, Status::PROTECTION_ERROR, |a| vec![wrong(a.data(0, 8))]);
    }
}

/// The two regions are adjacent.
fn a_range_across_two_regions_is_a_protection_error<N: Nic>(cx: &Context<'_, N>) {
    wrong_send(cx, Status::PROTECTION_ERROR, |a| {
        let end = a.memory.len();
        vec![a.memory.segment(end - 4, 8, a.handle)]
    });
    wrong_send(cx, Status::PROTECTION_ERROR, |a| {
        let good = a.memory.segment(0, 8, a.handle);
        vec![DataSegment { address: good.address - 4, ..good }]
    });
}

fn the_last_of_many_segments_is_checked_too<N: Nic>(cx: &Context<'_, N>) {
    wrong_send(cx, Status::PROTECTION_ERROR, |a| {
        let mut all: Vec<_> = (0..251).map(|i| a.data(i, 1)).collect();
        all.push(DataSegment { handle: 0, ..a.data(0, 1) });
        all
    });
}

/// The NIC may accept or refuse the segment. In both cases nothing else is sent, and both sides agree.
fn an_empty_segment_of_no_region_does_no_harm<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    b.post_recv(0, 0, 100);
    a.fill(0, 8, 3);
    let nothing = DataSegment { address: 0, handle: 0, length: 0 };
    a.vi.post_send(a.descriptor(0, &[nothing, a.data(0, 8)], None)).unwrap();
    match a.sent().result() {
        Ok(len) => {
            assert_eq!(len, 8);
            b.receives(0, 8, 3);
        }
        Err(status) => {
            assert!(status.contains(Status::PROTECTION_ERROR), "{status:?}");
            b.received_in(Status::DESC_FLUSHED_ERROR);
        }
    }
}

fn memory_of_another_tag_is_a_protection_error<N: Nic>(cx: &Context<'_, N>) {
    let other = Memory::zeroed(100);
    let ptag = Some(cx.nic.create_ptag().unwrap());
    let attributes = MemAttributes { ptag, ..MemAttributes::default() };
    let handle = cx.nic.register_mem(&other, attributes).unwrap();
    wrong_send(cx, Status::PROTECTION_ERROR, |_| vec![other.segment(0, 8, handle)]);
}

/// The descriptor's own memory needs the VI's tag, like the data.
fn a_descriptor_of_another_tag_is_refused<N: Nic>(cx: &Context<'_, N>) {
    let (a, _b) = pair(cx, ViAttributes::default());
    let ptag = Some(cx.nic.create_ptag().unwrap());
    let other = End::with(cx, 100, ViAttributes { ptag, ..ViAttributes::default() });
    let descriptor = other.descriptor(0, &[a.data(0, 8)], None);
    assert_eq!(a.vi.post_send(descriptor), Err(PostError::Descriptor));
    assert_eq!(a.vi.post_recv(descriptor), Err(PostError::Descriptor));
    a.nothing_posted();
    assert_eq!(a.vi.state(), ViState::Connected);
}

fn a_misaligned_descriptor_is_refused<N: Nic>(cx: &Context<'_, N>) {
    let (a, _b) = pair(cx, ViAttributes::default());
    let good = a.descriptor(0, &[a.data(0, 8)], None);
    for off in [1, 4, 8, 16, 32, 63] {
        let askew = DescriptorAddress { address: good.address + off, ..good };
        assert_eq!(a.vi.post_send(askew), Err(PostError::Descriptor));
        assert_eq!(a.vi.post_recv(askew), Err(PostError::Descriptor));
    }
    a.nothing_posted();
}

/// Tries descriptors before, after and partly outside their region, and addresses that overflow.
fn a_descriptor_outside_its_region_is_refused<N: Nic>(cx: &Context<'_, N>) {
    let (a, _b) = pair(cx, ViAttributes::default());
    let (first, len) = (a.memory.address(0), a.memory.len() as u64);
    let memory = Memory::zeroed(100);
    let short = cx.nic.register_mem(&memory, MemAttributes::default()).unwrap();
    let wrong = [
        (first - 64, a.handle),
        (first + len, a.handle),
        (first + len + (1 << 40), a.handle),
        (0, a.handle),
        (u64::MAX - 63, a.handle),
        // The region has a hundred bytes. A descriptor of 64 bytes at offset 64 does not fit.
        (memory.address(64), short),
    ];
    for (address, handle) in wrong {
        let descriptor = DescriptorAddress { address, handle };
        assert_eq!(a.vi.post_send(descriptor), Err(PostError::Descriptor), "{address:#x}");
        assert_eq!(a.vi.post_recv(descriptor), Err(PostError::Descriptor), "{address:#x}");
    }
    a.nothing_posted();
}

/// A thread changes the segments all the time between good and bad ones. A received message goes to the place of one of
/// them, or its receive ends in an error. The bytes beside are never touched.
fn a_descriptor_that_changes_after_posting_does_no_harm<N: Nic>(cx: &Context<'_, N>) {
    const ROUNDS: usize = 300;
    let (mut a, mut b) = pair(cx, ViAttributes::default());
    for round in 0..ROUNDS {
        b.write(0, &[0x77; 3000]);
        a.fill(0, 1000, round);
        let good = b.data(1000, 1000);
        let beyond = b.memory.segment(b.memory.len() - 10, 1000, b.handle);
        b.vi.post_recv(b.descriptor(0, &[good], None)).unwrap();
        let stop = core::sync::atomic::AtomicBool::new(false);
        thread::scope(|s| {
            s.spawn(|| {
                while !stop.load(core::sync::atomic::Ordering::Relaxed) {
                    for segment in [beyond, DataSegment { handle: 0, ..good }, good] {
                        // Writes what `prepare` would, except for the status, which belongs to the NIC now.
                        b.memory.write(32, &segment.address.to_ne_bytes());
                        b.memory.write(40, &segment.handle.to_ne_bytes());
                    }
                }
            });
            a.post_send(0, 0, 1000);
            let done = b.vi.recv_wait(SOON);
            stop.store(true, core::sync::atomic::Ordering::Relaxed);
            match done.unwrap().result() {
                Ok(len) => assert_eq!(len, 1000),
                Err(status) => assert!(status.contains(Status::PROTECTION_ERROR), "{status:?}"),
            }
        });
        assert_eq!(b.bytes(0, 1000), vec![0x77; 1000]);
        assert_eq!(b.bytes(2000, 1000), vec![0x77; 1000]);
        if b.vi.state() == ViState::Error {
            (a, b) = pair(cx, ViAttributes::default());
        } else {
            a.sent();
        }
    }
}

/// The NIC has its own record of completed descriptors.
fn a_scribbled_status_is_not_believed<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    b.post_recv(0, 0, 8);
    b.place(0).complete(Status::DONE | Status::OP_RECEIVE, 8, None);
    assert_eq!(b.vi.recv_done(), Done::NotDone);
    assert_eq!(b.vi.recv_wait(ms(5)), Err(WaitError::Timeout));
    a.send_pattern(0, 0, 4, 1);
    b.receives(0, 4, 1);
}

fn an_error_flushes_what_follows_in_order<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    for i in 0..4 {
        a.post_recv(i, 0, 8);
        b.post_recv(i, 0, 8);
    }
    let bad = a.descriptor(10, &[DataSegment { handle: 0, ..a.data(0, 8) }], None);
    a.vi.post_send(bad).unwrap();
    let later: Vec<_> = (11..15).map(|i| a.post_send(i, 0, 8)).collect();
    a.sent_in(Status::PROTECTION_ERROR);
    for descriptor in later {
        let sent = a.sent();
        assert_eq!(sent.descriptor, descriptor);
        assert!(sent.result().unwrap_err().contains(Status::DESC_FLUSHED_ERROR));
    }
    for end in [&a, &b] {
        for _ in 0..4 {
            end.received_in(Status::DESC_FLUSHED_ERROR);
        }
        end.nothing_posted();
    }
}

fn what_precedes_an_error_is_carried_out<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    for i in 0..4 {
        b.post_recv(i, i * 1000, 1000);
    }
    for i in 0..3 {
        a.fill(i * 1000, 1000, i);
        a.post_send(i, i * 1000, 1000);
    }
    a.vi.post_send(a.descriptor(3, &[DataSegment { handle: 0, ..a.data(0, 8) }], None)).unwrap();
    for _ in 0..3 {
        assert_eq!(a.sent().result(), Ok(1000));
    }
    a.sent_in(Status::PROTECTION_ERROR);
    for i in 0..3 {
        b.receives(i * 1000, 1000, i);
    }
    b.received_in(Status::DESC_FLUSHED_ERROR);
}

/// The side without the fault gets "connection lost".
mod an_error_breaks_both_sides_and_is_told {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, told) = (Line::server(cx), Told::by(cx.nic));
        let attach = Attach { context: 42, ..Attach::default() };
        let end = End::attached(cx, 100, ViAttributes::default(), attach);
        end.post_recv(0, 0, 8);
        end.accept(cx);
        end.received_in(Status::DESC_FLUSHED_ERROR);
        assert_eq!((end.vi.state(), end.vi.cause()), (ViState::Error, Some(Cause::PeerBroke)));
        assert_eq!(told.code(42, ErrorCode::ConnLost).resource, Resource::Vi);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::client(cx);
        let end = End::with(cx, 100, ViAttributes::default());
        end.request(cx).unwrap();
        let bad = DataSegment { handle: 0, ..end.data(0, 8) };
        end.vi.post_send(end.descriptor(0, &[bad], None)).unwrap();
        end.sent_in(Status::PROTECTION_ERROR);
        line.meet();
    }
}
