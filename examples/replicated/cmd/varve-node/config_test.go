// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a file has the same options as the command line, which wins; what is wrong
// in it is refused by its line. Method: files by hand.
package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"varve.example/replicated/check"
)

// testFlags are some of each kind.
type testFlags struct {
	*flag.FlagSet
	dir   string
	words int
	stale bool
	wait  time.Duration
}

func newTestFlags() *testFlags {
	f := &testFlags{FlagSet: flag.NewFlagSet("test", flag.ContinueOnError)}
	f.StringVar(&f.dir, "dir", "", "")
	f.IntVar(&f.words, "max-words", 7, "")
	f.BoolVar(&f.stale, "stale-reads", false, "")
	f.DurationVar(&f.wait, "timeout", time.Second, "")
	f.Bool("create", false, "")
	f.String("config", "", "")
	return f
}

func writeConfig(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "node.conf")
	check.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestAFileHasOptions(t *testing.T) {
	f := newTestFlags()
	check.OK(t, f.Parse([]string{"--max-words=3"}))
	err := readConfig(f.FlagSet, writeConfig(t, "# A comment.\n\n  dir\t/data/a b#c  \nmax-words 9\nstale-reads\ntimeout 5s"))
	if err != nil || f.dir != "/data/a b#c" || f.words != 3 || !f.stale || f.wait != 5*time.Second {
		t.Fatal(err, f.dir, f.words, f.stale, f.wait)
	}
	f = newTestFlags()
	if err := readConfig(f.FlagSet, writeConfig(t, "stale-reads false\n")); err != nil || f.stale || f.words != 7 {
		t.Fatal(err, f.stale, f.words)
	}
}

func TestWhatIsWrongInAFileIsRefusedByItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"dir /a\n#\nmax-word 3\n":     `:3: there is no option "max-word"`,
		"--dir /a\n":                  `:1: there is no option "--dir"`,
		"\ndir=/a\n":                  `:2: there is no option "dir=/a"`,
		"max-words many\n":            `:1: "many" for "max-words"`,
		"dir /a\nmax-words 1\ndir /b": `:3: "dir" is in line 1 already`,
		"dir\n":                       `:1: "dir" has no value`,
		"create\n":                    `:1: "create" cannot be in a file: it is for the first start only`,
		"config other.conf\n":         `:1: "config" cannot be in a file`,
		"stale-reads perhaps\n":       `:1: "perhaps" for "stale-reads"`,
	} {
		if err := readConfig(newTestFlags().FlagSet, writeConfig(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	check.ErrorIf(t, readConfig(newTestFlags().FlagSet, filepath.Join(t.TempDir(), "none")) == nil, "a file that is missing is good")
}
