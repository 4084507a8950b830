//! Scenarios whose figures the project stores.

use crate::scenario::{Death, Fault, Scenario, Traffic};
use core::time::Duration;
use sovia_link::stream::{Control, Timing};
use sovia_simnet::{Cable, Change, Fabric, NodeId, Part};

/// Cable of 10 Gbit/s with a latency of 1 µs, including its switch. The switch is a simple one, with 256 KB for each
/// port.
const ACCESS: Cable = Cable {
    rate: 1_250_000_000,
    latency: Duration::from_micros(1),
    queue: 256 << 10,
    mark_above: Some(64 << 10),
};
/// Cable of 40 Gbit/s.
const TRUNK: Cable = Cable { rate: 5_000_000_000, ..ACCESS };
/// Timing of NICs in software on Ethernet. A peer counts as lost after a quarter of a minute of silence.
const TIMING: Timing =
    Timing { first: Duration::from_millis(1), longest: Duration::from_secs(1), tries: Some(24) };
const WINDOW: usize = 512;
const BBR: Control = Control::Bbr;
const KB: u32 = 1 << 10;

/// Makes a fabric of leaves with `leaf_nodes` nodes. The spines carry half, or a quarter, of what a leaf's nodes can
/// send.
const fn leaf_spine(leaf_nodes: u32, spines: u32) -> Fabric {
    let reroute = Duration::from_millis(5);
    Fabric { leaf_nodes, spines, access: ACCESS, trunk: TRUNK, reroute }
}

/// Fabrics with an oversubscription of 2:1 with 16 nodes at a leaf, and of 4:1 with 64.
const TWO_TO_ONE: Fabric = leaf_spine(16, 2);
const FOUR_TO_ONE: Fabric = leaf_spine(64, 4);
const STAR: Fabric = Fabric::star(ACCESS);

fn scenario(name: &str, nodes: u32, fabric: Fabric, traffic: Traffic) -> Scenario {
    Scenario {
        name: name.into(),
        nodes,
        fabric,
        traffic,
        message: 64 * KB,
        messages: 4,
        depth: 2,
        window: WINDOW,
        control: Control::Fixed,
        timing: TIMING,
        faults: Vec::new(),
        deaths: Vec::new(),
        seed: 1,
    }
}

impl Scenario {
    fn messages(self, messages: u32, bytes: u32) -> Scenario {
        Scenario { messages, message: bytes, ..self }
    }

    fn fails(mut self, micros: u64, part: Part) -> Scenario {
        self.faults
            .push(Fault { after: Duration::from_micros(micros), change: Change::Fail(part) });
        self
    }

    fn recovers(mut self, micros: u64, part: Part) -> Scenario {
        let change = Change::Recover(part);
        self.faults.push(Fault { after: Duration::from_micros(micros), change });
        self
    }

    fn dies(mut self, micros: u64, node: u32) -> Scenario {
        self.deaths.push(Death { after: Duration::from_micros(micros), node: NodeId(node) });
        self
    }
}

/// Returns each scenario twice: with only the window, and with congestion control.
fn both(scenarios: Vec<Scenario>) -> Vec<Scenario> {
    let variants = |scenario: Scenario| {
        let fixed = Scenario { name: format!("{}, fixed", scenario.name), ..scenario.clone() };
        let bbr = Scenario { name: format!("{}, bbr", scenario.name), control: BBR, ..scenario };
        [fixed, bbr]
    };
    scenarios.into_iter().flat_map(variants).collect()
}

/// Returns the scenarios that take seconds. Every change is compared by them.
pub fn small() -> Vec<Scenario> {
    let trunk = Part::Trunk { leaf: 1, spine: 0 };
    let access = Part::Access(NodeId(5));
    let permutation = |name| scenario(name, 64, TWO_TO_ONE, Traffic::Permutation);
    both(vec![
        scenario("all to all, 16", 16, STAR, Traffic::AllToAll),
        scenario("all to all, 64", 64, TWO_TO_ONE, Traffic::AllToAll).messages(2, 8 * KB),
        permutation("permutation, 64").messages(16, 64 * KB),
        scenario("incast, 64:1", 65, STAR, Traffic::Incast(64)),
        scenario("incast of 8 KB, 64:1", 65, STAR, Traffic::Incast(64)).messages(8, 8 * KB),
        scenario("hot spot, 64 of 256", 256, FOUR_TO_ONE, Traffic::HotSpot(64)),
        permutation("trunk fails").messages(16, 64 * KB).fails(500, trunk),
        permutation("access fails for 20 ms")
            .messages(16, 64 * KB)
            .fails(500, access)
            .recovers(20_500, access),
        permutation("leaf fails for 20 ms")
            .messages(16, 64 * KB)
            .fails(500, Part::Leaf(2))
            .recovers(20_500, Part::Leaf(2)),
        scenario("node dies, all to all, 16", 16, STAR, Traffic::AllToAll).dies(500, 5),
        scenario("target dies, incast 64:1", 65, STAR, Traffic::Incast(64)).dies(2_000, 0),
    ])
}

/// Returns the scenarios that take longer.
pub fn large() -> Vec<Scenario> {
    let hot = |senders| {
        scenario(
            &format!("hot spot, {senders}:1"),
            senders + 1,
            FOUR_TO_ONE,
            Traffic::Incast(senders),
        )
    };
    both(vec![
        scenario("all to all, 256", 256, FOUR_TO_ONE, Traffic::AllToAll).messages(2, 16 * KB),
        scenario("permutation, 256", 256, FOUR_TO_ONE, Traffic::Permutation).messages(64, 64 * KB),
        scenario("spine fails for 20 ms, 256", 256, FOUR_TO_ONE, Traffic::Permutation)
            .messages(64, 64 * KB)
            .fails(2_000, Part::Spine(1))
            .recovers(22_000, Part::Spine(1)),
        (0..64).fold(
            scenario("64 of 4096 die, permutation", 4096, FOUR_TO_ONE, Traffic::Permutation)
                .messages(8, 64 * KB),
            |scenario, n| scenario.dies(300 + 10 * u64::from(n), 61 * n),
        ),
        scenario("permutation, 4096", 4096, FOUR_TO_ONE, Traffic::Permutation).messages(8, 64 * KB),
        Scenario {
            depth: 16,
            ..scenario("incast, 64:1, long", 65, STAR, Traffic::Incast(64)).messages(256, 64 * KB)
        },
        hot(256),
        hot(1024).messages(4, 16 * KB),
        hot(4095).messages(4, 16 * KB),
        scenario("hot spot, 1024 of 4096", 4096, FOUR_TO_ONE, Traffic::HotSpot(1024))
            .messages(4, 16 * KB),
    ])
}

/// Returns the scenarios for whole NICs, with a VI at each end of each flow.
pub fn vis() -> Vec<Scenario> {
    let access = Part::Access(NodeId(5));
    let all_to_all = |name| scenario(name, 16, STAR, Traffic::AllToAll).messages(4, 16 * KB);
    both(vec![
        all_to_all("VIs, all to all, 16"),
        scenario("VIs, permutation, 64", 64, TWO_TO_ONE, Traffic::Permutation),
        scenario("VIs, incast, 64:1", 65, STAR, Traffic::Incast(64)).messages(4, 16 * KB),
        all_to_all("VIs, access fails for 20 ms").fails(200, access).recovers(20_200, access),
        all_to_all("VIs, node cut off for good").fails(200, access),
    ])
}
