# zsh complete_in_zsh.zsh FOLDER LINE...: what an interactive zsh makes of each line and a TAB. FOLDER has _shardproof.
zmodload zsh/zpty || exit 77
zpty shell zsh -f -i
zpty -w shell "PROMPT= RPROMPT= ; stty -echo; setopt no_beep; fpath=(${(q)1} \$fpath); autoload -Uz compinit; \
compinit -u -D; show() { print -r -- \"<<\$BUFFER>>\"; BUFFER= ; }; zle -N show; \
bindkey '^I' complete-word '^X' show; print -r -- rea''dy"
zpty -r -m shell got '*ready*' || exit 1
shift
for typed in "$@"; do
  zpty -n -w shell "$typed"$'\t\x18'
  zpty -r -m shell got '*<<*>>*'
  print -r -- "${${got##*<<}%%>>*}"
done
zpty -d shell
