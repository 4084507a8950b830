//! /etc/ld.so.preload names the library for all programs of a system, also for those that gain rights by their file. In these it does
//! nothing, and reads no variable of the user's who starts them.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use sovia_tests::{TempDir, all_may_read, c_program, skipped, sovia};

/// Starts the program of this test, as a user without rights, in a mount namespace whose /etc/ld.so.preload names `library`.
fn said(program: &Path, library: &Path, folder: &Path) -> String {
    const SCRIPT: &str = r#"
        set -e
        mount --make-rprivate /
        mount -t tmpfs tmpfs "$3"
        mkdir "$3/upper" "$3/work"
        mount -t overlay overlay -o "lowerdir=/etc,upperdir=$3/upper,workdir=$3/work" /etc
        echo "$2" >/etc/ld.so.preload
        exec setpriv --reuid 4001 --regid 4001 --clear-groups env SOVIA_STATS="$4" "$1"
    "#;
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", SCRIPT, "-"]).args([program, library, folder]);
    let output = shell.arg(program).output().expect("unshare is there");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}: {}", program.display(), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_setuid_program_is_left_alone_by_a_library_that_all_programs_load() {
    let test = "a_setuid_program_is_left_alone_by_a_library_that_all_programs_load";
    if !std::fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0) {
        return println!(
            "SKIPPED: {test}: only root can make mount namespaces and setuid programs"
        );
    }
    let library = sovia().with_file_name("libsovia_preload.so");
    if skipped(test, &["unshare", "setpriv"]) {
        return;
    }
    if !all_may_read(&library) {
        return println!("SKIPPED: {test}: other users may not read the build");
    }
    let folder = TempDir::new();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).expect("a mode");
    let scratch = folder.path().join("scratch");
    std::fs::create_dir(&scratch).expect("a folder");
    let run = |name: &str, mode: u32| {
        let program = folder.path().join(name);
        std::fs::copy(c_program("privileged"), &program).expect("a copy");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).expect("a mode");
        said(&program, &library, &scratch)
    };
    let plain = run("plain", 0o755);
    assert!(plain.contains("secure 0 child 0") && plain.contains("code 1 memory 1"), "{plain}");
    let setuid = run("setuid", 0o4755);
    if setuid.contains("secure 0") {
        return println!("SKIPPED: {test}: no program is setuid in temporary folders");
    }
    // As without the library, whatever descriptors this test has inherited, but for the library's code.
    let without = said(&folder.path().join("setuid"), Path::new(""), &scratch);
    assert_eq!(setuid, without.replace("code 0", "code 1"));
    assert!(setuid.contains("secure 1 child 0") && setuid.contains("code 1 memory 0"), "{setuid}");
}
