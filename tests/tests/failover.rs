//! Agents that are killed: their connections continue on TCP, and no program notices.

use sovia_tests::{
    Cluster, FarNic, FarPair, Launch, Nics, Outcome, Running, Stack, TempDir, accelerated, finish,
    until,
};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
const WENT_BACK: &str = "went back to TCP: an agent that carried the connection ended, or the two agents lost each other";

/// Both ends of a case of `apps-py/failover.py`, whose agents the test kills.
struct Ends {
    folder: TempDir,
    ends: Vec<Running>,
}

impl Ends {
    fn start(case: &str, rules: &str) -> Ends {
        let folder = TempDir::new();
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/apps-py/failover.py");
        let launch = |role: &str| {
            let folder = folder.path().to_str().expect("a plain name");
            Launch::new(Stack::Sovia, ["python3", program, role, folder, case])
                .verbose(true)
                .env("SOVIA_RULES", rules)
                .env("SOVIA_TEST_UNTIL_MET", "1")
                .start()
        };
        let ends = vec![launch("server"), launch("client")];
        Ends { folder, ends }
    }

    fn is_there(&self, what: &str) -> bool {
        self.folder.path().join(what).exists()
    }

    fn say(&self, what: &str) {
        std::fs::write(self.folder.path().join(what), "").expect("a file");
    }

    /// Each end has received many of the other's bytes, or reports an error.
    fn run(&self) {
        until("nothing is sent", || {
            self.is_there("running-server") || self.is_there("running-client")
        });
    }

    /// Both ends have moved to TCP, and have continued there.
    fn end(self) -> Vec<Outcome> {
        self.say("killed");
        std::thread::sleep(Duration::from_millis(300));
        self.say("enough");
        let outcomes = finish(self.ends, LIMIT);
        for outcome in &outcomes {
            assert!(accelerated(&outcome.stderr).is_some_and(|ends| ends > 0), "{outcome:?}");
            assert!(outcome.success() && outcome.stdout == "every byte\nend\n", "{outcome:?}");
        }
        outcomes
    }
}

/// The first agent, the second, both.
const VICTIMS: [&[usize]; 3] = [&[0], &[1], &[0, 1]];

/// Runs a case between two NICs, some of which are killed.
fn killed(case: &str) {
    for victims in VICTIMS {
        let nics = Nics::start(&[]);
        let ends = Ends::start(case, &nics.rules());
        ends.run();
        victims.iter().for_each(|&victim| nics.kill(victim));
        for outcome in ends.end() {
            assert!(outcome.stderr.contains(WENT_BACK), "{victims:?}: {outcome:?}");
        }
    }
}

macro_rules! killed {
    ($($case:ident),+ $(,)?) => {
        $(
            #[test]
            fn $case() {
                killed(stringify!($case));
            }
        )+
    };
}

killed!(
    both_ways,
    slow_readers,
    edges,
    one_way,
    questions,
    last_words,
    half_closed,
    shut_for_reading,
    relatives,
    becomes,
    starts
);

/// One end of a connection has its VI, and the other end has not requested its own again. Nothing tells the first end
/// whether the other end has moved to its VI.
#[test]
fn resting() {
    killed("resting");
}

/// Many frames get lost, so that each step of a rendezvous takes long.
#[test]
fn connections_whose_ends_are_just_meeting_go_on() {
    for victims in VICTIMS {
        let nics = Nics::start(&["--lose", "300000"]);
        let ends = Ends::start("beginnings", &nics.rules());
        ends.run();
        victims.iter().for_each(|&victim| nics.kill(victim));
        ends.end();
    }
}

/// An agent that its owner ends reports its end to the other agents. In a half-closed connection whose sender no
/// longer exists, nothing else notifies the writer. Without the report, the writer would wait until its agent gives
/// the other one up.
#[test]
fn agent_that_is_ended_says_so_to_far_ones() {
    let test = "agent_that_is_ended_says_so_to_far_ones";
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let Some(pair) = FarPair::start(test, &[]) else { return };
        let ends = Ends::start("half_closed", &pair.rules());
        ends.run();
        let [near, far] = pair.nics();
        near.signal(signal);
        for outcome in ends.end() {
            assert!(outcome.stderr.contains(WENT_BACK), "{outcome:?}");
        }
        until("the other one does not say so", || far.said().contains(": that agent has ended\n"));
    }
}

/// A program that is killed during a fallback takes bytes with it. The peer must not take this for the
/// end of the stream.
#[test]
fn program_killed_during_a_fallback_does_not_end_the_stream_early() {
    for victims in VICTIMS {
        // Lose frames, so that many bytes are under way.
        let nics = Nics::start(&["--lose", "300000"]);
        let mut ends = Ends::start("killed_over_it", &nics.rules());
        ends.run();
        victims.iter().for_each(|&victim| nics.kill(victim));
        ends.say("killed");
        let client = ends.ends.pop().expect("two ends");
        assert!(!ends.ends.pop().expect("two ends").finish(LIMIT).success(), "it is killed");
        ends.say("enough");
        let outcome = client.finish(LIMIT);
        assert!(outcome.success() && outcome.stdout == "told of it\nend\n", "{outcome:?}");
    }
}

/// Frames get lost, duplicated, reordered and corrupt, so that more bytes are under way when the
/// agents die.
#[test]
fn what_was_on_its_way_is_sent_again() {
    for victims in VICTIMS {
        let nics = Nics::start(sovia_tests::LOSSY);
        let ends = Ends::start("both_ways", &nics.rules());
        ends.run();
        victims.iter().for_each(|&victim| nics.kill(victim));
        ends.end();
    }
}

/// Between hosts: the next agent carries new connections, and earlier ones continue on TCP.
#[test]
fn redis_outlives_agents_that_are_killed_and_started_again() {
    let test = "redis_outlives_agents_that_are_killed_and_started_again";
    let Some(cluster) = Cluster::new(test, 2, &["redis-server", "redis-benchmark"]) else { return };
    let Some(agents) = cluster.agents(test) else { return };
    let mut agents: Vec<Option<FarNic>> = agents.into_iter().map(Some).collect();
    let server = cluster.redis();
    let met = |agents: &[Option<FarNic>]| agents.iter().flatten().map(FarNic::meetings).sum();
    for victims in VICTIMS {
        let clients = cluster.asks(1, "redis_until_told");
        let accelerated = || clients.stdout_so_far().contains("accelerated\n");
        until("it is not accelerated", accelerated);
        // Runs 50 clients for as long as the test takes. Prints four times a second how much was served.
        let benchmark = cluster.benchmark_for_ever(1);
        let is_some = |said: &&str| !said.starts_with("0.0 ");
        let served = || benchmark.stdout_so_far().split("rps=").skip(1).filter(is_some).count();
        until("nothing is served", || served() >= 2);
        let before: usize = met(&agents);
        victims.iter().for_each(|&victim| drop(agents[victim].take()));
        let so_far = served();
        until("nothing is served without the agents", || served() >= so_far + 2);
        for &victim in victims {
            agents[victim] = cluster.agent(test, victim);
        }
        until("the agents do not meet again", || met(&agents) > before);
        benchmark.signal(libc::SIGINT);
        let outcome = benchmark.finish(LIMIT);
        let said = [&outcome.stdout, &outcome.stderr];
        assert!(said.iter().all(|said| !said.contains("rror")), "{outcome:?}");
        cluster.enough();
        let outcome = clients.finish(LIMIT);
        assert!(
            outcome.success() && outcome.stdout == "accelerated\nno longer\nok\n",
            "{outcome:?}"
        );
        assert!(outcome.stderr.contains(WENT_BACK), "{outcome:?}");
        cluster.begin_again();
    }
    server.signal(libc::SIGTERM);
    let served = server.finish(LIMIT);
    assert!(served.success() && served.stderr.contains(WENT_BACK), "{served:?}");
}
