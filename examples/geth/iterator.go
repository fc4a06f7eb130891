// Varve: a key-value storage engine. MIT licence, see LICENSE.

package geth

/*
#include "calls.h"
*/
import "C"

import (
	"encoding/binary"

	"github.com/ethereum/go-ethereum/ethdb"
)

const (
	firstFillBytes = 4 << 10
	maxFillBytes   = 256 << 10
)

// iterator implements ethdb.Iterator. A call of C copies many entries, because
// a call costs more than a step of Varve's iterator.
type iterator struct {
	iterator   *C.varve_iterator_t // nil after Release.
	buffer     []byte
	rest       []byte // Entries that are still to come.
	key, value []byte
	err        error
}

// NewIterator returns an iterator over the keys that begin with prefix, from
// prefix+start on. It sees the database as it is now. Release it.
func (d *Database) NewIterator(prefix, start []byte) ethdb.Iterator {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	if d.db == nil {
		return &iterator{err: errClosed}
	}
	from := append(append([]byte{}, prefix...), start...)
	to := afterPrefix(prefix)
	return &iterator{iterator: C.call_iterate(d.db, pointer(from),
		C.size_t(len(from)), pointer(to), C.size_t(len(to)))}
}

// afterPrefix returns the first key after all keys with a prefix, or nil if
// there is none.
func afterPrefix(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			after := append([]byte{}, prefix[:i+1]...)
			after[i]++
			return after
		}
	}
	return nil
}

// Next moves to the next entry, and returns whether there is one.
func (i *iterator) Next() bool {
	if len(i.rest) == 0 && !i.fill() {
		i.key, i.value = nil, nil
		return false
	}
	keySize := int(binary.LittleEndian.Uint32(i.rest))
	valueSize := int(binary.LittleEndian.Uint32(i.rest[4:]))
	entry := i.rest[8:]
	i.key, i.value = entry[:keySize], entry[keySize:keySize+valueSize]
	i.rest = entry[keySize+valueSize:]
	return true
}

// fill copies the next entries from C, and returns whether there were any.
func (i *iterator) fill() bool {
	if i.iterator == nil || i.err != nil {
		return false
	}
	// Few iterators are read far; those that are get a large buffer.
	size := min(max(firstFillBytes, 2*len(i.buffer)), maxFillBytes)
	for {
		if size > len(i.buffer) {
			i.buffer = make([]byte, size)
		}
		a := C.call_fill(i.iterator, pointer(i.buffer), C.size_t(len(i.buffer)))
		if a.count > 0 {
			i.rest = i.buffer[:a.size]
			return true
		}
		if a.size == 0 {
			i.err = takeError(a.error)
			return false
		}
		size = int(a.size)
	}
}

// Error returns the error that ended the iteration.
func (i *iterator) Error() error { return i.err }

// Key returns the key, which is valid until the next call of Next.
func (i *iterator) Key() []byte { return i.key }

// Value returns the value, which is valid until the next call of Next.
func (i *iterator) Value() []byte { return i.value }

// Release frees the iterator. Further calls of it do nothing.
func (i *iterator) Release() {
	if i.iterator != nil {
		C.varve_iter_destroy(i.iterator)
		i.iterator = nil
	}
	i.key, i.value, i.rest = nil, nil, nil
}
