// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Lines logs a line of each kind once in a while: a disk that is full would otherwise
// make for thousands of lines, until the node ends soon after. Safe for concurrent use.
type Lines struct{ kinds sync.Map } // Of *kindOfLine.

type kindOfLine struct {
	mutex  sync.Mutex
	last   time.Time
	silent int
}

const kindPause = 10 * time.Second

// Log logs a line, unless one of its kind was logged lately. The next one says how
// many were not.
func (l *Lines) Log(kind string, level slog.Level, text string, more ...any) {
	known, _ := l.kinds.LoadOrStore(kind, &kindOfLine{})
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
