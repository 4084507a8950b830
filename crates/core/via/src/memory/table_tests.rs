use super::*;
use crate::memory::RegionCache;

fn table() -> MemoryTable {
    MemoryTable::new(Limits { regions: 4, bytes: 10_000, block_bytes: 8_192, ptags: 3 })
}

fn of(ptag: Ptag) -> MemAttributes {
    MemAttributes { ptag: Some(ptag), ..MemAttributes::default() }
}

#[test]
fn a_stale_handle_finds_nothing() {
    let table = table();
    let memory = Memory::zeroed(64);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..1000 {
        let handle = table.register(&memory, MemAttributes::default()).unwrap();
        assert!(seen.insert(handle), "a handle came back");
        assert!(table.find(handle.raw()).is_some());
        table.deregister(handle).unwrap();
        assert!(table.find(handle.raw()).is_none());
        assert_eq!(table.deregister(handle).unwrap_err(), MemError::UnknownHandle);
    }
    assert!(table.find(0).is_none() && table.find(u32::MAX).is_none());
}

#[test]
fn a_cache_notices_what_has_gone_or_changed() {
    let table = table();
    let memory = Memory::zeroed(64);
    let (ours, other) = (table.default_ptag(), table.create_ptag().unwrap());
    let handle = table.register(&memory, MemAttributes::default()).unwrap();
    let mut cache = RegionCache::default();
    assert!(cache.find(&table, handle.raw(), ours).is_some());
    assert!(cache.find(&table, handle.raw(), other).is_none());
    table.set_attributes(handle, of(other)).unwrap();
    assert!(cache.find(&table, handle.raw(), ours).is_none());
    assert!(cache.find(&table, handle.raw(), other).is_some());
    table.deregister(handle).unwrap();
    assert!(cache.find(&table, handle.raw(), other).is_none());
}

#[test]
fn limits_hold_and_come_back() {
    let table = table();
    let small = Memory::zeroed(64);
    assert_eq!(
        table.register(&Memory::zeroed(8_193), MemAttributes::default()),
        Err(RegisterError::TooManyBytes)
    );
    let large = table.register(&Memory::zeroed(8_192), MemAttributes::default()).unwrap();
    assert_eq!(
        table.register(&Memory::zeroed(4_096), MemAttributes::default()),
        Err(RegisterError::TooManyBytes)
    );
    for _ in 0..3 {
        table.register(&small, MemAttributes::default()).unwrap();
    }
    assert_eq!(
        table.register(&small, MemAttributes::default()),
        Err(RegisterError::TooManyRegions)
    );
    table.deregister(large).unwrap();
    table.register(&Memory::zeroed(4_096), MemAttributes::default()).unwrap();
}

#[test]
fn a_tag_in_use_stays() {
    let table = table();
    let tag = table.create_ptag().unwrap();
    let handle = table.register(&Memory::zeroed(64), of(tag)).unwrap();
    assert_eq!(table.destroy_ptag(tag), Err(PtagError::InUse));
    assert_eq!(table.hold_ptag(Some(tag)), Ok(tag));
    table.deregister(handle).unwrap();
    assert_eq!(table.destroy_ptag(tag), Err(PtagError::InUse));
    table.release_ptag(tag);
    assert_eq!(table.destroy_ptag(tag), Ok(()));
    assert_eq!(table.destroy_ptag(tag), Err(PtagError::Unknown));
    assert_eq!(table.hold_ptag(Some(tag)), Err(PtagError::Unknown));
    assert_eq!(table.register(&Memory::zeroed(64), of(tag)), Err(RegisterError::UnknownPtag));
    assert_eq!(table.destroy_ptag(table.default_ptag()), Err(PtagError::InUse));
    for _ in 0..2 {
        table.create_ptag().unwrap();
    }
    assert_eq!(table.create_ptag(), Err(PtagError::TooMany));
}
