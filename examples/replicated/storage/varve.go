// Varve: a key-value storage engine. MIT licence, see LICENSE.

//go:build !pebble

package storage

/*
#cgo pkg-config: varve
#include <stdlib.h>
#include "varve_calls.h"
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"unsafe"
)

type varveEngine struct {
	catalog   *C.varve_catalog_t
	read      *C.varve_readoptions_t
	logged    *C.varve_writeoptions_t
	unlogged  *C.varve_writeoptions_t
	flushWait *C.varve_flushoptions_t

	cache      *C.varve_cache_t
	statistics *C.varve_statistics_t // Of all databases.
	tracing    sync.Mutex
}

type varveDatabase struct {
	engine *varveEngine
	name   string
	db     *C.varve_t
}

// Of a reference of its own, so that the database may be closed before.
type varveSnapshot struct {
	db     *C.varve_t
	moment *C.varve_readtransaction_t
}

type varveIterator struct{ iterator *C.varve_iterator_t }

// takeError makes an error of a message of C, and frees it.
func takeError(message *C.char) error {
	if message == nil {
		return nil
	}
	defer C.varve_free(unsafe.Pointer(message))
	return errors.New("varve: " + C.GoString(message))
}

// pointer is where the bytes are; C does not look there if there are none.
func pointer(bytes []byte) *C.char {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(bytes)))
}

// OpenEngine opens the databases in a directory, which is made if need be.
func OpenEngine(dir string, options Options) (Engine, error) {
	o := C.varve_options_create()
	defer C.varve_options_destroy(o)
	cache := C.varve_cache_create_lru(C.size_t(options.CacheBytes))
	filter := C.varve_filterpolicy_create_bloom(10)
	C.varve_options_set_create_if_missing(o, 1)
	C.varve_options_set_cache(o, cache)
	// Counts, and the times of long steps.
	statistics := C.varve_statistics_create(C.varve_statistics_level_except_detailed_timers)
	C.varve_options_set_statistics(o, statistics)
	C.varve_options_set_filter_policy(o, filter) // Lives as long as we do.
	C.varve_options_set_write_buffer_size(o, C.size_t(options.WriteBufferBytes))
	C.varve_options_set_max_open_files(o, C.int(options.OpenFiles))
	// What has to survive a crash is what Sync was called for. The rest comes
	// again from the log of Raft, so that it may wait in memory for a batch.
	C.varve_options_set_manual_wal_flush(o, 1)
	if options.MemtableBytes > 0 {
		manager := C.varve_write_buffer_manager_create_with_cache(C.size_t(options.MemtableBytes), cache, 1)
		C.varve_options_set_write_buffer_manager(o, manager)
		C.varve_write_buffer_manager_destroy(manager) // The databases keep it.
		C.varve_options_set_cache_index_and_filter_blocks(o, 1)
	}
	var catalog *C.varve_catalog_t
	err := withName(dir, func(dir *C.char, message **C.char) { catalog = C.varve_catalog_open(o, dir, message) })
	if catalog == nil {
		C.varve_cache_destroy(cache)
		C.varve_statistics_destroy(statistics)
		return nil, err
	}
	e := &varveEngine{
		cache: cache, statistics: statistics,
		catalog: catalog, read: C.varve_readoptions_create(),
		logged: C.varve_writeoptions_create(), unlogged: C.varve_writeoptions_create(),
		flushWait: C.varve_flushoptions_create(),
	}
	C.varve_writeoptions_disable_WAL(e.unlogged, 1)
	return e, nil
}

// Version is the engine's.
func Version() string { return "varve " + C.GoString(C.varve_version()) }

func (e *varveEngine) Describe() string { return Version() }

// withName calls C with a name, and makes an error of its message.
func withName(name string, call func(name *C.char, message **C.char)) error {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var message *C.char
	call(text, &message)
	return takeError(message)
}

func (e *varveEngine) Create(name string) (Database, error) {
	if err := withName(name, func(name *C.char, message **C.char) { C.varve_catalog_create_db(e.catalog, name, message) }); err != nil {
		return nil, err
	}
	db, err := e.findExisting(name)
	if err != nil {
		return nil, err
	}
	return &varveDatabase{e, name, db}, nil
}

func (e *varveEngine) find(name string) (db *C.varve_t, err error) {
	err = withName(name, func(name *C.char, message **C.char) { db = C.varve_catalog_find(e.catalog, name, message) })
	return db, err
}

// findExisting is find where it is an error that there is none.
func (e *varveEngine) findExisting(name string) (*C.varve_t, error) {
	db, err := e.find(name)
	if db == nil && err == nil {
		err = fmt.Errorf("varve: %s has gone", name)
	}
	return db, err
}

func (e *varveEngine) Open(name string) (Database, error) {
	db, err := e.find(name)
	if db == nil {
		return nil, err
	}
	return &varveDatabase{e, name, db}, nil
}

func (e *varveEngine) Drop(name string) error {
	return withName(name, func(name *C.char, message **C.char) { C.varve_catalog_drop_db(e.catalog, name, message) })
}

func (e *varveEngine) List() ([]string, error) {
	var count C.size_t
	list := C.varve_catalog_list(e.catalog, &count)
	defer C.varve_free(unsafe.Pointer(list))
	names := make([]string, 0, int(count))
	for _, name := range unsafe.Slice(list, int(count)) {
		names = append(names, C.GoString(name))
	}
	return names, nil
}

func (e *varveEngine) Close() error {
	var message *C.char
	if C.varve_catalog_close(e.catalog, &message) == 0 {
		return takeError(message)
	}
	C.varve_readoptions_destroy(e.read)
	C.varve_writeoptions_destroy(e.logged)
	C.varve_writeoptions_destroy(e.unlogged)
	C.varve_flushoptions_destroy(e.flushWait)
	C.varve_cache_destroy(e.cache)
	C.varve_statistics_destroy(e.statistics)
	return takeError(message)
}

func (d *varveDatabase) Write(batch []byte) error {
	return takeError(C.call_write(d.db, d.engine.logged, pointer(batch),
		C.size_t(len(batch))).error)
}

func (d *varveDatabase) Load(entries []byte) error {
	return takeError(C.call_load(d.db, d.engine.unlogged, pointer(entries),
		C.size_t(len(entries))).error)
}

func (d *varveDatabase) Sync() error {
	var message *C.char
	C.varve_flush_wal(d.db, 1, &message)
	return takeError(message)
}

func (d *varveDatabase) Flush() error {
	var message *C.char
	C.varve_flush(d.db, d.engine.flushWait, &message)
	return takeError(message)
}

func (d *varveDatabase) Get(keys, values [][]byte, limit int) ([][]byte, error) {
	if limit == 0 {
		limit = math.MaxInt32
	}
	if len(keys) == 1 {
		value, err := d.getOne(keys[0], limit)
		return append(values, value), err
	}
	var packed []byte
	for _, key := range keys {
		packed = binary.LittleEndian.AppendUint32(packed, uint32(len(key)))
		packed = append(packed, key...)
	}
	// A buffer is never larger than what the caller takes, with the lengths.
	most := limit + 4*len(keys)
	buffer := make([]byte, min(128*len(keys), most))
	for {
		a := C.call_get_many(d.db, pointer(packed), C.size_t(len(packed)),
			pointer(buffer), C.size_t(len(buffer)))
		if a.error != nil {
			return values, takeError(a.error)
		}
		if int(a.count) == len(keys) {
			break
		}
		if int(a.size) > most {
			return values, ErrTooLarge
		}
		buffer = make([]byte, min(2*int(a.size), most))
	}
	for range keys {
		size := binary.LittleEndian.Uint32(buffer)
		buffer = buffer[4:]
		if size == 1<<32-1 {
			values = append(values, nil)
			continue
		}
		values = append(values, buffer[:size:size])
		buffer = buffer[size:]
	}
	return values, nil
}

func (d *varveDatabase) getOne(key []byte, limit int) ([]byte, error) {
	buffer := make([]byte, 256)
	for {
		a := C.call_get(d.db, d.engine.read, pointer(key), C.size_t(len(key)),
			pointer(buffer), C.size_t(len(buffer)))
		if a.error != nil || a.found == 0 {
			return nil, takeError(a.error)
		}
		if int(a.size) > limit {
			return nil, ErrTooLarge
		}
		if int(a.size) <= len(buffer) {
			return buffer[:a.size], nil
		}
		buffer = make([]byte, int(a.size))
	}
}

func (d *varveDatabase) Snapshot() (Snapshot, error) {
	db, err := d.engine.findExisting(d.name)
	if err != nil {
		return nil, err
	}
	return &varveSnapshot{db, C.varve_readtransaction_begin(db)}, nil
}

func (d *varveDatabase) Size() (uint64, error) {
	size, ok := property(d.db, "varve.live-sst-files-size")
	if !ok {
		return 0, errors.New("varve: the size is not known")
	}
	return size, nil
}

func (d *varveDatabase) Close() error {
	C.varve_close(d.db)
	return nil
}

func (s *varveSnapshot) Entries(from, to []byte) (Iterator, error) {
	return &varveIterator{C.call_iterate(s.db, s.moment, pointer(from),
		C.size_t(len(from)), pointer(to), C.size_t(len(to)))}, nil
}

func (s *varveSnapshot) Close() {
	C.varve_readtransaction_end(s.moment)
	C.varve_close(s.db)
}

func (i *varveIterator) Fill(buffer []byte) (entries, size int, err error) {
	a := C.call_fill(i.iterator, pointer(buffer), C.size_t(len(buffer)))
	if a.error != nil {
		return 0, 0, takeError(a.error)
	}
	if a.count == 0 && a.size > 0 {
		return 0, int(a.size), ErrTooSmall
	}
	return int(a.count), int(a.size), nil
}

func (i *varveIterator) Close() { C.varve_iter_destroy(i.iterator) }
