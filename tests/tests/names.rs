//! All names by which a program can make a call: second names, fortified forms and 64-bit forms.

use sovia_tests::scenarios;

scenarios!("names":
    names_that_receive,
    names_that_send,
    names_that_wait,
    names_that_make_children,
    names_that_catch_signals,
    a_mask_of_all_signals,
    names_that_block_signals,
    names_that_change_limits,
    names_that_return_descriptors,
    closefrom_leaves_what_is_below,
);
