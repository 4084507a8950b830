# Adds up the output of several `cargo test`.

/^ +(Running|Doc-tests) / { started++ }
/^test result: / {
    ended++
    passed += $4
    failed += $6
    skipped += $8
}
# `test a::name ... SKIPPED:` where output is not captured; one per test, whatever it prints.
match($0, /SKIPPED: /) {
    split(substr($0, RSTART + RLENGTH), part, ": ")
    if (!(part[1] in seen)) {
        seen[part[1]] = 1
        skipped++
        passed--
    }
}
# Failed once, and passed when it ran alone.
/^flaky / { flaky++ }
# A run without any failed test that still went wrong did not compile or was cut off. (Programs say their own `status` in what tests
# show.)
/^scripts\/test: status / {
    if ($3 != 0 && failed + started - ended == known) failed++
    known = failed + started - ended
}
END {
    # A test program that died has no result.
    printf "%d passed, %d failed, %d skipped\n", passed + flaky, failed + started - ended - flaky, skipped
}
