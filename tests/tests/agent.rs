//! Programs that cannot see each other, and the agent that identifies them. Needs root, for network namespaces.

use sovia_tests::{
    Agent, Hosts, Launch, Outcome, Running, Stack, TempDir, all_may_read, installed, skipped, until,
};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const WATCHDOG: Duration = Duration::from_secs(120);
const PORT: &str = "7531";
const NO_AGENT: &str = "no `sovia agent` runs here";
const ELSEWHERE: &str = "the peer is on another machine";

/// Two network namespaces, and a folder for the agent that every user may enter.
struct Scene {
    hosts: Hosts,
    folder: TempDir,
}

impl Scene {
    fn set(test: &str) -> Option<Scene> {
        if skipped(test, &["python3", "setpriv", "unshare", "ip"]) {
            return None;
        }
        if !all_may_read(&sovia_tests::sovia()) || !all_may_read(&script()) {
            println!("SKIPPED: {test}: other users may not read the build");
            return None;
        }
        let Some(hosts) = Hosts::new() else {
            println!("SKIPPED: {test}: no network namespace can be made");
            return None;
        };
        let folder = TempDir::new();
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), all).expect("the folder is this process's");
        Some(Scene { hosts, folder })
    }

    /// Makes the scene and starts an agent.
    fn with_agent(test: &str) -> Option<(Scene, Agent)> {
        let scene = Scene::set(test)?;
        match Agent::start(&scene.folder) {
            Ok(agent) => Some((scene, agent)),
            Err(said) if said.contains("needs CAP_NET_ADMIN") => {
                println!("SKIPPED: {test}: {}", said.trim());
                None
            }
            Err(said) => panic!("{said}"),
        }
    }

    /// Starts one end with rules, as the user that `prefix` selects.
    fn start(&self, prefix: &str, user: u32, rules: &str, words: &[&str]) -> Running {
        let user = format!("setpriv --reuid {user} --regid {user} --clear-groups");
        let agent = format!("env SOVIA_AGENT={}", Agent::path(&self.folder).display());
        let rules = format!("SOVIA_RULES={rules}");
        let mut command: Vec<String> = [prefix, &user, &agent, &rules]
            .iter()
            .flat_map(|words| words.split_whitespace())
            .map(Into::into)
            .collect();
        command.push(sovia_tests::sovia().display().to_string());
        command.extend(["run", "-v", "--"].map(Into::into));
        command.extend([python().display().to_string(), script().display().to_string()]);
        command.extend(words.iter().map(|&word| word.into()));
        Launch::new(Stack::Kernel, command).start()
    }

    /// Starts two ends; the answering one is in the second namespace.
    fn converse(&self, rules: [&str; 2], connections: &str, case: &[&str]) -> [Running; 2] {
        let address = Hosts::ADDRESSES[1];
        let answers = ["answer", address, PORT, connections];
        let asks = [&["ask", case[0], address, PORT], &case[1..]].concat();
        [
            self.start(&self.hosts.prefix(1), 4001, rules[0], &answers),
            self.start(&self.hosts.prefix(0), 4002, rules[1], &asks),
        ]
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-py/neighbours.py")
}

/// Returns the interpreter that other users may run too.
fn python() -> PathBuf {
    let common = PathBuf::from("/usr/bin/python3");
    if common.exists() { common } else { installed("python3").expect("looked for before") }
}

fn finish(ends: [Running; 2]) -> [Outcome; 2] {
    let ends = ends.map(|end| end.finish(WATCHDOG));
    for end in &ends {
        assert!(end.success() && end.stdout.ends_with("ok\n"), "{ends:#?}");
    }
    ends
}

const TRUST: [&str; 2] = ["trust:uid=4002", "trust:uid=4001"];

#[test]
fn two_network_namespaces_meet_by_the_agent() {
    let Some((scene, _agent)) = Scene::with_agent("two_network_namespaces_meet_by_the_agent")
    else {
        return;
    };
    let ends = finish(scene.converse(TRUST, "1", &["once"]));
    assert_eq!(ends[1].stdout, "accelerated\nok\n", "{ends:#?}");
    for end in &ends {
        assert!(end.stderr.contains("accelerated: 1 end"), "{ends:#?}");
    }
}

/// Each connection must be proved again: an earlier meeting of the two processes proves nothing about
/// it.
#[test]
fn later_connections_of_the_two_meet_as_well() {
    let Some((scene, _agent)) = Scene::with_agent("later_connections_of_the_two_meet_as_well")
    else {
        return;
    };
    let ends = finish(scene.converse(TRUST, "8", &["many"]));
    assert_eq!(ends[1].stdout, "accelerated\n".repeat(8) + "ok\n", "{ends:#?}");
}

#[test]
fn without_an_agent_they_stay_on_tcp_and_say_so() {
    let Some(scene) = Scene::set("without_an_agent_they_stay_on_tcp_and_say_so") else { return };
    let ends = finish(scene.converse(TRUST, "1", &["on_tcp"]));
    assert_eq!(ends[1].stdout, "tcp\nok\n", "{ends:#?}");
    for end in &ends {
        assert!(end.stderr.contains(NO_AGENT), "{ends:#?}");
    }
}

#[test]
fn without_a_rule_at_both_ends_they_stay_on_tcp() {
    let Some((scene, _agent)) = Scene::with_agent("without_a_rule_at_both_ends_they_stay_on_tcp")
    else {
        return;
    };
    for (rules, reason) in [
        (["", TRUST[1]], ELSEWHERE),
        ([TRUST[0], ""], ELSEWHERE),
        // The agent has connected the two, if it was fast enough.
        (["trust:uid=4003", TRUST[1]], "the other end belongs to another user"),
        ([TRUST[0], "trust:uid=4003"], "the other end belongs to another user"),
    ] {
        let ends = finish(scene.converse(rules, "1", &["on_tcp"]));
        assert_eq!(ends[1].stdout, "tcp\nok\n", "{ends:#?}");
        let says = |reason: &str| ends.iter().any(|end| end.stderr.contains(reason));
        assert!(says(reason) || says(ELSEWHERE), "{ends:#?}");
    }
}

/// Programs that the agent has connected do not need it any more, and find the next agent.
#[test]
fn an_agent_is_started_again_without_its_programs() {
    let test = "an_agent_is_started_again_without_its_programs";
    let Some((scene, agent)) = Scene::with_agent(test) else { return };
    let folder = scene.folder.path().display().to_string();
    let ends = scene.converse(TRUST, "2", &["again", "", &folder]);
    until("the first connection is accelerated", || ends[1].stdout_so_far() == "accelerated\n");
    drop(agent);
    let _agent = Agent::start(&scene.folder).expect("another agent in its place");
    std::fs::write(scene.folder.path().join("go_on"), "").expect("a note");
    let ends = finish(ends);
    assert_eq!(ends[1].stdout, "accelerated\naccelerated\nok\n", "{ends:#?}");
}

#[test]
fn stopped_agent_does_not_delay_programs() {
    let test = "stopped_agent_does_not_delay_programs";
    let Some((scene, agent)) = Scene::with_agent(test) else { return };
    agent.signal(libc::SIGSTOP);
    let folder = scene.folder.path().display().to_string();
    let ends = scene.converse(TRUST, "1", &["stopped", "", &folder]);
    until("the conversation goes on", || ends[1].stdout_so_far() == "went on\n");
    agent.signal(libc::SIGCONT);
    std::fs::write(scene.folder.path().join("go_on"), "").expect("a note");
    let ends = finish(ends);
    assert_eq!(ends[1].stdout, "went on\naccelerated\nok\n", "{ends:#?}");
}

/// The kernel does not show one namespace the other's sockets, except that a connection has ended.
#[test]
fn the_end_of_a_process_that_is_killed_is_seen() {
    let Some((scene, _agent)) = Scene::with_agent("the_end_of_a_process_that_is_killed_is_seen")
    else {
        return;
    };
    let [answers, asks] = scene.converse(TRUST, "1", &["killed"]);
    let asks = asks.finish(WATCHDOG);
    assert!(asks.stdout.starts_with("accelerated\n"), "{asks:#?}");
    let answers = answers.finish(WATCHDOG);
    assert!(answers.success() && answers.stdout == "ok\n", "{answers:#?}");
}

/// Two connections with the very same addresses and ports, each between namespaces of its own. All four ends look for
/// their peers at once, and no end may meet the wrong one. Otherwise the received bytes would be those of the other
/// connection.
#[test]
fn ends_of_another_connection_with_the_same_addresses_are_told_apart() {
    let test = "ends_of_another_connection_with_the_same_addresses_are_told_apart";
    let Some((scene, _agent)) = Scene::with_agent(test) else { return };
    let Some(others) = Hosts::new() else { return };
    let address = Hosts::ADDRESSES[1];
    let (answers, asks) = (["answer", address, PORT, "1"], ["ask", "once", address, PORT, "33333"]);
    let all = [&scene.hosts, &others].map(|hosts| {
        [
            scene.start(&hosts.prefix(1), 4001, "trust:any", &answers),
            scene.start(&hosts.prefix(0), 4002, "trust:any", &asks),
        ]
    });
    for ends in all {
        let ends = finish(ends);
        assert_eq!(ends[1].stdout, "accelerated\nok\n", "{ends:#?}");
    }
}

/// In one network namespace, neither end can find out the user of the other; the agent can.
#[test]
fn a_user_without_a_number_is_trusted_with_any_user() {
    let test = "a_user_without_a_number_is_trusted_with_any_user";
    let Some((scene, _agent)) = Scene::with_agent(test) else { return };
    let apart = "unshare --user --map-root-user";
    for (rules, case, expected) in
        [("trust:any", "once", "accelerated\nok\n"), ("trust:uid=4001", "on_tcp", "tcp\nok\n")]
    {
        let port = sovia_tests::free_port().to_string();
        let answers = ["answer", "127.0.0.1", &port, "1"];
        let asks = ["ask", case, "127.0.0.1", &port];
        let ends = [
            scene.start("", 4001, "trust:any", &answers),
            // Root of the namespace cannot become another user.
            Launch::new(Stack::Kernel, {
                let mut words: Vec<String> = apart.split_whitespace().map(Into::into).collect();
                words.extend(["env".into(), format!("SOVIA_RULES={rules}")]);
                words.push(format!("SOVIA_AGENT={}", Agent::path(&scene.folder).display()));
                words.push(sovia_tests::sovia().display().to_string());
                words.extend(["run", "-v", "--"].map(Into::into));
                words.extend([python().display().to_string(), script().display().to_string()]);
                words.extend(asks.map(Into::into));
                words
            })
            .start(),
        ];
        let ends = finish(ends);
        assert_eq!(ends[1].stdout, expected, "{ends:#?}");
    }
}

/// A socket that another user has put in the agent's place.
#[test]
fn agent_of_another_user_receives_nothing() {
    let Some(scene) = Scene::set("agent_of_another_user_receives_nothing") else { return };
    let folder = scene.folder.path();
    let all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder, all).expect("the folder is this process's");
    let listens = "import os, socket, sys, time; os.umask(0); s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); \
                   s.bind(sys.argv[1]); s.listen(); print('listens', flush=True); c, _ = s.accept(); \
                   print('heard', len(c.recv(999)), flush=True); time.sleep(999)";
    let path = Agent::path(&scene.folder).display().to_string();
    let python = python().display().to_string();
    let words = ["setpriv", "--reuid", "4003", "--regid", "4003", "--clear-groups", &python, "-c"];
    let words = words.into_iter().chain([listens, &path]);
    let impostor = Launch::new(Stack::Kernel, words).start();
    until("the impostor listens", || impostor.stdout_so_far().starts_with("listens\n"));
    let ends = finish(scene.converse(TRUST, "1", &["on_tcp"]));
    assert_eq!(ends[1].stdout, "tcp\nok\n", "{ends:#?}");
    // A connection alone sends no bytes.
    until("the impostor has heard the end", || impostor.stdout_so_far().contains("heard"));
    assert_eq!(impostor.stdout_so_far(), "listens\nheard 0\n");
}
