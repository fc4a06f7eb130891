// Varve: a key-value storage engine. MIT licence, see LICENSE.

//go:build !pebble

package storage

/*
#include <stdlib.h>
#include "varve_calls.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"
)

var _ Watched = (*varveEngine)(nil)

// Properties of each database, as gauges.
var gauges = []struct{ property, help string }{
	{"size-all-mem-tables", "Bytes of memtables."},
	{"estimate-table-readers-mem", "Bytes of tables' metadata in memory."},
	{"live-sst-files-size", "Bytes of tables."},
	{"estimate-num-keys", "Approximate number of keys."},
	{"estimate-pending-compaction-bytes", "Bytes that compactions have to rewrite."},
	{"num-running-compactions", "Compactions that run."},
	{"num-snapshots", "Snapshots in use."},
	{"is-write-stalled", "Whether writes are slowed down or stopped."},
	{"background-errors", "Background jobs that failed."},
}

// Memory is of the block cache, with the memtables if they are bounded.
func (e *varveEngine) Memory() int64 { return int64(C.varve_cache_get_usage(e.cache)) }

// Metrics has the counters of all databases, and gauges of each.
func (e *varveEngine) Metrics() string {
	var text strings.Builder
	counters := C.varve_statistics_get_prometheus(e.statistics)
	text.WriteString(C.GoString(counters))
	C.varve_free(unsafe.Pointer(counters))
	one := func(name, help string, value interface{}) {
		fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s gauge\n%s %v\n", name, help, name, name, value)
	}
	one("varve_block_cache_bytes", "Bytes in the block cache.", C.varve_cache_get_usage(e.cache))
	one("varve_block_cache_pinned_bytes", "Bytes of pinned blocks.", C.varve_cache_get_pinned_usage(e.cache))
	names, _ := e.List()
	for _, gauge := range gauges {
		name := "varve_database_" + strings.ReplaceAll(gauge.property, "-", "_")
		fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s gauge\n", name, gauge.help, name)
		for _, database := range names {
			if value, ok := e.property(database, "varve."+gauge.property); ok {
				fmt.Fprintf(&text, "%s{database=%q} %d\n", name, database, value)
			}
		}
	}
	return text.String()
}

func (e *varveEngine) property(database, name string) (uint64, bool) {
	db, err := e.find(database)
	if err != nil || db == nil {
		return 0, false
	}
	defer C.varve_close(db)
	return property(db, name)
}

func property(db *C.varve_t, name string) (uint64, bool) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	a := C.call_property(db, text)
	return uint64(a.size), a.found != 0
}

// Trace writes a trace of all databases to a file.
func (e *varveEngine) Trace(path string, length time.Duration, stop <-chan struct{}) error {
	if !e.tracing.TryLock() {
		return errors.New("a trace is being taken")
	}
	defer e.tracing.Unlock()
	options := C.varve_traceoptions_create()
	defer C.varve_traceoptions_destroy(options)
	err := withName(path, func(path *C.char, message **C.char) {
		C.varve_trace_start(options, C.varve_trace_chrome, path, message)
	})
	if err != nil {
		return err
	}
	select {
	case <-stop:
	case <-time.After(length):
	}
	var message *C.char
	C.varve_trace_stop(&message)
	return takeError(message)
}
