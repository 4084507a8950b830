# Writes the table of a run of scripts/matrix as a Markdown page. To be sourced.
# shellcheck shell=bash disable=SC2154

# write_page: reads `$folder/table`. Its lines are a row's name, the stacks' figures and the ratios; or
# #SUBJECT.
write_page() {
    cat <<PAGE
# Real programs over TCP and over Sovia

This page compares unmodified Debian programs over the kernel's TCP and under \`sovia run\`. \`scripts/matrix\`
sets up each program, checks its results, and measures it over TCP and Sovia in turn. \`scripts/matrix --page\`
writes this page; do not edit it by hand.

- machine: $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -1), $(nproc) processors, $(awk '/MemTotal/ { printf "%.0f GB", $2 / 1e6 }' /proc/meminfo)
- kernel: $(uname -sr), $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)
- Sovia: $("$sovia" --version | sed 's/^sovia *//')$(git -C "$here" log -1 --format=', commit %h' 2>/dev/null)
- date: $(date -u +%F), rounds: $rounds, load average before the first round: $load_before

Each figure is the median of the rounds, with the least and the greatest in brackets. Higher figures are
better. Each round measures TCP and Sovia within seconds of each other, and gives one ratio. The ratio is
Sovia's figure divided by TCP's: 2 means that Sovia is twice as fast. The last column has the median, least
and greatest ratio.
PAGE
    awk -F '\t' -v stacks="${stacks[*]}" '
        BEGIN { count = split(stacks, stack, " ") }
        /^#/ { subject = substr($0, 2); next }
        subject != "" {
            printf "\n## %s\n\n| program and load (1/s: operations a second) |", subject
            for (s = 1; s <= count; s++) printf " %s |", name(stack[s])
            for (s = 1; s <= count; s++) if (stack[s] != "sovia") printf " Sovia divided by %s |", name(stack[s])
            printf "\n|"
            for (s = 0; s < 2 * count; s++) printf "---|"
            printf "\n"
            subject = ""
        }
        {
            printf "|"
            for (f = 1; f <= 2 * count; f++) printf " %s |", f <= NF ? $f : ""
            printf "\n"
            rows++
            if (NF <= count + 1) { without++; next }
            split($(count + 2), part, /[ ()]+/)
            # part: the median, the least, "to", the most.
            if (part[1] > 1.3) more++
            if (part[1] > 2) twice++
            if (part[4] < 1) { less++; slow = slow "\n- " $1 ": " $(count + 2) }
        }
        END {
            printf "\n## Count\n\n"
            printf "Of %d rows, %d have a median ratio above 1.3, and %d have one above 2.\nRows with a ratio below 1 in every round: %d.", rows, more, twice, less
            if (without) printf " Rows without a correct result: %d.", without
            printf "\n%s", slow == "" ? "" : slow "\n"
        }
        function name(word) { return word == "tcp" ? "TCP" : word == "sovia" ? "Sovia" : "an older Sovia" }' "$folder/table"
    cat <<PAGE

## Versions

$(dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version}\n' "${packages[@]}" 2>/dev/null | sed -n 's/^ii *//p' |
        sort -u | awk '{ text = text (text ? ", " : "") $1 " " $2 } END { print text }' | fold -s -w 118 | sed 's/ *$//')
PAGE
}
