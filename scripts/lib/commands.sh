# Runs the commands in a page of documentation. To be sourced.

# commands PAGE PROGRAM: prints the commands in PAGE's blocks ```sh by=PROGRAM, unchanged.
commands() {
    awk -v tag='```sh by='"$2" '/^```/ { inside = $0 == tag; next } inside' "$1"
}
