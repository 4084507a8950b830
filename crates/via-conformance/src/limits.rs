//! Limits: as much as the NIC's attributes promise, and not more.

use super::prelude::*;

group! { "limits":
    alone the_nics_vis_and_one_more [ReachableLimits],
    alone the_nics_regions_and_one_more [ReachableLimits],
    alone the_nics_tags_and_one_more [ReachableLimits],
    alone a_send_queue_takes_what_it_promises,
    both a_full_receive_queue_is_received_into,
    both many_vis_take_turns,
}

fn the_nics_vis_and_one_more<N: Nic>(cx: &Context<'_, N>) {
    let max = cx.nic.attributes().max_vi;
    let create = || cx.nic.create_vi(ViAttributes::default());
    let mut all: Vec<_> = (0..max).map(|_| create().unwrap()).collect();
    assert_eq!(create().err(), Some(CreateViError::TooMany));
    // A destroyed VI makes room, and so does a dropped one.
    assert!(all.pop().unwrap().destroy().is_ok());
    drop(all.pop());
    all.extend([(); 2].map(|()| create().unwrap()));
    assert_eq!(create().err(), Some(CreateViError::TooMany));
}

fn the_nics_regions_and_one_more<N: Nic>(cx: &Context<'_, N>) {
    let max = cx.nic.attributes().max_register_regions;
    let memory = Memory::zeroed(4096);
    let register = || cx.nic.register_mem(&memory, MemAttributes::default());
    let all: Vec<_> = (0..max).map(|_| register().unwrap()).collect();
    assert_eq!(register(), Err(RegisterError::TooManyRegions));
    cx.nic.deregister_mem(all[max as usize / 2]).unwrap();
    let again = register().unwrap();
    assert!(!all.contains(&again));
    assert_eq!(register(), Err(RegisterError::TooManyRegions));
    // All regions are live: the first, the last, and the new one.
    for handle in [all[0], all[max as usize - 1], again] {
        assert!(cx.nic.query_mem(handle).is_ok());
        cx.nic.deregister_mem(handle).unwrap();
    }
}

/// The default tag is one of the NIC's tags.
fn the_nics_tags_and_one_more<N: Nic>(cx: &Context<'_, N>) {
    let max = cx.nic.attributes().max_ptags;
    let mut all = std::collections::HashSet::new();
    for _ in 1..max {
        assert!(all.insert(cx.nic.create_ptag().unwrap()), "the same tag twice");
    }
    assert_eq!(cx.nic.create_ptag(), Err(PtagError::TooMany));
    let one = *all.iter().next().unwrap();
    cx.nic.destroy_ptag(one).unwrap();
    assert!(cx.nic.create_ptag().is_ok());
    assert_eq!(cx.nic.create_ptag(), Err(PtagError::TooMany));
}

/// Completed descriptors that are not taken also count.
fn a_send_queue_takes_what_it_promises<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    b.vi.disconnect();
    a.await_state(ViState::Error);
    let descriptor = a.descriptor(0, &[], None);
    let max = cx.nic.attributes().max_descriptors_per_queue;
    for _ in 0..max {
        a.vi.post_send(descriptor).unwrap();
    }
    assert_eq!(a.vi.post_send(descriptor), Err(PostError::QueueFull));
    // All posts use the same descriptor, so its status is that of the last post.
    let flushed = || a.vi.send_wait(SOON).unwrap().result().unwrap_err();
    assert!(flushed().contains(Status::DESC_FLUSHED_ERROR));
    a.vi.post_send(descriptor).unwrap();
    assert_eq!(a.vi.post_send(descriptor), Err(PostError::QueueFull));
    for _ in 0..max {
        assert!(flushed().contains(Status::DESC_FLUSHED_ERROR));
    }
    a.nothing_posted();
}

/// Every receive that could be posted can be used.
mod a_full_receive_queue_is_received_into {
    use super::*;

    fn many<N: Nic>(cx: &Context<'_, N>) -> usize {
        cx.nic.attributes().max_descriptors_per_queue.min(1024) as usize
    }

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        for i in 0..many(cx) {
            end.post_recv(i, i * 8, 8);
        }
        end.accept(cx);
        for i in 0..many(cx) {
            end.receives(i * 8, 8, i);
        }
        end.await_state(ViState::Error);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::requested(cx);
        for i in 0..many(cx) {
            end.send_pattern(0, 0, 8, i);
        }
    }
}

/// VIs are connected one after the other, used in all orders, and disconnected.
mod many_vis_take_turns {
    use super::*;

    const VIS: usize = 64;

    /// Number of posted receives: a turn has two messages, and the other role may be a turn ahead.
    const AHEAD: usize = 4;

    fn end<'n, N: Nic>(cx: &Context<'n, N>) -> End<'n, N> {
        let end = End::with(cx, 64, ViAttributes::default());
        for i in 0..AHEAD {
            end.post_recv(i, i * 8, 8);
        }
        end
    }

    fn talk<N: Nic>(ends: &[End<'_, N>], mine: usize, theirs: usize) {
        for (turn, step) in [1, 3, 5].into_iter().enumerate() {
            let (first, second) = (turn * 2 % AHEAD, (turn * 2 + 1) % AHEAD);
            for i in 0..VIS {
                ends[i * step % VIS].send_pattern(AHEAD, 56, 8, i * mine);
            }
            for i in 0..VIS {
                let end = &ends[i * step % VIS];
                end.receives(first * 8, 8, i * theirs);
                end.post_recv(first, first * 8, 8);
                end.send(AHEAD, 56, 0);
            }
            for end in ends {
                assert_eq!(end.received().result(), Ok(0));
                end.post_recv(second, second * 8, 8);
            }
        }
    }

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::server(cx);
        let ends: Vec<_> = (0..VIS).map(|_| end(cx)).collect();
        ends.iter().for_each(|end| end.accept(cx));
        talk(&ends, 1, 2);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::client(cx);
        let ends: Vec<_> = (0..VIS).map(|_| end(cx)).collect();
        ends.iter().for_each(|end| assert!(end.request(cx).is_ok()));
        talk(&ends, 2, 1);
        line.meet();
    }
}
