//! The same programs, built against libsovia: with each other, with preloaded programs, and with the
//! kernel they see what they see over the kernel alone.

use sovia_tests::{Scenario, scenarios};

scenarios!("stream_calls", Scenario::native:
    partial_reads_leave_the_rest,
    partial_reads_over_ipv6,
    zero_length_calls,
    readv_scatters,
    writev_and_sendmsg_gather,
    addresses_of_a_connected_stream,
    recvmmsg_takes_several,
    sendmmsg_sends_several,
    peek_leaves_the_bytes,
    waitall_waits_for_all,
    dontwait_does_not_wait,
    trunc_discards,
);
