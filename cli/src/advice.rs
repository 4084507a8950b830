//! Advice that would move a connection from TCP to a VI.

use sovia_control::{Reason, Rules, env};

/// Facts about a connection's two ends that the advice depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ends {
    /// User of this end.
    pub user: String,
    /// User of the other end, if known.
    pub other_user: Option<String>,
    /// Command of the other end's program, if known.
    pub other_command: Option<String>,
    /// Rules that this end's program follows.
    pub rules: Option<String>,
    /// True if the peer's address always belongs to this host.
    pub is_loopback: bool,
}

/// Returns the advice in lines; empty if there is nothing to do.
pub fn advice(reason: Reason, ends: &Ends) -> Vec<String> {
    let line = |text: &str| vec![text.to_owned()];
    let user = &ends.user;
    let other = ends.other_user.as_deref().unwrap_or("USER");
    match reason {
        Reason::PeerPlain => match &ends.other_command {
            Some(command) => vec![format!("start the other end with:  sovia run -- {command}")],
            None => line("start the other end's program with:  sovia run -- PROGRAM"),
        },
        Reason::OtherUser => vec![
            format!("start this end with:       sovia run --trust user={other} -- PROGRAM"),
            format!("start the other end with:  sovia run --trust user={user} -- PROGRAM"),
            "each end then shares memory with the other user's processes (docs/howto/users-and-sandboxes.md)".to_owned(),
        ],
        Reason::Rule => match &ends.rules {
            Some(rules) if let Some(why) = fault_of(rules) => {
                vec![format!("correct the rules `{rules}`, which keep all connections on TCP: {why}")]
            }
            Some(rules) => vec![format!("change the rule of --only or --except that keeps the connection on TCP; the rules are: {rules}")],
            None => line("change the rule of --only or --except that keeps the connection on TCP"),
        },
        Reason::PeerNotLocal | Reason::NoAgent if ends.is_loopback => {
            line("not possible: the other end is in another network namespace")
        }
        Reason::PeerNotLocal => vec![
            "if the other end is in another network namespace of this host, start an agent:  sudo sovia agent".to_owned(),
            format!("and start both ends with:  sovia run --trust user={user} -- PROGRAM"),
            "if the other end is on another host, run an agent on each host (docs/reference/hosts.md), and start both ends with:  sovia run --nic name=NAME -- PROGRAM".to_owned(),
        ],
        Reason::NoAgent => vec![
            "start an agent on this host:  sudo sovia agent".to_owned(),
            "in a container, also mount the host's /run/sovia (docs/howto/users-and-sandboxes.md)".to_owned(),
        ],
        Reason::VersionMismatch => line("restart the end that has the older library"),
        Reason::NoMemory => line("raise ulimit -f, or the memory limit of the control group"),
        Reason::AddressSpace => line("run this before you start the program:  ulimit -v unlimited"),
        Reason::NoDescriptors => line("run this before you start the program:  ulimit -n 4096"),
        Reason::NoThread => line("raise ulimit -u, or TasksMax of the unit"),
        Reason::OwnerUnknown => {
            line("allow AF_NETLINK in the unit:  RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK")
        }
        Reason::NotTraceable => vec![
            format!("start both ends with:  sovia run --trust user={user} -- PROGRAM"),
            "the two processes differ in capabilities, labels or sandboxes, so the kernel lets neither process read the other's memory".to_owned(),
        ],
        Reason::UnknownUser => line("map the user's ID into the user namespace (newuidmap)"),
        Reason::UnknownLibc => {
            line("run the program on a system with a glibc that Sovia knows (docs/reference/functions.md)")
        }
        Reason::TableFull => line("not possible: Sovia's tables have no room for more connections at the same time"),
        Reason::SharedByProcesses => {
            line("nothing, while several processes read the connection. Once only one process has the connection, Sovia accelerates it")
        }
        Reason::FallbackExec => {
            line("make sure that the program keeps PATH and the environment when it executes another program: the other program then runs under Sovia as well")
        }
        Reason::FallbackUlp => line("switch off kernel TLS (in OpenSSL: no `Options = KTLS`) and socket filters"),
        Reason::FallbackPassed => line("run the process that receives the descriptor under Sovia as well"),
        Reason::FallbackCall => {
            line("avoid splice, MSG_OOB and O_ASYNC: docs/reference/functions.md lists the supported calls")
        }
        Reason::FallbackCredentials => {
            line("not possible for this connection. Sovia accelerates later connections if the rules allow their peers")
        }
        Reason::Filter => line("not possible: only the program knows which system calls its seccomp filter allows"),
        Reason::NicGone | Reason::BrokenOff => {
            line("run `sovia agent --name` on both hosts: new connections are then accelerated")
        }
        Reason::PacketFilter => vec![
            "find the filters with:  sudo sovia doctor".to_owned(),
            "accept local packets by a rule in front of these filters, such as `iif lo accept`".to_owned(),
            "or leave out --respect-filters: accelerated connections then bypass filters".to_owned(),
        ],
        Reason::NoNic => {
            let name = ends.rules.as_deref().and_then(agent_in).unwrap_or("NAME");
            vec![format!(
                "start an agent on this host as the same user, or correct the name in --nic (docs/reference/hosts.md):  sovia agent --name {name} --listen ..."
            )]
        }
        Reason::SwitchedOff => line("switch Sovia on again (as root if root switched Sovia off):  sovia on"),
        Reason::NoFilterAgent => line("start an agent on this host:  sudo sovia agent --filters"),
        Reason::HalfClosed => line("make the ends look for each other at once, before the program shuts down a direction:  SOVIA_MEET=0"),
        Reason::ShortLived => line("make the ends look for each other at once, with the first transfer:  SOVIA_MEET=0"),
        Reason::FallbackPeer => line("not possible at this end: run `sovia explain` for the other end's process, which knows the reason"),
        Reason::Corrupt | Reason::Replaced => {
            line("report this fault of the program or of Sovia: see CONTRIBUTING.md, \"To report a fault\"")
        }
        Reason::NotTaken => line("nothing: Sovia tries again later. If the other end's program does not run under Sovia, start it with:  sovia run -- PROGRAM"),
        Reason::FewMessages => line("to let the agent carry such connections too, add messages=1 to the rule:  --nic name=NAME,messages=1"),
        Reason::NotOffered => vec![
            "if the other end has a rule for its agent, it waits for more messages at the same time".to_owned(),
            "otherwise start it with:  sovia run --nic name=NAME -- PROGRAM".to_owned(),
        ],
        Reason::NotConnected | Reason::NeverConnected | Reason::Relayed => Vec::new(),
    }
}

/// Returns the fault of rules that the library cannot parse. Rules of the system's file are valid, and end with the
/// file's path: with an invalid file, the library has no connections.
fn fault_of(rules: &str) -> Option<String> {
    let file = format!(" ({})", env::SYSTEM_RULES.to_string_lossy());
    Rules::parse(rules.strip_suffix(&file).unwrap_or(rules)).err().map(|error| error.to_string())
}

/// Returns the agent's name, if exactly one rule `nic:` names an agent.
fn agent_in(rules: &str) -> Option<&str> {
    let rules = rules.split(';').filter_map(|rule| rule.trim().strip_prefix("nic:"));
    let terms = rules.flat_map(|spec| spec.split(','));
    let mut names = terms.filter_map(|term| term.trim().strip_prefix("name="));
    names.next().filter(|_| names.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_rules(rules: &str) -> Ends {
        Ends { rules: Some(rules.to_owned()), ..Ends::default() }
    }

    #[test]
    fn advice_names_the_agent_of_the_rule() {
        let advice = |rules| advice(Reason::NoNic, &with_rules(rules)).concat();
        assert!(advice("only:port=1;nic:port=2,name=net1").contains("--name net1 "));
        assert!(advice("nic:name=net1;nic:name=net2").contains("--name NAME "));
        assert!(advice("only:port=1").contains("--name NAME "));
    }

    #[test]
    fn advice_on_invalid_rules_says_what_is_wrong() {
        let line = advice(Reason::Rule, &with_rules("onlyport=1")).concat();
        assert!(line.contains("correct the rules `onlyport=1`"), "{line}");
        let line = advice(Reason::Rule, &with_rules("only:port=1")).concat();
        assert!(line.contains("the rules are: only:port=1"), "{line}");
        let line = advice(Reason::Rule, &with_rules("only:port=1 (/etc/sovia/rules)")).concat();
        assert!(line.contains("the rules are: only:port=1 ("), "{line}");
    }

    #[test]
    fn advice_names_both_users() {
        let ends =
            Ends { user: "redis".into(), other_user: Some("www-data".into()), ..Ends::default() };
        let lines = advice(Reason::OtherUser, &ends);
        assert!(lines[0].contains("--trust user=www-data"));
        assert!(lines[1].contains("--trust user=redis"));
    }

    #[test]
    fn advice_names_the_command() {
        let other_command = Some("redis-cli -p 7000".to_owned());
        let lines = advice(Reason::PeerPlain, &Ends { other_command, ..Ends::default() });
        assert_eq!(lines, ["start the other end with:  sovia run -- redis-cli -p 7000"]);
    }

    #[test]
    fn no_advice_is_a_sentence_without_words() {
        for &reason in Reason::ALL {
            assert!(advice(reason, &Ends::default()).iter().all(|line| line.len() > 20));
        }
    }
}
