//! Defines the unwinder's functions for libraries that are loaded into programs of other projects.
//!
//! Rust's standard library refers to the unwinder, so the linker makes libgcc_s.so.1 a dependency of the library.
//! Small container images lack that file. There the dynamic linker ends each program that should load the library. A
//! library built with `panic = "abort"` raises no exception. Only two callers of the unwinder are left:
//!
//! - the message of a panic, for the trace that RUST_BACKTRACE asks for;
//! - the personality function of the standard library's frames, while a cancelled thread or an exception of the
//!   program unwinds through them. Then the process has an unwinder, because the unwinder makes this call.
//!
//! So this crate defines the functions for the library alone. Each of them looks up libgcc_s in the process when it
//! is called. Without libgcc_s, a trace has no frames. Where panics unwind, as in tests, this crate is empty.

#![cfg(panic = "abort")]
#![allow(missing_docs, reason = "the functions are the unwinder's and documented there")]

use core::arch::global_asm;
use core::ffi::CStr;

/// Returns the address of the process's function `name`, or 0 if there is none.
fn find(name: &CStr) -> usize {
    // SAFETY: C strings; the library stays loaded, since its handle is not closed.
    unsafe {
        let unwinder = libc::dlopen(c"libgcc_s.so.1".as_ptr(), libc::RTLD_LAZY);
        if unwinder.is_null() { 0 } else { libc::dlsym(unwinder, name.as_ptr()) as usize }
    }
}

/// Instructions of a function that looks up another one by `{find}` and jumps to it. The callee sees the caller's
/// arguments and frame. Without a callee, the function returns 0. The symbols are hidden, so the program's own calls
/// reach its own unwinder.
#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    () => {
        "push rdi
         push rsi
         push rdx
         call {find}
         pop rdx
         pop rsi
         pop rdi
         test rax, rax
         jz 2f
         jmp rax
      2: ret"
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    () => {
        "stp x29, x30, [sp, #-48]!
         stp x0, x1, [sp, #16]
         str x2, [sp, #32]
         bl {find}
         mov x16, x0
         ldr x2, [sp, #32]
         ldp x0, x1, [sp, #16]
         ldp x29, x30, [sp], #48
         cbz x16, 2f
         br x16
      2: mov x0, #0
         ret"
    };
}

macro_rules! passed_on {
    ($($name:ident = $symbol:literal,)*) => {
        $(
            extern "C" fn $name() -> usize {
                const NAME: &str = concat!($symbol, "\0");
                CStr::from_bytes_with_nul(NAME.as_bytes()).map_or(0, find)
            }

            global_asm!(
                concat!(".globl ", $symbol),
                concat!(".hidden ", $symbol),
                concat!(".type ", $symbol, ", %function"),
                concat!($symbol, ":"),
                jump!(),
                find = sym $name,
            );
        )*
    };
}

// None has more than three arguments, and all are integers or pointers.
passed_on! {
    backtrace = "_Unwind_Backtrace",
    get_ip = "_Unwind_GetIP",
    get_ip_info = "_Unwind_GetIPInfo",
    get_cfa = "_Unwind_GetCFA",
    set_gr = "_Unwind_SetGR",
    set_ip = "_Unwind_SetIP",
    get_language_specific_data = "_Unwind_GetLanguageSpecificData",
    get_region_start = "_Unwind_GetRegionStart",
    get_data_rel_base = "_Unwind_GetDataRelBase",
    get_text_rel_base = "_Unwind_GetTextRelBase",
    find_enclosing_function = "_Unwind_FindEnclosingFunction",
    resume = "_Unwind_Resume",
    raise_exception = "_Unwind_RaiseException",
    delete_exception = "_Unwind_DeleteException",
}
