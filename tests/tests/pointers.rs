//! Invalid pointers are errors, as with the kernel, and no byte is lost.

use sovia_tests::scenarios;

scenarios!("bad_pointers":
    receiving_into_memory_that_is_not_there,
    receiving_much_into_memory_that_is_not_there,
    sending_from_memory_that_is_not_there,
    sending_parts_that_are_not_there,
    waiting_with_lists_that_are_not_there,
    each_call_by_itself,
    the_programs_own_handler_for_faults,
);
