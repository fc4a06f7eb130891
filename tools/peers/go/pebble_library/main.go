// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Command pebble_library is Pebble as a shared library with a C interface, which
// db_bench loads. A call costs some 100 ns more than in a Go program.
//
// Functions return 0, or 1 after an error, whose text PebbleError returns.
package main

/*
#include <stddef.h>
#include <stdint.h>
*/
import "C"

import (
	"context"
	"errors"
	"os"
	"runtime/cgo"
	"sync"
	"unsafe"

	"github.com/cockroachdb/pebble/v2"

	"varve/peers/bench"
	"varve/peers/pebbleoptions"
)

type database struct {
	db       *pebble.DB
	cache    *pebble.Cache
	snapshot *pebble.Snapshot
}

// cursor is the iterator of one thread.
type cursor struct {
	db       *database
	iterator *pebble.Iterator
}

var (
	lastErrorMutex sync.Mutex
	lastError      string
)

func failed(err error) C.int {
	if err == nil {
		return 0
	}
	lastErrorMutex.Lock()
	defer lastErrorMutex.Unlock()
	lastError = err.Error()
	return 1
}

// fill copies text into a buffer and returns its whole length.
func fill(text string, buffer *C.char, size C.size_t) C.size_t {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(buffer)), int(size)), text)
	return C.size_t(len(text))
}

// view returns the caller's bytes, which are valid during the call.
func view(bytes *C.char, size C.size_t) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(bytes)), int(size))
}

func databaseOf(handle C.uintptr_t) *database {
	return cgo.Handle(handle).Value().(*database)
}

//export PebbleError
func PebbleError(buffer *C.char, size C.size_t) C.size_t {
	lastErrorMutex.Lock()
	defer lastErrorMutex.Unlock()
	return fill(lastError, buffer, size)
}

//export PebbleVersion
func PebbleVersion(buffer *C.char, size C.size_t) C.size_t {
	return fill(bench.ModuleVersion("github.com/cockroachdb/pebble/v2"), buffer,
		size)
}

//export PebbleDestroy
func PebbleDestroy(path *C.char) C.int {
	return failed(os.RemoveAll(C.GoString(path)))
}

//export PebbleOpen
func PebbleOpen(path *C.char, cacheBytes, writeBufferBytes C.uint64_t,
	blockBytes, bloomBits, jobs C.int, handle *C.uintptr_t) C.int {
	d := &database{cache: pebble.NewCache(int64(cacheBytes))}
	config := &bench.Config{
		WriteBufferBytes: int64(writeBufferBytes),
		BlockBytes:       int(blockBytes),
		BloomBits:        int(bloomBits),
		BackgroundJobs:   int(jobs),
	}
	var err error
	d.db, err = pebble.Open(C.GoString(path), pebbleoptions.New(config, d.cache))
	if err != nil {
		d.cache.Unref()
		return failed(err)
	}
	*handle = C.uintptr_t(cgo.NewHandle(d))
	return 0
}

//export PebbleClose
func PebbleClose(handle C.uintptr_t) C.int {
	d := databaseOf(handle)
	PebbleReleaseSnapshot(handle)
	err := d.db.Close()
	d.cache.Unref()
	cgo.Handle(handle).Delete()
	return failed(err)
}

//export PebblePut
func PebblePut(handle C.uintptr_t, key *C.char, keySize C.size_t,
	value *C.char, valueSize C.size_t) C.int {
	return failed(databaseOf(handle).db.Set(view(key, keySize),
		view(value, valueSize), pebble.NoSync))
}

//export PebbleDelete
func PebbleDelete(handle C.uintptr_t, key *C.char, size C.size_t) C.int {
	return failed(databaseOf(handle).db.Delete(view(key, size), pebble.NoSync))
}

//export PebbleDeleteRange
func PebbleDeleteRange(handle C.uintptr_t, begin *C.char, beginSize C.size_t,
	end *C.char, endSize C.size_t) C.int {
	return failed(databaseOf(handle).db.DeleteRange(view(begin, beginSize),
		view(end, endSize), pebble.NoSync))
}

//export PebbleTakeSnapshot
func PebbleTakeSnapshot(handle C.uintptr_t) {
	PebbleReleaseSnapshot(handle)
	d := databaseOf(handle)
	d.snapshot = d.db.NewSnapshot()
}

//export PebbleReleaseSnapshot
func PebbleReleaseSnapshot(handle C.uintptr_t) {
	d := databaseOf(handle)
	if d.snapshot != nil {
		d.snapshot.Close()
	}
	d.snapshot = nil
}

//export PebbleFlush
func PebbleFlush(handle C.uintptr_t) C.int {
	return failed(databaseOf(handle).db.Flush())
}

//export PebbleCompact
func PebbleCompact(handle C.uintptr_t) C.int {
	// A bound after all keys of the workload, which begin with a number.
	end := make([]byte, 16)
	for i := range end {
		end[i] = 0xff
	}
	return failed(databaseOf(handle).db.Compact(context.Background(), []byte{0},
		end, true))
}

//export PebbleNewCursor
func PebbleNewCursor(handle C.uintptr_t) C.uintptr_t {
	return C.uintptr_t(cgo.NewHandle(&cursor{db: databaseOf(handle)}))
}

func (c *cursor) closeIterator() error {
	if c.iterator == nil {
		return nil
	}
	err := errors.Join(c.iterator.Error(), c.iterator.Close())
	c.iterator = nil
	return err
}

// found copies the key of the current entry. The result is 1 for an entry, 0
// for none and -1 for an error.
func (c *cursor) found(valid bool, buffer *C.char, size *C.size_t) C.int {
	if valid {
		*size = fill(string(c.iterator.Key()), buffer, *size)
		return 1
	}
	return -failed(c.iterator.Error())
}

// renew creates an iterator in place of the last one.
func (c *cursor) renew() error {
	err := c.closeIterator()
	if err == nil {
		c.iterator, err = c.db.db.NewIter(nil)
	}
	return err
}

// PebbleSeek creates an iterator, in place of the cursor's last one, and moves
// it to the first entry at or after the key, or to the first one if the key is
// null. *size is the size of the buffer, and then of the key found.
//
//export PebbleSeek
func PebbleSeek(handle C.uintptr_t, key *C.char, keySize C.size_t,
	buffer *C.char, size *C.size_t) C.int {
	c := cgo.Handle(handle).Value().(*cursor)
	if err := c.renew(); err != nil {
		return -failed(err)
	}
	if key == nil {
		return c.found(c.iterator.First(), buffer, size)
	}
	return c.found(c.iterator.SeekGE(view(key, keySize)), buffer, size)
}

// PebbleLast is PebbleSeek to the last entry.
//
//export PebbleLast
func PebbleLast(handle C.uintptr_t, buffer *C.char, size *C.size_t) C.int {
	c := cgo.Handle(handle).Value().(*cursor)
	if err := c.renew(); err != nil {
		return -failed(err)
	}
	return c.found(c.iterator.Last(), buffer, size)
}

//export PebbleNext
func PebbleNext(handle C.uintptr_t, buffer *C.char, size *C.size_t) C.int {
	c := cgo.Handle(handle).Value().(*cursor)
	return c.found(c.iterator.Next(), buffer, size)
}

//export PebbleDeleteCursor
func PebbleDeleteCursor(handle C.uintptr_t) {
	_ = cgo.Handle(handle).Value().(*cursor).closeIterator()
	cgo.Handle(handle).Delete()
}

func main() {}
