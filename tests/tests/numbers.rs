//! Descriptor numbers: what gets one that a connection had, by which names, and within which limit.

use sovia_tests::{Scenario, scenarios};

scenarios!("numbers":
    a_number_comes_back,
    second_names,
);

// While the program has its limit low there is no room for descriptors of the library's.
scenarios!("numbers", Scenario::may_stay_on_tcp: the_limit_is_changed_meanwhile);
