//! RDMA to memory whose rights change or that is deregistered.

use super::prelude::*;
use super::rdma_rights::{
    Exposed, KEPT, LEN, closed_region, everything, reach, read_is_refused, refused_read,
    refused_write, write_is_refused,
};

group! { "rdma":
    both a_write_to_a_deregistered_region_is_refused [RdmaWrite],
    both a_right_to_write_can_be_taken_away [RdmaWrite],
    both a_right_to_write_can_be_given [RdmaWrite],
    both deregistering_during_writes_leaves_the_memory_alone [RdmaWrite],
    both a_read_of_a_deregistered_region_is_refused [RdmaRead],
    both a_right_to_read_can_be_taken_away [RdmaRead],
}

mod a_write_to_a_deregistered_region_is_refused {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let exposed = Exposed::new(cx, everything(cx));
        cx.nic.deregister_mem(exposed.region).unwrap();
        exposed.expose(0);
        exposed.refuses(ErrorCode::RdmawProt);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        write_is_refused(cx);
    }
}

/// The right is removed during the connection. Bytes written before stay.
mod a_right_to_write_can_be_taken_away {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let exposed = Exposed::new(cx, everything(cx));
        exposed.expose(0);
        eventually("the first write is there", || exposed.bytes()[..100] == [1; 100]);
        let rights = MemAttributes { enable_rdma_write: false, ..everything(cx).1 };
        cx.nic.set_mem_attributes(exposed.region, rights).unwrap();
        exposed.memory.write(0, &[KEPT; LEN]);
        exposed.expose(0);
        exposed.refuses(ErrorCode::RdmawProt);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = reach(cx);
        end.post_write(0, 0, 100, Target::heard(&line.hear()).at(0));
        assert_eq!(end.sent().result(), Ok(100));
        refused_write(&end, Target::heard(&line.hear()));
        line.meet();
    }
}

mod a_right_to_write_can_be_given {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let exposed = Exposed::new(cx, closed_region(cx, true));
        cx.nic.set_mem_attributes(exposed.region, everything(cx).1).unwrap();
        exposed.expose(0);
        eventually("the write is there", || exposed.bytes()[..100] == [1; 100]);
        assert_eq!(exposed.end.vi.state(), ViState::Connected);
        exposed.line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = reach(cx);
        end.post_write(0, 0, 100, Target::heard(&line.hear()).at(0));
        assert_eq!(end.sent().result(), Ok(100));
        line.meet();
    }
}

/// After the deregistration returns, no byte changes.
mod deregistering_during_writes_leaves_the_memory_alone {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let exposed = Exposed::new(cx, everything(cx));
        exposed.expose(0);
        eventually("writes arrive", || exposed.bytes()[0] == 1);
        cx.nic.deregister_mem(exposed.region).unwrap();
        exposed.memory.write(0, &[KEPT; LEN]);
        exposed.refuses(ErrorCode::RdmawProt);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = reach(cx);
        let target = Target::heard(&line.hear());
        eventually("writes are refused", || {
            for i in 0..50 {
                end.post_write(i, 0, LEN, target.at(0));
            }
            (0..50).filter(|_| end.sent().result().is_err()).count() > 0
        });
        end.await_state(ViState::Error);
        line.meet();
    }
}

mod a_read_of_a_deregistered_region_is_refused {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let exposed = Exposed::new(cx, everything(cx));
        cx.nic.deregister_mem(exposed.region).unwrap();
        exposed.expose(0);
        exposed.refuses(ErrorCode::RdmarProt);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        read_is_refused(cx);
    }
}

mod a_right_to_read_can_be_taken_away {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let exposed = Exposed::new(cx, everything(cx));
        exposed.expose(0);
        exposed.line.meet();
        let rights = MemAttributes { enable_rdma_read: false, ..everything(cx).1 };
        cx.nic.set_mem_attributes(exposed.region, rights).unwrap();
        exposed.expose(0);
        exposed.refuses(ErrorCode::RdmarProt);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = reach(cx);
        end.post_read(0, 0, 100, Target::heard(&line.hear()).at(0));
        assert_eq!(end.sent().result(), Ok(100));
        assert_eq!(end.bytes(0, 100), [KEPT; 100]);
        line.meet();
        refused_read(&end, Target::heard(&line.hear()));
        line.meet();
    }
}
