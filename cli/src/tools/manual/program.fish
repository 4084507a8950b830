
# Completes the command line of the program after `sovia run`.
function __fish_sovia_program
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -e words[1] # sovia
    set -e words[1] # run
    set -l is_program
    while set -q words[1]
        switch $words[1]
            case --
                set -e words[1]
                set is_program 1
                break
            case --only --except --trust --nic --protocol
                # The option and its value. Without the value, the current word is the value.
                set -q words[2]; or return
                set -e words[1]
                set -e words[1]
            case '-*'
                set -e words[1]
            case '*'
                break
        end
    end
    # The current word is an option of sovia itself.
    if not set -q words[1]; and test -z "$is_program"; and string match -q -- '-*' "$current"
        return
    end
    complete -C (string join ' ' -- (string escape -- $words) "$current")
end
complete -c sovia -n "__fish_sovia_using_subcommand run" -f -a "(__fish_sovia_program)"
