# Commands of a page of documentation. Sourced.

# commands PAGE PROGRAM: prints the commands of PAGE's blocks ```sh by=PROGRAM, as they stand there.
commands() {
    awk -v tag='```sh by='"$2" '/^```/ { inside = $0 == tag; next } inside' "$1"
}
