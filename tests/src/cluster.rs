//! Several hosts on a switch, each with an agent that knows all others.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use crate::far::{FarNic, Key};
use crate::hosts::Hosts;
use crate::launch::{Launch, Running};
use crate::pairing::Stack;
use crate::programs::skipped;
use crate::until::until;
use crate::workspace::{TempDir, all_may_read, sovia};

/// Port of Redis, and port on which agents receive from each other.
const PORT: &str = "7542";
const AGENTS: u16 = 7471;
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/apps-py/neighbours.py");

/// Hosts on a switch, whose programs and agents run as one user.
#[derive(Debug)]
pub struct Cluster {
    hosts: Hosts,
    folder: TempDir,
    keys: Vec<Key>,
    /// Words that start a program as this user, and words that start an agent as this user, with the capabilities for
    /// its start.
    user: [String; 2],
}

impl Cluster {
    /// Makes hosts for root. Returns `None`, and prints the reason, if there can be none.
    ///
    /// # Panics
    /// If anything else that it needs cannot be made.
    pub fn new(test: &str, count: usize, programs: &[&str]) -> Option<Self> {
        if skipped(test, &[&["ip", "python3"], programs].concat()) {
            return None;
        }
        let Some(hosts) = Hosts::on_a_switch(count) else {
            println!("SKIPPED: {test}: no network namespace can be made");
            return None;
        };
        let folder = TempDir::new();
        let keys: Vec<Key> = (0..count).map(|n| Key::new(&folder, &format!("key{n}"))).collect();
        // Each agent knows all others from a file.
        for own in 0..count {
            let others = (0..count).filter(|&other| other != own);
            let line = |n: usize| format!("{} {} # host {n}\n", keys[n].public, place(n));
            let lines: String = others.map(line).collect();
            std::fs::write(folder.path().join(format!("peers{own}")), lines).expect("a file");
        }
        Some(Self { hosts, folder, keys, user: Default::default() })
    }

    /// Makes hosts for a user without privileges. Its agents get only the capabilities for their
    /// start.
    ///
    /// # Panics
    /// If anything that it needs cannot be made.
    pub fn of_user(test: &str, user: u32, count: usize, programs: &[&str]) -> Option<Self> {
        if skipped(test, &["setpriv"]) {
            return None;
        }
        if !all_may_read(&sovia()) || !all_may_read(Path::new(SCRIPT)) {
            println!("SKIPPED: {test}: other users may not read the build");
            return None;
        }
        let mut cluster = Self::new(test, count, programs)?;
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(cluster.folder.path(), all).expect("the folder is this process's");
        for key in &cluster.keys {
            chown(key.file(), Some(user), Some(user)).expect("the file is this process's");
        }
        let program = format!("setpriv --reuid {user} --regid {user} --clear-groups");
        // CAP_NET_ADMIN and CAP_BPF; an old setpriv has no name for the second.
        let capabilities = "+net_admin,+cap_39";
        let agent = format!("{program} --inh-caps {capabilities} --ambient-caps {capabilities}");
        cluster.user = [program, agent];
        Some(cluster)
    }

    /// Starts the agent of a host. Returns `None`, and prints the reason, if there can be none
    /// here.
    ///
    /// # Panics
    /// If the agent does not start for another reason.
    pub fn agent(&self, test: &str, host: usize) -> Option<FarNic> {
        let prefix = format!("{} {}", self.hosts.prefix(host), self.user[1]);
        let file = self.folder.path().join(format!("peers{host}"));
        let options = ["--peers", file.to_str().expect("a plain name")];
        let (place, name) = (place(host), name(host));
        let at = (place.as_str(), &self.keys[host]);
        FarNic::start_with(&self.folder, &prefix, &name, at, &options)
            .inspect_err(|said| FarNic::cannot(test, said))
            .ok()
    }

    /// Starts all agents, and waits until they have met.
    ///
    /// # Panics
    /// If they do not meet.
    pub fn agents(&self, test: &str) -> Option<Vec<FarNic>> {
        let count = self.keys.len();
        let agents: Vec<FarNic> = (0..count).map_while(|host| self.agent(test, host)).collect();
        if agents.len() < count {
            return None;
        }
        until("the agents do not meet", || agents.iter().all(|it| it.meetings() >= count - 1));
        Some(agents)
    }

    /// Starts a program on a host, with a rule that the agent carries its connections.
    pub fn start(&self, host: usize, words: &[&str]) -> Running {
        let prefix = format!("{} {}", self.hosts.prefix(host), self.user[0]);
        let prefix: Vec<&str> = prefix.split_whitespace().collect();
        Launch::new(Stack::Sovia, words)
            .by(&prefix)
            .verbose(true)
            .env("SOVIA_RULES", &format!("nic:name={},messages=1", name(host)))
            .current_dir(self.folder.path())
            .start()
    }

    /// Starts Redis on the first host.
    ///
    /// # Panics
    /// If it does not start.
    pub fn redis(&self) -> Running {
        let server = ["redis-server", "--port", PORT, "--bind", Hosts::ADDRESSES[0]];
        let server = [&server[..], &["--protected-mode", "no", "--save", ""]].concat();
        let server = self.start(0, &server);
        until("the server does not listen", || server.stdout_so_far().contains("Ready to accept"));
        server
    }

    /// Starts a client of Redis on a host: a case of `apps-py/neighbours.py`.
    pub fn asks(&self, host: usize, case: &str) -> Running {
        let folder = self.folder.path().to_str().expect("a plain name");
        self.start(host, &["python3", SCRIPT, "ask", case, Hosts::ADDRESSES[0], PORT, "", folder])
    }

    /// Starts redis-benchmark on a host with this number of requests.
    pub fn benchmark(&self, host: usize, requests: u32) -> Running {
        let (address, requests) = (Hosts::ADDRESSES[0], requests.to_string());
        let at = ["redis-benchmark", "-h", address, "-p", PORT, "-q", "-t", "set,get"];
        self.start(host, &[&at[..], &["-c", "20", "-n", &requests]].concat())
    }

    /// Starts 50 clients, which stay connected until they are interrupted.
    pub fn benchmark_for_ever(&self, host: usize) -> Running {
        let at = ["redis-benchmark", "-h", Hosts::ADDRESSES[0], "-p", PORT, "-q", "-t", "set,get"];
        self.start(host, &[&at[..], &["-c", "50", "-n", "2000000000", "-d", "3000"]].concat())
    }

    /// Ends the clients that ask until they are told to stop.
    ///
    /// # Panics
    /// If the file that tells them cannot be written.
    pub fn enough(&self) {
        std::fs::write(self.folder.path().join("enough"), "").expect("a file");
    }

    /// Lets clients that are started from here on ask again.
    ///
    /// # Panics
    /// If the file that ends them cannot be removed.
    pub fn begin_again(&self) {
        std::fs::remove_file(self.folder.path().join("enough")).expect("it has been said");
    }
}

fn place(host: usize) -> String {
    format!("{}:{AGENTS}", Hosts::ADDRESSES[host])
}

fn name(host: usize) -> String {
    format!("host{host}")
}
