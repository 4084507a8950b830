//! Functions of libc that programs reach by a look-up instead of by their names.

use sovia_tests::scenarios;

scenarios!("lookups":
    in_libc,
    in_a_lazy_library,
    in_a_library_that_is_bound_at_once,
    in_a_protected_library,
);
