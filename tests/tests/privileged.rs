//! /etc/ld.so.preload names the library for all programs of a system, including programs that gain privileges by
//! their file. In these the library does nothing, and reads no variable of the user. /etc/sovia/rules names other
//! programs that it must leave alone.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use sovia_tests::{
    TempDir, all_may_read, c_program, native_c_program, native_c_program_with_library, skipped,
    sovia,
};

/// Files in /etc and the environment of a program.
#[derive(Clone, Copy, Default)]
struct System<'a> {
    /// Library that /etc/ld.so.preload names.
    library: Option<&'a Path>,
    /// Content of /etc/sovia/rules; `None` means no file.
    rules: Option<&'a str>,
    /// Puts a pipe without a writer in place of that file.
    has_pipe: bool,
    /// Value of SOVIA_RULES; `None` means no variable.
    variable: Option<&'a str>,
}

/// Starts the program of this test as an unprivileged user, in a mount namespace with an /etc of its own.
fn said(program: &Path, system: System<'_>, folder: &Path) -> String {
    const SCRIPT: &str = r#"
        set -e
        mount --make-rprivate /
        mount -t tmpfs tmpfs "$3"
        mkdir "$3/upper" "$3/work"
        mount -t overlay overlay -o "lowerdir=/etc,upperdir=$3/upper,workdir=$3/work" /etc
        rm -rf /etc/sovia
        mkdir /etc/sovia
        [ -z "${RULES+set}" ] || printf '%s' "$RULES" >/etc/sovia/rules
        [ -z "${PIPE+set}" ] || mkfifo -m 644 /etc/sovia/rules
        # From here on each program that starts loads it.
        echo "$2" >/etc/ld.so.preload
        exec setpriv --reuid 4001 --regid 4001 --clear-groups env -u RULES -u PIPE SOVIA_STATS="$4" "$1"
    "#;
    let mut shell = Command::new("timeout");
    shell.env_remove("LD_PRELOAD").env_remove("SOVIA_RULES");
    shell.envs(system.rules.map(|rules| ("RULES", rules)));
    shell.envs(system.has_pipe.then_some(("PIPE", "")));
    shell.envs(system.variable.map(|rules| ("SOVIA_RULES", rules)));
    shell.args(["60", "unshare", "--mount", "sh", "-c", SCRIPT, "-"]);
    shell.args([program, system.library.unwrap_or(Path::new("")), folder]);
    let output = shell.arg(program).output().expect("timeout is there");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}: {}", program.display(), text(&output.stderr));
    text(&output.stdout)
}

/// A folder with copies of the program, and the library. Returns `None` if the test cannot run.
struct Scene {
    folder: TempDir,
    library: PathBuf,
}

impl Scene {
    fn new(test: &str) -> Option<Self> {
        if !std::fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0) {
            println!("SKIPPED: {test}: only root can make mount namespaces and setuid programs");
            return None;
        }
        if skipped(test, &["unshare", "setpriv"]) {
            return None;
        }
        let library = sovia().with_file_name("libsovia_preload.so");
        if !all_may_read(&library) {
            println!("SKIPPED: {test}: other users may not read the build");
            return None;
        }
        let folder = TempDir::new();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).expect("a mode");
        std::fs::create_dir(folder.path().join("scratch")).expect("a folder");
        Some(Self { folder, library })
    }

    /// Returns the output of a copy of the program with this name and mode.
    fn run(&self, name: &str, mode: u32, system: System<'_>) -> String {
        self.run_copy(&c_program("privileged"), name, mode, system)
    }

    fn run_copy(&self, of: &Path, name: &str, mode: u32, system: System<'_>) -> String {
        let program = self.folder.path().join(name);
        std::fs::copy(of, &program).expect("a copy");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).expect("a mode");
        said(&program, system, &self.folder.path().join("scratch"))
    }

    /// Returns the output of `sovia explain` for a program under these system rules.
    fn explained(&self, rules: &str) -> String {
        let script = self.folder.path().join("explained");
        let text = format!(
            "#!/bin/sh\nsleep 5 >/dev/null 2>&1 &\nuntil [ $(cat /proc/$!/comm) = sleep ]; do :; done\nexec {} explain $!\n",
            sovia().display()
        );
        std::fs::write(&script, text).expect("a script");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        let system = System { rules: Some(rules), ..self.system() };
        said(&script, system, &self.folder.path().join("scratch"))
    }

    fn system(&self) -> System<'_> {
        System { library: Some(&self.library), ..System::default() }
    }
}

#[test]
fn a_setuid_program_is_left_alone_by_a_library_that_all_programs_load() {
    let test = "a_setuid_program_is_left_alone_by_a_library_that_all_programs_load";
    let Some(scene) = Scene::new(test) else { return };
    let plain = scene.run("plain", 0o755, scene.system());
    assert!(plain.contains("secure 0 child 0") && plain.contains("code 1 memory 1"), "{plain}");
    let setuid = scene.run("setuid", 0o4755, scene.system());
    if setuid.contains("secure 0") {
        return println!("SKIPPED: {test}: no program is setuid in temporary folders");
    }
    // The output equals that without the library, except for the library's code. Descriptors that this
    // test has inherited do not matter.
    let without = scene.run("setuid", 0o4755, System::default());
    assert_eq!(setuid, without.replace("code 0", "code 1"));
    assert!(setuid.contains("secure 1 child 0") && setuid.contains("code 1 memory 0"), "{setuid}");
    // Neither a rule of the system nor a rule of the user may change this.
    let named = Some("only:program=setuid");
    let setuid =
        scene.run("setuid", 0o4755, System { rules: named, variable: named, ..scene.system() });
    assert_eq!(setuid, without.replace("code 0", "code 1"));
}

#[test]
fn the_systems_rules_say_which_programs_a_library_that_all_load_leaves_alone() {
    let test = "the_systems_rules_say_which_programs_a_library_that_all_load_leaves_alone";
    let Some(scene) = Scene::new(test) else { return };
    let without = scene.run("program", 0o755, System::default());
    assert!(without.contains("code 0 memory 0"), "{without}");
    let loaded = without.replace("code 0", "code 1").replace("aside 0", "aside 1");
    let run =
        |rules, variable| scene.run("program", 0o755, System { rules, variable, ..scene.system() });
    for rules in [
        "# Only another one.\nonly:program=other\n",
        "except:program=program",
        "not a rule",
        "trust:user=root",
    ] {
        assert_eq!(run(Some(rules), None), loaded, "{rules}");
    }
    // No program waits for a writer of the pipe.
    assert_eq!(scene.run("program", 0o755, System { has_pipe: true, ..scene.system() }), loaded);
    let named = "only:program=other\nonly:program=program\n";
    for (rules, variable) in [
        (Some(named), None),
        (Some(""), None),
        // The program's own environment overrides the rules.
        (Some("only:program=other"), Some("only:program=program")),
        (Some("only:program=other"), Some("")),
    ] {
        let said = run(rules, variable);
        assert!(said.contains("code 1 memory 1"), "{rules:?} {variable:?}: {said}");
    }
}

#[test]
fn program_for_libsovia_has_vis_though_system_rules_exclude_the_program() {
    let test = "program_for_libsovia_has_vis_though_system_rules_exclude_the_program";
    let Some(scene) = Scene::new(test) else { return };
    let native = native_c_program("privileged");
    let run = |library, rules, variable| {
        let system = System { library, rules, variable, ..System::default() };
        scene.run_copy(&native, "program", 0o755, system)
    };
    let library = Some(&*scene.library);
    let without = run(None, None, None);
    assert!(without.contains("code 0 memory 1"), "{without}");
    // The output equals that without a preloaded library, except for the library's code.
    let left_alone = run(library, Some("only:program=other"), None);
    let loaded = without.replace("code 0", "code 1").replace("aside 0", "aside 1");
    assert_eq!(left_alone, loaded);
    // The preloaded library serves the program if the rules name it. The program's own environment
    // overrides the rules.
    let named = run(library, Some("only:program=program"), None);
    assert!(named.contains("code 1 memory 1"), "{named}");
    let kept = run(library, Some("only:program=other"), Some("except:program=program"));
    assert!(kept.contains("code 1"), "{kept}");
}

/// Constructors of other libraries run before the constructor of a preloaded library.
const FIRST_USE: &str = r#"
#include <sovia.h>
__attribute__((constructor)) static void first_use(void) { sov_close(sov_socket(AF_INET, SOCK_VIA, 0)); }
"#;

#[test]
fn a_librarys_constructor_that_uses_sovia_first_changes_nothing() {
    let test = "a_librarys_constructor_that_uses_sovia_first_changes_nothing";
    let Some(scene) = Scene::new(test) else { return };
    let early = native_c_program_with_library("privileged", FIRST_USE, scene.folder.path());
    let late = native_c_program("privileged");
    let run = |program: &Path, library, rules| {
        let system = System { library, rules, ..System::default() };
        scene.run_copy(program, "program", 0o755, system)
    };
    for library in [None, Some(&*scene.library)] {
        for rules in ["only:program=other", "only:program=program", "except:program=program"] {
            let said = run(&early, library, Some(rules));
            assert_eq!(said, run(&late, library, Some(rules)), "{library:?} {rules}");
            assert!(said.contains("memory 1"), "{library:?} {rules}: {said}");
        }
    }
}

#[test]
fn what_the_systems_rules_leave_alone_is_not_called_accelerated() {
    let test = "what_the_systems_rules_leave_alone_is_not_called_accelerated";
    let Some(scene) = Scene::new(test) else { return };
    let alone = scene.explained("only:program=other");
    assert!(alone.contains("not under Sovia"), "{alone}");
    let named = scene.explained("only:program=sleep");
    assert!(named.contains(": under Sovia"), "{named}");
}
