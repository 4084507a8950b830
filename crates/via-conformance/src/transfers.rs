//! Bytes arrive complete and in order.

group! { "transfer":
    both every_size_arrives_whole,
    both segments_gather_and_scatter,
    both order_is_kept,
    both immediate_data_travels,
    both receives_posted_before_connecting_count,
}

/// Sends messages of every size around every boundary that a NIC may have, in each direction.
pub(super) mod every_size_arrives_whole {
    use crate::{Context, End};
    use via::Nic;

    const AT: usize = 1 << 17;

    fn sizes<N: Nic>(cx: &Context<'_, N>) -> Vec<usize> {
        let max = cx.nic.attributes().max_transfer_size as usize;
        let inline = cx.nic.attributes().capabilities.inline_size as usize;
        let mtu = cx.nic.attributes().native_mtu as usize;
        let mut sizes: Vec<_> = (0..20).collect();
        for edge in [48, 64, inline, 1024, 1460, 4096, mtu, 32 << 10, max] {
            sizes.extend([edge.saturating_sub(1), edge, edge + 1]);
        }
        sizes.retain(|&size| size <= max);
        sizes
    }

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        let max = cx.nic.attributes().max_transfer_size as usize;
        end.post_recv(0, 0, max);
        end.accept(cx);
        for (i, size) in sizes(cx).into_iter().enumerate() {
            assert_eq!(end.received().result(), Ok(size as u32));
            end.expect(0, size, i);
            end.post_recv(0, 0, max);
            end.fill(AT, size, i + 1);
            end.send(1, AT, size);
        }
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::requested(cx);
        for (i, size) in sizes(cx).into_iter().enumerate() {
            end.post_recv(0, AT, size);
            end.fill(0, size, i);
            end.send(1, 0, size);
            assert_eq!(end.received().result(), Ok(size as u32));
            end.expect(AT, size, i + 1);
        }
        end.nothing_posted();
    }
}

/// Uses up to 252 segments, with odd lengths, some of them empty.
pub(super) mod segments_gather_and_scatter {
    use crate::end::check;
    use crate::{Context, End};
    use via::{DataSegment, Nic, Vi};

    const ROUNDS: [(usize, usize); 7] =
        [(0, 0), (2, 1), (3, 30), (5, 31), (7, 1000), (100, 77), (252, 100)];
    const WHOLE: usize = 300 << 10;

    /// Returns offsets and lengths of `count` segments of about `len` bytes, one after the other with gaps.
    fn places(count: usize, len: usize) -> Vec<(usize, usize)> {
        (0..count).map(|i| (i * (len + 9), if i == 1 { 0 } else { len + i % 3 })).collect()
    }

    fn segments<N: Nic>(end: &End<'_, N>, places: &[(usize, usize)]) -> Vec<DataSegment> {
        places.iter().map(|&(at, len)| end.data(at, len)).collect()
    }

    fn total(places: &[(usize, usize)]) -> usize {
        places.iter().map(|p| p.1).sum()
    }

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        for (i, &(count, len)) in ROUNDS.iter().enumerate() {
            // The receive's segments are in reverse order. The last segment takes the rest.
            let mut to = places(count, len);
            to.reverse();
            end.vi.post_recv(end.descriptor(0, &segments(&end, &to), None)).unwrap();
            if i == 0 {
                end.accept(cx);
            } else {
                end.send(1, 0, 0);
            }
            assert_eq!(end.received().result(), Ok(total(&to) as u32));
            let bytes: Vec<u8> = to.iter().flat_map(|&(at, len)| end.bytes(at, len)).collect();
            check(&bytes, i);
        }
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        for i in 0..2 {
            end.post_recv(i, 0, 0);
        }
        end.request(cx).unwrap();
        for (i, &(count, len)) in ROUNDS.iter().enumerate() {
            if i > 0 {
                assert!(end.received().result().is_ok());
                end.post_recv(i % 2, 0, 0);
            }
            let from = places(count, len);
            end.fill(WHOLE, total(&from), i);
            let mut rest = WHOLE;
            for &(at, len) in &from {
                end.write(at, &end.bytes(rest, len));
                rest += len;
            }
            end.vi.post_send(end.descriptor(2, &segments(&end, &from), None)).unwrap();
            assert_eq!(end.sent().result(), Ok(total(&from) as u32));
        }
    }
}

/// Many messages are in flight, small and large mixed.
pub(super) mod order_is_kept {
    use crate::{Context, End};
    use via::{Nic, Vi};

    const MESSAGES: usize = 4000;
    const WINDOW: usize = 32;
    const PLACE: usize = 8192;

    fn size(n: usize) -> usize {
        8 + (n * 7919) % if n.is_multiple_of(5) { 8000 } else { 100 }
    }

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        for i in 0..WINDOW {
            end.post_recv(i, i * PLACE, PLACE);
        }
        end.accept(cx);
        for n in 0..MESSAGES {
            let i = n % WINDOW;
            let got = end.received();
            assert_eq!(got.result(), Ok(size(n) as u32));
            assert_eq!(end.bytes(i * PLACE, 8), (n as u64).to_le_bytes());
            end.post_recv(i, i * PLACE, PLACE);
            // Half a window is consumed and posted again, so the client may continue.
            if n % (WINDOW / 2) == WINDOW / 2 - 1 {
                end.send(WINDOW, WINDOW * PLACE, 0);
            }
        }
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        for i in 0..4 {
            end.post_recv(WINDOW + i, 0, 0);
        }
        end.request(cx).unwrap();
        let mut room = WINDOW;
        for n in 0..MESSAGES {
            if room == 0 {
                let told = end.received();
                assert!(told.result().is_ok());
                end.vi.post_recv(told.descriptor).unwrap();
                room += WINDOW / 2;
            }
            room -= 1;
            let i = n % WINDOW;
            end.write(i * PLACE, &(n as u64).to_le_bytes());
            end.send(i, i * PLACE, size(n));
        }
        // Waits until the server has all messages.
        let mut last = room;
        while last < WINDOW {
            assert!(end.received().result().is_ok());
            last += WINDOW / 2;
        }
    }
}

/// Immediate data comes with data, without data, and not at all.
pub(super) mod immediate_data_travels {
    use crate::{Context, End};
    use via::{Nic, Vi};

    const WITH: [(usize, Option<u32>); 6] =
        [(0, Some(0)), (0, None), (4, Some(u32::MAX)), (4, None), (5000, Some(7)), (5000, None)];

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        for i in 0..WITH.len() {
            end.post_recv(i, i * 5000, 5000);
        }
        end.accept(cx);
        for (len, immediate) in WITH {
            let got = end.received();
            assert_eq!((got.result(), got.immediate), (Ok(len as u32), immediate));
            if let Some(immediate) = immediate {
                let descriptor = end.memory.descriptor_at(got.descriptor.address).unwrap();
                assert_eq!(descriptor.immediate(), immediate);
            }
        }
        end.send(10, 0, 0);
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.post_recv(10, 0, 0);
        end.request(cx).unwrap();
        for (len, immediate) in WITH {
            let descriptor = end.descriptor(0, &[end.data(0, len)], immediate);
            end.vi.post_send(descriptor).unwrap();
            assert_eq!(end.sent().immediate, None);
        }
        assert!(end.received().result().is_ok());
    }
}

/// Receives may be posted to an idle VI, and the peer may rely on them.
pub(super) mod receives_posted_before_connecting_count {
    use crate::{Context, End};
    use via::Nic;

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        for i in 0..10 {
            end.post_recv(i, i * 8, 8);
        }
        end.accept(cx);
        // The message may be sent before the client has seen that its request is accepted.
        for i in 0..10 {
            end.fill(1000, 8, i);
            end.send(20, 1000, 8);
        }
        for i in 0..10 {
            assert_eq!(end.received().result(), Ok(8));
            end.expect(i * 8, 8, i + 1);
        }
        end.nothing_posted();
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        for i in 0..10 {
            end.post_recv(i, i * 8, 8);
        }
        end.request(cx).unwrap();
        for i in 0..10 {
            end.fill(1000, 8, i + 1);
            end.send(20, 1000, 8);
        }
        for i in 0..10 {
            assert_eq!(end.received().result(), Ok(8));
            end.expect(i * 8, 8, i);
        }
        end.nothing_posted();
    }
}
