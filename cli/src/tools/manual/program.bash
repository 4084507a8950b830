
# Completes the command of the program after `sovia run`, and what sovia itself parses before that.
_sovia_or_program() {
    local at=2
    if [[ ${COMP_WORDS[1]} == run ]]; then
        while [[ $at -lt $COMP_CWORD ]]; do
            case ${COMP_WORDS[at]} in
                --) at=$((at + 1)); break ;;
                # Their values, which the shell splits at each `=` and `:`.
                --only | --except | --trust | --nic | --protocol)
                    at=$((at + 1))
                    [[ ${COMP_WORDS[at]-} != = ]] || at=$((at + 1))
                    at=$((at + 1))
                    while [[ ${COMP_WORDS[at]-} == *[=:]* ]]; do at=$((at + 2)); done ;;
                --respect-filters)
                    at=$((at + 1))
                    while [[ ${COMP_WORDS[at]-} == *[=:]* ]]; do at=$((at + 2)); done ;;
                -*) at=$((at + 1)) ;;
                *) break ;;
            esac
        done
        if [[ $at -lt $COMP_CWORD || $at -eq $COMP_CWORD && $2 != -* ]]; then
            if declare -F _command_offset > /dev/null; then
                _command_offset "$at"
            elif [[ $at -eq $COMP_CWORD ]]; then
                mapfile -t COMPREPLY < <(compgen -c -- "$2")
            else
                mapfile -t COMPREPLY < <(compgen -f -- "$2")
            fi
            return
        fi
    fi
    if [[ ${COMP_WORDS[1]} == @(enable|disable) && $2 != -* ]]; then
        case $3 in
            # Options with a value, which is not a unit.
            --only | --except | --trust | --nic | --root | =) ;;
            *) _sovia_units "$2"; return ;;
        esac
    fi
    _sovia "$@"
}

# Completes names of systemd's services.
_sovia_units() {
    local names
    names=$(systemctl list-unit-files --type=service --no-legend --no-pager --plain 2> /dev/null | cut -d ' ' -f 1)
    mapfile -t COMPREPLY < <(compgen -W "${names//.service/}" -- "$1")
}
complete -F _sovia_or_program -o bashdefault -o default sovia
