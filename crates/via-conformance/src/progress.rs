//! Transfers for a program that only reads memory, or makes no call at all.

use super::prelude::*;

group! { "transfer":
    both a_receive_is_done_before_the_programs_eyes,
    both a_send_is_done_before_the_programs_eyes,
    both sends_complete_while_the_receiver_computes,
    alone sends_complete_without_any_call_of_the_receiver,
    both a_buffer_is_free_when_its_send_is_done,
    both both_directions_at_once,
    alone vis_do_not_mix_their_messages,
    alone exactly_the_vis_transfer_size_and_one_byte_more,
    both send_done_does_not_block_behind_send_wait,
}

/// Reads a descriptor's status, without any call, until it is complete.
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

/// Sends exceed the room between the two roles, while the receiver only reads one word of its memory.
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

/// The receiver looks at its VI only after all sends are complete.
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

/// Bytes written to the buffer after the completion must not arrive.
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
            // Sends eight messages at a time. The next eight follow when the server has the first eight.
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

/// Messages of three connections are interleaved.
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

/// The limit is the VI's own one, which is smaller than the NIC's.
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

/// One thread waits and one polls. Together they take every send exactly once.
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
