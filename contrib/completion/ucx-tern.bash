# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Completion of the commands of ucx-tern for bash: of what their --help prints.

_ucx_tern_section() { # title command...: the first words below it
    "${@:2}" --help 2>/dev/null | sed -n "/^$1:/,/^\$/ s/^  \([^ ].*\)/\1/p"
}

# The values of an option, if its help ends with a list of them: "one, two [VARIABLE=one]".
_ucx_tern_values() { # option command...
    "${@:2}" --help 2>/dev/null | awk -v option="$1" '
        /^  -/ { here = $1 == option || index($1, "," option) }
        here && sub(/ \[[A-Z_]*=.*/, "") { sub(/^ +/, ""); if ($0 !~ /[^,] /) { gsub(/,/, ""); print } }'
}

_ucx_tern() {
    local command=("${COMP_WORDS[0]}") current=${COMP_WORDS[COMP_CWORD]} i=1 options
    COMPREPLY=()
    if [ "${command[0]##*/}" = softhca ]; then
        if [ "$COMP_CWORD" = 1 ]; then
            mapfile -t COMPREPLY < <(compgen -W "--help --version
                $(_ucx_tern_section Commands "${command[@]}" | sed 's/ .*//')" -- "$current")
            return
        fi
        command+=("${COMP_WORDS[1]}")
        i=2
    fi
    if [ "${command[0]##*/}" = tern-bench ] && [ "$COMP_CWORD" -gt 1 ]; then
        # Those with options of their own.
        case ${COMP_WORDS[1]} in
            sim | gate | replay | scale | order | program | compare)
                command+=("${COMP_WORDS[1]}")
                i=2
                ;;
        esac
    fi
    options=$(_ucx_tern_section Options "${command[@]}" | sed 's/  .*//')
    for (( ; i < COMP_CWORD; ++i)); do
        case ${COMP_WORDS[i]} in
            --) ;;
            -*)
                # Its value is the next word if its help names one.
                grep -qE -- "(^|,)${COMP_WORDS[i]} [A-Z]" <<<"$options" || continue
                if ((++i == COMP_CWORD)); then
                    mapfile -t COMPREPLY < <(compgen -W "$(_ucx_tern_values "${COMP_WORDS[i - 1]}" "${command[@]}")" \
                        -- "$current")
                    return
                fi
                ;;
            *)
                # A file, or the command that is to be run.
                [ "${command[1]:-}" != replay ] || continue
                if declare -F _command_offset >/dev/null; then _command_offset "$i"; fi
                return
                ;;
        esac
    done
    case $current in
        -*) mapfile -t COMPREPLY < <(compgen -W "$(grep -oE -- '--?[a-z-]+' <<<"$options")" -- "$current") ;;
        *)
            case ${command[*]##*/} in
                tern-bench) options=$(_ucx_tern_section Commands "${command[@]}" | sed 's/ .*//') ;;
                'tern-bench replay') return ;; # files
                'softhca help') options="$(_ucx_tern_section Commands softhca | sed 's/ .*//') settings personalities faults" ;;
                'softhca inject') options=$(_ucx_tern_section Faults "${command[@]}" | sed 's/[ =[].*//') ;;
                *) options= ;;
            esac
            mapfile -t COMPREPLY < <(if [ -n "$options" ]; then compgen -W "$options" -- "$current"; else compgen -c -- "$current"; fi)
            ;;
    esac
}

complete -o bashdefault -o default -F _ucx_tern tern-run tern-first-run softhca tern-bench
