# Adds up the output of several `cargo test`, and of programs that print lines like theirs.

# A test program that has printed no result has died.
function ended() {
    died += running
    running = 0
}
/^ +(Running|Doc-tests) / {
    ended()
    running = 1
}
# Examples of one library may have several.
/^test result: / {
    running = 0
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
    ended()
    if ($3 != 0 && failed + died == known) died++
    known = failed + died
}
END {
    ended()
    printf "%d passed, %d failed, %d skipped\n", passed + flaky, failed + died - flaky, skipped
}
