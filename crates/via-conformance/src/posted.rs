//! A transfer's effects on its descriptor, and what it must not change.

use super::prelude::*;

group! { "transfer":
    alone a_status_is_cleared_when_a_descriptor_is_posted,
    alone a_status_tells_the_operation,
    alone a_short_message_leaves_the_rest_alone,
    alone a_message_of_no_segments_arrives,
    alone a_descriptor_at_the_end_of_its_region_works,
    alone a_programs_link_is_left_alone,
}

/// The status of an earlier use must not count for this one.
fn a_status_is_cleared_when_a_descriptor_is_posted<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    for i in 0..200 {
        let descriptor = b.descriptor(0, &[b.data(0, 8)], None);
        b.place(0).complete(Status::DONE | Status::FORMAT_ERROR, 77, Some(5));
        b.vi.post_recv(descriptor).unwrap();
        assert_eq!(b.place(0).status(), Status::empty());
        assert_eq!(b.vi.recv_done(), Done::NotDone);
        a.send_pattern(0, 0, 8, i);
        b.receives(0, 8, i);
    }
}

fn a_status_tells_the_operation<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    for i in 0..2 {
        b.post_recv(i, 0, 8);
    }
    a.send(0, 0, 8);
    let data = [a.data(0, 4)];
    a.vi.post_send(a.descriptor(0, &data, Some(3))).unwrap();
    assert_eq!(a.sent().status & Status::OP_MASK, Status::OP_SEND);
    assert_eq!(b.received().status, Status::DONE | Status::OP_RECEIVE);
    assert_eq!(b.received().status, Status::DONE | Status::OP_RECEIVE | Status::IMMEDIATE);
    b.post_recv(0, 0, 8);
    b.vi.disconnect();
    assert_eq!(b.received().status & Status::OP_MASK, Status::OP_RECEIVE);
}

/// In a longer, scattered receive, bytes and segments after the message stay unchanged.
fn a_short_message_leaves_the_rest_alone<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    b.write(0, &[0xee; 300]);
    let to = [b.data(0, 50), b.data(100, 50), b.data(200, 50)];
    b.vi.post_recv(b.descriptor(0, &to, None)).unwrap();
    a.send_pattern(0, 0, 70, 1);
    assert_eq!(b.received().result(), Ok(70));
    let got = [b.bytes(0, 50), b.bytes(100, 20)].concat();
    assert_eq!(got, a.bytes(0, 70));
    assert!(b.bytes(50, 50).iter().chain(&b.bytes(120, 180)).all(|&byte| byte == 0xee));
}

fn a_message_of_no_segments_arrives<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    for immediate in [None, Some(0xabcd)] {
        b.vi.post_recv(b.descriptor(0, &[], None)).unwrap();
        a.vi.post_send(a.descriptor(0, &[], immediate)).unwrap();
        assert_eq!(a.sent().result(), Ok(0));
        let got = b.received();
        assert_eq!((got.result(), got.immediate), (Ok(0), immediate));
    }
}

/// The descriptor is in the last 64 bytes of its region, with two segments.
fn a_descriptor_at_the_end_of_its_region_works<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    let memory = Memory::zeroed(64 * 3);
    let handle = cx.nic.register_mem(&memory, MemAttributes::default()).unwrap();
    for round in 0..3 {
        let descriptor = DescriptorAddress { address: memory.address(128), handle };
        let place = memory.descriptor(128).unwrap();
        place.prepare(&[b.data(0, 5), b.data(5, 3)], None).unwrap();
        b.vi.post_recv(descriptor).unwrap();
        a.send_pattern(0, 0, 8, round);
        assert_eq!(b.vi.recv_wait(SOON).unwrap().descriptor, descriptor);
        b.expect(0, 8, round);
    }
}

/// The link and the segments stay unchanged.
fn a_programs_link_is_left_alone<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    let descriptor = b.descriptor(0, &[b.data(0, 8)], None);
    b.place(0).set_next(0xdead_beef_0123, 0x4567);
    b.vi.post_recv(descriptor).unwrap();
    a.send(0, 0, 8);
    b.received();
    let place = b.place(0);
    assert_eq!(place.next(), (0xdead_beef_0123, 0x4567));
    assert_eq!((place.seg_count(), place.segment(0)), (1, Some(b.data(0, 8))));
}
