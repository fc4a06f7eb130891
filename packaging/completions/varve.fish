# Varve: a key-value storage engine. MIT licence, see LICENSE.
# Completion for fish of Varve's programs: commands, options, files. All is read
# from the help of the programs, when the first word is completed.

# Adds a program's options, under a condition, of the lines of a help text.
function __varve_options -a program condition
    set -l text $argv[3..]
    set -l on -c $program -n $condition
    for line in $text
        # The second form is that of varve-bench.
        set -l found (string match -r '^  --([a-z_-]+)=?([A-Z]*) *(.*)$' -- $line)
        or set found (string match -r '^    -([a-z_0-9]+) \(()(.*)' -- $line)
        or continue
        set -l name $found[2]
        switch "$found[3]"
            case DIR BACKUPS
                complete $on -l $name -x -a '(__fish_complete_directories)' -d "$found[4]"
            case FILE
                complete $on -l $name -r -F -d "$found[4]"
            case OP
                complete $on -l $name -x -a (string replace -a ' or ' ' ' -- $found[4] | string replace -a , '') -d "merge operator"
            case NAME
                complete $on -l $name -x -a "$(string match -ar 'varve\.[a-z-]+' -- $text)" -d "$found[4]"
            case ''
                complete $on -l $name -d "$found[4]"
            case '*'
                complete $on -l $name -x -d "$found[4]"
        end
    end
end

function __varve_program -a program
    command -q $program
    or return
    set -l commands
    switch $program
        case varve
            for line in (varve help)
                set -l found (string match -r '^  ([a-z][a-z-]*) +(.*)' -- $line)
                and set -a commands $found[2]
                and complete -c varve -f -n __fish_use_subcommand -a $found[2] -d $found[3]
            end
            complete -c varve -f -n __fish_use_subcommand -a help
            complete -c varve -f -n '__fish_seen_subcommand_from help' -a "$commands"
        case varve-lab
            set commands (string match -r '^  [a-z -]+\.$' -- (varve-lab --help) | string trim -c ' .' | string split ' ')
            complete -c varve-lab -f -n __fish_use_subcommand -a "$commands"
    end
    if not set -q commands[1]
        __varve_options $program true ($program --help 2>/dev/null)
        return
    end
    complete -c $program -l help -d 'tell how to use it'
    test $program = varve
    or return
    for name in $commands
        set -l help (varve help $name)
        set -l seen "__fish_seen_subcommand_from $name"
        __varve_options varve $seen $help
        set -l usage (string replace -ar -- '--[a-z_]+=[A-Z]+' '' $help[1])
        switch $usage
            case '*create NAME*'
                complete -c varve -f -n $seen -a 'list create drop'
            case '*DIRECTORY*'
                complete -c varve -f -n $seen -a '(__fish_complete_directories)'
            case '*FILE*' '*TABLE*'
                complete -c varve -F -n $seen
            case '*'
                complete -c varve -f -n $seen
        end
    end
end

for program in varve varve-bench varve-lab varve-latency varve-leveldb varve-rocksdb
    __varve_program $program
end
