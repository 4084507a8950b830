//! Regions and protection tags, and regions that go away or change while descriptors need them.

use super::prelude::*;
use via::{MemHandle, Ptag};

group! { "memory":
    alone a_region_is_told_as_it_was_registered,
    alone regions_may_overlap,
    alone a_region_changes_its_attributes,
    alone refused_region_attributes_change_nothing,
    alone a_region_gives_its_tag_back,
    alone a_region_that_changes_its_tag_gives_the_old_one_back,
    alone the_default_tag_is_never_destroyed,
    alone a_tag_in_use_by_a_vi_stays,
    alone stale_handles_stay_stale,
    alone a_handle_that_never_was_is_unknown,
    both receives_of_a_deregistered_region_end_in_error,
    both a_deregistered_descriptor_is_not_touched,
    both a_deregistered_region_is_left_alone_by_transfers,
    both a_region_of_a_changed_tag_is_not_received_into,
    alone a_vi_with_a_tag_of_its_own_works,
}

fn of(ptag: Ptag) -> MemAttributes {
    MemAttributes { ptag: Some(ptag), ..MemAttributes::default() }
}

fn a_region_is_told_as_it_was_registered<N: Nic>(cx: &Context<'_, N>) {
    let ptag = cx.nic.create_ptag().unwrap();
    for bits in 0..4 {
        let attributes = MemAttributes {
            enable_rdma_write: bits & 1 != 0,
            enable_rdma_read: bits & 2 != 0,
            ..of(ptag)
        };
        let memory = Memory::zeroed(100 + bits);
        let handle = cx.nic.register_mem(&memory, attributes).unwrap();
        assert_ne!(handle.raw(), 0);
        let (told, rights) = cx.nic.query_mem(handle).unwrap();
        assert_eq!(
            (told.address(0), told.len(), rights),
            (memory.address(0), 100 + bits, attributes)
        );
    }
}

/// Each registration is independent.
fn regions_may_overlap<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    let again = cx.nic.register_mem(&b.memory, MemAttributes::default()).unwrap();
    assert_ne!(again, b.handle);
    let mut data = b.data(0, 8);
    data.handle = again.raw();
    for (i, seed) in [(0, 1), (1, 2)] {
        b.vi.post_recv(b.descriptor(i, &[data], None)).unwrap();
        a.send_pattern(0, 0, 8, seed);
        b.receives(0, 8, seed);
        data.handle = b.handle.raw();
        if i == 0 {
            cx.nic.deregister_mem(again).unwrap();
        }
    }
}

fn a_region_changes_its_attributes<N: Nic>(cx: &Context<'_, N>) {
    let memory = Memory::zeroed(100);
    let [old, new] = [(); 2].map(|()| cx.nic.create_ptag().unwrap());
    let handle = cx.nic.register_mem(&memory, of(old)).unwrap();
    let changed = MemAttributes { enable_rdma_read: true, enable_rdma_write: true, ..of(new) };
    cx.nic.set_mem_attributes(handle, changed).unwrap();
    assert_eq!(cx.nic.query_mem(handle).unwrap().1, changed);
}

fn refused_region_attributes_change_nothing<N: Nic>(cx: &Context<'_, N>) {
    let memory = Memory::zeroed(100);
    let [tag, gone] = [(); 2].map(|()| cx.nic.create_ptag().unwrap());
    cx.nic.destroy_ptag(gone).unwrap();
    let handle = cx.nic.register_mem(&memory, of(tag)).unwrap();
    assert_eq!(cx.nic.set_mem_attributes(handle, of(gone)), Err(MemError::UnknownPtag));
    assert_eq!(cx.nic.query_mem(handle).unwrap().1, of(tag));
    cx.nic.deregister_mem(handle).unwrap();
    assert_eq!(cx.nic.set_mem_attributes(handle, of(tag)), Err(MemError::UnknownHandle));
}

fn a_region_gives_its_tag_back<N: Nic>(cx: &Context<'_, N>) {
    let memory = Memory::zeroed(100);
    let ptag = cx.nic.create_ptag().unwrap();
    let handles = [(); 2].map(|()| cx.nic.register_mem(&memory, of(ptag)).unwrap());
    for handle in handles {
        assert_eq!(cx.nic.destroy_ptag(ptag), Err(PtagError::InUse));
        cx.nic.deregister_mem(handle).unwrap();
    }
    assert_eq!(cx.nic.destroy_ptag(ptag), Ok(()));
}

fn a_region_that_changes_its_tag_gives_the_old_one_back<N: Nic>(cx: &Context<'_, N>) {
    let memory = Memory::zeroed(100);
    let [old, new] = [(); 2].map(|()| cx.nic.create_ptag().unwrap());
    let handle = cx.nic.register_mem(&memory, of(old)).unwrap();
    cx.nic.set_mem_attributes(handle, of(new)).unwrap();
    assert_eq!(cx.nic.destroy_ptag(old), Ok(()));
    assert_eq!(cx.nic.destroy_ptag(new), Err(PtagError::InUse));
}

/// The default tag is used if none is named, so an object may always need it.
fn the_default_tag_is_never_destroyed<N: Nic>(cx: &Context<'_, N>) {
    let default = cx.nic.create_vi(ViAttributes::default()).unwrap().attributes().ptag.unwrap();
    assert_eq!(cx.nic.destroy_ptag(default), Err(PtagError::InUse));
    assert!(cx.nic.create_vi(ViAttributes::default()).is_ok());
}

fn a_tag_in_use_by_a_vi_stays<N: Nic>(cx: &Context<'_, N>) {
    let ptag = cx.nic.create_ptag().unwrap();
    let attributes = ViAttributes { ptag: Some(ptag), ..ViAttributes::default() };
    let vis = [(); 2].map(|()| cx.nic.create_vi(attributes).unwrap());
    for vi in vis {
        assert_eq!(cx.nic.destroy_ptag(ptag), Err(PtagError::InUse));
        assert!(vi.destroy().is_ok());
    }
    assert_eq!(cx.nic.destroy_ptag(ptag), Ok(()));
}

/// Stale handles stay invalid even if their place is reused many times.
fn stale_handles_stay_stale<N: Nic>(cx: &Context<'_, N>) {
    let memory = Memory::zeroed(100);
    let register = || cx.nic.register_mem(&memory, MemAttributes::default()).unwrap();
    let stale = register();
    cx.nic.deregister_mem(stale).unwrap();
    for _ in 0..500 {
        let handle = register();
        assert_ne!(handle, stale);
        assert_eq!(cx.nic.query_mem(stale).err(), Some(MemError::UnknownHandle));
        assert_eq!(cx.nic.deregister_mem(stale), Err(MemError::UnknownHandle));
        cx.nic.deregister_mem(handle).unwrap();
    }
}

fn a_handle_that_never_was_is_unknown<N: Nic>(cx: &Context<'_, N>) {
    for raw in [1 << 31, u32::MAX, 0x7fff_ffff] {
        let handle = MemHandle::from_raw(raw).unwrap();
        assert_eq!(cx.nic.query_mem(handle).err(), Some(MemError::UnknownHandle));
        assert_eq!(cx.nic.deregister_mem(handle), Err(MemError::UnknownHandle));
        let changed = cx.nic.set_mem_attributes(handle, MemAttributes::default());
        assert_eq!(changed, Err(MemError::UnknownHandle));
    }
}

/// Rights are checked when a descriptor is executed, not when it is posted.
mod receives_of_a_deregistered_region_end_in_error {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), End::new(cx));
        let other = Memory::zeroed(4096);
        let region = cx.nic.register_mem(&other, MemAttributes::default()).unwrap();
        end.vi.post_recv(end.descriptor(0, &[other.segment(0, 100, region)], None)).unwrap();
        end.accept(cx);
        cx.nic.deregister_mem(region).unwrap();
        line.meet();
        end.received_in(Status::PROTECTION_ERROR);
        let mut bytes = [0; 100];
        assert!(other.read(0, &mut bytes) && bytes == [0; 100]);
        end.await_state(ViState::Error);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), End::requested(cx));
        line.meet();
        end.fill(0, 100, 1);
        end.post_send(0, 0, 100);
        end.await_state(ViState::Error);
    }
}

/// The descriptor can still be taken with its error. Its memory is as the program left it.
mod a_deregistered_descriptor_is_not_touched {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), End::new(cx));
        let other = Memory::zeroed(4096);
        let region = cx.nic.register_mem(&other, MemAttributes::default()).unwrap();
        other.descriptor(64).unwrap().prepare(&[end.data(0, 100)], None).unwrap();
        let descriptor = DescriptorAddress { address: other.address(64), handle: region };
        end.vi.post_recv(descriptor).unwrap();
        end.accept(cx);
        cx.nic.deregister_mem(region).unwrap();
        let mut before = [0; 4096];
        assert!(other.read(0, &mut before));
        line.meet();
        let done = end.vi.recv_wait(SOON).unwrap();
        assert_eq!(done.descriptor, descriptor);
        assert!(done.result().unwrap_err().contains(Status::PROTECTION_ERROR), "{done:?}");
        let mut after = [0; 4096];
        assert!(other.read(0, &mut after) && after == before, "written to after all");
        end.await_state(ViState::Error);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), End::requested(cx));
        line.meet();
        end.post_send(0, 0, 100);
        end.await_state(ViState::Error);
    }
}

/// Messages stream into a region. After the deregistration returns, no byte changes.
mod a_deregistered_region_is_left_alone_by_transfers {
    use super::*;

    const LEN: usize = 20_000;
    const RECEIVES: usize = 200;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        let other = Memory::zeroed(LEN);
        let region = cx.nic.register_mem(&other, MemAttributes::default()).unwrap();
        for i in 0..RECEIVES {
            let to = other.segment(0, LEN as u32, region);
            end.vi.post_recv(end.descriptor(i, &[to], None)).unwrap();
        }
        end.accept(cx);
        assert_eq!(end.received().result(), Ok(LEN as u32));
        cx.nic.deregister_mem(region).unwrap();
        other.write(0, &vec![0xa5; LEN]);
        // Some receives were complete before. The others fail, and their connection is broken.
        let mut broken = false;
        for _ in 1..RECEIVES {
            match end.received().result() {
                Ok(len) => assert!(len as usize == LEN && !broken),
                Err(status) if broken => assert!(status.contains(Status::DESC_FLUSHED_ERROR)),
                Err(status) => {
                    broken = true;
                    assert!(status.contains(Status::PROTECTION_ERROR), "{status:?}");
                }
            }
        }
        let mut bytes = vec![0; LEN];
        other.read(0, &mut bytes);
        assert!(bytes.iter().all(|&b| b == 0xa5), "touched when it was the program's again");
        assert!(broken, "all arrived; nothing was tried");
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::requested(cx);
        for i in 0..RECEIVES {
            end.post_send(i, 0, LEN);
            if end.sent().result().is_err() {
                break;
            }
            thread::sleep(Duration::from_micros(100));
        }
        end.await_state(ViState::Error);
    }
}

mod a_region_of_a_changed_tag_is_not_received_into {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), End::new(cx));
        let other = Memory::zeroed(4096);
        let region = cx.nic.register_mem(&other, MemAttributes::default()).unwrap();
        for i in 0..2 {
            end.vi.post_recv(end.descriptor(i, &[other.segment(0, 8, region)], None)).unwrap();
        }
        end.accept(cx);
        line.meet();
        assert_eq!(end.received().result(), Ok(8));
        let ptag = cx.nic.create_ptag().unwrap();
        cx.nic.set_mem_attributes(region, of(ptag)).unwrap();
        line.meet();
        end.received_in(Status::PROTECTION_ERROR);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), End::requested(cx));
        line.meet();
        end.send(0, 0, 8);
        line.meet();
        end.post_send(0, 0, 8);
        end.await_state(ViState::Error);
    }
}

/// Tags belong to one side: the two ends need not have the same tag.
fn a_vi_with_a_tag_of_its_own_works<N: Nic>(cx: &Context<'_, N>) {
    let tagged = |ptag| End::with(cx, 100, ViAttributes { ptag, ..ViAttributes::default() });
    let (a, b) = (tagged(Some(cx.nic.create_ptag().unwrap())), tagged(None));
    connect(cx, &a, &b);
    for (from, to) in [(&a, &b), (&b, &a)] {
        to.post_recv(0, 0, 50);
        from.send_pattern(1, 50, 50, 6);
        to.receives(0, 50, 6);
    }
}
