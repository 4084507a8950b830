//! Checks that `sovia enable` writes only what a unit needs, and that `sovia disable` removes all of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Said, skipped};

/// Stand-in for the library: any file that others may read. No program loads it.
const LIBRARY: &str = "/bin/sh";
/// Debian's unit of Redis.
const REDIS: &str = "/lib/systemd/system/redis-server.service";

/// Files of a system, with a unit.
struct System {
    root: tempfile::TempDir,
}

impl System {
    fn with(name: &str, unit: &str) -> Self {
        let system = Self { root: tempfile::tempdir().unwrap() };
        let folder = system.path("lib/systemd/system");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), unit).unwrap();
        fs::create_dir_all(system.path("usr/bin")).unwrap();
        fs::copy("/bin/sh", system.path("usr/bin/server")).unwrap();
        system
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn drop_in(&self, unit: &str) -> PathBuf {
        self.path(&format!("etc/systemd/system/{unit}.d/sovia.conf"))
    }

    fn sovia(&self, arguments: &[&str]) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sovia"));
        command.arg(arguments[0]).arg("--root").arg(self.root.path()).args(&arguments[1..]);
        Said::from(command.env("SOVIA_PRELOAD", LIBRARY).output().unwrap())
    }
}

/// Returns the settings of a drop-in, without comments and empty lines.
fn settings(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// Returns the drop-in's settings for a service with these settings.
fn written(service: &str, arguments: &[&str]) -> Vec<String> {
    let unit = format!("[Service]\nExecStart=/usr/bin/server\n{service}");
    let system = System::with("a.service", &unit);
    let said = system.sovia(&[&["enable", "a", "--quiet"], arguments].concat());
    assert_eq!((said.code(), said.out.as_str(), said.err.as_str()), (0, "", ""), "{unit}");
    settings(&system.drop_in("a.service"))
}

fn library() -> String {
    fs::canonicalize(LIBRARY).unwrap().display().to_string()
}

#[test]
fn a_unit_without_a_sandbox_gets_the_library_alone() {
    let environment = format!("Environment=LD_PRELOAD={}", library());
    assert_eq!(written("User=a\n", &[]), ["[Service]".to_owned(), environment.clone()]);
    let rules = format!("{environment} SOVIA_RULES=trust:uid=0");
    assert_eq!(written("", &["--trust", "user=root"])[1], rules);
    let rules = format!("{environment} \"SOVIA_RULES=only:port=1;trust:any\"");
    assert_eq!(written("", &["--trust", "any", "--only", "port=1"])[1], rules);
}

#[test]
fn other_libraries_of_the_unit_stay_behind() {
    let lines = written("Environment=\"LD_PRELOAD=/usr/lib/x.so y.so\" A=b\n", &[]);
    assert_eq!(lines[1], format!("Environment=LD_PRELOAD={}:/usr/lib/x.so:y.so", library()));
    // Specifiers in the unit's entries keep their meaning in the drop-in.
    let lines = written("Environment=LD_PRELOAD=/opt/%i/x.so\n", &[]);
    assert_eq!(lines[1], format!("Environment=LD_PRELOAD={}:/opt/%i/x.so", library()));
}

#[test]
fn what_the_sandbox_forbids_is_the_agents_or_allowed() {
    let agent = ["[Unit]", "Wants=sovia-agent.service", "After=sovia-agent.service", "[Service]"];
    for sandbox in [
        "RestrictAddressFamilies=AF_INET AF_UNIX\n",
        "RestrictAddressFamilies=~AF_NETLINK\n",
        "PrivateUsers=yes\n",
        "PrivateNetwork=on\n",
    ] {
        assert_eq!(written(sandbox, &["--trust", "any"])[..4], agent, "{sandbox}");
    }
    for (sandbox, allowed) in [
        ("RestrictAddressFamilies=AF_INET AF_UNIX\n", "RestrictAddressFamilies=AF_NETLINK"),
        ("RestrictAddressFamilies=~AF_NETLINK\n", "RestrictAddressFamilies=AF_NETLINK"),
        ("PrivateUsers=yes\n", "PrivateUsers=no"),
    ] {
        assert_eq!(written(sandbox, &["--without-agent"])[2..], [allowed], "{sandbox}");
    }
    let none = written("RestrictAddressFamilies=AF_INET AF_NETLINK\n", &[]);
    assert_eq!(none[2..], ["RestrictAddressFamilies=AF_UNIX"]);
    for sandbox in [
        "RestrictAddressFamilies=AF_INET AF_UNIX AF_NETLINK\nPrivateUsers=no\n",
        "RestrictAddressFamilies=AF_INET\nRestrictAddressFamilies=\n",
        "RestrictAddressFamilies=~AF_PACKET\n",
        "ProtectProc=invisible\nMemoryDenyWriteExecute=yes\nNoNewPrivileges=yes\nProtectSystem=strict\n\
         PrivateTmp=yes\nPrivateDevices=yes\nRestrictNamespaces=yes\nCapabilityBoundingSet=\n",
        "SystemCallFilter=@system-service\nSystemCallFilter=~ @privileged @resources\n",
        "SystemCallFilter=~@clock @mount\n",
        "NoExecPaths=/\nExecPaths=/usr /bin\n",
    ] {
        assert_eq!(written(sandbox, &[]).len(), 2, "{sandbox}");
    }
}

#[test]
fn rules_about_packet_filters_start_the_agent_that_watches_them() {
    let lines = written("InaccessiblePaths=/run/sovia\n", &["--respect-filters"]);
    let agent =
        ["[Unit]", "Wants=sovia-filters.service", "After=sovia-filters.service", "[Service]"];
    assert_eq!(lines[..4], agent);
    assert!(lines.contains(&"BindReadOnlyPaths=-/run/sovia".into()), "{lines:?}");
    assert!(lines[4].contains("SOVIA_RULES=respect-filters:port=1-65535"), "{lines:?}");
}

#[test]
fn a_library_that_may_not_be_mapped_and_calls_that_are_filtered_are_allowed() {
    let folder = Path::new(&library()).parent().unwrap().display().to_string();
    let lines = written("NoExecPaths=/\nExecPaths=/usr/bin/server\n", &[]);
    assert_eq!(lines[2..], [format!("ExecPaths={folder}")]);
    for filter in ["@basic-io @network-io", "~@ipc"] {
        let lines =
            written(&format!("SystemCallFilter={filter}\nSystemCallErrorNumber=EPERM\n"), &[]);
        assert!(lines[2].starts_with("SystemCallFilter=") && lines[2].contains(" memfd_create "));
    }
}

#[test]
fn enabling_again_changes_nothing_and_disabling_leaves_nothing() {
    let system =
        System::with("a.service", "[Service]\nExecStart=/usr/bin/server\nPrivateUsers=yes\n");
    let first = system.sovia(&["enable", "a"]);
    assert!(first.out.contains("a.service: wrote "), "{first:?}");
    let text = fs::read_to_string(system.drop_in("a.service")).unwrap();
    let again = system.sovia(&["enable", "a.service"]);
    assert!(again.out.contains("is unchanged"), "{again:?}");
    assert_eq!(fs::read_to_string(system.drop_in("a.service")).unwrap(), text);

    let dry = system.sovia(&["enable", "a", "--dry-run", "--trust", "any"]);
    assert!(dry.out.contains("trust:any"), "{dry:?}");
    assert_eq!(fs::read_to_string(system.drop_in("a.service")).unwrap(), text);

    // Other files in this folder must not matter.
    fs::write(system.path("etc/systemd/system/file.d"), "").unwrap();
    let other = system.drop_in("other.service");
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    fs::write(&other, b"\xff").unwrap();
    let all = system.sovia(&["disable", "--all"]);
    assert!(
        all.out.contains("a.service: removed ") && all.code() == 0 && other.exists(),
        "{all:?}"
    );
    assert!(!system.path("etc/systemd/system/a.service.d").exists());
    let none = system.sovia(&["disable", "a"]);
    assert!(none.code() == 0 && none.out.contains("the unit is not enabled"), "{none:?}");
}

#[test]
fn another_files_of_that_name_is_left_alone() {
    let system = System::with("a.service", "[Service]\nExecStart=/usr/bin/server\n");
    let path = system.drop_in("a.service");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "[Service]\nNice=1\n").unwrap();
    for command in ["enable", "disable"] {
        let said = system.sovia(&[command, "a"]);
        assert!(said.code() == 1 && said.err.contains("did not write this file"), "{said:?}");
    }
    assert_eq!(system.sovia(&["disable", "--all"]).code(), 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), "[Service]\nNice=1\n");
}

#[test]
fn nothing_is_written_where_the_library_would_not_be_loaded() {
    for (service, reason) in [
        ("UnsetEnvironment=LD_PRELOAD\n", "UnsetEnvironment=LD_PRELOAD"),
        ("ExecStart=\n", "starts no program"),
        ("ExecStart=/usr/bin/pg_ctlcluster 15 main start\n", "postgresql"),
    ] {
        let unit = format!("[Service]\nExecStart=/usr/bin/server\n{service}");
        let system = System::with("a.service", &unit);
        let said = system.sovia(&["enable", "a"]);
        assert!(said.code() == 1 && said.err.contains(reason), "{service}: {said:?}");
        assert!(!system.path("etc").exists());
    }
    let system = System::with("a.service", "[Service]\nExecStart=/usr/bin/server\n");
    let said = system.sovia(&["enable", "a", "b"]);
    assert!(said.code() == 1 && said.err.contains("cannot find the unit b.service"), "{said:?}");
    assert!(!system.path("etc").exists(), "one of two is enabled");
}

#[test]
fn debians_redis_is_enabled_with_and_without_the_agent() {
    let Ok(unit) = fs::read_to_string(REDIS) else {
        return skipped(
            "debians_redis_is_enabled_with_and_without_the_agent",
            "no redis-server.service",
        );
    };
    let system = System::with("redis-server.service", &unit);
    fs::create_dir_all(system.path("usr/bin")).unwrap();
    let said = system.sovia(&["enable", "redis-server", "--trust", "any"]);
    assert!(said.out.contains("sovia run --trust user=redis -- PROGRAM"), "{said:?}");
    let path = system.drop_in("redis-server.service");
    let environment = format!("Environment=LD_PRELOAD={} SOVIA_RULES=trust:any", library());
    let folder = Path::new(&library()).parent().unwrap().display().to_string();
    let exec = format!("ExecPaths={folder}");
    let by_agent = [
        "[Unit]",
        "Wants=sovia-agent.service",
        "After=sovia-agent.service",
        "[Service]",
        &environment,
        &exec,
    ];
    assert_eq!(settings(&path), by_agent);
    let said = system.sovia(&["enable", "redis-server", "--trust", "any", "--without-agent"]);
    assert_eq!(said.code(), 0, "{said:?}");
    let opened =
        ["[Service]", &environment, &exec, "RestrictAddressFamilies=AF_NETLINK", "PrivateUsers=no"];
    assert_eq!(settings(&path), opened);
}
