// Varve: a key-value storage engine. MIT licence, see LICENSE.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lni/dragonboat/v3/logger"

	"varve.example/replicated/node"
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
	lines node.Lines // Their kinds are the formats.
}

// storeLog takes what dragonboat's log store logs by the package log. What comes before
// a colon is the kind of a line.
type storeLog struct{ lines node.Lines }

func (l *storeLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	kind, _, _ := strings.Cut(text, ":")
	l.lines.Log(kind, slog.LevelWarn, text, "part", "raft-store")
	return len(line), nil
}

func (l *raftLog) SetLevel(logger.LogLevel) {}

func (l *raftLog) log(level slog.Level, format string, arguments []interface{}) {
	if !slog.Default().Enabled(context.Background(), level) {
		return
	}
	text := fmt.Sprintf(format, arguments...)
	if level > slog.LevelDebug {
		l.lines.Log(format, level, text, "part", l.name)
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
	mustEnd   = make(chan struct{}) // Is closed.
	fatalOnce sync.Once
)

// endTime is how long a node that cannot go on may take to hand over what it leads.
const endTime = 5 * time.Second

// fatal has the node end, for the first reason that there is, which it logs. It does not
// return.
func fatal(err error) {
	fatalOnce.Do(func() {
		text, _, _ := strings.Cut(err.Error(), "\n")
		time.AfterFunc(endTime, func() { os.Exit(1) }) // First: the next line may have to wait.
		slog.Error("the node ends", "error", text)
		close(mustEnd)
	})
	select {}
}
