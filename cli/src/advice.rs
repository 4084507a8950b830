//! What would change that a connection is on TCP.

use sovia_control::Reason;

/// What is known of a connection's two ends, as far as an advice needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ends {
    /// The user of this end.
    pub user: String,
    /// The user of the other end, if it is known.
    pub other_user: Option<String>,
    /// The command of the other end's program, if it is known.
    pub other_command: Option<String>,
    /// The rules that this end's program goes by.
    pub rules: Option<String>,
    /// Whether the peer's address is one that is always this host's.
    pub is_loopback: bool,
}

/// What to do, in lines; none where nothing is to be done.
pub fn advice(reason: Reason, ends: &Ends) -> Vec<String> {
    let line = |text: &str| vec![text.to_owned()];
    let user = &ends.user;
    let other = ends.other_user.as_deref().unwrap_or("USER");
    match reason {
        Reason::PeerPlain => match &ends.other_command {
            Some(command) => vec![format!("start the other end by:  sovia run -- {command}")],
            None => line("start the other end's program by:  sovia run -- PROGRAM"),
        },
        Reason::OtherUser => vec![
            format!("start this end by:       sovia run --trust user={other} -- ..."),
            format!("start the other end by:  sovia run --trust user={user} -- ..."),
            "each then shares memory with that user's processes (docs/howto/users-and-sandboxes.md)".to_owned(),
        ],
        Reason::Rule => match &ends.rules {
            Some(rules) => vec![format!("leave out the rule of --only or --except that does so; they are: {rules}")],
            None => line("leave out the rule of --only or --except that does so"),
        },
        Reason::PeerNotLocal | Reason::NoAgent if ends.is_loopback => {
            line("nothing: the other end is in another network namespace")
        }
        Reason::PeerNotLocal => vec![
            format!(
                "on one host, in different network namespaces:  sudo sovia agent, and at both ends sovia run --trust user={user}"
            ),
            "on two hosts: an agent on each, and at both ends sovia run --nic name=NAME (docs/reference/hosts.md)".to_owned(),
        ],
        Reason::NoAgent => vec![
            "on this host:  sudo sovia agent".to_owned(),
            "in a container, mount the host's /run/sovia as well (docs/howto/users-and-sandboxes.md)".to_owned(),
        ],
        Reason::VersionMismatch => line("start the end with the older library again"),
        Reason::NoMemory => line("raise ulimit -f, or the memory limit of the control group"),
        Reason::AddressSpace => line("start it with:  ulimit -v unlimited"),
        Reason::NoDescriptors => line("start it with:  ulimit -n 4096"),
        Reason::NoThread => line("raise ulimit -u, or TasksMax of the unit"),
        Reason::OwnerUnknown => {
            line("let AF_NETLINK through:  RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK")
        }
        Reason::NotTraceable => vec![
            format!("start both ends by:  sovia run --trust user={user} -- ..."),
            "they differ in capabilities, labels or sandboxes, so the kernel lets neither look into the other".to_owned(),
        ],
        Reason::UnknownUser => line("give the user a number in the user namespace (newuidmap)"),
        Reason::UnknownLibc => line("nothing here: run it where glibc is one that Sovia knows (docs/reference/functions.md)"),
        Reason::TableFull => line("nothing: more connections at a time than Sovia's tables have room for"),
        Reason::SharedByProcesses => {
            line("nothing here: several processes read it at once; it is accelerated once one alone has it")
        }
        Reason::RetreatExec => {
            line("start the program that inherits it under Sovia as well: PATH and environment must be left as they are")
        }
        Reason::RetreatUlp => line("leave kernel TLS off (in OpenSSL: no `Options = KTLS`), and socket filters"),
        Reason::RetreatPassed => line("run the process that receives the descriptor under Sovia as well"),
        Reason::RetreatCall => {
            line("see docs/reference/functions.md for the calls that are carried: splice, MSG_OOB and O_ASYNC are not")
        }
        Reason::RetreatCredentials => {
            line("nothing: a connection that is opened after the change is accelerated with peers that the rules allow")
        }
        Reason::Filter => line("nothing: only the program knows what its seccomp filter lets through"),
        Reason::NicGone | Reason::BrokenOff => {
            line("see that `sovia agent --name` runs on both hosts; new connections are accelerated then")
        }
        Reason::PacketFilter => vec![
            "sudo sovia doctor names the filters; a rule such as `iif lo accept` before them lets local packets pass".to_owned(),
            "or leave out --respect-filters: accelerated connections bypass filters then".to_owned(),
        ],
        Reason::NoNic => vec![
            "on this host:  sovia agent --name NAME, as the same user, with the NAME of --nic (docs/reference/hosts.md)".to_owned(),
        ],
        Reason::SwitchedOff => line("switch it on again:  sovia on (as root, where root has switched it off)"),
        Reason::NoFilterAgent => line("on this host:  sudo sovia agent --filters"),
        Reason::HalfClosed => line("have the ends meet before the program shuts a side:  SOVIA_MEET=0"),
        Reason::ShortLived => line("have the ends meet with the first transfer:  SOVIA_MEET=0"),
        Reason::RetreatPeer => line("nothing here: ask for the other end by its process"),
        Reason::Corrupt | Reason::Replaced => {
            line("that is a fault of the program's or of Sovia's: see CONTRIBUTING.md, \"To report a fault\"")
        }
        Reason::NotConnected | Reason::NeverConnected | Reason::Relayed => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(lines, ["start the other end by:  sovia run -- redis-cli -p 7000"]);
    }

    #[test]
    fn no_advice_is_a_sentence_without_words() {
        for &reason in Reason::ALL {
            assert!(advice(reason, &Ends::default()).iter().all(|line| line.len() > 20));
        }
    }
}
