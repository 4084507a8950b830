//! Look-ups of libc's functions in libc itself, by `dlopen("libc.so.6")` and `dlsym`. Foreign function interfaces
//! of interpreters make such look-ups. The linker then does not search this library. So the hook of `dlsym`
//! replaces a function of libc by the function's hook.

use crate::objects::{hook_of, real_address, real_dlsym};
use crate::real::Real;
use crate::{bindings, objects};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use libc::{c_char, c_int, c_void};

static DLOPEN: Real = Real::new(c"dlopen");

/// Set once the program has opened a library with RTLD_DEEPBIND.
static OPENED_DEEP: AtomicBool = AtomicBool::new(false);

/// Prepares the hooks of `dlopen` and `dlsym`. The library's constructor calls this function, before the program's
/// own code runs.
pub(crate) fn start() {
    DLOPEN.resolve();
    objects::start();
}

extern "C" fn real_dlopen() -> usize {
    DLOPEN.callable()
}

/// Looks up a function in the library `handle`. If libc defines the function and a hook exists, returns the hook.
unsafe extern "C" fn dlsym_of_handle(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    if OPENED_DEEP.load(Ordering::Relaxed) {
        bindings::renew();
    }
    // SAFETY: the caller guarantees the contract of `dlsym`.
    unsafe {
        let found = real_dlsym()(handle, name);
        if found.is_null() {
            return found;
        }
        hook_of(found as usize, name).map_or(found, ptr::with_exposed_provenance_mut)
    }
}

// The linker uses the return address of `dlsym` to decide what RTLD_DEFAULT (0) and RTLD_NEXT (-1) mean. It uses
// the return address of `dlopen` to decide which folders it searches. So the hooks of both functions keep the
// caller's return address.

/// Jumps to the address that `{real}` returns. The two arguments and the return address stay unchanged.
#[cfg(target_arch = "x86_64")]
macro_rules! to_real {
    () => {
        concat!(
            "push rdi\n",
            "push rsi\n",
            "sub rsp, 8\n",
            "call {real}\n",
            "add rsp, 8\n",
            "pop rsi\n",
            "pop rdi\n",
            "jmp rax\n",
        )
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! to_real {
    () => {
        concat!(
            "stp x29, x30, [sp, #-16]!\n",
            "stp x0, x1, [sp, #-16]!\n",
            "bl {real}\n",
            "mov x16, x0\n",
            "ldp x0, x1, [sp], #16\n",
            "ldp x29, x30, [sp], #16\n",
            "br x16\n",
        )
    };
}

#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        "lea rax, [rdi + 1]",
        "cmp rax, 1",
        "ja {of_handle}",
        to_real!(),
        of_handle = sym dlsym_of_handle,
        real = sym real_address,
    );
}

#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(path: *const c_char, how: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        "test esi, {deep}",
        "jz 2f",
        "mov byte ptr [rip + {opened_deep}], 1",
        "2:",
        to_real!(),
        deep = const libc::RTLD_DEEPBIND,
        opened_deep = sym OPENED_DEEP,
        real = sym real_dlopen,
    );
}

#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        "add x16, x0, 1",
        "cmp x16, 1",
        "b.ls 2f",
        "b {of_handle}",
        "2:",
        to_real!(),
        of_handle = sym dlsym_of_handle,
        real = sym real_address,
    );
}

#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(path: *const c_char, how: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        "tst w1, {deep}",
        "b.eq 2f",
        "adrp x16, {opened_deep}",
        "add x16, x16, #:lo12:{opened_deep}",
        "mov w17, 1",
        "strb w17, [x16]",
        "2:",
        to_real!(),
        deep = const libc::RTLD_DEEPBIND,
        opened_deep = sym OPENED_DEEP,
        real = sym real_dlopen,
    );
}

#[cfg(test)]
mod tests;
