# Completion of %PROGRAM% for bash, written by '%PROGRAM% --completion bash'.

_%PROGRAM%() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command= i
  local kind= words= head= options= topics= commands= files=no
  COMPREPLY=()

  # The command is the first word that is neither an option nor the value of one. Bash takes "--option=value"
  # for three words.
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      =) i=$((i + 1)) ;;
      %FLAGS%) ;;
      -*) [[ ${COMP_WORDS[i + 1]} == = ]] || i=$((i + 1)) ;;
      *) command=${COMP_WORDS[i]}; break ;;
    esac
  done
  case $command in
%COMMANDS%  esac

  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  case $command:$before in
%VALUES%    *:--help) kind=words words=$topics ;;
  esac
  # Behind -- stands the command line of a run.
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ ${COMP_WORDS[i]} == -- ]] && kind=file
  done
  if [[ -z $kind ]]; then
    if [[ $word == -* || $files == no && -z $commands ]]; then
      kind=words words=$options
    elif [[ -n $commands ]]; then
      kind=words words=$commands
    elif [[ $files == any ]]; then
      kind=file
    else
      kind=scenario
    fi
  fi

  case $kind in
    words)
      # Of a list with commas, the word behind the last comma is completed.
      if [[ $head == list && $word == *,* ]]; then head=${word%,*},; else head=; fi
      mapfile -t COMPREPLY < <(compgen -P "$head" -W "$words" -- "${word##*,}")
      ;;
    file)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      ;;
    scenario)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$word"; compgen -f -X '!*.ini' -- "$word")
      ;;
  esac
}
complete -F _%PROGRAM% %PROGRAM%
