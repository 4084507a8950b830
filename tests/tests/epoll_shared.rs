//! Epoll instances that forked processes share.

use sovia_tests::scenarios;

scenarios!("epoll_shared":
    a_child_adds_to_a_shared_set,
    a_child_removes_from_a_shared_set,
    a_parent_adds_to_a_shared_set,
    a_child_waits_behind_the_end,
    a_child_adds_behind_the_end,
    a_child_changes_behind_the_end,
    a_child_ignores_a_shared_set,
);
