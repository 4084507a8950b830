//! VIs: creation, attributes, destruction.

use super::prelude::*;

group! { "vi":
    alone a_fresh_vi_is_idle_and_empty,
    alone attributes_are_kept_as_given,
    alone a_vi_without_a_tag_has_the_default_one,
    alone exactly_one_reliability_level,
    alone a_transfer_size_within_the_nics,
    alone rdma_reads_where_they_are_offered,
    alone rdma_writes_where_they_are_offered,
    alone a_vi_of_an_unknown_tag_is_not_created,
    alone an_idle_vi_changes_its_attributes,
    alone refused_attributes_change_nothing,
    alone a_changed_tag_is_the_one_that_counts,
    alone new_attributes_are_those_that_must_match,
    alone a_context_names_a_vi,
    alone a_destroyed_vi_gives_its_tag_back,
    alone a_dropped_vi_gives_its_tag_back,
    alone dropping_a_connected_vi_breaks_the_far_side,
    alone a_queue_is_empty_when_all_is_taken,
}

fn a_fresh_vi_is_idle_and_empty<N: Nic>(cx: &Context<'_, N>) {
    let vi = cx.nic.create_vi(ViAttributes::default()).unwrap();
    assert_eq!((vi.state(), vi.cause()), (ViState::Idle, None));
    assert_eq!(vi.queues_empty(), (true, true));
    assert_eq!((vi.send_done(), vi.recv_done()), (Done::Empty, Done::Empty));
}

fn attributes_are_kept_as_given<N: Nic>(cx: &Context<'_, N>) {
    let ptag = Some(cx.nic.create_ptag().unwrap());
    let nic = cx.nic.attributes();
    for level in nic.reliability.iter() {
        for max_transfer_size in [1, nic.max_transfer_size] {
            for rdma in [false, true] {
                let attributes = ViAttributes {
                    reliability: level,
                    max_transfer_size,
                    ptag,
                    enable_rdma_write: rdma && nic.capabilities.rdma_write,
                    enable_rdma_read: rdma && nic.rdma_read.contains(level),
                };
                assert_eq!(cx.nic.create_vi(attributes).unwrap().attributes(), attributes);
            }
        }
    }
}

fn a_vi_without_a_tag_has_the_default_one<N: Nic>(cx: &Context<'_, N>) {
    let memory = Memory::zeroed(64);
    let region = cx.nic.register_mem(&memory, MemAttributes::default()).unwrap();
    let default = cx.nic.query_mem(region).unwrap().1.ptag;
    assert!(default.is_some());
    let vi = cx.nic.create_vi(ViAttributes::default()).unwrap();
    assert_eq!(vi.attributes().ptag, default);
}

/// No level, two levels, and an unknown level are refused.
fn exactly_one_reliability_level<N: Nic>(cx: &Context<'_, N>) {
    let offered = cx.nic.attributes().reliability;
    for bits in 0..16 {
        let reliability = Reliability::from_bits_retain(bits);
        let vi = cx.nic.create_vi(ViAttributes { reliability, ..ViAttributes::default() });
        let good = bits.count_ones() == 1 && offered.contains(reliability);
        assert_eq!(vi.err(), (!good).then_some(CreateViError::Reliability), "level {bits}");
    }
}

fn a_transfer_size_within_the_nics<N: Nic>(cx: &Context<'_, N>) {
    let max = cx.nic.attributes().max_transfer_size;
    for (size, good) in [(0, false), (1, true), (max, true), (max + 1, false), (u32::MAX, false)] {
        let vi =
            cx.nic.create_vi(ViAttributes { max_transfer_size: size, ..ViAttributes::default() });
        assert_eq!(vi.err(), (!good).then_some(CreateViError::MaxTransferSize), "{size} bytes");
    }
}

fn rdma_reads_where_they_are_offered<N: Nic>(cx: &Context<'_, N>) {
    let nic = cx.nic.attributes();
    for reliability in nic.reliability.iter() {
        let attributes =
            ViAttributes { reliability, enable_rdma_read: true, ..ViAttributes::default() };
        let good = nic.rdma_read.contains(reliability);
        let error = cx.nic.create_vi(attributes).err();
        assert_eq!(error, (!good).then_some(CreateViError::RdmaRead), "{reliability:?}");
    }
}

fn rdma_writes_where_they_are_offered<N: Nic>(cx: &Context<'_, N>) {
    let attributes = ViAttributes { enable_rdma_write: true, ..ViAttributes::default() };
    let good = cx.nic.attributes().capabilities.rdma_write;
    assert_eq!(cx.nic.create_vi(attributes).err(), (!good).then_some(CreateViError::RdmaWrite));
}

fn a_vi_of_an_unknown_tag_is_not_created<N: Nic>(cx: &Context<'_, N>) {
    let ptag = cx.nic.create_ptag().unwrap();
    cx.nic.destroy_ptag(ptag).unwrap();
    let attributes = ViAttributes { ptag: Some(ptag), ..ViAttributes::default() };
    assert_eq!(cx.nic.create_vi(attributes).err(), Some(CreateViError::UnknownPtag));
}

fn an_idle_vi_changes_its_attributes<N: Nic>(cx: &Context<'_, N>) {
    let vi = cx.nic.create_vi(ViAttributes::default()).unwrap();
    let ptag = Some(cx.nic.create_ptag().unwrap());
    for reliability in cx.nic.attributes().reliability.iter() {
        let attributes =
            ViAttributes { reliability, max_transfer_size: 999, ptag, ..ViAttributes::default() };
        vi.set_attributes(attributes).unwrap();
        assert_eq!(vi.attributes(), attributes);
    }
    vi.set_attributes(ViAttributes::default()).unwrap();
    assert!(vi.attributes().ptag.is_some() && vi.attributes().ptag != ptag);
}

fn refused_attributes_change_nothing<N: Nic>(cx: &Context<'_, N>) {
    let vi = cx.nic.create_vi(ViAttributes::default()).unwrap();
    let before = vi.attributes();
    let gone = cx.nic.create_ptag().unwrap();
    cx.nic.destroy_ptag(gone).unwrap();
    let max = cx.nic.attributes().max_transfer_size;
    let wrong = [
        (CreateViError::Reliability, ViAttributes { reliability: Reliability::empty(), ..before }),
        (CreateViError::Reliability, ViAttributes { reliability: Reliability::all(), ..before }),
        (CreateViError::MaxTransferSize, ViAttributes { max_transfer_size: 0, ..before }),
        (CreateViError::MaxTransferSize, ViAttributes { max_transfer_size: max + 1, ..before }),
        (CreateViError::UnknownPtag, ViAttributes { ptag: Some(gone), ..before }),
    ];
    for (error, attributes) in wrong {
        assert_eq!(vi.set_attributes(attributes), Err(SetViError::Attributes(error)));
        assert_eq!(vi.attributes(), before);
    }
}

/// The new tag decides the VI's access to memory, and whether a tag can be destroyed.
fn a_changed_tag_is_the_one_that_counts<N: Nic>(cx: &Context<'_, N>) {
    let [old, new] = [(); 2].map(|()| cx.nic.create_ptag().unwrap());
    let of = |ptag| ViAttributes { ptag: Some(ptag), ..ViAttributes::default() };
    let vi = cx.nic.create_vi(of(old)).unwrap();
    let ends = [old, new].map(|ptag| End::with(cx, 100, of(ptag)));
    let [in_old, in_new] = [0, 1].map(|i| ends[i].descriptor(0, &[], None));
    assert_eq!(vi.post_recv(in_new), Err(PostError::Descriptor));
    vi.set_attributes(of(new)).unwrap();
    assert_eq!(vi.post_recv(in_old), Err(PostError::Descriptor));
    assert_eq!(vi.post_recv(in_new), Ok(()));
    let [end, _keep] = ends;
    cx.nic.deregister_mem(end.handle).unwrap();
    end.vi.destroy().ok().unwrap();
    assert_eq!(cx.nic.destroy_ptag(old), Ok(()));
    assert_eq!(cx.nic.destroy_ptag(new), Err(PtagError::InUse));
}

fn new_attributes_are_those_that_must_match<N: Nic>(cx: &Context<'_, N>) {
    let small = ViAttributes { max_transfer_size: 100, ..ViAttributes::default() };
    let (a, b) = (End::with(cx, 100, small), End::with(cx, 100, ViAttributes::default()));
    b.vi.set_attributes(small).unwrap();
    connect(cx, &a, &b);
    a.vi.disconnect();
    b.await_state(ViState::Error);
}

fn a_context_names_a_vi<N: Nic>(cx: &Context<'_, N>) {
    for context in [0, 1, u64::MAX] {
        let attach = Attach { context, ..Attach::default() };
        let vi = cx.nic.create_vi_with(ViAttributes::default(), attach).unwrap();
        assert_eq!(vi.context(), context);
    }
}

fn tagged<N: Nic>(cx: &Context<'_, N>) -> (via::Ptag, N::Vi) {
    let ptag = cx.nic.create_ptag().unwrap();
    let attributes = ViAttributes { ptag: Some(ptag), ..ViAttributes::default() };
    let vi = cx.nic.create_vi(attributes).unwrap();
    assert_eq!(cx.nic.destroy_ptag(ptag), Err(PtagError::InUse));
    (ptag, vi)
}

fn a_destroyed_vi_gives_its_tag_back<N: Nic>(cx: &Context<'_, N>) {
    let (ptag, vi) = tagged(cx);
    assert!(vi.destroy().is_ok());
    assert_eq!(cx.nic.destroy_ptag(ptag), Ok(()));
}

fn a_dropped_vi_gives_its_tag_back<N: Nic>(cx: &Context<'_, N>) {
    let (ptag, vi) = tagged(cx);
    drop(vi);
    assert_eq!(cx.nic.destroy_ptag(ptag), Ok(()));
}

fn dropping_a_connected_vi_breaks_the_far_side<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    b.post_recv(0, 0, 8);
    drop(a);
    b.await_state(ViState::Error);
    b.received_in(Status::DESC_FLUSHED_ERROR);
    assert_eq!(b.vi.cause().map(|cause| cause.code()), Some(ErrorCode::ConnLost));
}

/// A completed descriptor still counts until it is taken.
fn a_queue_is_empty_when_all_is_taken<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    b.post_recv(0, 0, 8);
    assert_eq!(b.vi.queues_empty(), (true, false));
    a.post_send(1, 0, 8);
    eventually("the send is done", || a.place(1).status().is_done());
    eventually("the receive is done", || b.place(0).status().is_done());
    assert_eq!((a.vi.queues_empty(), b.vi.queues_empty()), ((false, true), (true, false)));
    a.sent();
    b.received();
    assert_eq!((a.vi.queues_empty(), b.vi.queues_empty()), ((true, true), (true, true)));
}
