// Varve: a key-value storage engine. MIT licence, see LICENSE.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lni/dragonboat/v3/logger"
)

// setLog has all of the program log to standard error, dragonboat included.
func setLog(level, format string) error {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "text":
		slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, options)))
	case "json":
		slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, options)))
	default:
		return fmt.Errorf("--log-format: %q is neither text nor json", format)
	}
	log.SetOutput(&storeLog{}) // After SetDefault, which sets another one.
	logger.SetLoggerFactory(func(name string) logger.ILogger { return &raftLog{name: name} })
	return nil
}

// raftLog passes on what dragonboat logs. It calls information what is of no
// use to an operator, and warns of each attempt to reach a node that is down:
// these have the level Debug here.
type raftLog struct {
	name  string
	kinds sync.Map // Of *kindOfLine, by format.
}

// kindOfLine is written once in a while: a disk that is full would otherwise make for
// thousands of lines, until the node ends soon after.
type kindOfLine struct {
	mutex  sync.Mutex
	last   time.Time
	silent int
}

const kindPause = 10 * time.Second

// storeLog takes what dragonboat's log store logs by the package log. What comes before
// a colon is the kind of a line.
type storeLog struct{ kinds sync.Map }

func (l *storeLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	kind, _, _ := strings.Cut(text, ":")
	write(&l.kinds, kind, slog.LevelWarn, text, "raft-store")
	return len(line), nil
}

// write logs a line, unless one of its kind was logged lately.
func write(kinds *sync.Map, kind string, level slog.Level, text, part string) {
	more := []any{"part", part}
	known, _ := kinds.LoadOrStore(kind, &kindOfLine{})
	before, allowed := known.(*kindOfLine).turn(time.Now())
	if !allowed {
		return
	}
	if before > 0 {
		more = append(more, "before", before)
	}
	slog.Log(context.Background(), level, text, more...)
}

// turn says whether a line is written, and how many were not since the last one.
func (k *kindOfLine) turn(now time.Time) (before int, allowed bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if now.Sub(k.last) < kindPause {
		k.silent++
		return 0, false
	}
	before, k.last, k.silent = k.silent, now, 0
	return before, true
}

func (l *raftLog) SetLevel(logger.LogLevel) {}

func (l *raftLog) log(level slog.Level, format string, arguments []interface{}) {
	if !slog.Default().Enabled(context.Background(), level) {
		return
	}
	text := fmt.Sprintf(format, arguments...)
	if level > slog.LevelDebug {
		write(&l.kinds, format, level, text, l.name)
	} else {
		slog.Log(context.Background(), level, text, "part", l.name)
	}
}

func (l *raftLog) Debugf(format string, arguments ...interface{}) {}
func (l *raftLog) Infof(format string, arguments ...interface{}) {
	l.log(slog.LevelDebug, format, arguments)
}
func (l *raftLog) Warningf(format string, arguments ...interface{}) {
	l.log(slog.LevelDebug, format, arguments)
}
func (l *raftLog) Errorf(format string, arguments ...interface{}) {
	level := slog.LevelError
	if l.name == "transport" {
		level = slog.LevelDebug
	}
	l.log(level, format, arguments)
}

// Panicf is called when dragonboat cannot go on, such as with a full disk. It would
// panic and so end the process in the middle of all else. Instead, what has failed
// stops here for good, without an answer to anybody, and the node ends in order.
func (l *raftLog) Panicf(format string, arguments ...interface{}) {
	fatal(fmt.Errorf(format, arguments...))
}

var (
	fatalErrors = make(chan error, 1)
	fatalOnce   sync.Once
)

// endTime is how long a node that cannot go on may take to hand over what it leads.
const endTime = 5 * time.Second

// fatal has the node end, for the first reason that there is. It does not return.
func fatal(err error) {
	fatalOnce.Do(func() {
		text, _, _ := strings.Cut(err.Error(), "\n")
		time.AfterFunc(endTime, func() { os.Exit(1) })
		fatalErrors <- errors.New(text)
	})
	select {}
}
