//! Children of an end that execute another program.

use super::calls::{checksum, must, poll, receive, write};
use std::ffi::CString;
use std::{env, ptr};

/// `WAY STACK WHAT SIZE STEP`: starts a child that executes this program, which takes one step and reports it by its
/// status.
pub(super) fn child(stream: i32, words: &[&str]) -> String {
    let own = env::current_exe().expect("a path").into_os_string().into_string().expect("text");
    let stream = stream.to_string();
    let words_of_child = [own.as_str(), "child", &stream, words[2], words[3], words[4]];
    let arguments: Vec<CString> =
        words_of_child.iter().map(|word| CString::new(*word).expect("no zero in it")).collect();
    let mut argv: Vec<*const libc::c_char> = arguments.iter().map(|word| word.as_ptr()).collect();
    argv.push(ptr::null());
    let on_kernel = words[1] == "kernel";
    let environment: Vec<CString> = env::vars()
        .filter(|(name, _)| !on_kernel || name != "LD_PRELOAD")
        .map(|(name, value)| CString::new(format!("{name}={value}")).expect("no zero in it"))
        .collect();
    let mut envp: Vec<*const libc::c_char> = environment.iter().map(|word| word.as_ptr()).collect();
    envp.push(ptr::null());
    // SAFETY: the vectors end by a null pointer, and stay while the calls run. After vfork the child makes one call.
    let pid = unsafe {
        match words[0] {
            "exec" => {
                let pid = libc::fork();
                if pid == 0 {
                    libc::execve(argv[0], argv.as_ptr(), envp.as_ptr());
                    libc::_exit(99);
                }
                pid
            }
            "vfork" => {
                #[expect(deprecated, reason = "programs use it")]
                let pid = libc::vfork();
                if pid == 0 {
                    libc::execve(argv[0], argv.as_ptr(), envp.as_ptr());
                    libc::_exit(99);
                }
                pid
            }
            "spawn" => {
                let mut pid = 0;
                let result = libc::posix_spawn(
                    &mut pid,
                    argv[0],
                    ptr::null(),
                    ptr::null(),
                    argv.as_ptr().cast(),
                    envp.as_ptr().cast(),
                );
                assert_eq!(result, 0, "posix_spawn");
                pid
            }
            "system" => {
                let preload = if on_kernel { "env -u LD_PRELOAD " } else { "" };
                let line = CString::new(format!("exec {preload}{}", words_of_child.join(" ")));
                return status(libc::system(line.expect("no zero in it").as_ptr()));
            }
            way => panic!("{way}: no way to another program"),
        }
    };
    let mut seen = 0;
    // SAFETY: the status is a number of this function's.
    while unsafe { libc::waitpid(must("child", pid), &mut seen, 0) } < 0 {}
    status(seen)
}

/// Takes one step in the other program: `STREAM WHAT SIZE STEP`. Reports the result by the exit
/// status.
pub fn run_child(words: &[String]) -> i32 {
    let number = |at: usize| words[at].parse::<usize>().expect("a number");
    let stream = number(0) as i32;
    // SAFETY: as in `run`.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let seen = match words[1].as_str() {
        "nothing" => return 0,
        "write" => write(stream, number(2), number(3)),
        "read" => receive(stream, number(2), libc::MSG_DONTWAIT),
        "poll" => poll(stream, libc::POLLIN | libc::POLLRDHUP, 0),
        what => panic!("{what}: no such step"),
    };
    (checksum(seen.as_bytes()) % 251) as i32 + 1
}

fn status(status: i32) -> String {
    if libc::WIFEXITED(status) {
        format!("status {}", libc::WEXITSTATUS(status))
    } else {
        format!("signal {}", libc::WTERMSIG(status))
    }
}
