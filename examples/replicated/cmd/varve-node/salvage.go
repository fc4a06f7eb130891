// Varve: a key-value storage engine. MIT licence, see LICENSE.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"varve.example/replicated/node"
)

const salvageText = `
Each line says what was found of a shard. "database" is the last entry of the
Raft log that the database had applied, "committed" the last one that is known
to be committed, "last" the last one in the backup, of the term "term". logs=1/3
says that of three replicas that vote the log of one was read.

What cannot be known:
- "uncertain" entries are not known to be committed. Some may have been
  acknowledged. Others may never have been, and their clients were told
  UNKNOWNOUTCOME at most. --committed leaves all of them out.
- Where fewer logs than a majority were read, a log that is lost may have later
  entries, which may have been acknowledged. Give all directories that are left.
- Where a shard "is not whole", entries may be missing whatever the logs are.
`

// salvage writes a backup of what stopped nodes have left. It returns the exit
// status.
func salvage(words []string) int {
	var s node.Salvage
	flags := flag.NewFlagSet("varve-node salvage", flag.ExitOnError)
	dirs := flags.String("dir", "", "DIR,... of stopped nodes of one cluster; they stay as they are")
	flags.StringVar(&s.To, "to", "", "the backup's directory, which must not exist; copies of DIR are made next to it and removed")
	flags.BoolVar(&s.Committed, "committed", false, "leave out entries that are not known to be committed")
	flags.BoolVar(&s.Partial, "partial", false, "write what can be read, even if something is missing or damaged")
	flags.Parse(words)
	if *dirs == "" || s.To == "" || flags.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "varve-node: salvage needs --dir and --to")
		return 2
	}
	s.Dirs = strings.Split(*dirs, ",")
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	s.Stop = ctx.Done()
	_, lines, err := s.Run()
	if err != nil {
		for _, line := range lines {
			fmt.Fprintln(os.Stderr, line)
		}
		fmt.Fprintln(os.Stderr, "varve-node: salvage:", err)
		return 1
	}
	fmt.Println(strings.Join(lines, "\n"))
	fmt.Print(salvageText)
	return 0
}
