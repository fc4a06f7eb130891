// Varve: a key-value storage engine. MIT licence, see LICENSE.

package geth

/*
#include "calls.h"
*/
import "C"

import (
	"encoding/binary"
	"errors"

	"github.com/ethereum/go-ethereum/ethdb"
)

// The format of a write batch: a header, then for each update a tag, the key's
// length and bytes and, for a put, the value's length and bytes.
const (
	headerBytes = 12 // A sequence number, which Varve sets, and the count.
	countOffset = 8
	tagDelete   = 0
	tagPut      = 1
)

var errDamaged = errors.New("varve: the batch is damaged")

// batch implements ethdb.Batch. The updates stay in Go's memory until Write,
// which is one call of C.
type batch struct {
	database *Database
	bytes    []byte
	count    uint32
	size     int
}

// NewBatch returns an empty batch.
func (d *Database) NewBatch() ethdb.Batch { return &batch{database: d} }

// NewBatchWithSize returns an empty batch with space for that many bytes.
func (d *Database) NewBatchWithSize(size int) ethdb.Batch {
	return &batch{database: d, bytes: make([]byte, 0, headerBytes+size)}
}

func (b *batch) add(tag byte, parts ...[]byte) {
	if len(b.bytes) == 0 {
		b.bytes = append(b.bytes, make([]byte, headerBytes)...)
	}
	b.bytes = append(b.bytes, tag)
	for _, part := range parts {
		b.bytes = binary.AppendUvarint(b.bytes, uint64(len(part)))
		b.bytes = append(b.bytes, part...)
		b.size += len(part)
	}
	b.count++
}

// Put adds an update that sets a key.
func (b *batch) Put(key, value []byte) error {
	b.add(tagPut, key, value)
	return nil
}

// Delete adds an update that removes a key.
func (b *batch) Delete(key []byte) error {
	b.add(tagDelete, key)
	return nil
}

// ValueSize returns the bytes of all keys and values.
func (b *batch) ValueSize() int { return b.size }

// Write applies all updates, or none.
func (b *batch) Write() error {
	d := b.database
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	if d.db == nil {
		return errClosed
	}
	if b.count == 0 {
		return nil
	}
	binary.LittleEndian.PutUint32(b.bytes[countOffset:], b.count)
	return takeError(C.call_write(d.db, d.write, pointer(b.bytes),
		C.size_t(len(b.bytes))).error)
}

// Reset removes all updates.
func (b *batch) Reset() {
	b.bytes, b.count, b.size = b.bytes[:0], 0, 0
}

// takePart splits a length and that many bytes off the rest of a batch.
func takePart(rest []byte) (part, after []byte, err error) {
	length, used := binary.Uvarint(rest)
	if used <= 0 || length > uint64(len(rest)-used) {
		return nil, nil, errDamaged
	}
	return rest[used : used+int(length)], rest[used+int(length):], nil
}

// Replay applies the updates to another store or batch, in their order.
func (b *batch) Replay(w ethdb.KeyValueWriter) error {
	if b.count == 0 {
		return nil
	}
	for rest := b.bytes[headerBytes:]; len(rest) > 0; {
		tag := rest[0]
		key, after, err := takePart(rest[1:])
		if err != nil {
			return err
		}
		if tag == tagDelete {
			err = w.Delete(key)
		} else {
			var value []byte
			if value, after, err = takePart(after); err != nil {
				return err
			}
			err = w.Put(key, value)
		}
		if err != nil {
			return err
		}
		rest = after
	}
	return nil
}
