//! The NIC itself: its attributes, and its error handler.

use super::prelude::*;
use via::AsyncError;

group! { "nic":
    alone attributes_meet_the_minima,
    alone attributes_agree_with_each_other,
    alone completion_queues_have_a_thousand_entries [CompletionQueues],
    alone errors_are_told_in_turn,
    alone a_handler_runs_in_another_thread,
    alone a_handler_that_is_replaced_is_told_no_more,
    alone without_a_handler_nobody_is_told,
    alone an_error_is_told_as_it_was_reported,
}

/// Checks the minima of the specification.
fn attributes_meet_the_minima<N: Nic>(cx: &Context<'_, N>) {
    let nic = cx.nic.attributes();
    assert!(nic.max_discriminator_len >= 16, "{}", nic.max_discriminator_len);
    assert!(nic.max_transfer_size >= 64 << 10, "{}", nic.max_transfer_size);
    assert!(nic.max_descriptors_per_queue >= 256, "{}", nic.max_descriptors_per_queue);
    assert!(nic.max_segments_per_desc >= 252, "{}", nic.max_segments_per_desc);
    assert!(nic.reliability.intersects(Reliability::all()), "no level at all");
    assert!(nic.max_vi > 0 && nic.max_register_regions > 0 && nic.max_ptags > 0);
}

/// Checks that the attributes do not contradict each other.
fn attributes_agree_with_each_other<N: Nic>(cx: &Context<'_, N>) {
    let nic = cx.nic.attributes();
    assert!((1..=63).contains(&nic.name.len()), "{:?}", nic.name);
    assert!(!nic.local_address.is_empty());
    assert!(nic.max_register_block_bytes <= nic.max_register_bytes);
    assert!(nic.max_register_block_bytes >= u64::from(nic.max_transfer_size));
    assert!(nic.native_mtu > 0);
    assert!(nic.reliability.contains(nic.rdma_read), "a read at a level that there is not");
    assert!(Reliability::all().contains(nic.reliability));
    assert!(nic.max_cq == 0 || nic.max_cq_entries > 0);
}

fn completion_queues_have_a_thousand_entries<N: Nic>(cx: &Context<'_, N>) {
    assert!(cx.nic.attributes().max_cq_entries >= 1024);
    assert!(cx.nic.create_cq(1024, 0).unwrap().capacity() >= 1024);
}

/// The handler gets errors in the order of their reports.
fn errors_are_told_in_turn<N: Nic>(cx: &Context<'_, N>) {
    let told = Told::by(cx.nic);
    for vi in 0..50 {
        cx.nic.report(AsyncError::of_vi(vi, ErrorCode::PostDesc));
    }
    told.code(49, ErrorCode::PostDesc);
    let order: Vec<_> = told.all().iter().map(|error| error.vi).collect();
    assert_eq!(order, (0..50).map(Some).collect::<Vec<_>>());
}

/// The handler does not run in the reporting thread, which may hold locks.
fn a_handler_runs_in_another_thread<N: Nic>(cx: &Context<'_, N>) {
    let (tell, told) = mpsc::sync_channel(1);
    cx.nic.set_error_handler(Some(Arc::new(move |_: &AsyncError| {
        let _ = tell.send(thread::current().id());
    })));
    cx.nic.report(AsyncError::of_vi(1, ErrorCode::PostDesc));
    let there = told.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_ne!(there, thread::current().id());
}

fn a_handler_that_is_replaced_is_told_no_more<N: Nic>(cx: &Context<'_, N>) {
    let first = Told::by(cx.nic);
    cx.nic.report(AsyncError::of_vi(1, ErrorCode::PostDesc));
    first.code(1, ErrorCode::PostDesc);
    let second = Told::by(cx.nic);
    cx.nic.report(AsyncError::of_vi(2, ErrorCode::PostDesc));
    second.code(2, ErrorCode::PostDesc);
    assert_eq!((first.all().len(), second.all().len()), (1, 1));
}

fn without_a_handler_nobody_is_told<N: Nic>(cx: &Context<'_, N>) {
    // An error is reported before any handler is set, and another one after the handler has been removed.
    cx.nic.report(AsyncError::of_vi(0, ErrorCode::PostDesc));
    let told = Told::by(cx.nic);
    cx.nic.set_error_handler(None);
    cx.nic.report(AsyncError::of_vi(1, ErrorCode::PostDesc));
    told.nothing();
}

/// Checks every field.
fn an_error_is_told_as_it_was_reported<N: Nic>(cx: &Context<'_, N>) {
    let told = Told::by(cx.nic);
    let error = AsyncError {
        vi: Some(7),
        cq: Some(8),
        descriptor: Some(9 << 6),
        operation: Control::OP_RDMAREAD,
        resource: Resource::Descriptor,
        code: ErrorCode::CompProt,
    };
    cx.nic.report(error);
    assert_eq!(told.code(7, ErrorCode::CompProt), error);
}
