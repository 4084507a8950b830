//! A root folder with only a program, libc and Sovia, like a container image.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use sovia_tests::{TempDir, c_program, skipped, sovia};

const LINKER: &str = if cfg!(target_arch = "x86_64") {
    "/lib64/ld-linux-x86-64.so.2"
} else {
    "/lib/ld-linux-aarch64.so.1"
};

/// Copies a file of this system to `place` in the root.
fn put(root: &Path, file: &Path, place: &Path) {
    let place = root.join(place.strip_prefix("/").expect("an absolute path"));
    fs::create_dir_all(place.parent().expect("a folder")).expect("a folder");
    fs::copy(file, &place).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

/// Puts glibc's dynamic linker, libc and a program into a root. Returns `None`, and prints the reason, if that is
/// impossible.
fn begin(root: &Path, test: &str) -> Option<()> {
    if !fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0) {
        println!("SKIPPED: {test}: only root can change the root folder");
        return None;
    }
    if skipped(test, &["unshare", "chroot"]) {
        return None;
    }
    let Ok(linker) = fs::canonicalize(LINKER) else {
        println!("SKIPPED: {test}: glibc's linker is not where it is expected");
        return None;
    };
    put(root, &linker, Path::new(LINKER));
    let libc = linker.with_file_name("libc.so.6");
    put(root, &libc, &libc);
    Some(())
}

/// Otherwise the dynamic linker prints that it cannot preload the library.
#[test]
fn a_program_in_a_root_without_the_library_starts_in_silence() {
    let folder = TempDir::new();
    let test = "a_program_in_a_root_without_the_library_starts_in_silence";
    let Some(()) = begin(folder.path(), test) else { return };
    put(folder.path(), &fs::canonicalize("/bin/true").expect("a program"), Path::new("/bin/true"));
    const SCRIPT: &str = r#"
        "$2" run -- chroot "$1" /bin/true && echo first
        LD_PRELOAD=/none-of-the-kind.so "$2" run -- chroot "$1" /bin/true && echo second
    "#;
    let mut shell = Command::new("timeout");
    shell.args(["60", "sh", "-c", SCRIPT, "-"]).arg(folder.path()).arg(sovia());
    let output = shell.output().expect("timeout is there");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(said, "first\nsecond\n", "{errors}");
    assert!(!errors.contains("libsovia"), "{said}{errors}");
    // Other libraries stay in LD_PRELOAD.
    assert!(errors.contains("/none-of-the-kind.so"), "{said}{errors}");
}

#[test]
fn a_program_is_accelerated_where_there_is_libc_and_no_other_library() {
    let test = "a_program_is_accelerated_where_there_is_libc_and_no_other_library";
    let folder = TempDir::new();
    let root = folder.path();
    let Some(()) = begin(root, test) else { return };
    put(root, &c_program("privileged"), Path::new("/bin/echoes"));
    put(root, &sovia(), Path::new("/bin/sovia"));
    let library = sovia().with_file_name("libsovia_preload.so");
    put(root, &library, Path::new("/lib/sovia/libsovia_preload.so"));
    const SCRIPT: &str = r#"
        set -e
        mount --make-rprivate /
        mkdir "$1/proc" "$1/dev"
        mount --rbind /proc "$1/proc"
        mount --rbind /dev "$1/dev"
        exec env -i PATH="$PATH" chroot "$1" /bin/sovia run -v -- /bin/echoes
    "#;
    let mut shell = Command::new("timeout");
    shell.args(["60", "unshare", "--mount", "sh", "-c", SCRIPT, "-"]).arg(root);
    let output = shell.output().expect("timeout is there");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, results) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}{results}");
    assert!(said.contains("code 1 memory 1"), "{said}{results}");
    assert!(
        results.contains("sovia: accelerated: ") && !results.contains("accelerated: 0"),
        "{said}{results}"
    );
}
