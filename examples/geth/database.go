// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Package geth makes a Varve database usable as go-ethereum's key-value store.
package geth

/*
#cgo pkg-config: varve
#include <stdlib.h>
#include "calls.h"
*/
import "C"

import (
	"bytes"
	"errors"
	"sync"
	"unsafe"

	"github.com/ethereum/go-ethereum/ethdb"
)

var (
	errClosed   = errors.New("varve: the database is closed")
	errNotFound = errors.New("varve: not found")
)

// Database implements ethdb.KeyValueStore. It may be used by any number of
// goroutines. A call after Close returns an error.
type Database struct {
	mutex sync.RWMutex // Held for reading while a call uses db.
	db    *C.varve_t   // nil after Close.
	read  *C.varve_readoptions_t
	write *C.varve_writeoptions_t
	cache *C.varve_cache_t
}

var _ ethdb.KeyValueStore = (*Database)(nil)

// filter returns the filter policy of all databases. It is never destroyed,
// because iterators may outlive Close.
var filter = sync.OnceValue(func() *C.varve_filterpolicy_t {
	return C.varve_filterpolicy_create_bloom(10)
})

// takeError turns a message of C into an error, and frees the message.
func takeError(message *C.char) error {
	if message == nil {
		return nil
	}
	defer C.varve_free(unsafe.Pointer(message))
	return errors.New("varve: " + C.GoString(message))
}

// pointer returns the address of the first byte.
func pointer(data []byte) *C.char {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(data)))
}

// Open opens the database in a directory, and creates it if it does not exist.
// A quarter of cacheBytes is for write buffers, the rest for blocks.
func Open(directory string, cacheBytes int, openFiles int) (*Database, error) {
	options := C.varve_options_create()
	defer C.varve_options_destroy(options)
	cache := C.varve_cache_create_lru(C.size_t(cacheBytes / 4 * 3))
	C.varve_options_set_create_if_missing(options, 1)
	C.varve_options_set_cache(options, cache)
	C.varve_options_set_filter_policy(options, filter())
	C.varve_options_set_write_buffer_size(options, C.size_t(cacheBytes/4))
	C.varve_options_set_max_open_files(options, C.int(openFiles))
	name := C.CString(directory)
	defer C.free(unsafe.Pointer(name))
	var message *C.char
	db := C.varve_open(options, name, &message)
	if db == nil {
		C.varve_cache_destroy(cache)
		return nil, takeError(message)
	}
	return &Database{
		db: db, cache: cache, read: C.varve_readoptions_create(),
		write: C.varve_writeoptions_create(),
	}, nil
}

// Close closes the database. Iterators that still exist remain usable; the last
// Release then frees the directory.
func (d *Database) Close() error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.db == nil {
		return errClosed
	}
	C.varve_close(d.db)
	C.varve_readoptions_destroy(d.read)
	C.varve_writeoptions_destroy(d.write)
	C.varve_cache_destroy(d.cache)
	d.db = nil
	return nil
}

// Has reports whether a key exists.
func (d *Database) Has(key []byte) (bool, error) {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	if d.db == nil {
		return false, errClosed
	}
	a := C.call_get(d.db, d.read, pointer(key), C.size_t(len(key)), nil, 0)
	return a.found != 0, takeError(a.error)
}

// Get returns the value of a key, and an error if the key does not exist.
func (d *Database) Get(key []byte) ([]byte, error) {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	if d.db == nil {
		return nil, errClosed
	}
	buffer := make([]byte, 256)
	for {
		a := C.call_get(d.db, d.read, pointer(key), C.size_t(len(key)),
			pointer(buffer), C.size_t(len(buffer)))
		if a.error != nil {
			return nil, takeError(a.error)
		}
		if a.found == 0 {
			return nil, errNotFound
		}
		if int(a.size) <= len(buffer) {
			return buffer[:a.size], nil
		}
		buffer = make([]byte, int(a.size))
	}
}

// Put sets a key.
func (d *Database) Put(key, value []byte) error {
	b := batch{database: d}
	b.Put(key, value)
	return b.Write()
}

// Delete removes a key.
func (d *Database) Delete(key []byte) error {
	b := batch{database: d}
	b.Delete(key)
	return b.Write()
}

// DeleteRange removes the keys from start up to, not including, end.
func (d *Database) DeleteRange(start, end []byte) error {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	if d.db == nil {
		return errClosed
	}
	if bytes.Compare(start, end) >= 0 {
		return nil
	}
	return takeError(C.call_delete_range(d.db, d.write, pointer(start),
		C.size_t(len(start)), pointer(end), C.size_t(len(end))).error)
}

// Compact compacts the keys from start up to limit. A nil start is before all
// keys, a nil limit after all keys.
func (d *Database) Compact(start, limit []byte) error {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	if d.db == nil {
		return errClosed
	}
	C.varve_compact_range(d.db, pointer(start), C.size_t(len(start)),
		pointer(limit), C.size_t(len(limit)))
	return nil
}

// Stat returns Varve's statistics as text.
func (d *Database) Stat() (string, error) {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	if d.db == nil {
		return "", errClosed
	}
	name := C.CString("varve.stats")
	defer C.free(unsafe.Pointer(name))
	text := C.varve_property_value(d.db, name)
	defer C.varve_free(unsafe.Pointer(text))
	return C.GoString(text), nil
}
