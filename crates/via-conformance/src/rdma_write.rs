//! RDMA writes to the peer's memory, without its program.

use super::prelude::*;

group! { "rdma":
    both a_write_arrives_whole_at_every_size [RdmaWrite],
    both a_write_is_seen_by_a_target_that_only_looks [RdmaWrite],
    both writes_and_sends_keep_their_order [RdmaWrite],
    both a_write_gathers [RdmaWrite],
    both a_write_of_no_bytes_is_done [RdmaWrite],
    both writes_go_both_ways [RdmaWrite],
    both many_writes_fill_a_region [RdmaWrite],
    both the_longest_write_and_one_byte_more [RdmaWrite],
    both a_write_completes_without_the_target [RdmaWrite],
    both a_write_touches_its_range_only [RdmaWrite],
}

const LEVEL: Reliability = Reliability::RELIABLE_DELIVERY;

/// Makes the server's end with its line. The client gets the memory's address.
pub(super) fn target<'n, N: Nic>(
    cx: &Context<'n, N>,
    receives: usize,
) -> (Line<'n, N>, End<'n, N>) {
    let (line, end) = (Line::server(cx), End::open(cx, LEVEL));
    for i in 0..receives {
        end.post_recv(i, (1 << 19) + i * 64, 64);
    }
    end.accept(cx);
    line.tell(&end.target().words());
    (line, end)
}

/// Makes the client's end with its line. Returns the memory to write.
pub(super) fn writer<'n, N: Nic>(cx: &Context<'n, N>) -> (Line<'n, N>, End<'n, N>, Target) {
    let (line, end) = (Line::client(cx), End::open(cx, LEVEL));
    end.request(cx).unwrap();
    let target = Target::heard(&line.hear());
    (line, end, target)
}

/// Checks that the next send was a write of `len` bytes.
#[track_caller]
pub(super) fn wrote<N: Nic>(end: &End<'_, N>, len: usize) {
    let sent = end.sent();
    assert_eq!(sent.result(), Ok(len as u32));
    assert_eq!(sent.status & Status::OP_MASK, Status::OP_RDMA_WRITE);
}

mod a_write_arrives_whole_at_every_size {
    use super::*;

    const SIZES: [usize; 12] = [1, 7, 8, 48, 64, 100, 113, 1000, 4096, 4097, 32768, 65536];

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = target(cx, 1);
        for (i, size) in SIZES.into_iter().enumerate() {
            assert!(end.received().result().is_ok());
            end.expect(i, size, i);
            end.post_recv(0, 0, 0);
            line.meet();
        }
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = writer(cx);
        for (i, size) in SIZES.into_iter().enumerate() {
            end.fill(i * 3, size, i);
            end.post_write(0, i * 3, size, target.at(i));
            wrote(&end, size);
            end.send(1, 0, 0);
            line.meet();
        }
    }
}

/// The target makes no call until the last byte is there.
mod a_write_is_seen_by_a_target_that_only_looks {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = target(cx, 0);
        let begin = Instant::now();
        while end.bytes(20_000, 1) != [1] {
            assert!(begin.elapsed() < Duration::from_secs(10), "never written");
            thread::yield_now();
        }
        // These bytes were written earlier in the same queue.
        end.expect(0, 20_000, 9);
        end.nothing_posted();
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = writer(cx);
        end.fill(0, 20_000, 9);
        end.write(20_000, &[1]);
        end.post_write(0, 0, 20_000, target.at(0));
        end.post_write(1, 20_000, 1, target.at(20_000));
        wrote(&end, 20_000);
        wrote(&end, 1);
        line.meet();
    }
}

/// A message reports the progress of the writes, and never arrives before them.
mod writes_and_sends_keep_their_order {
    use super::*;

    const ROUNDS: usize = 60;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = target(cx, ROUNDS);
        for i in 0..ROUNDS {
            assert_eq!(end.received().result(), Ok(8));
            end.expect(i * 7000, 7000, i);
            end.expect((1 << 19) + i * 64, 8, i);
        }
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = writer(cx);
        for i in 0..ROUNDS {
            end.fill(i * 7000, 7000, i);
            end.post_write(i * 2, i * 7000, 7000, target.at(i * 7000));
            end.post_send(i * 2 + 1, i * 7000, 8);
        }
        for _ in 0..ROUNDS {
            wrote(&end, 7000);
            assert_eq!(end.sent().result(), Ok(8));
        }
        line.meet();
    }
}

/// The write has as many data segments as possible beside the address segment.
mod a_write_gathers {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = target(cx, 1);
        assert!(end.received().result().is_ok());
        end.expect(10, 251 * 20, 3);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = writer(cx);
        end.fill(0, 251 * 20, 3);
        // The pieces are apart from one another, and in reverse order.
        for i in 0..251 {
            end.write(100_000 - i * 50, &end.bytes(i * 20, 20));
        }
        let data: Vec<_> = (0..251).map(|i| end.data(100_000 - i * 50, 20)).collect();
        let descriptor = end.rdma(0, Control::OP_RDMAWRITE, target.at(10), &data, None);
        end.vi.post_send(descriptor).unwrap();
        wrote(&end, 251 * 20);
        end.send(1, 0, 0);
        line.meet();
    }
}

mod a_write_of_no_bytes_is_done {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = target(cx, 1);
        assert!(end.received().result().is_ok());
        assert_eq!(end.bytes(0, 100), [0; 100]);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = writer(cx);
        let descriptor = end.rdma(0, Control::OP_RDMAWRITE, target.at(0), &[], None);
        end.vi.post_send(descriptor).unwrap();
        wrote(&end, 0);
        end.send(1, 0, 0);
        line.meet();
    }
}

mod writes_go_both_ways {
    use super::*;

    fn exchange<N: Nic>(
        line: &Line<'_, N>,
        end: &End<'_, N>,
        to: Target,
        mine: usize,
        theirs: usize,
    ) {
        end.fill(0, 30_000, mine);
        end.post_write(900, 0, 30_000, to.at(100_000));
        wrote(end, 30_000);
        end.send(901, 0, 0);
        assert!(end.received().result().is_ok());
        end.expect(100_000, 30_000, theirs);
        line.meet();
    }

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = target(cx, 1);
        let to = Target::heard(&line.hear());
        exchange(&line, &end, to, 1, 2);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, to) = writer(cx);
        end.post_recv(0, 0, 0);
        line.tell(&end.target().words());
        exchange(&line, &end, to, 2, 1);
    }
}

/// Writes are posted without waiting, up to the queue's capacity.
mod many_writes_fill_a_region {
    use super::*;

    const WRITES: usize = 250;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = target(cx, 1);
        assert!(end.received().result().is_ok());
        end.expect(0, WRITES * 1000, 5);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = writer(cx);
        end.fill(0, WRITES * 1000, 5);
        for i in 0..WRITES {
            end.post_write(i, i * 1000, 1000, target.at(i * 1000));
        }
        for _ in 0..WRITES {
            wrote(&end, 1000);
        }
        end.send(0, 0, 0);
        line.meet();
    }
}

mod the_longest_write_and_one_byte_more {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = target(cx, 1);
        assert!(end.received().result().is_ok());
        let max = end.vi.attributes().max_transfer_size as usize;
        let len = max.min(1 << 20);
        end.expect(0, len, 4);
        line.meet();
        end.await_state(ViState::Error);
        end.expect(0, len, 4);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = writer(cx);
        let max = end.vi.attributes().max_transfer_size as usize;
        let len = max.min(1 << 20);
        end.fill(0, len, 4);
        end.post_write(0, 0, len, target.at(0));
        wrote(&end, len);
        end.send(1, 0, 0);
        line.meet();
        end.fill(0, len, 5);
        // The segments repeat the same bytes, so that their sum is one byte too long.
        let data: Vec<_> = (0..250).map(|_| end.data(0, max / 250 + 1)).collect();
        end.vi.post_send(end.rdma(0, Control::OP_RDMAWRITE, target.at(0), &data, None)).unwrap();
        end.sent_in(Status::LENGTH_ERROR);
    }
}

/// The target's thread is busy elsewhere, and makes no call.
mod a_write_completes_without_the_target {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = target(cx, 0);
        // The role waits on the line, not on the VI or its queues.
        line.hear();
        end.expect(0, 1 << 18, 8);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = writer(cx);
        end.fill(0, 1 << 18, 8);
        for i in 0..64 {
            end.post_write(i, i << 12, 1 << 12, target.at(i << 12));
        }
        for _ in 0..64 {
            wrote(&end, 1 << 12);
        }
        // With reliable delivery, a completed write may still be in flight. It has arrived when a later read returns.
        // If the NIC has no reads, the peer gets time instead.
        if cx.nic.attributes().rdma_read.contains(LEVEL) {
            end.post_read(0, 1 << 19, 8, target.at(0));
            assert_eq!(end.sent().result(), Ok(8));
        } else {
            thread::sleep(Duration::from_millis(30));
        }
        line.tell(&[]);
    }
}

mod a_write_touches_its_range_only {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = target(cx, 1);
        end.write(0, &[0xcc; 4000]);
        line.meet();
        assert!(end.received().result().is_ok());
        for i in 0..10 {
            let at = i * 400 + i * 7;
            end.expect(at, 100 + i, i);
            let next = if i == 9 { 4000 } else { (i + 1) * 407 };
            let gap = end.bytes(at + 100 + i, next - at - 100 - i);
            assert!(gap.iter().all(|&byte| byte == 0xcc), "behind write {i}");
        }
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = writer(cx);
        line.meet();
        for i in 0..10 {
            end.fill(0, 100 + i, i);
            end.post_write(0, 0, 100 + i, target.at(i * 407));
            wrote(&end, 100 + i);
        }
        end.send(1, 0, 0);
        line.meet();
    }
}
