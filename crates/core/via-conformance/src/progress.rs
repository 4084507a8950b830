//! Transfers as a program sees them that looks at memory only, or not at all.

use super::prelude::*;

group! { "transfer":
    both a_receive_is_done_before_the_programs_eyes,
    both a_send_is_done_before_the_programs_eyes,
    both sends_complete_while_the_receiver_computes,
    alone sends_complete_without_any_call_of_the_receiver,
    alone a_status_is_cleared_when_a_descriptor_is_posted,
    alone a_status_tells_the_operation,
    alone a_short_message_leaves_the_rest_alone,
    alone a_message_of_no_segments_arrives,
    alone a_descriptor_at_the_end_of_its_region_works,
    alone a_programs_link_is_left_alone,
    both a_buffer_is_free_when_its_send_is_done,
    both both_directions_at_once,
    alone vis_do_not_mix_their_messages,
    alone exactly_the_vis_transfer_size_and_one_byte_more,
    both send_done_does_not_block_behind_send_wait,
}

/// Looks at a descriptor's status, and calls nothing, until it says that it is done.
#[track_caller]
fn spin<N: Nic>(end: &End<'_, N>, i: usize) -> Status {
    let descriptor = end.place(i);
    let begin = Instant::now();
    while !descriptor.status().is_done() {
        assert!(begin.elapsed() < Duration::from_secs(10), "never done");
        thread::yield_now();
    }
    descriptor.status()
}

mod a_receive_is_done_before_the_programs_eyes {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        for i in 0..4 {
            end.post_recv(i, i * 60_000, 60_000);
        }
        end.accept(cx);
        for (i, len) in [0, 8, 2000, 60_000].into_iter().enumerate() {
            assert_eq!(spin(&end, i), Status::DONE | Status::OP_RECEIVE);
            assert_eq!(end.place(i).length(), len as u32);
            end.expect(i * 60_000, len, i);
        }
        for _ in 0..4 {
            assert!(end.vi.recv_done().completion().unwrap().result().is_ok());
        }
        end.nothing_posted();
        end.send(5, 0, 8);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.post_recv(5, 0, 8);
        end.request(cx).unwrap();
        for (i, len) in [0, 8, 2000, 60_000].into_iter().enumerate() {
            end.send_pattern(0, 0, len, i);
            thread::sleep(Duration::from_millis(2));
        }
        assert!(end.received().result().is_ok());
    }
}

mod a_send_is_done_before_the_programs_eyes {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        for i in 0..8 {
            end.post_recv(i, i * 60_000, 60_000);
        }
        end.accept(cx);
        for i in 0..8 {
            end.receives(i * 60_000, 60_000, i);
        }
        end.send(9, 0, 0);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.post_recv(9, 0, 0);
        end.request(cx).unwrap();
        for i in 0..8 {
            end.fill(i * 60_000, 60_000, i);
            end.post_send(i, i * 60_000, 60_000);
        }
        for i in 0..8 {
            assert_eq!(spin(&end, i), Status::DONE | Status::OP_SEND);
            assert_eq!(end.place(i).length(), 60_000);
        }
        for _ in 0..8 {
            assert!(end.vi.send_done().completion().unwrap().result().is_ok());
        }
        assert!(end.received().result().is_ok());
    }
}

/// More than fits between the two, while the receiver only looks at one word of its memory.
mod sends_complete_while_the_receiver_computes {
    use super::*;

    const MESSAGES: usize = 256;
    const LEN: usize = 32 << 10;

    fn end<'n, N: Nic>(cx: &Context<'n, N>) -> End<'n, N> {
        End::with(cx, MESSAGES * LEN, ViAttributes::default())
    }

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = end(cx);
        for i in 0..MESSAGES {
            end.post_recv(i, i * LEN, LEN);
        }
        end.accept(cx);
        spin(&end, MESSAGES - 1);
        for i in 0..MESSAGES {
            let done = end.vi.recv_done().completion().unwrap();
            assert_eq!(done.result(), Ok(LEN as u32));
            end.expect(i * LEN, LEN, i);
        }
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = end(cx);
        end.request(cx).unwrap();
        for i in 0..MESSAGES {
            end.fill(i * LEN, LEN, i);
            end.post_send(i, i * LEN, LEN);
        }
        for _ in 0..MESSAGES {
            assert_eq!(end.sent().result(), Ok(LEN as u32));
        }
        end.await_state(ViState::Error);
    }
}

/// Which never looks at its VI until they are all done.
fn sends_complete_without_any_call_of_the_receiver<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, longest(cx));
    for i in 0..250 {
        b.post_recv(i, i * 4000, 4000);
    }
    for i in 0..250 {
        a.fill(i * 4000, 4000, i);
        a.post_send(i, i * 4000, 4000);
    }
    for _ in 0..250 {
        assert_eq!(a.sent().result(), Ok(4000));
    }
    for i in 0..250 {
        b.receives(i * 4000, 4000, i);
    }
}

/// What it said of its last use is not taken for this one.
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

/// Of a longer receive, scattered: bytes and segments beyond the message.
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

/// Its last 64 bytes, with two segments.
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

/// And the segments with it.
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

/// What is written into it then is not what arrives.
mod a_buffer_is_free_when_its_send_is_done {
    use super::*;

    const ROUNDS: usize = 300;

    fn len(i: usize) -> usize {
        [8, 100, 3000, 32 << 10][i % 4]
    }

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::with(cx, 16 * (32 << 10), ViAttributes::default());
        for i in 0..16 {
            end.post_recv(i, i * (32 << 10), 32 << 10);
        }
        end.accept(cx);
        for i in 0..ROUNDS {
            end.receives(i % 16 * (32 << 10), len(i), i);
            end.post_recv(i % 16, i % 16 * (32 << 10), 32 << 10);
            if i % 8 == 7 {
                end.send(16, 0, 0);
            }
        }
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::with(cx, 1 << 16, ViAttributes::default());
        end.post_recv(1, 0, 0);
        end.post_recv(2, 0, 0);
        end.request(cx).unwrap();
        for i in 0..ROUNDS {
            end.send_pattern(0, 0, len(i), i);
            end.write(0, &vec![0xff; 32 << 10]);
            // Eight at a time, and eight more when the server has the first eight.
            if i % 8 == 7 && i > 8 {
                let told = end.received();
                assert!(told.result().is_ok());
                end.vi.post_recv(told.descriptor).unwrap();
            }
        }
        assert!(end.received().result().is_ok());
    }
}

mod both_directions_at_once {
    use super::*;

    const MESSAGES: usize = 250;

    fn talk<N: Nic>(end: &End<'_, N>, mine: usize, theirs: usize) {
        thread::scope(|s| {
            s.spawn(|| {
                for i in 0..MESSAGES {
                    end.send_pattern(300, 600_000, 1 + i * 8, i + mine);
                }
            });
            for i in 0..MESSAGES {
                end.receives(i * 2200, 1 + i * 8, i + theirs);
            }
        });
    }

    fn end<'n, N: Nic>(cx: &Context<'n, N>) -> End<'n, N> {
        let end = End::new(cx);
        for i in 0..MESSAGES {
            end.post_recv(i, i * 2200, 2200);
        }
        end
    }

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = end(cx);
        end.accept(cx);
        talk(&end, 3, 7);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = end(cx);
        end.request(cx).unwrap();
        talk(&end, 7, 3);
    }
}

/// Three connections, their messages interleaved.
fn vis_do_not_mix_their_messages<N: Nic>(cx: &Context<'_, N>) {
    let pairs = [(); 3].map(|()| pair(cx, ViAttributes::default()));
    for i in 0..30 {
        for (_, b) in &pairs {
            b.post_recv(i, i * 600, 600);
        }
    }
    for i in 0..30 {
        for (n, (a, _)) in pairs.iter().enumerate() {
            a.send_pattern(0, 0, 20 * i, i * 3 + n);
        }
    }
    for (n, (_, b)) in pairs.iter().enumerate() {
        for i in 0..30 {
            b.receives(i * 600, 20 * i, i * 3 + n);
        }
    }
}

/// The VI's own, which is less than the NIC's.
fn exactly_the_vis_transfer_size_and_one_byte_more<N: Nic>(cx: &Context<'_, N>) {
    for size in [1, 1000, cx.nic.attributes().max_transfer_size as usize] {
        let attributes = ViAttributes { max_transfer_size: size as u32, ..ViAttributes::default() };
        let [a, b] = [(); 2].map(|()| End::with(cx, size + 1, attributes));
        connect(cx, &a, &b);
        b.post_recv(0, 0, size);
        b.post_recv(1, 0, size);
        a.send_pattern(0, 0, size, 1);
        b.receives(0, size, 1);
        a.post_send(0, 0, size + 1);
        a.sent_in(Status::LENGTH_ERROR);
        a.await_state(ViState::Error);
        b.received_in(Status::DESC_FLUSHED_ERROR);
    }
}

/// One thread waits, one looks; between them they take every send once.
mod send_done_does_not_block_behind_send_wait {
    use super::*;

    const MESSAGES: usize = 400;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        for i in 0..MESSAGES {
            end.post_recv(i, 0, 2000);
        }
        end.accept(cx);
        for _ in 0..MESSAGES {
            assert_eq!(end.received().result(), Ok(2000));
        }
        end.send(MESSAGES, 0, 0);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.post_recv(MESSAGES, 0, 0);
        end.request(cx).unwrap();
        let taken = Mutex::new(std::collections::HashSet::new());
        let take = |descriptor: DescriptorAddress| {
            assert!(taken.lock().unwrap().insert(descriptor), "taken twice");
        };
        let all = || taken.lock().unwrap().len() == MESSAGES;
        thread::scope(|s| {
            s.spawn(|| {
                while !all() {
                    if let Ok(sent) = end.vi.send_wait(ms(20)) {
                        take(sent.descriptor);
                    }
                }
            });
            for i in 0..MESSAGES {
                end.post_send(i, 0, 2000);
                let begin = Instant::now();
                if let Done::Completion(sent) = end.vi.send_done() {
                    take(sent.descriptor);
                }
                assert!(begin.elapsed() < Duration::from_secs(10), "blocked");
            }
            eventually("all are taken", || {
                if let Done::Completion(sent) = end.vi.send_done() {
                    take(sent.descriptor);
                }
                all()
            });
        });
        assert!(end.received().result().is_ok());
    }
}
