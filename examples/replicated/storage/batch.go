// Varve: a key-value storage engine. MIT licence, see LICENSE.
package storage

import (
	"encoding/binary"
	"errors"
)

// Kinds of updates, as engines store them.
const (
	KindDelete = 0
	KindPut    = 1
)

const batchHeader = 12 // A sequence number, which the engine sets; a count.

// ErrMalformed is for bytes that are no updates, or no entries.
var ErrMalformed = errors.New("storage: malformed bytes")

// AppendPut appends an update that sets prefix+key.
func AppendPut(updates []byte, prefix string, key, value []byte) []byte {
	updates = append(updates, KindPut)
	updates = appendString(updates, prefix, key)
	return appendString(updates, "", value)
}

// AppendDelete appends an update that removes prefix+key.
func AppendDelete(updates []byte, prefix string, key []byte) []byte {
	return appendString(append(updates, KindDelete), prefix, key)
}

func appendString(to []byte, prefix string, text []byte) []byte {
	to = binary.AppendUvarint(to, uint64(len(prefix)+len(text)))
	return append(append(to, prefix...), text...)
}

// EachUpdate calls visit for the updates in order; visit may be nil. It says
// how many there are, and whether the bytes are nothing but updates.
func EachUpdate(updates []byte, visit func(kind byte, key []byte)) (int, error) {
	count := 0
	for len(updates) > 0 {
		kind := updates[0]
		if kind > KindPut {
			return 0, ErrMalformed
		}
		key, rest, ok := cutString(updates[1:])
		if ok && kind == KindPut {
			_, rest, ok = cutString(rest)
		}
		if !ok {
			return 0, ErrMalformed
		}
		if visit != nil {
			visit(kind, key)
		}
		count++
		updates = rest
	}
	return count, nil
}

func cutString(from []byte) (text, rest []byte, ok bool) {
	size, n := binary.Uvarint(from)
	if n <= 0 || size > uint64(len(from)-n) {
		return nil, nil, false
	}
	return from[n : n+int(size)], from[n+int(size):], true
}

// Batch gathers updates for one Write.
type Batch struct {
	bytes []byte
	count uint32
}

// Reset makes it empty; the memory stays.
func (b *Batch) Reset() {
	b.bytes = append(b.bytes[:0], make([]byte, batchHeader)...)
	b.count = 0
}

// Add adds what EachUpdate has found to be `count` updates.
func (b *Batch) Add(updates []byte, count int) {
	b.bytes = append(b.bytes, updates...)
	b.count += uint32(count)
}

// Put adds one that sets a key.
func (b *Batch) Put(key string, value []byte) {
	b.bytes = AppendPut(b.bytes, key, nil, value)
	b.count++
}

// Bytes is the batch for Write, until it changes.
func (b *Batch) Bytes() []byte {
	binary.LittleEndian.PutUint32(b.bytes[8:], b.count)
	return b.bytes
}

// NextEntry cuts the first entry off a stream of entries.
func NextEntry(entries []byte) (key, value, rest []byte, err error) {
	if len(entries) < 8 {
		return nil, nil, nil, ErrMalformed
	}
	keySize := uint64(binary.LittleEndian.Uint32(entries))
	size := keySize + uint64(binary.LittleEndian.Uint32(entries[4:]))
	entries = entries[8:]
	if size > uint64(len(entries)) {
		return nil, nil, nil, ErrMalformed
	}
	return entries[:keySize], entries[keySize:size], entries[size:], nil
}
