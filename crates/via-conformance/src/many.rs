//! More receives and sends than fit.

group! { "limits":
    both more_receives_than_any_ring,
    both a_queue_takes_what_it_promises,
    both sends_without_room_wait_their_turn,
}

/// Hundreds of receives are posted at once, and as many messages arrive before one is taken.
pub(super) mod more_receives_than_any_ring {
    use crate::{Context, End};
    use via::Nic;

    const MANY: usize = 256;

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        for i in 0..MANY {
            end.post_recv(i, i * 8, 8);
        }
        end.accept(cx);
        for round in 0..4 {
            for i in 0..MANY {
                assert_eq!(end.received().result(), Ok(8), "message {i}");
                end.expect(i * 8, 8, i + round);
            }
            for i in 0..MANY {
                end.post_recv(i, i * 8, 8);
            }
            end.send(MANY, 0, 0);
        }
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.post_recv(MANY, 0, 0);
        end.request(cx).unwrap();
        for round in 0..4 {
            for i in 0..MANY {
                end.fill(i * 8, 8, i + round);
                end.post_send(i, i * 8, 8);
            }
            for _ in 0..MANY {
                assert_eq!(end.sent().result(), Ok(8));
            }
            assert!(end.received().result().is_ok());
            end.post_recv(MANY, 0, 0);
        }
    }
}

/// A queue takes as many descriptors as the NIC's attributes promise, and not more.
pub(super) mod a_queue_takes_what_it_promises {
    use crate::{Context, End};
    use via::error::PostError;
    use via::{Nic, Vi};

    pub(crate) fn server<N: Nic>(_: &Context<'_, N>) {}

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        let max = cx.nic.attributes().max_descriptors_per_queue;
        assert!(max >= 256, "VIA 1.0 asks for more than {max}");
        let descriptor = end.descriptor(0, &[], None);
        for _ in 0..max {
            end.vi.post_recv(descriptor).unwrap();
        }
        assert_eq!(end.vi.post_recv(descriptor), Err(PostError::QueueFull));
        end.vi.disconnect();
        for _ in 0..max {
            assert!(end.received().result().is_err());
        }
        end.nothing_posted();
    }
}

/// Sends exceed the room between the two roles, because the receiver is late. They wait, and are sent later without a
/// call of the sender.
pub(super) mod sends_without_room_wait_their_turn {
    use crate::{Context, End};
    use core::time::Duration;
    use via::{Nic, Vi, ViAttributes};

    const MESSAGES: usize = 200;
    const LEN: usize = 32 << 10;

    fn end<'n, N: Nic>(cx: &Context<'n, N>) -> End<'n, N> {
        End::with(cx, MESSAGES * LEN, ViAttributes::default())
    }

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = end(cx);
        for i in 0..MESSAGES {
            end.post_recv(i, i * LEN, LEN);
        }
        end.accept(cx);
        std::thread::sleep(Duration::from_millis(20));
        for i in 0..MESSAGES {
            assert_eq!(end.received().result(), Ok(LEN as u32), "message {i}");
            end.expect(i * LEN, LEN, i);
        }
        end.send(MESSAGES, 0, 8);
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = end(cx);
        end.post_recv(MESSAGES, 0, 8);
        end.request(cx).unwrap();
        for i in 0..MESSAGES {
            end.fill(i * LEN, LEN, i);
        }
        for i in 0..MESSAGES {
            end.post_send(i, i * LEN, LEN);
        }
        // The role makes no call on the send queue until the server reports that it has everything.
        assert_eq!(end.received().result(), Ok(8));
        for _ in 0..MESSAGES {
            assert_eq!(end.sent().result(), Ok(LEN as u32));
        }
        assert_eq!(end.vi.queues_empty(), (true, true));
    }
}
