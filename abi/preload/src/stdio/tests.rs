use super::*;
use crate::tests::{Pair, close, pipe, start};
use sovia_sockets::native;

type Printf = unsafe extern "C" fn(c_int, *const c_char, ...) -> c_int;

/// Returns the hook of `dprintf` with its C signature.
fn dprintf() -> Printf {
    // SAFETY: the assembly implements the signature of libc's `dprintf`.
    unsafe { core::mem::transmute::<unsafe extern "C" fn(), Printf>(variadic::dprintf) }
}

/// Reads the bytes in a pipe.
fn read_pipe(fd: c_int) -> Vec<u8> {
    let mut bytes = vec![0u8; 4096];
    // SAFETY: `bytes` has room for `bytes.len()` bytes.
    let n = unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()) };
    bytes.truncate(usize::try_from(n).unwrap());
    bytes
}

#[test]
fn the_tables_of_libcs_streams_have_the_librarys_functions() {
    start();
    for table in [c"_IO_file_jumps", c"_IO_wfile_jumps"] {
        // SAFETY: the symbol is a table of 21 words, and `place` is less than 21.
        let word = |place: usize| unsafe {
            let table = libc::dlsym(libc::RTLD_NEXT, table.as_ptr()).cast::<usize>();
            assert!(!table.is_null());
            table.add(place).read()
        };
        assert_eq!(word(14), stream::read as *const () as usize, "{table:?}");
        assert_eq!(word(15), stream::write as *const () as usize, "{table:?}");
        assert_eq!(word(17), stream::close as *const () as usize, "{table:?}");
    }
}

#[test]
fn streams_of_files_still_read_write_and_close_by_libc() {
    start();
    // SAFETY: this function owns the stream and the buffers.
    unsafe {
        let file = libc::tmpfile();
        assert!(libc::fputs(c"a line\nanother\n".as_ptr(), file) >= 0);
        libc::rewind(file);
        let mut line = [0; 32];
        assert!(!libc::fgets(line.as_mut_ptr(), 32, file).is_null());
        assert_eq!(core::ffi::CStr::from_ptr(line.as_ptr()), c"a line\n");
        let fd = libc::fileno(file);
        assert_eq!(libc::fclose(file), 0);
        assert_eq!(libc::fcntl(fd, libc::F_GETFD), -1);
    }
}

#[test]
fn a_stream_over_a_connection_is_carried_by_the_vi() {
    let pair = Pair::accelerated();
    let [one, other] = pair.fds;
    let before = native::info(one).bytes_sent;
    // SAFETY: this function owns the streams and the buffers. `fclose` closes a duplicate of the descriptor.
    unsafe {
        let own = crate::descriptors::dup(one);
        let writes = libc::fdopen(own, c"w".as_ptr());
        assert!(libc::fputs(c"over the VI\n".as_ptr(), writes) >= 0);
        assert_eq!(libc::fflush(writes), 0);
        assert_eq!(native::info(one).bytes_sent, before + 12);
        let reads = libc::fdopen(crate::descriptors::dup(other), c"r".as_ptr());
        let mut line = [0; 32];
        assert!(!libc::fgets(line.as_mut_ptr(), 32, reads).is_null());
        assert_eq!(core::ffi::CStr::from_ptr(line.as_ptr()), c"over the VI\n");
        assert_eq!((libc::fclose(writes), libc::fclose(reads)), (0, 0));
        assert!(
            matches!(table::get(own), Entry::Foreign),
            "the stream's descriptor is off the table"
        );
    }
    assert!(pair.is_accelerated());
}

#[test]
fn a_stream_whose_write_fails_has_its_error_set() {
    let pair = Pair::accelerated();
    // SAFETY: this function owns the stream. `fclose` closes a duplicate of the descriptor.
    unsafe {
        let writes = libc::fdopen(crate::descriptors::dup(pair.fds[0]), c"w".as_ptr());
        assert_eq!(crate::sockets::shutdown(pair.fds[0], libc::SHUT_WR), 0);
        assert!(libc::fputs(c"not sent".as_ptr(), writes) >= 0);
        assert_eq!(libc::fflush(writes), libc::EOF);
        assert_ne!(libc::ferror(writes), 0);
        libc::fclose(writes);
    }
}

#[test]
fn dprintf_formats_more_arguments_than_there_are_registers() {
    const WANTED: &[u8] = b"1 2 3 4 5 6 7 8; 0.5 1.5 2.5 3.5 4.5 5.5 6.5 7.5 8.5 9.5; end";
    let format = c"%d %ld %d %d %d %d %d %d; %g %g %g %g %g %g %g %g %g %g; %s".as_ptr();
    let pair = Pair::accelerated();
    let fds = pipe();
    for fd in [fds[1], pair.fds[0]] {
        // SAFETY: the arguments have the types that the format demands.
        let n = unsafe {
            let end = c"end".as_ptr();
            dprintf()(
                fd, format, 1, 2i64, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5,
                9.5, end,
            )
        };
        assert_eq!(n as usize, WANTED.len(), "descriptor {fd}");
    }
    assert_eq!(read_pipe(fds[0]), WANTED);
    assert_eq!(pair.receive(1), WANTED);
    assert!(pair.is_accelerated());
    close(fds);
}

#[test]
fn dprintf_of_more_than_its_first_buffer_sends_all() {
    let pair = Pair::accelerated();
    // SAFETY: the arguments have the types that the format demands.
    let n = unsafe { dprintf()(pair.fds[0], c"%3000d|".as_ptr(), 7) };
    assert_eq!(n, 3001);
    let mut all = Vec::new();
    while all.len() < 3001 {
        all.extend(pair.receive(1));
    }
    assert!(all.ends_with(b"  7|") && all[..2999].iter().all(|&byte| byte == b' '));
}

#[test]
fn dprintf_to_a_closed_descriptor_is_ebadf() {
    start();
    let fd = crate::tests::kernel::closed_number();
    // SAFETY: the arguments have the types that the format demands.
    let n = crate::tests::kernel::of_c(|| unsafe { dprintf()(fd, c"%d".as_ptr(), 7) } as isize);
    assert_eq!(n, Err(libc::EBADF));
}
