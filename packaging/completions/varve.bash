# Varve: a key-value storage engine. MIT licence, see LICENSE.
# Completion for bash of Varve's programs: commands, options, files. All is read
# from the help of the program that is completed, so that it is never out of date.

# Prints the commands of a program, if it has any.
_varve_commands() {
  case ${1##*/} in
    varve) "$1" help | sed -nE 's/^  ([a-z][a-z-]*) .*/\1/p' && echo help ;;
    varve-lab) "$1" --help | grep -oE '^  [a-z -]+\.$' | tr -d . | xargs -n1 ;;
  esac
}

# Prints the help of a program, or of one of its commands.
_varve_help() {
  case $2 in
    '') "$1" --help ;;
    help) "$1" help help ;;
    *) "$1" "$2" --help ;;
  esac 2> /dev/null
}

_varve() {
  local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]}
  local before=${COMP_WORDS[COMP_CWORD - 1]} option='' command='' i help commands
  COMPREPLY=()

  # The command is the first word that is one, and not an option's value.
  commands=" $(_varve_commands "$program" 2> /dev/null | tr '\n' ' ') "
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i - 1]} == = || $commands != *" ${COMP_WORDS[i]} "* ]] && continue
    command=${COMP_WORDS[i]}
    break
  done
  help=$(_varve_help "$program" "$command")

  # --db=DIR is three words, --db DIR two.
  option=$before
  if [[ $word == = ]]; then
    word=''
  elif [[ $before == = ]]; then
    option=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if [[ $option == --* ]]; then
    local name=${option#--} line
    line=$(grep -m1 -E -- "^  --${name//-/[-_]}=" <<< "$help")
    case ${line#*=} in
      '') ;;
      DIR* | BACKUPS*) mapfile -t COMPREPLY < <(compgen -d -- "$word") && return ;;
      FILE*) mapfile -t COMPREPLY < <(compgen -f -- "$word") && return ;;
      OP*)
        line=${line##*OP }
        line=${line//,/}
        mapfile -t COMPREPLY < <(compgen -W "${line// or / }" -- "$word")
        return
        ;;
      *)
        [[ $name != property ]] || mapfile -t COMPREPLY < <(
          compgen -W "$(grep -oE 'varve\.[a-z-]+' <<< "$help")" -- "$word")
        return
        ;;
    esac
  fi

  if [[ $word == -* ]]; then
    # The second form is that of varve-bench.
    mapfile -t COMPREPLY < <(compgen -W "--help $(sed -nE \
      -e 's/^  (--[a-z_-]+)([= ].*|$)/\1/p' \
      -e 's/^    -([a-z_0-9]+) \(.*/--\1/p' <<< "$help")" -- "$word")
    return
  fi
  local usage
  usage=$(sed -n '1{s/--[a-z_]*=[A-Z]*//g;p}' <<< "$help")
  usage=${usage//'[OPTION...]'/}
  case $usage in
    *create\ NAME*) mapfile -t COMPREPLY < <(compgen -W 'list create drop' -- "$word") ;;
    *DIRECTORY*) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    *FILE* | *TABLE* | *PROGRAM*) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    *) [[ -n $command && $command != help ]] ||
      mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word") ;;
  esac
}

complete -o filenames -F _varve varve varve-bench varve-lab varve-latency varve-leveldb varve-rocksdb
