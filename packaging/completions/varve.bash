# Varve: a key-value storage engine. MIT licence, see LICENSE.
# Completion of `varve` for bash: commands, options, files.

_varve() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local name='' option='' i
  local commands='get put merge delete delete-range scan count batchput ingest-from
    write-sst ingest-sst export-to levels families prepared follow stats check repair
    compact checkpoint backup restore backups dump-sst dump-manifest dump-wal trace help'
  local command=''
  COMPREPLY=()

  # The command is the first word that is neither an option nor its value.
  for ((i = 1; i < COMP_CWORD; ++i)); do
    name=${COMP_WORDS[i]}
    case $name in
      --db | --family | --from | --to | --prefix | --commit | --rollback | --limit | \
        --open_files | --property | --html | --merge_operator | --id | --keep | --rate | \
        --threads | --start_time | --end_time)
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
    --db | --from | --to)
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return
      ;;
    --html)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    --family | --prefix | --commit | --rollback | --limit | \
      --open_files | --id | --keep | --rate | --threads | --start_time | \
      --end_time) return ;;
    --merge_operator)
      mapfile -t COMPREPLY < <(compgen -W 'uint64add stringappend max bytesor
        bytesxor' -- "$word")
      return
      ;;
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
    get)
      options='--db --family --hex --escaped --raw --json --ignore_case
        --merge_operator --ttl --open_files --help'
      ;;
    put)
      options='--db --family --hex --escaped --create_if_missing --ignore_case
        --ttl --open_files --help'
      ;;
    merge)
      options='--db --family --merge_operator --hex --escaped --create_if_missing
        --ignore_case --ttl --open_files --help'
      ;;
    delete | delete-range)
      options='--db --family --hex --escaped --ignore_case --ttl --open_files --help'
      ;;
    scan)
      options='--db --family --from --to --prefix --reverse --limit --keys --values --hex
        --escaped --raw --json --ignore_case --merge_operator --ttl --timestamp
        --start_time --end_time --open_files --help'
      ;;
    count)
      options='--db --family --from --to --prefix --hex --escaped --ignore_case
        --merge_operator --ttl --start_time --end_time --open_files --progress --help'
      ;;
    batchput)
      options='--db --family --hex --escaped --create_if_missing --ignore_case
        --ttl --open_files --progress --help'
      ;;
    ingest-from)
      options='--db --family --create_if_missing --ignore_case --ttl --open_files
        --progress --help'
      ;;
    write-sst) options='--ttl --progress --help' ;;
    ingest-sst)
      options='--db --family --create_if_missing --link --move --verify --open_files
        --help'
      ;;
    export-to)
      options='--db --family --from --to --prefix --hex --escaped --ldb --ignore_case
        --merge_operator --ttl --start_time --end_time --open_files --progress --help'
      ;;
    levels) options='--db --family --hex --help' ;;
    families)
      options='--db --json --create_if_missing --ignore_case --open_files --help'
      ;;
    prepared)
      options='--db --commit --rollback --hex --escaped --json --open_files --help'
      ;;
    follow) options='--db --from --wait --once --json --help' ;;
    stats)
      options='--db --family --property --ignore_case --open_files --help'
      ;;
    check) options='--db --open_files --progress --help' ;;
    repair) options='--db --ignore_case --open_files --progress --help' ;;
    compact)
      options='--db --family --from --to --hex --escaped --ignore_case
        --merge_operator --ttl --open_files --progress --help'
      ;;
    checkpoint) options='--db --ignore_case --open_files --help' ;;
    backup)
      options='--db --to --keep --rate --threads --flush --ignore_case --open_files
        --progress --help'
      ;;
    restore)
      options='--from --db --id --replace --rate --threads --progress --help'
      ;;
    backups) options='--from --verify --threads --json --progress --help' ;;
    help) options='--help' ;;
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
    families)
      mapfile -t COMPREPLY < <(compgen -W 'list create drop' -- "$word")
      ;;
    checkpoint) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    ingest-from | write-sst | ingest-sst | export-to | dump-* | trace)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      ;;
  esac
}

complete -o filenames -F _varve varve
