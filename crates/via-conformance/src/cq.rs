//! Completion queues: an entry for each completed descriptor.

use super::prelude::*;

group! { "completion queue":
    alone an_entry_names_vi_and_queue [CompletionQueues],
    alone an_empty_completion_queue_has_no_entry [CompletionQueues],
    alone with_an_entry_its_descriptor_can_be_taken [CompletionQueues],
    both entries_come_in_order_and_are_as_many_as_descriptors [CompletionQueues],
    alone a_queue_without_one_leaves_no_entries [CompletionQueues],
    alone flushed_descriptors_leave_entries [CompletionQueues],
    alone descriptors_in_error_leave_entries [CompletionQueues],
    alone a_program_that_only_looks_finds_the_status_first [CompletionQueues],
    alone a_vi_that_connects_again_keeps_its_completion_queue [CompletionQueues],
    both a_write_with_immediate_data_leaves_an_entry [CompletionQueues, RdmaWrite],
    both reads_and_writes_leave_entries_at_their_origin [CompletionQueues, RdmaRead],
    alone a_destroyed_vi_does_not_spoil_its_completion_queue [CompletionQueues],
}

/// Makes an end with these completion queues and a context.
pub(super) fn on<'n, N: Nic>(
    cx: &Context<'n, N>,
    send: Option<&N::Cq>,
    recv: Option<&N::Cq>,
    context: u64,
) -> End<'n, N> {
    End::attached(cx, 1 << 18, ViAttributes::default(), Attach { send, recv, context })
}

/// Connects a client's end to a server's end from [`on`].
pub(super) fn requested<'n, N: Nic>(cx: &Context<'n, N>) -> End<'n, N> {
    let end = End::with(cx, 64, ViAttributes::default());
    end.request(cx).unwrap();
    end
}

/// Waits for the next entry, and checks it.
#[track_caller]
pub(super) fn entry<C: CompletionQueue>(cq: &C, context: u64, queue: WorkQueueKind) {
    assert_eq!(cq.wait(SOON), Ok(CqEntry { context, queue }));
}

/// Takes the completed descriptor of an entry. The call need not wait.
#[track_caller]
pub(super) fn taken<N: Nic>(end: &End<'_, N>, queue: WorkQueueKind) -> via::Completion {
    let done = match queue {
        WorkQueueKind::Send => end.vi.send_done(),
        WorkQueueKind::Recv => end.vi.recv_done(),
    };
    done.completion().unwrap_or_else(|| panic!("an entry, but {done:?}"))
}

use WorkQueueKind::{Recv, Send};

fn an_entry_names_vi_and_queue<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    for context in [0, 5, u64::MAX] {
        let (a, b) = (on(cx, Some(&cq), None, 9), on(cx, None, Some(&cq), context));
        connect(cx, &a, &b);
        b.post_recv(0, 0, 8);
        a.post_send(0, 0, 8);
        let mut entries = [cq.wait(SOON).unwrap(), cq.wait(SOON).unwrap()];
        entries.sort_by_key(|entry| entry.queue == Recv);
        let expected = [(9, Send), (context, Recv)];
        assert_eq!(entries, expected.map(|(context, queue)| CqEntry { context, queue }));
        taken(&a, Send);
        taken(&b, Recv);
    }
    assert_eq!(cq.done(), None);
}

fn an_empty_completion_queue_has_no_entry<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    assert_eq!(cq.done(), None);
    let end = on(cx, Some(&cq), Some(&cq), 1);
    end.post_recv(0, 0, 8);
    never("an entry for what is not done", || cq.done().is_some());
}

/// When the entry is there, the descriptor can be taken at once.
fn with_an_entry_its_descriptor_can_be_taken<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let (a, b) = (on(cx, None, None, 0), on(cx, None, Some(&cq), 1));
    b.post_recv(0, 0, 20_000);
    connect(cx, &a, &b);
    for i in 0..200 {
        let len = if i % 3 == 0 { 20_000 } else { 8 };
        a.fill(0, len, i);
        a.post_send(0, 0, len);
        entry(&cq, 1, Recv);
        assert_eq!(taken(&b, Recv).result(), Ok(len as u32));
        b.expect(0, len, i);
        b.post_recv(0, 0, 20_000);
        a.sent();
    }
}

mod entries_come_in_order_and_are_as_many_as_descriptors {
    use super::*;

    const MESSAGES: usize = 200;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, cq) = (Line::server(cx), cx.nic.create_cq(MESSAGES as u32, 1).unwrap());
        let end = on(cx, None, Some(&cq), 1);
        let posted: Vec<_> = (0..MESSAGES).map(|i| end.post_recv(i, i * 8, 8)).collect();
        end.accept(cx);
        // All messages arrive before the program looks at one of them.
        line.meet();
        eventually("the last is done", || end.place(MESSAGES - 1).status().is_done());
        for (i, descriptor) in posted.into_iter().enumerate() {
            entry(&cq, 1, Recv);
            assert_eq!(taken(&end, Recv).descriptor, descriptor, "message {i}");
        }
        assert_eq!((cq.done(), end.vi.recv_done()), (None, Done::Empty));
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), requested(cx));
        for _ in 0..MESSAGES {
            end.send(0, 0, 8);
        }
        line.meet();
        line.meet();
    }
}

fn a_queue_without_one_leaves_no_entries<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let (a, b) = (on(cx, None, Some(&cq), 1), on(cx, Some(&cq), None, 2));
    connect(cx, &a, &b);
    b.post_recv(0, 0, 8);
    a.send(0, 0, 8);
    assert_eq!(b.received().result(), Ok(8));
    assert_eq!(cq.done(), None);
}

fn flushed_descriptors_leave_entries<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(64, 1).unwrap();
    let (a, b) = (on(cx, None, None, 0), on(cx, Some(&cq), Some(&cq), 2));
    for i in 0..10 {
        b.post_recv(i, 0, 8);
    }
    connect(cx, &a, &b);
    a.vi.disconnect();
    for _ in 0..10 {
        entry(&cq, 2, Recv);
        let status = taken(&b, Recv).result().unwrap_err();
        assert!(status.contains(Status::DESC_FLUSHED_ERROR));
    }
    // A descriptor that is flushed when it is posted also leaves an entry.
    b.post_send(0, 0, 8);
    entry(&cq, 2, Send);
    assert!(taken(&b, Send).result().is_err());
    b.vi.disconnect();
    b.post_recv(0, 0, 8);
    b.vi.disconnect();
    entry(&cq, 2, Recv);
    assert!(taken(&b, Recv).result().is_err());
    assert_eq!(cq.done(), None);
}

fn descriptors_in_error_leave_entries<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(64, 1).unwrap();
    let (a, b) = (on(cx, Some(&cq), None, 1), on(cx, None, Some(&cq), 2));
    b.post_recv(0, 0, 8);
    connect(cx, &a, &b);
    let descriptor = a.descriptor(0, &[a.data(0, 8)], None);
    a.place(0).set_control(Control::RESERVED);
    a.vi.post_send(descriptor).unwrap();
    let mut entries = [cq.wait(SOON).unwrap(), cq.wait(SOON).unwrap()];
    entries.sort_by_key(|entry| entry.context);
    let expected = [(1, Send), (2, Recv)];
    assert_eq!(entries, expected.map(|(context, queue)| CqEntry { context, queue }));
    assert!(taken(&a, Send).result().unwrap_err().contains(Status::FORMAT_ERROR));
    assert!(taken(&b, Recv).result().unwrap_err().contains(Status::DESC_FLUSHED_ERROR));
}

/// A program that only reads the descriptor sees its status change, even if there is a completion queue.
fn a_program_that_only_looks_finds_the_status_first<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let (a, b) = (on(cx, None, None, 0), on(cx, None, Some(&cq), 1));
    b.post_recv(0, 0, 8);
    connect(cx, &a, &b);
    a.send(0, 0, 8);
    eventually("the receive is done", || b.place(0).status().is_done());
    entry(&cq, 1, Recv);
    assert_eq!(taken(&b, Recv).result(), Ok(8));
}

fn a_vi_that_connects_again_keeps_its_completion_queue<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let (a, b) = (on(cx, None, None, 0), on(cx, None, Some(&cq), 1));
    for _ in 0..5 {
        connect(cx, &a, &b);
        b.post_recv(0, 0, 8);
        a.send(0, 0, 8);
        entry(&cq, 1, Recv);
        assert_eq!(taken(&b, Recv).result(), Ok(8));
        a.vi.disconnect();
        b.await_state(ViState::Error);
        b.vi.disconnect();
        assert!(cq.in_use());
    }
    assert_eq!(cq.done(), None);
}

/// A write without immediate data leaves no entry at its target.
mod a_write_with_immediate_data_leaves_an_entry {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, cq) = (Line::server(cx), cx.nic.create_cq(16, 1).unwrap());
        let attributes = ViAttributes { enable_rdma_write: true, ..ViAttributes::default() };
        let attach = Attach { send: None, recv: Some(&cq), context: 1 };
        let end = End::attached(cx, 4096, attributes, attach);
        end.post_recv(0, 0, 0);
        end.accept(cx);
        line.tell(&end.target().words());
        eventually("the first write is there", || end.bytes(0, 1) == [1]);
        assert_eq!(cq.done(), None);
        line.meet();
        entry(&cq, 1, Recv);
        assert_eq!(taken(&end, Recv).immediate, Some(5));
        assert_eq!(cq.done(), None);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), requested(cx));
        let to = Target::heard(&line.hear()).at(0);
        end.write(0, &[1]);
        end.post_write(0, 0, 1, to);
        assert_eq!(end.sent().result(), Ok(1));
        line.meet();
        let data = [end.data(0, 1)];
        end.vi.post_send(end.rdma(0, Control::OP_RDMAWRITE, to, &data, Some(5))).unwrap();
        assert_eq!(end.sent().result(), Ok(1));
        line.meet();
    }
}

mod reads_and_writes_leave_entries_at_their_origin {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::server(cx);
        let end = End::open(cx, Reliability::RELIABLE_DELIVERY);
        end.accept(cx);
        line.tell(&end.target().words());
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, cq) = (Line::client(cx), cx.nic.create_cq(64, 1).unwrap());
        let open = End::open(cx, Reliability::RELIABLE_DELIVERY).vi.attributes();
        let attributes = ViAttributes { ptag: None, ..open };
        let attach = Attach { send: Some(&cq), recv: None, context: 4 };
        let end = End::attached(cx, 1 << 16, attributes, attach);
        end.request(cx).unwrap();
        let target = Target::heard(&line.hear());
        let writes = cx.nic.attributes().capabilities.rdma_write;
        for i in 0..10 {
            if writes {
                end.post_write(i, 0, 5000, target.at(0));
            } else {
                end.post_read(i, 0, 5000, target.at(0));
            }
            end.post_read(i + 10, 5000, 5000, target.at(0));
        }
        for _ in 0..20 {
            entry(&cq, 4, Send);
            assert_eq!(taken(&end, Send).result(), Ok(5000));
        }
        assert_eq!(cq.done(), None);
        line.meet();
    }
}

/// Entries of a destroyed VI may be removed or stay. Entries of other VIs still come, and the queue can be destroyed.
fn a_destroyed_vi_does_not_spoil_its_completion_queue<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(64, 1).unwrap();
    let ends = [1, 2].map(|context| on(cx, Some(&cq), Some(&cq), context));
    for end in &ends {
        for i in 0..5 {
            end.post_recv(i, 0, 8);
        }
        end.vi.disconnect();
    }
    let [gone, stays] = ends;
    drop(gone);
    let mut found = 0;
    while let Some(entry) = cq.done() {
        assert!([1, 2].contains(&entry.context), "{entry:?}");
        if entry.context == 2 {
            taken(&stays, Recv);
            found += 1;
        }
    }
    assert_eq!(found, 5);
    assert!(cq.in_use());
    drop(stays);
    assert!(!cq.in_use());
    assert!(cq.destroy().is_ok());
}
