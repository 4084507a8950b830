//! `sovia enable` and `sovia disable`: make systemd units start with the library, by a drop-in that changes nothing
//! else.

mod drop_in;
mod plan;
mod systemd;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use sovia_cli::rules::Specs;
use sovia_cli::{databases, library, program};

use self::drop_in::DropIn;
use self::plan::{Plan, Wish};
use self::systemd::Systemd;
use crate::admin::unit::{Place, Unit};
use crate::output::put_line;
use crate::usage::usage;

/// Make systemd units start with Sovia from now on
///
/// Each unit gets a drop-in, /etc/systemd/system/UNIT.d/sovia.conf. The drop-in sets the library and its rules. If the
/// unit has a sandbox, the drop-in also allows what the library needs. A comment in the drop-in gives the reason for
/// each line. All other settings of the unit stay as they are.
///
/// A sandbox may keep the unit from asking the kernel about the other end of a connection. In this case, the drop-in
/// starts the host's agent (`sovia agent`) together with the unit. Enabling a unit again overwrites the drop-in.
#[derive(clap::Args)]
pub(crate) struct EnableArgs {
    /// Units, named as for `systemctl`
    #[arg(required = true, value_name = "UNIT")]
    units: Vec<String>,
    #[command(flatten)]
    specs: Specs,
    /// Do not start the agent. Where the library needs the agent because of the unit's sandbox, allow AF_NETLINK or set
    /// PrivateUsers=no instead
    #[arg(long)]
    without_agent: bool,
    #[command(flatten)]
    doing: Doing,
}

/// Make systemd units start without Sovia again
///
/// The command removes the files that `sovia enable` wrote.
#[derive(clap::Args)]
pub(crate) struct DisableArgs {
    /// Units, named as for `systemctl`
    #[arg(required_unless_present = "all", value_name = "UNIT")]
    units: Vec<String>,
    /// Disable all units that `sovia enable` has enabled
    #[arg(long, conflicts_with = "units")]
    all: bool,
    #[command(flatten)]
    doing: Doing,
}

/// How units are enabled and disabled.
#[derive(clap::Args)]
struct Doing {
    /// Restart those of the units that are running
    #[arg(long)]
    now: bool,
    /// Print what would be written or removed, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Folder that is the root of the system, for example the root of an image
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Print only errors
    #[arg(short, long)]
    quiet: bool,
}

/// Enables all given units, or none if one of them cannot be enabled.
pub(crate) fn enable(args: &EnableArgs) -> anyhow::Result<()> {
    let place = Place::new(&args.doing.root);
    let systemd = Systemd::of(&args.doing.root);
    let rules = args.specs.rules().map_err(usage)?.to_string();
    let wish =
        Wish { library: readable_by_all(library::find()?)?, rules, by_agent: !args.without_agent };
    let mut prepared = Vec::new();
    for name in &args.units {
        let unit = place.unit(name, drop_in::NAME)?;
        let mut plan = plan::plan(&unit, &wish)?;
        look_at_programs(&unit, &place, &mut plan)?;
        prepared.push((DropIn::of(&place, &unit.name), unit, plan));
    }
    let mut out = Out { quiet: args.doing.quiet };
    for (drop_in, unit, plan) in &prepared {
        let text = drop_in::text(&unit.name, plan);
        if args.doing.dry_run {
            out.say(&format!("# {}\n{text}", drop_in.path().display()))?;
        } else if drop_in.write(&text)? {
            out.say(&format!("{}: wrote {}", unit.name, drop_in.path().display()))?;
        } else {
            out.say(&format!("{}: {} is unchanged", unit.name, drop_in.path().display()))?;
        }
        for note in &plan.notes {
            out.say(&format!("{}: {note}", unit.name))?;
        }
    }
    if args.doing.dry_run {
        return Ok(());
    }
    systemd.reload()?;
    for (_, unit, plan) in &prepared {
        for (agent, command) in
            [("sovia-agent", "sovia agent"), ("sovia-filters", "sovia agent --filters")]
        {
            let wants = format!("Wants={agent}.service");
            if plan.lines.iter().any(|line| line.setting == wants)
                && place.unit(agent, drop_in::NAME).is_err()
            {
                out.say(&format!(
                    "{}: needs {agent}.service, which is not installed: install Sovia's package, or start `{command}`",
                    unit.name
                ))?;
            }
        }
        restart(&systemd, &unit.name, args.doing.now, &mut out)?;
        out.say(&clients(unit, &wish, &systemd.users(&unit.name)))?;
    }
    Ok(())
}

/// Disables units.
pub(crate) fn disable(args: &DisableArgs) -> anyhow::Result<()> {
    let place = Place::new(&args.doing.root);
    let systemd = Systemd::of(&args.doing.root);
    let mut out = Out { quiet: args.doing.quiet };
    let drop_ins = if args.all {
        drop_in::all(&place)?
    } else {
        let own_name = |name: &String| -> anyhow::Result<DropIn> {
            // A removed unit may have left its drop-in.
            let unit = place.unit(name, drop_in::NAME);
            let unit = unit.map_or_else(|_| drop_in::with_type(name), |unit| unit.name);
            Ok(DropIn::of(&place, &unit))
        };
        args.units.iter().map(own_name).collect::<anyhow::Result<Vec<_>>>()?
    };
    let mut removed = Vec::new();
    for drop_in in &drop_ins {
        if args.doing.dry_run && drop_in.path().exists() {
            out.say(&format!("{} would be removed", drop_in.path().display()))?;
        } else if !args.doing.dry_run && drop_in.remove()? {
            out.say(&format!("{}: removed {}", drop_in.unit(), drop_in.path().display()))?;
            removed.push(drop_in);
        } else {
            out.say(&format!("{}: the unit is not enabled", drop_in.unit()))?;
        }
    }
    if removed.is_empty() {
        return Ok(());
    }
    systemd.reload()?;
    for drop_in in removed {
        restart(&systemd, drop_in.unit(), args.doing.now, &mut out)?;
    }
    Ok(())
}

/// Restarts a running unit, or prints the command for it.
fn restart(systemd: &Systemd, unit: &str, now: bool, out: &mut Out) -> anyhow::Result<()> {
    if now {
        systemd.restart_if_running(unit)
    } else {
        out.say(&format!(
            "{unit}: the change takes effect when the unit is restarted: systemctl restart {unit}"
        ))
    }
}

/// Returns how to start the clients. `running` has the users of the unit's processes, if the unit runs.
fn clients(unit: &Unit, wish: &Wish, running: &BTreeSet<u32>) -> String {
    // A server that begins as root often passes its connections to workers of another user.
    let workers = running.iter().filter(|&&uid| uid != 0 || running.len() == 1);
    let name =
        |&uid: &u32| databases::name_of_user(uid).ok().flatten().unwrap_or_else(|| uid.to_string());
    let mut users: Vec<String> = workers.map(name).collect();
    if users.is_empty() {
        users.extend(unit.value("User").map(str::to_owned));
    }
    let of = &unit.name;
    if !wish.rules.contains("trust:") {
        let users = if users.is_empty() { "the same user".to_owned() } else { users.join(", ") };
        return format!(
            "{of}: start clients as {users} with:  sovia run -- PROGRAM  (`sovia enable --trust any` accepts clients of other users)"
        );
    }
    if users.is_empty() {
        return format!(
            "{of}: start clients with:  sovia run --trust user=USER -- PROGRAM  (USER is the user of the unit's workers: ps -o user= -C NAME)"
        );
    }
    let trust: Vec<String> = users.iter().map(|user| format!("--trust user={user}")).collect();
    format!("{of}: start clients with:  sovia run {} -- PROGRAM", trust.join(" "))
}

/// Checks whether the unit's programs load the library.
fn look_at_programs(unit: &Unit, place: &Place, plan: &mut Plan) -> anyhow::Result<()> {
    let programs = plan::programs(unit);
    if programs.is_empty() {
        bail!("cannot enable {}: the unit starts no program (ExecStart=)", unit.name);
    }
    for program in programs.iter().filter(|program| program.starts_with('/')) {
        let findings = program::inspect(&place.path(program));
        match findings.obstacle {
            Some(obstacle) if obstacle.tolerates_library() => {
                plan.notes.push(obstacle.line(Path::new(program)));
            }
            Some(obstacle) => {
                bail!("cannot enable {}: {}", unit.name, obstacle.line(Path::new(program)))
            }
            None => {}
        }
    }
    Ok(())
}

/// Returns the library's path. Fails if other users may not load the library.
fn readable_by_all(library: PathBuf) -> anyhow::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    for path in library.ancestors() {
        let metadata = path.metadata().with_context(|| path.display().to_string())?;
        let needed = if metadata.is_dir() { 0o001 } else { 0o004 };
        if metadata.permissions().mode() & needed == 0 {
            bail!(
                "other users cannot read {} because of the mode of {}: install Sovia (`make install`, or its package)",
                library.display(),
                path.display()
            );
        }
    }
    Ok(library)
}

/// Output for the user, unless `--quiet` is given.
struct Out {
    quiet: bool,
}

impl Out {
    fn say(&mut self, line: &str) -> anyhow::Result<()> {
        if self.quiet { Ok(()) } else { put_line!("{line}") }
    }
}
