//! Processes: fork, exec, and what they take along.

use crate::jumps::{before_context, before_jump, before_switch};
use crate::set_errno;
use crate::stdio::{before_libc, before_log};
use core::ffi::CStr;
use libc::{FILE, c_char, c_int, c_long, c_void, environ};
use smallvec::SmallVec;
use sovia_calls::boundary::{may_look, take};
use sovia_calls::descriptors::created;
use sovia_sockets::fallback;
use sovia_sockets::inheritance::Target;
use sovia_sockets::ops;
use sovia_sockets::process::is_borrowed;
use sovia_sys::call;
use std::ffi::CString;
use std::sync::OnceLock;

/// A system call that makes a child or becomes another program, made by `kernel`.
///
/// # Safety
/// `first` must be valid as its first argument.
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
    // SAFETY: as the caller vouches.
    unsafe { crate::children::system_call(number, first, kernel) }
}

/// An exec. If it comes back it has failed.
fn replacing<'a, T: From<i8>>(target: impl FnOnce() -> Target<'a>, exec: impl FnOnce() -> T) -> T {
    let left = match fallback::before_exec(target) {
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

/// The environment of a program that gets this one's.
fn inherited_environment() -> *const *const c_char {
    // SAFETY: libc's pointer, which is there from the start.
    unsafe { environ.cast_const().cast() }
}

/// The program at that path, if it takes the library.
///
/// # Safety
/// `path` must be a string, and `environment` a list of strings that ends with null, or null.
unsafe fn at_path<'a>(path: *const c_char, environment: *const *const c_char) -> Target<'a> {
    // SAFETY: as the caller vouches.
    match unsafe { string_if_readable(path) } {
        // SAFETY: as the caller vouches.
        Some(path) if is_sovia(path) => Target::Command(path),
        // SAFETY: as the caller vouches.
        Some(path) if unsafe { has_library(environment) } => Target::Path(path),
        _ => Target::Unknown,
    }
}

/// The program with that name in PATH, if it takes the library.
///
/// # Safety
/// The contract of [`at_path`] holds here, too.
unsafe fn by_name<'a>(name: *const c_char, environment: *const *const c_char) -> Target<'a> {
    // SAFETY: as the caller vouches; a variable's value is a string.
    unsafe {
        match string_if_readable(name) {
            Some(path) if path.to_bytes().contains(&b'/') && is_sovia(path) => {
                Target::Command(path)
            }
            Some(name) if has_library(environment) => {
                Target::Name(name, string(libc::getenv(c"PATH".as_ptr())))
            }
            _ => Target::Unknown,
        }
    }
}

/// A string, if there is one.
///
/// # Safety
/// `text` must be a string, or null.
unsafe fn string<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: as the caller vouches.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// A string, if all of it can be read. What cannot be read is the kernel's to refuse.
///
/// # Safety
/// The contract of [`string`] holds here, too; the memory may be unmapped.
unsafe fn string_if_readable<'a>(text: *const c_char) -> Option<&'a CStr> {
    const LONGEST: usize = libc::PATH_MAX as usize;
    if text.is_null() {
        return None;
    }
    // SAFETY: bytes of the program's.
    let ends = |i| unsafe { take(text.wrapping_add(i)) }.map(|byte| byte == 0);
    let end = (0..LONGEST).map(ends).find(|end| *end != Ok(false))?;
    // SAFETY: as the caller vouches, and it has just been read to its end.
    end.is_ok().then(|| unsafe { CStr::from_ptr(text) })
}

/// Where this library is.
static LIBRARY: OnceLock<&CStr> = OnceLock::new();

/// Before the program's own code: finds out where this library is.
pub(crate) fn start() {
    // SAFETY: an all-zero structure is a valid one, and is filled in.
    let mut found: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: the address is this function's own.
    let known = unsafe { libc::dladdr(start as *const c_void, &raw mut found) } != 0;
    // SAFETY: the name lasts as long as the library is loaded.
    if let Some(name) = unsafe { string(found.dli_fname) }.filter(|_| known) {
        let _ = LIBRARY.set(name);
    }
}

/// Whether LD_PRELOAD names this library, and not /etc/ld.so.preload alone.
pub(crate) fn is_asked_for() -> bool {
    // SAFETY: libc's list of this program's variables.
    unsafe { has_library(inherited_environment()) }
}

/// Whether it is the command that runs programs with the library: in the same folder, or where `make install` puts it.
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

/// Whether a program with that environment gets this very library.
///
/// # Safety
/// The contract of [`at_path`] holds here, too.
unsafe fn has_library(environment: *const *const c_char) -> bool {
    let Some(library) = LIBRARY.get() else { return false };
    // SAFETY: the caller passes a list of strings that ends with null, or null.
    let preloaded = unsafe { preloaded(environment) };
    preloaded.is_some_and(|(_, value)| names(&value).any(|name| name == library.to_bytes()))
}

/// Bytes of a variable's value.
type Value = SmallVec<[u8; 512]>;

const LD_PRELOAD: &[u8] = b"LD_PRELOAD=";

/// Libraries in the value of LD_PRELOAD.
fn names(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| matches!(byte, b':' | b' '))
}

/// The variables of an environment.
///
/// # Safety
/// The contract of [`at_path`] holds here, too.
unsafe fn variables(environment: *const *const c_char) -> impl Iterator<Item = *const c_char> {
    // SAFETY: pointers of the program's.
    let pointer = move |i: usize| unsafe { take(environment.wrapping_add(i)) };
    (0..).map_while(move |i| pointer(i).ok().filter(|at| !at.is_null()))
}

/// The first LD_PRELOAD of an environment, which counts: its number among the variables, and its value.
///
/// # Safety
/// The contract of [`at_path`] holds here, too.
unsafe fn preloaded(environment: *const *const c_char) -> Option<(usize, Value)> {
    if environment.is_null() {
        return None;
    }
    let is_it = |variable: &*const c_char| {
        // SAFETY: bytes of the program's.
        let byte = |i| unsafe { take(variable.wrapping_add(i)) };
        LD_PRELOAD.iter().enumerate().all(|(i, &wanted)| byte(i) == Ok(wanted as c_char))
    };
    // SAFETY: the caller passes a list of strings that ends with null.
    let (n, variable) = unsafe { variables(environment) }.enumerate().find(|(_, at)| is_it(at))?;
    // SAFETY: bytes of the program's.
    let bytes = (LD_PRELOAD.len()..).map_while(|i| unsafe { take(variable.wrapping_add(i)) }.ok());
    Some((n, bytes.take_while(|byte| *byte != 0).map(|byte| byte as u8).collect()))
}

/// An environment that is another one but for LD_PRELOAD.
struct Environment {
    variables: SmallVec<[*const c_char; 128]>,
    /// LD_PRELOAD's place, and the variable.
    place: usize,
    preload: Value,
}

impl Environment {
    /// The list of its variables, for as long as the environment is there.
    fn list(&mut self) -> *const *const c_char {
        self.variables[self.place] = self.preload.as_ptr().cast();
        self.variables.as_ptr()
    }
}

/// Returns an environment that does not name the library, where this process's root folder does not have it. `None` where it
/// may stay: the linker has nothing to complain of on the program's standard error.
///
/// # Safety
/// The contract of [`at_path`] holds here, too.
unsafe fn without_library(environment: *const *const c_char) -> Option<Environment> {
    let library = LIBRARY.get()?;
    // Bad pointers would kill where nothing guards against them. The list of libc has none.
    if !may_look() && environment != inherited_environment() {
        return None;
    }
    // SAFETY: the caller passes a list of strings that ends with null, or null.
    let (place, value) = unsafe { preloaded(environment) }?;
    let is_library = |name: &[u8]| name == library.to_bytes();
    if !names(&value).any(is_library) || call::exists(library) {
        return None;
    }
    let others: SmallVec<[&[u8]; 8]> = names(&value).filter(|name| !is_library(name)).collect();
    let mut preload = Value::from_slice(LD_PRELOAD);
    preload.extend_from_slice(&others.join(&b':'));
    preload.push(0);
    // SAFETY: `environment` is a list of strings that ends with null: `preloaded` has found a variable there.
    let list = unsafe { variables(environment) }.chain([core::ptr::null()]);
    Some(Environment { variables: list.collect(), place, preload })
}

/// Calls `start` with the environment for a program that this process starts.
///
/// # Safety
/// The contract of [`at_path`] holds here, too.
pub(crate) unsafe fn in_this_root<R>(
    environment: *const *const c_char,
    start: impl FnOnce(*const *const c_char) -> R,
) -> R {
    // SAFETY: the caller passes a list of strings that ends with null, or null.
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
        fallback::before_spawn();
        real!()(command)
    }

    /// Commands in the text read and write what they inherit.
    fn wordexp(text: *const c_char, words: *mut c_void, flags: c_int) -> c_int {
        fallback::before_spawn();
        real!()(text, words, flags)
    }

    fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
        fallback::before_spawn();
        let file = real!()(command, mode);
        if !file.is_null() {
            created(libc::fileno(file));
        }
        file
    }
}

// Some functions take their arguments one by one, which a function written in Rust cannot receive.
// These pass all registers and the stack on untouched, after a preparation that gets the first
// argument.
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
                    // Floating-point arguments, too.
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

        mod variadic {
            #![allow(non_upper_case_globals)]
            use core::sync::atomic::AtomicUsize;
            $(pub(super) static $name: AtomicUsize = AtomicUsize::new(0);)*
        }

        /// Resolves the functions that the trampolines jump to.
        pub(crate) fn resolve_variadic() {
            use core::sync::atomic::Ordering;
            $(
                let name = concat!(stringify!($name), "\0").as_ptr().cast();
                // SAFETY: a C string and a pseudo handle that glibc defines.
                let address = unsafe { libc::dlsym(libc::RTLD_NEXT, name) } as usize;
                variadic::$name.store(address, Ordering::Relaxed);
            )*
        }
    };
}

variadic!(
    execl after before_exec,
    execlp after before_exec,
    execle after before_exec,
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

/// The calling thread of the program's leaves.
extern "C" fn before_leaving() {
    if !is_borrowed() {
        sovia_sockets::thread_leaves();
    }
}

/// The functions for which this runs do not come back to it, if they fail.
extern "C" fn before_exec() {
    let _ = fallback::before_exec(|| Target::Unknown).map(core::mem::forget);
}
