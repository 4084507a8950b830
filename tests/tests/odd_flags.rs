//! Flags, options and arguments that few programs use.

use sovia_tests::{Scenario, scenarios};

scenarios!("odd_flags":
    bytes_are_discarded,
    peek_with_waitall_waits,
    peek_with_waitall_and_a_timeout,
    peek_with_waitall_at_the_end,
    waitall_is_interrupted,
    peek_off_is_kept_to,
    inq_is_told,
    inq_is_told_each_time,
    zerocopy_receive_after_the_switch,
    recvfrom_and_its_length,
    recvmsg_and_its_header,
    recvmmsg_and_its_timeout,
    recvmmsg_at_the_end,
    sendfile_of_many_procs,
    sendfile_of_zeros,
    sendfile_of_proc,
    sendfile_of_a_long_proc,
    sendfile_of_a_pipe,
    sendfile_of_a_directory,
    sends_with_flags_that_do_nothing,
);

scenarios!("odd_flags", Scenario::may_stay_on_tcp:
    inq_is_told_before_the_switch,
    zerocopy_receive_before_the_switch,
);
