# Varve: a key-value storage engine. MIT licence, see LICENSE.
# Completion of `varve` for bash: commands, options, files.

_varve() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local name='' option='' i
  local commands='get put delete scan batchput ingest-from export-to levels
    stats check repair compact checkpoint dump-sst dump-manifest dump-wal trace
    help'
  local command=''
  COMPREPLY=()

  # The command is the first word that is neither an option nor its value.
  for ((i = 1; i < COMP_CWORD; ++i)); do
    name=${COMP_WORDS[i]}
    case $name in
      --db | --from | --to | --limit | --property | --html)
        # The value, behind a "=" that bash makes a word of, or at once.
        ((++i))
        [[ ${COMP_WORDS[i]} == = ]] && ((++i))
        ;;
      --*) ;;
      *)
        command=$name
        break
        ;;
    esac
  done

  # --db=DIR is three words, --db DIR two.
  option=$before
  if [[ $word == = ]]; then
    option=$before word=''
  elif [[ $before == = ]]; then
    option=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  case $option in
    --db)
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return
      ;;
    --html)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    --from | --to | --limit) return ;;
    --property)
      mapfile -t COMPREPLY < <(compgen -W 'varve.stats varve.levelstats
        varve.sstables varve.statistics varve.prometheus
        varve.estimate-num-keys varve.total-sst-files-size varve.memory' \
        -- "$word")
      return
      ;;
  esac

  local options='--db --help --version'
  case $command in
    get) options='--db --hex --json --ignore_case --help' ;;
    put) options='--db --hex --create_if_missing --ignore_case --help' ;;
    delete) options='--db --hex --ignore_case --help' ;;
    scan)
      options='--db --from --to --limit --hex --json --ignore_case --help'
      ;;
    batchput)
      options='--db --hex --create_if_missing --ignore_case --progress --help'
      ;;
    ingest-from)
      options='--db --create_if_missing --ignore_case --progress --help'
      ;;
    export-to)
      options='--db --from --to --hex --ldb --ignore_case --progress --help'
      ;;
    levels) options='--db --hex --help' ;;
    stats) options='--db --property --ignore_case --help' ;;
    check) options='--db --progress --help' ;;
    repair) options='--db --ignore_case --progress --help' ;;
    compact)
      options='--db --from --to --hex --ignore_case --progress --help'
      ;;
    checkpoint) options='--db --ignore_case --help' ;;
    dump-sst)
      options='--footer --properties --index --blocks --keys --verify --hex
        --progress --help'
      ;;
    dump-manifest) options='--db --hex --help' ;;
    dump-wal) options='--hex --help' ;;
    trace) options='--limit --html --help' ;;
  esac

  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
    return
  fi
  case $command in
    '' | help) mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word") ;;
    checkpoint) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    ingest-from | export-to | dump-* | trace)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      ;;
  esac
}

complete -o filenames -F _varve varve
