//! Signals: the NIC notifies the program of an entry and leaves the entry in the queue.

use super::cq::{entry, on, requested, taken};
use super::prelude::*;
use WorkQueueKind::Recv;

group! { "signal":
    both an_entry_is_signalled_and_stays [CompletionQueues],
    both every_message_is_signalled_to_who_looks_no_more_than_told [CompletionQueues],
    alone a_message_to_any_of_many_is_signalled [CompletionQueues],
    alone an_entry_that_is_there_is_signalled_at_once [CompletionQueues],
    alone a_signal_runs_once [CompletionQueues],
    alone every_signal_runs [CompletionQueues],
    alone a_callback_has_an_entry_before_it_is_signalled [CompletionQueues],
    alone a_wait_and_a_signal_are_told_of_one_entry [CompletionQueues],
    alone destroying_a_completion_queue_cancels_its_signals [CompletionQueues],
}

const PATIENCE: Duration = Duration::from_secs(10);

pub(super) type Heard = mpsc::Receiver<()>;

pub(super) fn signal<C: CompletionQueue>(cq: &C) -> Heard {
    let (tell, heard) = mpsc::channel();
    cq.signal(Box::new(move || {
        let _ = tell.send(());
    }));
    heard
}

#[track_caller]
pub(super) fn heard(signal: &Heard) {
    signal.recv_timeout(PATIENCE).expect("no signal");
}

/// Leaves one entry, of a flushed receive.
fn one_entry<N: Nic>(end: &End<'_, N>) {
    end.post_recv(0, 0, 8);
    end.vi.disconnect();
}

mod an_entry_is_signalled_and_stays {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let cq = cx.nic.create_cq(16, 1).unwrap();
        let (line, end) = (Line::server(cx), on(cx, None, Some(&cq), 3));
        end.post_recv(0, 0, 8);
        end.accept(cx);
        let told = signal(&cq);
        assert!(told.recv_timeout(Duration::from_millis(30)).is_err(), "of nothing");
        line.meet();
        heard(&told);
        assert_eq!(cq.done(), Some(CqEntry { context: 3, queue: Recv }));
        assert_eq!(taken(&end, Recv).result(), Ok(8));
        end.expect(0, 8, 2);
        assert_eq!(cq.done(), None);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), requested(cx));
        line.meet();
        end.send_pattern(0, 0, 8, 2);
        end.await_state(ViState::Error);
    }
}

/// The program takes entries until there is none, requests a signal, and looks again only after the signal. A missing
/// signal would block the program for ever.
mod every_message_is_signalled_to_who_looks_no_more_than_told {
    use super::*;

    const MESSAGES: usize = 1000;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let cq = cx.nic.create_cq(64, 1).unwrap();
        let end = on(cx, None, Some(&cq), 1);
        for i in 0..16 {
            end.post_recv(i, 0, 8);
        }
        end.accept(cx);
        let mut got = 0;
        while got < MESSAGES {
            let told = signal(&cq);
            heard(&told);
            while got < MESSAGES && cq.done().is_some() {
                assert_eq!(taken(&end, Recv).result(), Ok(8));
                end.expect(0, 8, got);
                end.post_recv(got % 16, 0, 8);
                got += 1;
                end.send(20, 32, 8);
            }
        }
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::with(cx, 64, ViAttributes::default());
        end.post_recv(1, 32, 8);
        end.request(cx).unwrap();
        for i in 0..MESSAGES {
            end.send_pattern(0, 0, 8, i);
            end.received();
            end.post_recv(1, 32, 8);
        }
    }
}

fn a_message_to_any_of_many_is_signalled<N: Nic>(cx: &Context<'_, N>) {
    const MANY: usize = 12;
    let cq = cx.nic.create_cq(64, 1).unwrap();
    let pairs: Vec<_> = (0..MANY)
        .map(|i| {
            let (a, b) = (on(cx, None, None, 0), on(cx, None, Some(&cq), i as u64));
            b.post_recv(0, 0, 8);
            connect(cx, &a, &b);
            (a, b)
        })
        .collect();
    for (i, (a, b)) in pairs.iter().enumerate() {
        assert_eq!(cq.done(), None);
        let told = signal(&cq);
        a.send(0, 0, 8);
        heard(&told);
        assert_eq!(cq.done(), Some(CqEntry { context: i as u64, queue: Recv }));
        assert_eq!(taken(b, Recv).result(), Ok(8));
    }
}

fn an_entry_that_is_there_is_signalled_at_once<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let end = on(cx, None, Some(&cq), 1);
    one_entry(&end);
    for _ in 0..3 {
        assert_eq!(signal(&cq).try_recv(), Ok(()));
    }
    entry(&cq, 1, Recv);
    assert_eq!(cq.done(), None);
    taken(&end, Recv);
}

fn a_signal_runs_once<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let end = on(cx, None, Some(&cq), 1);
    let told = signal(&cq);
    for _ in 0..2 {
        one_entry(&end);
        entry(&cq, 1, Recv);
        taken(&end, Recv);
    }
    heard(&told);
    // The callback has been dropped.
    assert_eq!(told.recv_timeout(PATIENCE), Err(mpsc::RecvTimeoutError::Disconnected));
}

fn every_signal_runs<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let end = on(cx, None, Some(&cq), 1);
    let all = [(); 3].map(|()| signal(&cq));
    one_entry(&end);
    all.iter().for_each(heard);
    entry(&cq, 1, Recv);
    assert_eq!(cq.done(), None);
}

fn a_callback_has_an_entry_before_it_is_signalled<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let end = on(cx, None, Some(&cq), 1);
    let told = signal(&cq);
    let (tell, taken_by_callback) = mpsc::channel();
    cq.notify(Box::new(move |entry| {
        let _ = tell.send(entry);
    }));
    one_entry(&end);
    let expected = CqEntry { context: 1, queue: Recv };
    assert_eq!(taken_by_callback.recv_timeout(PATIENCE), Ok(expected));
    taken(&end, Recv);
    assert!(told.recv_timeout(Duration::from_millis(30)).is_err(), "of an entry that is taken");
    one_entry(&end);
    heard(&told);
    assert_eq!(cq.done(), Some(expected));
    taken(&end, Recv);
}

fn a_wait_and_a_signal_are_told_of_one_entry<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let end = on(cx, None, Some(&cq), 1);
    thread::scope(|s| {
        let waiter = s.spawn(|| entry(&cq, 1, Recv));
        let told = signal(&cq);
        never("woken by nothing", || waiter.is_finished() || told.try_recv().is_ok());
        one_entry(&end);
        waiter.join().unwrap();
        heard(&told);
    });
    assert_eq!(cq.done(), None);
    taken(&end, Recv);
}

fn destroying_a_completion_queue_cancels_its_signals<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let told = [signal(&cq), signal(&cq)];
    assert!(cq.destroy().is_ok());
    for told in &told {
        assert_eq!(told.recv_timeout(PATIENCE), Err(mpsc::RecvTimeoutError::Disconnected));
    }
}
