use super::*;

/// Returns a heap for one test.
fn heap() -> Heap {
    Heap {
        lock: AtomicU32::new(0),
        lists: UnsafeCell::new(Lists { free: [null_mut(); CLASSES], fresh: null_mut(), left: 0 }),
    }
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

#[test]
fn classes_are_the_powers_of_two_from_16_bytes_to_32_kb() {
    for (size, align, wanted) in [
        (0, 1, Some(0)),
        (1, 1, Some(0)),
        (16, 16, Some(0)),
        (17, 1, Some(1)),
        (1, 64, Some(2)),
        (4096, 4096, Some(8)),
        (32 << 10, 8, Some(11)),
        ((32 << 10) + 1, 8, None),
        (1 << 30, 8, None),
        (8, 8192, None),
    ] {
        assert_eq!(class(layout(size, align)), wanted, "{size} bytes, aligned to {align}");
    }
}

#[test]
fn blocks_of_all_sizes_are_aligned_and_disjoint() {
    let heap = heap();
    let mut blocks = Vec::new();
    for round in 0..40 {
        for (size, align) in [(1, 1), (24, 8), (100, 64), (3000, 16), (40_000, 4096), (17, 4096)] {
            let layout = layout(size, align);
            // SAFETY: the size is not 0.
            let block = unsafe { heap.alloc(layout) };
            assert!(!block.is_null() && block.addr().is_multiple_of(align), "{layout:?}");
            // SAFETY: the block has `size` bytes.
            unsafe { block.write_bytes(round, size) };
            blocks.push((block, layout, round));
        }
    }
    for (block, layout, round) in blocks {
        // SAFETY: the block has `layout.size()` bytes, and the loop above has filled them all.
        let bytes = unsafe { core::slice::from_raw_parts(block, layout.size()) };
        assert!(bytes.iter().all(|&byte| byte == round), "{layout:?}");
        // SAFETY: `alloc` has returned the block for the same layout.
        unsafe { heap.dealloc(block, layout) };
    }
}

#[test]
fn a_freed_block_is_given_out_again_and_zeroed_if_asked() {
    let heap = heap();
    let layout = layout(200, 8);
    // SAFETY: the block has the layout's size, and `dealloc` gets the same layout.
    unsafe {
        let first = heap.alloc(layout);
        first.write_bytes(0xee, 200);
        heap.dealloc(first, layout);
        let second = heap.alloc_zeroed(layout);
        assert_eq!(second, first);
        assert_eq!(core::slice::from_raw_parts(second, 200), [0; 200]);
        heap.dealloc(second, layout);
    }
}

#[test]
fn an_alignment_beyond_a_page_is_refused() {
    // SAFETY: the size is not 0.
    unsafe {
        assert!(heap().alloc(layout(64, 8192)).is_null());
        assert!(heap().alloc_zeroed(layout(64, 8192)).is_null());
    }
}

#[test]
fn threads_share_a_heap_without_sharing_blocks() {
    static SHARED: Heap = Heap {
        lock: AtomicU32::new(0),
        lists: UnsafeCell::new(Lists { free: [null_mut(); CLASSES], fresh: null_mut(), left: 0 }),
    };
    std::thread::scope(|scope| {
        for mark in 1..5u8 {
            scope.spawn(move || {
                let layout = layout(48, 8);
                for _ in 0..5_000 {
                    // SAFETY: the block has the layout's size, and `dealloc` gets the same layout.
                    unsafe {
                        let block = SHARED.alloc(layout);
                        block.write_bytes(mark, 48);
                        assert_eq!(core::slice::from_raw_parts(block, 48), [mark; 48]);
                        SHARED.dealloc(block, layout);
                    }
                }
            });
        }
    });
}
