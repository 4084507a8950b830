//! RDMA that the target's memory does not allow.
//!
//! The target's program does not take part in an RDMA. Its error handler reports a refusal. With reliable delivery a
//! write may complete before it is refused; then its connection breaks.

use super::prelude::*;

group! { "rdma":
    both a_write_to_a_vi_that_does_not_allow_it_is_refused [RdmaWrite],
    both a_write_to_a_region_that_does_not_allow_it_is_refused [RdmaWrite],
    both a_write_beyond_a_region_is_refused [RdmaWrite],
    both a_write_before_a_region_is_refused [RdmaWrite],
    both a_write_to_an_overflowing_range_is_refused [RdmaWrite],
    both a_write_to_no_region_is_refused [RdmaWrite],
    both a_write_to_a_region_of_another_tag_is_refused [RdmaWrite],
    both a_refused_write_with_immediate_data_is_told_in_its_receive [RdmaWrite],
    both a_write_from_memory_of_another_tag_is_a_protection_error [RdmaWrite],
    both a_read_of_a_vi_that_does_not_allow_it_is_refused [RdmaRead],
    both a_read_of_a_region_that_does_not_allow_it_is_refused [RdmaRead],
    both a_read_beyond_a_region_is_refused [RdmaRead],
    both a_read_by_a_vi_without_reads_is_refused [RdmaRead],
}

const LEVEL: Reliability = Reliability::RELIABLE_DELIVERY;
/// Value of the target's bytes, which must stay.
pub(super) const KEPT: u8 = 0x5a;
pub(super) const LEN: usize = 4096;

/// A target's VI with a region for the peer.
pub(super) struct Exposed<'n, N: Nic> {
    pub(super) line: Line<'n, N>,
    pub(super) end: End<'n, N>,
    told: Told,
    pub(super) memory: Memory,
    pub(super) region: via::MemHandle,
}

/// Returns attributes of VI and region with all rights that the NIC offers.
pub(super) fn everything<N: Nic>(cx: &Context<'_, N>) -> (ViAttributes, MemAttributes) {
    let enable_rdma_read = cx.nic.attributes().rdma_read.contains(LEVEL);
    let enable_rdma_write = cx.nic.attributes().capabilities.rdma_write;
    let vi = ViAttributes { enable_rdma_write, enable_rdma_read, ..ViAttributes::default() };
    (vi, MemAttributes { ptag: None, enable_rdma_write: true, enable_rdma_read: true })
}

impl<'n, N: Nic> Exposed<'n, N> {
    pub(super) fn new(
        cx: &Context<'n, N>,
        (vi, rights): (ViAttributes, MemAttributes),
    ) -> Exposed<'n, N> {
        let (line, told) = (Line::server(cx), Told::by(cx.nic));
        let attach = Attach { context: 6, ..Attach::default() };
        let end = End::attached(cx, 4096, vi, attach);
        let memory = Memory::zeroed(LEN);
        memory.write(0, &[KEPT; LEN]);
        let region = cx.nic.register_mem(&memory, rights).unwrap();
        end.post_recv(0, 0, 64);
        end.accept(cx);
        Exposed { line, end, told, memory, region }
    }

    /// Sends the client the region's address plus `at`.
    pub(super) fn expose(&self, at: u64) {
        let address = self.memory.address(0).wrapping_add(at);
        self.line.tell(&Target { address, handle: self.region.raw() }.words());
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; LEN];
        assert!(self.memory.read(0, &mut bytes));
        bytes
    }

    /// Checks that the peer's RDMA was refused, by the error handler and the VI.
    #[track_caller]
    pub(super) fn refuses(self, code: ErrorCode) {
        self.told.code(6, code);
        self.end.await_state(ViState::Error);
        assert_eq!(self.end.vi.cause(), Some(Cause::Rdma(code)));
        self.end.received_in(Status::DESC_FLUSHED_ERROR);
        assert!(self.bytes().iter().all(|&byte| byte == KEPT), "written to");
        self.line.meet();
    }
}

pub(super) fn reach<'n, N: Nic>(cx: &Context<'n, N>) -> (Line<'n, N>, End<'n, N>) {
    let (line, end) = (Line::client(cx), End::with(cx, 1 << 14, everything(cx).0));
    end.request(cx).unwrap();
    end.write(0, &[1; LEN]);
    (line, end)
}

/// Runs a client whose write is refused, as the connection shows, and perhaps the descriptor.
pub(super) fn write_is_refused<N: Nic>(cx: &Context<'_, N>) {
    let (line, end) = reach(cx);
    let target = Target::heard(&line.hear());
    refused_write(&end, target);
    line.meet();
}

#[track_caller]
pub(super) fn refused_write<N: Nic>(end: &End<'_, N>, target: Target) {
    end.post_write(0, 0, 100, target.at(0));
    if let Err(status) = end.sent().result() {
        assert!(status.contains(Status::RDMA_PROT_ERROR), "{status:?}");
    }
    end.await_state(ViState::Error);
}

/// Runs a client whose read is refused. The descriptor has the error, and no byte is read.
pub(super) fn read_is_refused<N: Nic>(cx: &Context<'_, N>) {
    let (line, end) = reach(cx);
    let target = Target::heard(&line.hear());
    refused_read(&end, target);
    line.meet();
}

#[track_caller]
pub(super) fn refused_read<N: Nic>(end: &End<'_, N>, target: Target) {
    end.write(0, &[1; LEN]);
    end.post_read(0, 0, 100, target.at(0));
    let sent = end.sent();
    let status = sent.result().expect_err("read all the same");
    assert!(status.contains(Status::RDMA_PROT_ERROR), "{status:?}");
    assert_eq!(sent.status & Status::OP_MASK, Status::OP_RDMA_READ);
    end.await_state(ViState::Error);
    assert_eq!(end.bytes(0, LEN), [1; LEN]);
}

/// Defines a case whose target is wrong from the beginning.
macro_rules! wrong_target {
    ($(#[$doc:meta])* $name:ident, $code:ident, $client:ident, |$cx:ident| $with:expr, $at:expr) => {
        $(#[$doc])*
        mod $name {
            use super::*;

            pub(super) fn server<N: Nic>($cx: &Context<'_, N>) {
                let exposed = Exposed::new($cx, $with);
                exposed.expose($at);
                exposed.refuses(ErrorCode::$code);
            }

            pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
                $client(cx);
            }
        }
    };
}

fn closed_vi<N: Nic>(cx: &Context<'_, N>, write: bool) -> (ViAttributes, MemAttributes) {
    let (vi, region) = everything(cx);
    let vi = if write {
        ViAttributes { enable_rdma_write: false, ..vi }
    } else {
        ViAttributes { enable_rdma_read: false, ..vi }
    };
    (vi, region)
}

pub(super) fn closed_region<N: Nic>(
    cx: &Context<'_, N>,
    write: bool,
) -> (ViAttributes, MemAttributes) {
    let (vi, region) = everything(cx);
    let region = if write {
        MemAttributes { enable_rdma_write: false, ..region }
    } else {
        MemAttributes { enable_rdma_read: false, ..region }
    };
    (vi, region)
}

fn other_tag<N: Nic>(cx: &Context<'_, N>) -> (ViAttributes, MemAttributes) {
    let (vi, region) = everything(cx);
    (vi, MemAttributes { ptag: Some(cx.nic.create_ptag().unwrap()), ..region })
}

wrong_target! {
    a_write_to_a_vi_that_does_not_allow_it_is_refused, RdmawProt, write_is_refused,
    |cx| closed_vi(cx, true), 0
}
wrong_target! {
    a_write_to_a_region_that_does_not_allow_it_is_refused, RdmawProt, write_is_refused,
    |cx| closed_region(cx, true), 0
}
wrong_target! {
    /// The write exceeds the region by one byte of a hundred. No byte is written.
    a_write_beyond_a_region_is_refused, RdmawProt, write_is_refused,
    |cx| everything(cx), LEN as u64 - 99
}
wrong_target! {
    a_write_before_a_region_is_refused, RdmawProt, write_is_refused,
    |cx| everything(cx), u64::MAX
}
wrong_target! {
    a_write_to_a_region_of_another_tag_is_refused, RdmawProt, write_is_refused,
    |cx| other_tag(cx), 0
}
wrong_target! {
    a_read_of_a_vi_that_does_not_allow_it_is_refused, RdmarProt, read_is_refused,
    |cx| closed_vi(cx, false), 0
}
wrong_target! {
    a_read_of_a_region_that_does_not_allow_it_is_refused, RdmarProt, read_is_refused,
    |cx| closed_region(cx, false), 0
}
wrong_target! {
    a_read_beyond_a_region_is_refused, RdmarProt, read_is_refused,
    |cx| everything(cx), LEN as u64 - 99
}

mod a_write_to_no_region_is_refused {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let exposed = Exposed::new(cx, everything(cx));
        let address = exposed.memory.address(0);
        exposed.line.tell(&Target { address, handle: 0 }.words());
        exposed.refuses(ErrorCode::RdmawProt);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        write_is_refused(cx);
    }
}

/// The sum of address and length exceeds 64 bits.
mod a_write_to_an_overflowing_range_is_refused {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let exposed = Exposed::new(cx, everything(cx));
        let handle = exposed.region.raw();
        exposed.line.tell(&Target { address: u64::MAX - 50, handle }.words());
        exposed.refuses(ErrorCode::RdmawProt);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        write_is_refused(cx);
    }
}

/// The refused write consumes a receive, which has the error.
mod a_refused_write_with_immediate_data_is_told_in_its_receive {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let exposed = Exposed::new(cx, closed_region(cx, true));
        exposed.expose(0);
        let got = exposed.end.received();
        let status = got.result().expect_err("written all the same");
        let told = Status::RDMA_PROT_ERROR | Status::PROTECTION_ERROR;
        assert!(status.intersects(told), "{status:?}");
        assert_eq!(status & Status::OP_MASK, Status::OP_REMOTE_RDMA_WRITE);
        exposed.end.await_state(ViState::Error);
        assert!(exposed.bytes().iter().all(|&byte| byte == KEPT));
        exposed.line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = reach(cx);
        let to = Target::heard(&line.hear()).at(0);
        let data = [end.data(0, 100)];
        end.vi.post_send(end.rdma(0, Control::OP_RDMAWRITE, to, &data, Some(1))).unwrap();
        end.await_state(ViState::Error);
        line.meet();
    }
}

/// The writer's own memory is checked, as for a send.
mod a_write_from_memory_of_another_tag_is_a_protection_error {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let exposed = Exposed::new(cx, everything(cx));
        exposed.expose(0);
        exposed.end.await_state(ViState::Error);
        assert_eq!(exposed.end.vi.cause(), Some(Cause::PeerBroke));
        assert!(exposed.bytes().iter().all(|&byte| byte == KEPT));
        exposed.line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = reach(cx);
        let to = Target::heard(&line.hear()).at(0);
        let other = Memory::zeroed(100);
        let ptag = Some(cx.nic.create_ptag().unwrap());
        let rights = MemAttributes { ptag, ..MemAttributes::default() };
        let handle = cx.nic.register_mem(&other, rights).unwrap();
        let data = [other.segment(0, 100, handle)];
        end.vi.post_send(end.rdma(0, Control::OP_RDMAWRITE, to, &data, None)).unwrap();
        end.sent_in(Status::PROTECTION_ERROR | Status::OP_RDMA_WRITE);
        line.meet();
    }
}

/// Both sides must have enabled reads.
mod a_read_by_a_vi_without_reads_is_refused {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let exposed = Exposed::new(cx, everything(cx));
        exposed.expose(0);
        exposed.end.await_state(ViState::Error);
        exposed.line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::client(cx);
        let end = End::with(cx, 1 << 14, ViAttributes::default());
        end.request(cx).unwrap();
        let target = Target::heard(&line.hear());
        end.post_read(0, 0, 100, target.at(0));
        let status = end.sent().result().expect_err("read all the same");
        assert!(!status.errors().contains(Status::DESC_FLUSHED_ERROR), "{status:?}");
        assert_eq!(end.bytes(0, 100), [0; 100]);
        line.meet();
    }
}
