// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Package storage is what a replica needs of an engine: databases by name that
// share their resources, batches, moments and streams of entries. Varve is one
// such engine; built with the tag "pebble", Pebble is in its place.
//
// Entries cross the border in two forms. A batch is in the format that Varve,
// RocksDB and Pebble write to their logs, see Batch. A stream of entries is,
// for each, the lengths of key and value, 4 bytes each with the lowest first,
// then the key, then the value.
package storage

import (
	"errors"
	"time"
)

// ErrTooSmall says that the buffer has no space for even one entry.
var ErrTooSmall = errors.New("storage: the buffer is too small for an entry")

// ErrTooLarge says that values have more bytes than the caller takes.
var ErrTooLarge = errors.New("storage: the values are larger than the limit")

// Options of an engine.
type Options struct {
	CacheBytes       int // Of blocks, for all databases together.
	WriteBufferBytes int // In memory before a table is written, per database.
	OpenFiles        int // Table files of all databases together.
	// Of all databases together, as a part of CacheBytes: writes wait while a flush
	// frees memory. Indexes and filters of tables are in the cache then, too. 0 is no
	// bound. Pebble has none, but it charges memtables to the cache.
	MemtableBytes int
}

// DefaultOptions are for several nodes on one machine.
var DefaultOptions = Options{
	CacheBytes: 64 << 20, WriteBufferBytes: 16 << 20, OpenFiles: 1000,
}

// Engine is many databases in one directory. Safe for concurrent use.
type Engine interface {
	// Create makes a new, empty database; an error if there is one.
	Create(name string) (Database, error)
	// Open returns nil, and no error, if there is none of that name.
	Open(name string) (Database, error)
	// Drop removes a database that is closed.
	Drop(name string) error
	List() ([]string, error)
	Close() error
	// Describe says which engine it is.
	Describe() string
}

// Watched is an Engine that can be observed.
type Watched interface {
	// Metrics is a part of a page for Prometheus.
	Metrics() string
	// Memory is how many bytes of the cache are used.
	Memory() int64
	// Trace writes what the engine does for a time to a file, which the tool
	// `varve trace` reads, or until `stop` is closed. Only one trace is taken at
	// a time.
	Trace(path string, length time.Duration, stop <-chan struct{}) error
}

// Database is an open one. Safe for concurrent use, but for Close. Its snapshots
// may outlive it.
type Database interface {
	// Write does all updates of a batch or none. After a crash there is a prefix
	// of all batches, at least those before the last Sync. With Varve, all of
	// them survive the end of the process.
	Write(batch []byte) error
	Sync() error
	// Load sets the keys of a stream of entries, without a log: safe only once
	// Flush has returned.
	Load(entries []byte) error
	Flush() error
	// Get appends to values, for each key of one moment, its value; nil if it
	// is not there. If the values have more than `limit` bytes, the error is
	// ErrTooLarge, and not much more was read. A limit of 0 is none.
	Get(keys [][]byte, values [][]byte, limit int) ([][]byte, error)
	// Snapshot is a moment that stays as it is while writes go on.
	Snapshot() (Snapshot, error)
	// Size is how many bytes its tables have. What is in memory only is not counted.
	Size() (uint64, error)
	Close() error
}

// Snapshot is used by one goroutine at a time.
type Snapshot interface {
	// Entries is a stream of the entries from `from` up to, not including, `to`.
	Entries(from, to []byte) (Iterator, error)
	Close()
}

// Iterator is used by one goroutine at a time, and closed before its snapshot.
type Iterator interface {
	// Fill copies as many entries as there is space for and says how many and
	// how many bytes. 0 and no error: there are no more. ErrTooSmall: the size
	// is what the next entry takes.
	Fill(buffer []byte) (entries, size int, err error)
	Close()
}
