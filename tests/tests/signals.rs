//! Signal handlers that use the connection they have interrupted, or never return; and threads that are
//! cancelled during a call.

use sovia_tests::{Scenario, scenarios};

scenarios!("handlers":
    handlers_write_what_they_interrupt,
    handlers_write_until_it_is_taken,
    handlers_writes_are_not_interrupted,
    handlers_read_what_they_interrupt,
    handlers_close_what_they_interrupt,
    jumping_out_of_writes,
    jumping_out_of_reads,
    jumping_out_of_deep_calls,
    cancelling_writers,
    cancelling_readers,
);

scenarios!("dispositions":
    a_sent_fault_interrupts_a_change,
    a_bad_disposition,
    one_is_set_while_another_is_called_once,
);

scenarios!("left":
    an_exception_at_a_fault,
    an_exception_on_an_alternate_stack,
    an_exception_out_of_a_call,
    an_exception_out_of_two_handlers,
    an_exception_where_handlers_are_reset_or_not_deferred,
    the_end_of_the_thread,
    a_context_that_is_set,
    a_context_that_comes_back,
);

/// A connection that a handler uses first stays on TCP, because a rendezvous makes calls that a
/// handler must not make.
#[test]
fn a_handler_is_the_first_to_write() {
    Scenario::c("handlers", "a_handler_is_the_first_to_write").may_stay_on_tcp().run();
}
