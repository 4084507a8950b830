//! Descriptor numbers that are used again: by which files, through which names of calls, and within
//! which limit.

use sovia_tests::{Scenario, scenarios};

scenarios!("numbers":
    a_number_comes_back,
    second_names,
    the_second_name_of_read,
    the_second_name_of_write,
    the_second_name_of_send,
    the_second_name_of_poll,
    the_second_name_of_select,
    the_second_name_of_dup2,
    the_second_name_of_fcntl,
    the_second_name_of_close,
    the_second_name_of_connect,
);

// The library has no room for its descriptors while the program's limit is low.
scenarios!("numbers", Scenario::may_stay_on_tcp: the_limit_is_changed_meanwhile);
