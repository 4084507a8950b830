//! The unwinder's names, for libraries that are loaded into other projects' programs.
//!
//! Rust's standard library refers to the unwinder, and so has the linker name libgcc_s.so.1 among what a library needs. Where that file
//! is missing, as in small images of containers, the dynamic linker ends each program into which the library is to be loaded. A library
//! that is built with `panic = "abort"` raises nothing, though. What is left to call the unwinder there is
//!
//! - a panic's message, for the trace that RUST_BACKTRACE asks for;
//! - the personality function of frames of the standard library's, while a thread is cancelled or an exception of the program's goes
//!   past them. The process has its unwinder then, because that is what calls.
//!
//! So the names are defined here, for the library alone, and each asks for the process's libgcc_s when it is called. Without one a trace
//! has no frames. Where panics unwind, as in tests, this crate is empty.

#![cfg(panic = "abort")]
#![allow(missing_docs, reason = "the functions are the unwinder's and documented there")]

use core::arch::global_asm;
use core::ffi::CStr;

/// Where the process's function of that name is; 0 without one.
fn find(name: &CStr) -> usize {
    // SAFETY: C strings; the library stays loaded, since its handle is not closed.
    unsafe {
        let unwinder = libc::dlopen(c"libgcc_s.so.1".as_ptr(), libc::RTLD_LAZY);
        if unwinder.is_null() { 0 } else { libc::dlsym(unwinder, name.as_ptr()) as usize }
    }
}

/// Instructions of a function that asks `{find}` for another one and jumps there, with its arguments and its caller's frame as they
/// were; returns 0 where there is none. Hidden: the program's own calls go to its own unwinder.
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
