//! Completion queues shared by several work queues, and queues with one.

use super::cq::{entry, on, taken};
use super::prelude::*;
use WorkQueueKind::{Recv, Send};

group! { "completion queue":
    both both_queues_share_one [CompletionQueues],
    both two_vis_share_one [CompletionQueues],
    both each_queue_has_its_own [CompletionQueues],
}

mod both_queues_share_one {
    use super::*;

    const ROUNDS: usize = 100;

    fn talk<N: Nic>(cx: &Context<'_, N>, line: Line<'_, N>, connect: impl Fn(&End<'_, N>)) {
        let cq = cx.nic.create_cq(64, 1).unwrap();
        let end = on(cx, Some(&cq), Some(&cq), 3);
        // The other role may be a round ahead.
        for i in 0..2 {
            end.post_recv(i, i * 100, 100);
        }
        connect(&end);
        let (mut sent, mut received) = (0, 0);
        for i in 0..ROUNDS {
            end.fill(200, 100, i);
            end.post_send(2, 200, 100);
            // The peer decides the order in which the two complete. Its next message may also be among them.
            while sent <= i || received <= i {
                let CqEntry { context, queue } = cq.wait(SOON).unwrap();
                assert_eq!(context, 3);
                assert_eq!(taken(&end, queue).result(), Ok(100));
                if queue == Send {
                    sent += 1;
                } else {
                    end.expect(received % 2 * 100, 100, received);
                    end.post_recv(received % 2, received % 2 * 100, 100);
                    received += 1;
                }
            }
        }
        assert_eq!((sent, received), (ROUNDS, ROUNDS));
        line.meet();
    }

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        talk(cx, Line::server(cx), |end| end.accept(cx));
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        talk(cx, Line::client(cx), |end| assert!(end.request(cx).is_ok()));
    }
}

mod two_vis_share_one {
    use super::*;

    const MESSAGES: usize = 30;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, cq) = (Line::server(cx), cx.nic.create_cq(256, 1).unwrap());
        let ends = [0, 1].map(|context| {
            let end = on(cx, None, Some(&cq), context);
            for i in 0..MESSAGES {
                end.post_recv(i, i * 8, 8);
            }
            end.accept(cx);
            end
        });
        let mut seen = [0; 2];
        for _ in 0..2 * MESSAGES {
            let CqEntry { context, queue } = cq.wait(SOON).unwrap();
            assert_eq!(queue, Recv);
            let n = context as usize;
            assert_eq!(taken(&ends[n], Recv).result(), Ok(8));
            ends[n].expect(seen[n] * 8, 8, seen[n] * 2 + n);
            seen[n] += 1;
        }
        assert_eq!((seen, cq.done()), ([MESSAGES; 2], None));
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::client(cx);
        let ends = [(); 2].map(|()| End::with(cx, 64, ViAttributes::default()));
        for end in &ends {
            end.request(cx).unwrap();
        }
        for i in 0..MESSAGES {
            for (n, end) in ends.iter().enumerate() {
                end.send_pattern(0, 0, 8, i * 2 + n);
            }
        }
        line.meet();
    }
}

/// Sends complete in one queue, and receives in another.
mod each_queue_has_its_own {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        talk(cx, |end| end.accept(cx));
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        talk(cx, |end| assert!(end.request(cx).is_ok()));
    }

    fn talk<N: Nic>(cx: &Context<'_, N>, connect: impl Fn(&End<'_, N>)) {
        let cqs = [1, 2].map(|context| cx.nic.create_cq(64, context).unwrap());
        let end = on(cx, Some(&cqs[0]), Some(&cqs[1]), 8);
        for i in 0..20 {
            end.post_recv(i, i * 8, 8);
        }
        connect(&end);
        for i in 0..20 {
            end.fill(1000, 8, i);
            end.post_send(20, 1000, 8);
            entry(&cqs[0], 8, Send);
            assert_eq!(taken(&end, Send).result(), Ok(8));
            entry(&cqs[1], 8, Recv);
            assert_eq!(taken(&end, Recv).result(), Ok(8));
            end.expect(i * 8, 8, i);
        }
        assert_eq!((cqs[0].done(), cqs[1].done()), (None, None));
    }
}
