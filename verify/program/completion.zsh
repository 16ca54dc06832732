#compdef %PROGRAM%
# Completion of %PROGRAM% for zsh, written by '%PROGRAM% --completion zsh'.

_%PROGRAM%() {
  local curcontext=$curcontext state line
  typeset -A opt_args
  local -a commands
  commands=(
%COMMANDS%  )
  _arguments -C \
%GENERAL%        '1: :->command' \
        '*:: :->words' && return
  if [[ $state == command ]]; then
    _describe -t commands command commands
    return
  fi
  case $words[1] in
%CASES%  esac
  return 1
}

_%PROGRAM% "$@"
