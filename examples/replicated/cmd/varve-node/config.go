// Varve: a key-value storage engine. MIT licence, see LICENSE.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"strings"
)

// neverInFile are options of one run. A node whose unit file said --create would
// start as a new one when its disk is missing.
var neverInFile = map[string]string{
	"config": "", "version": "", "hash-password": "",
	"create": ": it is for the first start only, on the command line",
}

// readConfig sets the flags that a file has and the command line has not. A line is
// an option and its value, which may have blanks. A line of an option alone
// switches it on. Empty lines, and those that begin with #, are passed over.
func readConfig(flags *flag.FlagSet, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	lines := map[string]int{}
	scanner := bufio.NewScanner(file)
	for number := 1; scanner.Scan(); number++ {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		fail := func(format string, arguments ...any) error {
			return fmt.Errorf("%s:%d: %s", path, number, fmt.Sprintf(format, arguments...))
		}
		name, value := line, ""
		if at := strings.IndexAny(line, " \t"); at >= 0 {
			name, value = line[:at], strings.TrimSpace(line[at:])
		}
		known := flags.Lookup(name)
		why, never := neverInFile[name]
		switch {
		case known == nil:
			return fail("there is no option %q", name)
		case never:
			return fail("%q cannot be in a file%s", name, why)
		case lines[name] > 0:
			return fail("%q is in line %d already", name, lines[name])
		}
		lines[name] = number
		if one, ok := known.Value.(interface{ IsBoolFlag() bool }); ok && one.IsBoolFlag() && value == "" {
			value = "true"
		}
		if value == "" {
			return fail("%q has no value", name)
		}
		if given[name] {
			continue // The command line wins.
		}
		if err := flags.Set(name, value); err != nil {
			return fail("%q for %q: %v", value, name, err)
		}
	}
	return scanner.Err()
}
