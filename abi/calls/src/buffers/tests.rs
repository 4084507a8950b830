use super::*;
use crate::tests::kernel::Scratch;
use crate::tests::start;

#[test]
fn buffers_are_refused_at_sight_by_length_and_range() {
    start();
    for (address, len, wanted) in [
        (0, 0, Some(0)),
        (0xdead_0000_0000_0000, 0, Some(0)),
        (0x1000, 16, Some(16)),
        (0x1000, MOST, Some(MOST)),
        (0x1000, MOST + 1, Some(MOST)),
        (0x1000, isize::MAX as usize, None),
        (0x1000, usize::MAX, None),
        (USER_END - 16, 16, Some(16)),
        (USER_END - 16, 17, None),
        (usize::MAX, 1, None),
        (usize::MAX - 4, 16, None),
    ] {
        // SAFETY: no code accesses the buffer.
        let found = unsafe { buffer(address as *mut c_void, len) }.map(|part| part.len());
        assert_eq!(found, wanted, "{len} bytes at {address:x}");
    }
}

/// Returns the lengths of a list's buffers. Decodes the list both for reading and for writing.
fn lengths(list: &[iovec]) -> Result<Vec<usize>, c_int> {
    // SAFETY: the list is valid, and no code accesses the buffers.
    unsafe {
        let from: Parts<UserSlice<'_>> = parts(list.as_ptr(), list.len())?;
        let to: Parts<UserSliceMut<'_>> = parts(list.as_ptr(), list.len())?;
        let found: Vec<usize> = to.iter().map(|part| part.len()).collect();
        assert_eq!(from.iter().map(|part| part.len()).collect::<Vec<_>>(), found);
        Ok(found)
    }
}

fn entry(len: usize) -> iovec {
    iovec { iov_base: 0x1000 as *mut c_void, iov_len: len }
}

#[test]
fn lists_of_every_number_of_parts_keep_their_order() {
    for count in [0, 1, 7, 8, 9, 16, 17, 1023, 1024] {
        let list: Vec<iovec> = (0..count).map(entry).collect();
        assert_eq!(lengths(&list), Ok((0..count).collect()), "{count} parts");
    }
}

#[test]
fn lists_of_more_than_1024_parts_are_einval_and_not_read() {
    for count in [1025, usize::MAX] {
        // SAFETY: the call returns an error before it reads the list.
        let found = unsafe { parts::<UserSlice<'_>>(16 as *const iovec, count) }.err();
        assert_eq!(found, Some(libc::EINVAL), "{count} parts");
    }
}

#[test]
fn lists_are_cut_to_what_one_call_moves() {
    for list in [[MOST, 1, 5], [MOST - 1, 3, 5], [MOST + 9, 0, 5]] {
        let entries = list.map(entry);
        let all = lengths(&entries).unwrap();
        assert_eq!(all.iter().sum::<usize>(), MOST, "{list:?}");
    }
    assert_eq!(lengths(&[MOST - 1, 3, 5].map(entry)), Ok(vec![MOST - 1, 1, 0]));
}

#[test]
fn lists_whose_later_entries_are_unmapped_are_efault() {
    start();
    let mut scratch = Scratch::new();
    scratch.clear();
    for count in [1, 8, 9, 20] {
        let bytes = count * size_of::<iovec>();
        // SAFETY: the test owns the memory. The accessible entries are zeros, and the others cannot be read.
        unsafe {
            let at = scratch.edge(bytes) as *const iovec;
            assert!(parts::<UserSlice<'_>>(at, count).is_ok(), "{count} parts");
            assert_eq!(
                parts::<UserSlice<'_>>(at, count + 1).err(),
                Some(libc::EFAULT),
                "{count} parts"
            );
            let at = scratch.edge(bytes - 1) as *const iovec;
            assert_eq!(
                parts::<UserSlice<'_>>(at, count).err(),
                Some(libc::EFAULT),
                "{count} parts"
            );
        }
    }
}

#[test]
fn addresses_are_checked_for_length_and_then_read() {
    start();
    let scratch = Scratch::new();
    for (at, len, wanted) in [
        (0, -1, Ok(())),
        (0, 16, Ok(())),
        (scratch.edge(128), 128, Ok(())),
        (scratch.edge(128), 129, Err(libc::EINVAL)),
        (scratch.edge(128), -1, Err(libc::EINVAL)),
        (scratch.edge(128), c_int::MIN, Err(libc::EINVAL)),
        (scratch.end(), 0, Ok(())),
        (scratch.end(), 1, Err(libc::EFAULT)),
        (scratch.end(), 129, Err(libc::EINVAL)),
        (scratch.edge(4), 16, Err(libc::EFAULT)),
        (16, 4, Err(libc::EFAULT)),
    ] {
        // SAFETY: the test owns the memory, or nothing is mapped there.
        let found = unsafe { check_address(at as *const c_void, len) };
        assert_eq!(found, wanted, "{len} bytes at {at:x}");
    }
}
