//! Hooks for exec and for calls that start other programs, which inherit connections.

use crate::jumps::{before_context, before_jump, before_switch};
use crate::set_errno;
use crate::stdio::{before_libc, before_log};
use core::ffi::CStr;
use libc::{FILE, c_char, c_int, c_long, c_void, environ};
use smallvec::SmallVec;
use sovia_calls::boundary::{may_look, take};
use sovia_calls::descriptors::created;
use sovia_sockets::exec::{self, Target};
use sovia_sockets::ops;
use sovia_sockets::process::is_borrowed;
use sovia_sys::call;
use std::ffi::CString;
use std::sync::OnceLock;

/// Handles a system call that makes a child, executes a program or ends the thread. `kernel` makes the real system
/// call.
///
/// # Safety
/// `first` must be valid as the call's first argument.
pub(crate) unsafe fn system_call(
    number: c_long,
    first: c_long,
    kernel: impl FnOnce() -> c_long,
) -> c_long {
    if matches!(number, libc::SYS_execve | libc::SYS_execveat) {
        return replacing(|| Target::Unknown, kernel);
    }
    if number == libc::SYS_exit {
        before_leaving();
    }
    // SAFETY: the caller guarantees that `first` is valid for the system call.
    unsafe { crate::children::system_call(number, first, kernel) }
}

/// Prepares connections for the program `target`, then calls `exec`. Returns only if `exec` fails.
fn replacing<'a, T: From<i8>>(target: impl FnOnce() -> Target<'a>, exec: impl FnOnce() -> T) -> T {
    let left = match exec::before_exec(target) {
        Ok(left) => left,
        Err(error) => {
            set_errno(error);
            return T::from(-1);
        }
    };
    if is_borrowed() {
        return exec();
    }
    ops::leaving();
    let result = exec();
    ops::staying();
    drop(left);
    result
}

/// Returns this process's own environment.
pub(crate) fn inherited_environment() -> *const *const c_char {
    // SAFETY: libc defines `environ`, and the block only reads the pointer.
    unsafe { environ.cast_const().cast() }
}

/// Returns the target of an exec of `path`. If the new program will not load this library, the target is
/// [`Target::Unknown`].
///
/// # Safety
/// `path` must be a C string, null or unmapped. `environment` must be a list of C strings that ends with a null
/// pointer, or null, or unmapped.
unsafe fn at_path<'a>(path: *const c_char, environment: *const *const c_char) -> Target<'a> {
    // SAFETY: the caller guarantees that `path` is a C string, null or unmapped.
    match unsafe { string_if_readable(path) } {
        Some(path) if is_sovia(path) => Target::Command(path),
        // SAFETY: the caller guarantees that `environment` is a list of C strings that ends with a null pointer, or
        // null, or unmapped.
        Some(path) if unsafe { has_this_build(environment) } => Target::Path(path),
        _ => Target::Unknown,
    }
}

/// Like [`at_path`], for a program `name` that exec searches in PATH.
///
/// # Safety
/// Same as [`at_path`].
unsafe fn by_name<'a>(name: *const c_char, environment: *const *const c_char) -> Target<'a> {
    // SAFETY: the caller guarantees the contract of [`at_path`], and `getenv` returns a C string or null.
    unsafe {
        match string_if_readable(name) {
            Some(path) if path.to_bytes().contains(&b'/') && is_sovia(path) => {
                Target::Command(path)
            }
            Some(name) if has_this_build(environment) => {
                Target::Name(name, string(libc::getenv(c"PATH".as_ptr())))
            }
            _ => Target::Unknown,
        }
    }
}

/// Converts a C string. Returns `None` for a null pointer.
///
/// # Safety
/// `text` must be null, or a C string that lives as long as the result.
unsafe fn string<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: `text` is not null, so the caller guarantees a C string that lives as long as the result.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// Converts a C string. Returns `None` if a byte of the string cannot be read. The kernel will then refuse the
/// exec.
///
/// # Safety
/// Same as [`string`], but the memory may be unmapped.
unsafe fn string_if_readable<'a>(text: *const c_char) -> Option<&'a CStr> {
    const LONGEST: usize = libc::PATH_MAX as usize;
    if text.is_null() {
        return None;
    }
    // SAFETY: the program owns the memory, and every bit pattern is a valid byte.
    let ends = |i| unsafe { take(text.wrapping_add(i)) }.map(|byte| byte == 0);
    let end = (0..LONGEST).map(ends).find(|end| *end != Ok(false))?;
    // SAFETY: the search has just read the string up to its last byte. The caller guarantees that the string lives
    // as long as the result.
    end.is_ok().then(|| unsafe { CStr::from_ptr(text) })
}

/// Path of this library.
static LIBRARY: OnceLock<&CStr> = OnceLock::new();
/// Device and inode of this library's file at the program's start.
static FILE: OnceLock<(u64, u64)> = OnceLock::new();

/// Finds the path of this library. The library's constructor calls this function, before the program's own code
/// runs.
pub(crate) fn start() {
    // SAFETY: all zeros are a valid `Dl_info`.
    let mut found: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: `dladdr` only looks the address up, and `found` lives during the call.
    let known = unsafe { libc::dladdr(start as *const c_void, &raw mut found) } != 0;
    // SAFETY: the linker's name of this library is a C string, and lives as long as the library is loaded.
    if let Some(name) = unsafe { string(found.dli_fname) }.filter(|_| known) {
        let _ = LIBRARY.set(name);
        if let Ok(file) = call::file_at(name) {
            let _ = FILE.set(file);
        }
    }
}

/// Returns true if a program with this environment loads this build of the library. After an upgrade, another build
/// has the library's path.
///
/// # Safety
/// Same as [`at_path`].
unsafe fn has_this_build(environment: *const *const c_char) -> bool {
    let file = LIBRARY.get().and_then(|library| call::file_at(library).ok());
    // SAFETY: the caller passes a list of C strings that ends with a null pointer, or null, or unmapped.
    file.is_some() && FILE.get() == file.as_ref() && unsafe { has_library(environment) }
}

/// Returns true if LD_PRELOAD names this library. If not, the linker has loaded this library only by
/// /etc/ld.so.preload.
pub(crate) fn is_asked_for() -> bool {
    // SAFETY: libc's `environ` is a list of C strings that ends with a null pointer.
    unsafe { has_library(inherited_environment()) }
}

/// Returns true if `path` is the command `sovia`, either in this library's folder or in the folder in which `make
/// install` puts it.
fn is_sovia(path: &CStr) -> bool {
    let Some(library) = LIBRARY.get().and_then(|path| path.to_str().ok()) else { return false };
    let Some((folder, _)) = library.rsplit_once('/') else { return false };
    let wanted = call::program_at(path);
    wanted.is_ok()
        && ["sovia", "../bin/sovia", "../../bin/sovia"].iter().any(|place| {
            let place = CString::new(format!("{folder}/{place}"));
            place.is_ok_and(|place| call::program_at(&place) == wanted)
        })
}

/// Returns true if a program with this environment loads this library.
///
/// # Safety
/// Same as [`at_path`].
unsafe fn has_library(environment: *const *const c_char) -> bool {
    let Some(library) = LIBRARY.get() else { return false };
    // SAFETY: the caller passes a list of C strings that ends with a null pointer, or null.
    let preloaded = unsafe { preloaded(environment) };
    preloaded.is_some_and(|(_, value)| names(&value).any(|name| name == library.to_bytes()))
}

/// Value of an environment variable.
type Value = SmallVec<[u8; 512]>;

const LD_PRELOAD: &[u8] = b"LD_PRELOAD=";

/// Returns the names of the libraries in a value of LD_PRELOAD.
fn names(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| matches!(byte, b':' | b' '))
}

/// Returns the variables of an environment, up to the first pointer that is null or cannot be read.
///
/// # Safety
/// Same as [`at_path`].
unsafe fn variables(environment: *const *const c_char) -> impl Iterator<Item = *const c_char> {
    // SAFETY: the program owns the list, and every bit pattern is a valid pointer.
    let pointer = move |i: usize| unsafe { take(environment.wrapping_add(i)) };
    (0..).map_while(move |i| pointer(i).ok().filter(|at| !at.is_null()))
}

/// Returns the index and the value of the last variable LD_PRELOAD in an environment. The dynamic linker uses only the
/// last one.
///
/// # Safety
/// Same as [`at_path`].
unsafe fn preloaded(environment: *const *const c_char) -> Option<(usize, Value)> {
    if environment.is_null() {
        return None;
    }
    let is_it = |variable: &*const c_char| {
        // SAFETY: the program owns the string, and every bit pattern is a valid byte.
        let byte = |i| unsafe { take(variable.wrapping_add(i)) };
        LD_PRELOAD.iter().enumerate().all(|(i, &wanted)| byte(i) == Ok(wanted as c_char))
    };
    // SAFETY: the caller passes a list of C strings that ends with a null pointer.
    let (n, variable) =
        unsafe { variables(environment) }.enumerate().filter(|(_, at)| is_it(at)).last()?;
    // SAFETY: the program owns the string, and every bit pattern is a valid byte.
    let bytes = (LD_PRELOAD.len()..).map_while(|i| unsafe { take(variable.wrapping_add(i)) }.ok());
    Some((n, bytes.take_while(|byte| *byte != 0).map(|byte| byte as u8).collect()))
}

/// Copy of an environment with another value of LD_PRELOAD.
struct Environment {
    variables: SmallVec<[*const c_char; 128]>,
    /// Index of the variable LD_PRELOAD. `preload` is the new text of this variable.
    place: usize,
    preload: Value,
}

impl Environment {
    /// Returns the list of variables. The list is valid while `self` lives and stays in place.
    fn list(&mut self) -> *const *const c_char {
        self.variables[self.place] = self.preload.as_ptr().cast();
        self.variables.as_ptr()
    }
}

/// Returns a copy of an environment whose LD_PRELOAD does not name this library, if this process's root folder does
/// not have the library. With the name the dynamic linker would report an error on the new program's standard
/// error. Returns `None` if the environment can stay unchanged.
///
/// # Safety
/// Same as [`at_path`].
unsafe fn without_library(environment: *const *const c_char) -> Option<Environment> {
    let library = LIBRARY.get()?;
    // Until Sovia's fault handler is in place, a bad pointer would kill the process. libc's own `environ` has no
    // bad pointers.
    if !may_look() && environment != inherited_environment() {
        return None;
    }
    // SAFETY: the caller passes a list of C strings that ends with a null pointer, or null.
    let (place, value) = unsafe { preloaded(environment) }?;
    let is_library = |name: &[u8]| name == library.to_bytes();
    if !names(&value).any(is_library) || call::file_at(library).is_ok() {
        return None;
    }
    let others: SmallVec<[&[u8]; 8]> = names(&value).filter(|name| !is_library(name)).collect();
    let mut preload = Value::from_slice(LD_PRELOAD);
    preload.extend_from_slice(&others.join(&b':'));
    preload.push(0);
    // SAFETY: `preloaded` has found a variable in `environment`, so `environment` is not null. Then the caller
    // guarantees a list of C strings that ends with a null pointer.
    let list = unsafe { variables(environment) }.chain([core::ptr::null()]);
    Some(Environment { variables: list.collect(), place, preload })
}

/// Calls `start` with an environment for a new program. If this process's root folder does not have this library,
/// removes the library's name from LD_PRELOAD in this environment.
///
/// # Safety
/// Same as [`at_path`].
pub(crate) unsafe fn in_this_root<R>(
    environment: *const *const c_char,
    start: impl FnOnce(*const *const c_char) -> R,
) -> R {
    // SAFETY: the caller passes a list of C strings that ends with a null pointer, or null.
    match unsafe { without_library(environment) } {
        Some(mut own) => start(own.list()),
        None => start(environment),
    }
}

hooks! {
    fn execve(path: *const c_char, argv: *const *const c_char, envp: *const *const c_char) -> c_int {
        in_this_root(envp, |envp| replacing(|| at_path(path, envp), || real!()(path, argv, envp)))
    }

    fn execv(path: *const c_char, argv: *const *const c_char) -> c_int {
        execve(path, argv, inherited_environment())
    }

    fn execvp(file: *const c_char, argv: *const *const c_char) -> c_int {
        execvpe(file, argv, inherited_environment())
    }

    fn execvpe(
        file: *const c_char, argv: *const *const c_char, envp: *const *const c_char,
    ) -> c_int {
        in_this_root(envp, |envp| replacing(|| by_name(file, envp), || real!()(file, argv, envp)))
    }

    fn fexecve(fd: c_int, argv: *const *const c_char, envp: *const *const c_char) -> c_int {
        in_this_root(envp, |envp| replacing(|| Target::Unknown, || real!()(fd, argv, envp)))
    }

    fn execveat(
        directory: c_int, path: *const c_char, argv: *const *const c_char,
        envp: *const *const c_char, flags: c_int,
    ) -> c_int {
        in_this_root(envp, |envp| {
            replacing(|| Target::Unknown, || real!()(directory, path, argv, envp, flags))
        })
    }

    fn backtrace_symbols_fd(addresses: *const *mut c_void, count: c_int, fd: c_int) -> () {
        before_libc(fd);
        real!()(addresses, count, fd)
    }

    fn eventfd_read(fd: c_int, value: *mut u64) -> c_int {
        before_libc(fd);
        real!()(fd, value)
    }

    fn eventfd_write(fd: c_int, value: u64) -> c_int {
        before_libc(fd);
        real!()(fd, value)
    }

    fn system(command: *const c_char) -> c_int {
        exec::before_spawn();
        real!()(command)
    }

    /// Prepares for child processes, because libc runs commands in `text` in child processes that inherit
    /// descriptors.
    fn wordexp(text: *const c_char, words: *mut c_void, flags: c_int) -> c_int {
        exec::before_spawn();
        real!()(text, words, flags)
    }

    fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
        exec::before_spawn();
        let file = real!()(command, mode);
        if !file.is_null() {
            created(libc::fileno(file));
        }
        file
    }
}

// Defines hooks of variadic functions in assembly, because Rust cannot define variadic functions. Each hook calls a
// preparation with its first argument. Then the hook jumps to the real function, with all argument registers and
// the stack unchanged.
macro_rules! variadic {
    ($($name:ident after $prepare:ident),*) => {
        $(
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name() {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!(
                    "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9",
                    "push rax",
                    // Save the registers of floating-point arguments.
                    "sub rsp, 128",
                    "movups [rsp], xmm0", "movups [rsp + 16], xmm1",
                    "movups [rsp + 32], xmm2", "movups [rsp + 48], xmm3",
                    "movups [rsp + 64], xmm4", "movups [rsp + 80], xmm5",
                    "movups [rsp + 96], xmm6", "movups [rsp + 112], xmm7",
                    "call {prepare}",
                    "movups xmm0, [rsp]", "movups xmm1, [rsp + 16]",
                    "movups xmm2, [rsp + 32]", "movups xmm3, [rsp + 48]",
                    "movups xmm4, [rsp + 64]", "movups xmm5, [rsp + 80]",
                    "movups xmm6, [rsp + 96]", "movups xmm7, [rsp + 112]",
                    "add rsp, 128",
                    "pop rax",
                    "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                    "mov r11, qword ptr [rip + {real}]",
                    "jmp r11",
                    prepare = sym $prepare,
                    real = sym variadic::$name,
                );
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!(
                    "stp x29, x30, [sp, #-16]!",
                    "stp x0, x1, [sp, #-16]!",
                    "stp x2, x3, [sp, #-16]!",
                    "stp x4, x5, [sp, #-16]!",
                    "stp x6, x7, [sp, #-16]!",
                    "stp q0, q1, [sp, #-32]!",
                    "stp q2, q3, [sp, #-32]!",
                    "stp q4, q5, [sp, #-32]!",
                    "stp q6, q7, [sp, #-32]!",
                    "bl {prepare}",
                    "ldp q6, q7, [sp], #32",
                    "ldp q4, q5, [sp], #32",
                    "ldp q2, q3, [sp], #32",
                    "ldp q0, q1, [sp], #32",
                    "ldp x6, x7, [sp], #16",
                    "ldp x4, x5, [sp], #16",
                    "ldp x2, x3, [sp], #16",
                    "ldp x0, x1, [sp], #16",
                    "ldp x29, x30, [sp], #16",
                    "adrp x16, {real}",
                    "ldr x16, [x16, #:lo12:{real}]",
                    "br x16",
                    prepare = sym $prepare,
                    real = sym variadic::$name,
                );
            }
        )*

        pub(crate) mod variadic {
            #![allow(non_upper_case_globals)]
            use crate::real::{Real, c_name};
            $(pub(super) static $name: Real = Real::new(c_name(concat!(stringify!($name), "\0")));)*

            /// The real functions to which the variadic hooks jump.
            pub(crate) const ALL: &[&Real] = &[$(&$name),*];
        }
    };
}

variadic!(
    pthread_exit after before_leaving,
    syslog after before_log,
    __syslog_chk after before_log,
    longjmp after before_jump,
    _longjmp after before_jump,
    siglongjmp after before_jump,
    __longjmp_chk after before_jump,
    setcontext after before_context,
    swapcontext after before_switch
);

/// Notifies the engine that the calling thread of the program ends.
extern "C" fn before_leaving() {
    if !is_borrowed() {
        sovia_sockets::thread_leaves();
    }
}
