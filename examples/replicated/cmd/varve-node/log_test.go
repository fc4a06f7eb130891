// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: an error that comes again and again is a line in a while. Method: lines as
// Pebble writes them on a full disk.
package main

import (
	"bytes"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"testing"
)

func TestAFullDiskIsOneLine(t *testing.T) {
	var written bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&written, nil)))
	defer slog.SetDefault(before)
	lines := log.New(&storeLog{}, "", 0)
	for i := 0; i < 20000; i++ {
		lines.Print(fmt.Sprintf("background error: write /raft/%06d.sst: no space left on device", i))
	}
	// A slow machine may begin another while.
	if text := written.String(); strings.Count(text, "\n") > 20 || !strings.Contains(text, "raft/000000.sst: no space left") ||
		!strings.Contains(text, "level=WARN") {
		t.Errorf("%d lines: %.200s", strings.Count(text, "\n"), text)
	}
}
