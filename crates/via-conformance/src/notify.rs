//! Callbacks: one for each registration, in order, in a thread of the NIC.

use super::cq::{on, requested};
use super::prelude::*;
use via::Completion;

group! { "notify":
    both a_receive_is_told_by_callback,
    alone a_send_is_told_by_callback,
    alone a_callback_runs_in_another_thread,
    alone a_callback_takes_the_descriptor,
    alone a_callback_runs_once,
    alone callbacks_run_in_the_order_of_the_calls,
    alone what_is_done_already_is_told_at_once,
    alone a_callback_may_be_asked_for_before_connecting,
    alone what_is_flushed_is_told_by_callback,
    alone destroying_a_vi_cancels_its_callbacks,
    alone a_slow_callback_holds_up_no_transfer,
    alone callbacks_of_two_vis_do_not_mix,
    both an_entry_is_told_by_callback [CompletionQueues],
    alone an_entry_that_is_told_is_taken [CompletionQueues],
    alone an_entry_is_the_callbacks_and_not_who_looks [CompletionQueues],
    alone entries_are_told_once_and_in_order [CompletionQueues],
    alone destroying_a_completion_queue_cancels_its_callbacks [CompletionQueues],
    alone a_callback_for_an_entry_runs_in_another_thread [CompletionQueues],
}

const PATIENCE: Duration = Duration::from_secs(10);

/// Arguments of callbacks, with the threads in which they ran.
type Heard<T> = mpsc::Receiver<(T, thread::ThreadId)>;

/// Makes a callback that passes its argument on.
fn passing_on<T: Send + 'static>() -> (Box<dyn FnOnce(T) + Send>, Heard<T>) {
    let (tell, told) = mpsc::channel();
    let callback = move |what| drop(tell.send((what, thread::current().id())));
    (Box::new(callback), told)
}

/// Registers a callback for the next receive.
fn next_receive<N: Nic>(end: &End<'_, N>) -> Heard<Completion> {
    let (callback, told) = passing_on();
    end.vi.recv_notify(callback);
    told
}

fn next_send<N: Nic>(end: &End<'_, N>) -> Heard<Completion> {
    let (callback, told) = passing_on();
    end.vi.send_notify(callback);
    told
}

fn next_entry<C: CompletionQueue>(cq: &C) -> Heard<CqEntry> {
    let (callback, told) = passing_on();
    cq.notify(callback);
    told
}

fn told<T>(told: &Heard<T>) -> T {
    told.recv_timeout(PATIENCE).expect("no callback").0
}

/// Checks that the callback has been dropped without running.
#[track_caller]
fn cancelled<T: core::fmt::Debug>(told: &Heard<T>) {
    match told.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Disconnected) => {}
        other => panic!("{other:?}"),
    }
}

mod a_receive_is_told_by_callback {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), End::new(cx));
        for i in 0..3 {
            end.post_recv(i, i * 100, 100);
        }
        end.accept(cx);
        for i in 0..3 {
            let next = next_receive(&end);
            line.meet();
            let got = told(&next);
            assert_eq!((got.descriptor.address, got.result()), (end.address(i), Ok(100)));
            assert_eq!(got.status, end.place(i).status());
            end.expect(i * 100, 100, i);
        }
        end.nothing_posted();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), End::requested(cx));
        for i in 0..3 {
            line.meet();
            end.send_pattern(0, 0, 100, i);
        }
        end.await_state(ViState::Error);
    }
}

fn a_send_is_told_by_callback<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    b.post_recv(0, 0, 100);
    let next = next_send(&a);
    let descriptor = a.post_send(0, 0, 100);
    let sent = told(&next);
    assert_eq!((sent.descriptor, sent.result()), (descriptor, Ok(100)));
    assert_eq!(a.vi.send_done(), Done::Empty);
}

/// The callback runs in another thread, whether the descriptor is complete at the registration or not.
fn a_callback_runs_in_another_thread<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    for i in 0..2 {
        b.post_recv(i, 0, 8);
        a.post_send(i, 0, 8);
    }
    eventually("both are done", || b.place(1).status().is_done());
    let here = thread::current().id();
    for next in [next_receive(&b), next_send(&a)] {
        assert_ne!(next.recv_timeout(PATIENCE).unwrap().1, here);
    }
}

fn a_callback_takes_the_descriptor<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    let posted = [0, 1].map(|i| b.post_recv(i, 0, 8));
    let next = next_receive(&b);
    a.send(0, 0, 8);
    a.send(0, 0, 8);
    assert_eq!(told(&next).descriptor, posted[0]);
    assert_eq!(b.received().descriptor, posted[1]);
    b.nothing_posted();
}

fn a_callback_runs_once<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    let next = next_receive(&b);
    for i in 0..3 {
        b.post_recv(i, 0, 8);
        a.send(0, 0, 8);
    }
    told(&next);
    // The callback has been dropped.
    cancelled(&next);
    b.received();
    b.received();
    b.nothing_posted();
}

fn callbacks_run_in_the_order_of_the_calls<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    let (tell, heard) = mpsc::channel();
    for i in 0..50usize {
        b.post_recv(i, 0, 8);
        let tell = tell.clone();
        b.vi.recv_notify(Box::new(move |got| {
            let _ = tell.send((i, got.descriptor));
        }));
    }
    for _ in 0..50 {
        a.send(0, 0, 8);
    }
    for i in 0..50 {
        let (n, descriptor) = heard.recv_timeout(PATIENCE).unwrap();
        assert_eq!((n, descriptor.address), (i, b.address(i)));
    }
}

fn what_is_done_already_is_told_at_once<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    b.post_recv(0, 0, 8);
    a.post_send(0, 0, 8);
    eventually("both are done", || a.place(0).status().is_done() && b.place(0).status().is_done());
    assert_eq!(told(&next_receive(&b)).result(), Ok(8));
    assert_eq!(told(&next_send(&a)).result(), Ok(8));
}

fn a_callback_may_be_asked_for_before_connecting<N: Nic>(cx: &Context<'_, N>) {
    let ends = [(); 2].map(|()| End::new(cx));
    let next = next_receive(&ends[1]);
    ends[1].post_recv(0, 0, 8);
    connect(cx, &ends[0], &ends[1]);
    ends[0].send_pattern(0, 0, 8, 1);
    assert_eq!(told(&next).result(), Ok(8));
    ends[1].expect(0, 8, 1);
}

fn what_is_flushed_is_told_by_callback<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    for i in 0..2 {
        a.post_recv(i, 0, 8);
        b.post_recv(i, 0, 8);
    }
    let next = [next_receive(&a), next_receive(&b)];
    a.vi.disconnect();
    for next in next {
        assert!(told(&next).result().unwrap_err().contains(Status::DESC_FLUSHED_ERROR));
    }
    a.received_in(Status::DESC_FLUSHED_ERROR);
    b.received_in(Status::DESC_FLUSHED_ERROR);
}

fn destroying_a_vi_cancels_its_callbacks<N: Nic>(cx: &Context<'_, N>) {
    let end = End::new(cx);
    let next = [next_receive(&end), next_receive(&end)];
    let send = next_send(&end);
    assert!(end.vi.destroy().is_ok());
    for next in next.iter().chain([&send]) {
        cancelled(next);
    }
}

/// A slow callback delays no transfer, not even on its own VI.
fn a_slow_callback_holds_up_no_transfer<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, ViAttributes::default());
    let (go, gate) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    b.vi.recv_notify(Box::new(move |_| {
        begin.send(()).unwrap();
        let _ = gate.recv_timeout(PATIENCE);
    }));
    b.post_recv(0, 0, 8);
    a.send(0, 0, 8);
    begun.recv_timeout(PATIENCE).unwrap();
    for i in 0..20 {
        b.post_recv(0, 0, 5000);
        a.send_pattern(0, 0, 5000, i);
        b.receives(0, 5000, i);
    }
    go.send(()).unwrap();
}

fn callbacks_of_two_vis_do_not_mix<N: Nic>(cx: &Context<'_, N>) {
    let pairs = [(); 2].map(|()| pair(cx, ViAttributes::default()));
    for i in 0..20 {
        let next: Vec<_> = pairs.iter().map(|(_, b)| next_receive(b)).collect();
        for (n, (a, b)) in pairs.iter().enumerate().rev() {
            b.post_recv(i, 0, 8 + n);
            a.send(0, 0, 8 + n);
        }
        for (n, next) in next.iter().enumerate() {
            let got = told(next);
            assert_eq!(got.descriptor.address, pairs[n].1.address(i));
            assert_eq!(got.result(), Ok(8 + n as u32));
        }
    }
}

mod an_entry_is_told_by_callback {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let cq = cx.nic.create_cq(16, 1).unwrap();
        let (line, end) = (Line::server(cx), on(cx, None, Some(&cq), 3));
        end.post_recv(0, 0, 8);
        end.accept(cx);
        let next = next_entry(&cq);
        line.meet();
        assert_eq!(told(&next), CqEntry { context: 3, queue: WorkQueueKind::Recv });
        assert_eq!(end.vi.recv_done().completion().unwrap().result(), Ok(8));
        end.expect(0, 8, 2);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), requested(cx));
        line.meet();
        end.send_pattern(0, 0, 8, 2);
        end.await_state(ViState::Error);
    }
}

/// The callback takes the entry. The program still has to take the descriptor.
fn an_entry_that_is_told_is_taken<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let end = on(cx, None, Some(&cq), 1);
    for i in 0..2 {
        end.post_recv(i, 0, 8);
    }
    end.vi.disconnect();
    told(&next_entry(&cq));
    assert!(cq.done().is_some());
    assert_eq!(cq.done(), None);
    for _ in 0..2 {
        assert!(end.vi.recv_done().completion().is_some());
    }
}

/// The callback gets the entry even if another thread polls all the time.
fn an_entry_is_the_callbacks_and_not_who_looks<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let (a, b) = (on(cx, None, None, 0), on(cx, None, Some(&cq), 1));
    connect(cx, &a, &b);
    for i in 0..50 {
        b.post_recv(0, 0, 8);
        let next = next_entry(&cq);
        a.send_pattern(0, 0, 8, i);
        let entry = loop {
            assert_eq!(cq.done(), None, "of message {i}");
            match next.try_recv() {
                Ok((entry, _)) => break entry,
                Err(mpsc::TryRecvError::Empty) => thread::yield_now(),
                Err(gone) => panic!("{gone}"),
            }
        };
        assert_eq!(entry, CqEntry { context: 1, queue: WorkQueueKind::Recv });
        assert_eq!(b.vi.recv_done().completion().unwrap().result(), Ok(8));
        b.expect(0, 8, i);
    }
}

fn entries_are_told_once_and_in_order<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(64, 1).unwrap();
    let ends: Vec<_> = (0..10).map(|context| on(cx, None, Some(&cq), context)).collect();
    let (tell, heard) = mpsc::channel();
    for n in 0..10u64 {
        let tell = tell.clone();
        cq.notify(Box::new(move |entry| {
            let _ = tell.send((n, entry.context));
        }));
    }
    for end in &ends {
        end.post_recv(0, 0, 8);
        end.vi.disconnect();
    }
    for n in 0..10 {
        assert_eq!(heard.recv_timeout(PATIENCE), Ok((n, n)));
    }
    assert_eq!(cq.done(), None);
    ends[0].post_recv(0, 0, 8);
    ends[0].vi.disconnect();
    assert!(cq.wait(SOON).is_ok());
}

fn destroying_a_completion_queue_cancels_its_callbacks<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let next = [next_entry(&cq), next_entry(&cq)];
    assert!(cq.destroy().is_ok());
    for next in &next {
        cancelled(next);
    }
}

fn a_callback_for_an_entry_runs_in_another_thread<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let end = on(cx, None, Some(&cq), 1);
    end.post_recv(0, 0, 8);
    end.vi.disconnect();
    let ran = next_entry(&cq).recv_timeout(PATIENCE).unwrap().1;
    assert_ne!(ran, thread::current().id());
}
