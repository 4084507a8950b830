use super::*;

#[test]
fn ids_differ_unless_they_are_the_same_or_left() {
    for (wanted, differs) in [
        ([1, 2, 3], false),
        ([SAME; 3], false),
        ([1, SAME, 3], false),
        ([2, 2, 3], true),
        ([SAME, SAME, 4], true),
        ([0, SAME, SAME], true),
    ] {
        assert_eq!(differ([1, 2, 3], wanted), differs, "{wanted:?}");
    }
}

#[test]
fn setreuid_sets_the_saved_id_to_the_effective_one() {
    assert!(!differ_with_saved([1, 2, 2], SAME, SAME));
    assert!(!differ_with_saved([1, 2, 2], 1, 2));
    assert!(differ_with_saved([1, 2, 3], SAME, SAME));
    assert!(differ_with_saved([1, 2, 2], 2, SAME));
}

#[test]
fn only_namespaces_in_which_processes_are_seen_differently_count() {
    for (flags, changes) in [
        (0, false),
        (libc::CLONE_FILES, false),
        (libc::CLONE_NEWUTS, false),
        (libc::CLONE_NEWPID, true),
        (libc::CLONE_NEWNET, true),
        (libc::CLONE_NEWNS | libc::CLONE_NEWUTS, true),
        (libc::CLONE_NEWUSER, true),
        (-1, true),
    ] {
        assert_eq!(unshare_changes(flags), changes, "{flags:x}");
    }
}

#[test]
fn a_filter_is_recognised_and_a_query_is_not() {
    let (strict, filtered) = (libc::SECCOMP_MODE_STRICT, libc::SECCOMP_MODE_FILTER);
    for (mode, filter, installs) in [
        (c_ulong::from(strict), 0, true),
        (c_ulong::from(filtered), 1, true),
        (c_ulong::from(filtered), 0, false),
        (99, 1, false),
        (c_ulong::MAX, 1, false),
    ] {
        assert_eq!(prctl_installs_filter(libc::PR_SET_SECCOMP, mode, filter), installs, "{mode}");
        assert!(!prctl_installs_filter(libc::PR_SET_NAME, mode, filter));
    }
}

#[test]
fn calls_that_set_what_is_set_change_nothing() {
    let [user, ..] = now::users();
    let [group, ..] = now::group_ids();
    let same = |number, first| changes(number, [first, first, first]);
    if now::users() == [user; 3] && now::group_ids() == [group; 3] {
        assert_eq!(same(libc::SYS_setuid, c_long::from(user)), Some(false));
        assert_eq!(same(libc::SYS_setresuid, c_long::from(user)), Some(false));
        assert_eq!(same(libc::SYS_setreuid, c_long::from(user)), Some(false));
        assert_eq!(same(libc::SYS_setresgid, c_long::from(group)), Some(false));
    }
    assert_eq!(same(libc::SYS_setresuid, -1), Some(false));
    assert_eq!(same(libc::SYS_setfsuid, -1), Some(false));
    assert_eq!(same(libc::SYS_setuid, c_long::from(user ^ 1)), Some(true));
    assert_eq!(same(libc::SYS_setns, 0), Some(true));
    assert_eq!(same(libc::SYS_getuid, 0), None);
    assert_eq!(same(-1, 0), None);
}

#[test]
fn lists_and_capabilities_that_cannot_be_read_are_left_to_the_kernel() {
    let mut present = [0; 64];
    let count = now::groups(&mut present).unwrap();
    assert!(!setgroups_changes(count, present.as_ptr()));
    assert!(setgroups_changes(count + 1, present.as_ptr()));
    assert!(setgroups_changes(usize::MAX, core::ptr::null()));
    assert!(setgroups_changes(65, core::ptr::null()));
    if count > 0 {
        assert!(setgroups_changes(count, core::ptr::null()));
    }
    assert!(capset_changes(core::ptr::null(), core::ptr::null()));
    let header = [now::CAPABILITY_VERSION_3, 0];
    assert!(capset_changes(header.as_ptr().cast(), core::ptr::null()));
    let set = now::capabilities().unwrap();
    assert!(!capset_changes(header.as_ptr().cast(), set.as_ptr().cast()));
}
