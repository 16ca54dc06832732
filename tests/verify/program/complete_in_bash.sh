# bash complete_in_bash.sh SCRIPT WORD...: what SCRIPT completes the last word to, one a line. The words are those
# that bash makes of a line: "--schedule=p" is three of them.
source "$1" || exit 2
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMPREPLY=()
_shardproof
((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"
