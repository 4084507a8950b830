//! Tests of the cost of registering.

use core::time::Duration;
use via::{MemAttributes, Memory, Nic};
use via_sim::{Config, Network, Registering};

/// Returns the time of registering `bytes` bytes, and of deregistering them.
fn took(config: Config, bytes: usize) -> [Duration; 2] {
    let network = Network::new(1, config);
    let nic = network.nic("a");
    let memory = Memory::zeroed(bytes);
    let begin = network.now();
    let handle = nic.register_mem(&memory, MemAttributes::default()).unwrap();
    let registered = network.now();
    nic.deregister_mem(handle).unwrap();
    [registered.since(begin), network.now().since(registered)]
}

#[test]
fn registering_takes_virtual_time_by_pages() {
    let costs = Registering {
        register: Duration::from_micros(100),
        register_page: Duration::from_micros(10),
        deregister: Duration::from_micros(1_000),
        deregister_page: Duration::from_micros(1),
        beside_mb: Duration::ZERO,
    };
    for config in [Config::default(), Config::default().live()] {
        assert_eq!(took(config, 8192), [Duration::ZERO; 2]);
        let costs = took(config.registering(costs), 8192 + 1);
        assert_eq!(costs, [130, 1_003].map(Duration::from_micros));
    }
}

/// Returns the time of registering and deregistering 4 bytes, with `held` other bytes registered.
fn beside(costs: Registering, held: usize) -> Duration {
    let network = Network::new(1, Config::default().registering(costs));
    // Memory that another node has registered must not count.
    let (nic, other) = (network.nic("a"), network.nic("b"));
    let memory = [Memory::zeroed(held.max(1)), Memory::zeroed(8 << 20), Memory::zeroed(4)];
    let attributes = MemAttributes::default();
    let held = (held > 0).then(|| nic.register_mem(&memory[0], attributes).unwrap());
    let _others = other.register_mem(&memory[1], attributes).unwrap();
    let begin = network.now();
    let handle = nic.register_mem(&memory[2], attributes).unwrap();
    nic.deregister_mem(handle).unwrap();
    let took = network.now().since(begin);
    held.into_iter().for_each(|held| nic.deregister_mem(held).unwrap());
    took
}

/// Checks the costs against ICS 2001, section 4.1.
#[test]
fn the_laws_of_m_via_and_clan() {
    let micros = |tenths: u64| Duration::from_nanos(tenths * 100);
    assert_eq!(beside(Registering::M_VIA, 0), micros(43));
    assert_eq!(beside(Registering::M_VIA, 2 << 20), micros(101));
    assert_eq!(beside(Registering::PUBLISHED, 0), micros(35));
    assert_eq!(beside(Registering::PUBLISHED, 2 << 20), micros(35));
}

#[test]
fn a_nic_says_whether_registering_is_free() {
    let free =
        |config| Network::new(1, config).nic("a").attributes().capabilities.registration_is_free;
    assert!(free(Config::default()));
    assert!(!free(Config::default().registering(Registering::PUBLISHED)));
}

/// Checks ICS 2001, table 3. From 4 bytes to 32 KB a copying send takes 272 µs more than native VIA, and copies twice.
#[test]
fn published_costs_cross_those_of_copying_at_1_kb() {
    let copying = |bytes: u32| Duration::from_nanos(272_000 / 2) * bytes / 32_768;
    let [register, deregister] = took(Config::default().registering(Registering::PUBLISHED), 1024);
    let both = register + deregister;
    assert!(both >= Duration::from_micros(3) && both <= Duration::from_micros(4));
    assert!(both > copying(512) && both < copying(1024), "{both:?}");
}
