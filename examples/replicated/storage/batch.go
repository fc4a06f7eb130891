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

	kindDeleteRange = 15
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

// Add adds `count` updates that are in the format.
func (b *Batch) Add(updates []byte, count int) {
	b.bytes = append(b.bytes, updates...)
	b.count += uint32(count)
}

// Put adds one that sets a key.
func (b *Batch) Put(key string, value []byte) {
	b.bytes = AppendPut(b.bytes, key, nil, value)
	b.count++
}

// PutBytes is Put of a key of bytes.
func (b *Batch) PutBytes(key, value []byte) {
	b.bytes = AppendPut(b.bytes, "", key, value)
	b.count++
}

// Delete adds one that removes a key.
func (b *Batch) Delete(key []byte) {
	b.bytes = AppendDelete(b.bytes, "", key)
	b.count++
}

// DeleteRange adds one that removes the keys from `from` up to, not including,
// `to`.
func (b *Batch) DeleteRange(from, to string) {
	b.bytes = appendString(append(b.bytes, kindDeleteRange), from, nil)
	b.bytes = appendString(b.bytes, to, nil)
	b.count++
}

// Size is the number of bytes.
func (b *Batch) Size() int { return len(b.bytes) }

// Bytes is the batch for Write, until it changes.
func (b *Batch) Bytes() []byte {
	binary.LittleEndian.PutUint32(b.bytes[8:], b.count)
	return b.bytes
}

// AppendEntry appends an entry to a stream of entries.
func AppendEntry(to, key, value []byte) []byte {
	to = binary.LittleEndian.AppendUint32(to, uint32(len(key)))
	to = binary.LittleEndian.AppendUint32(to, uint32(len(value)))
	return append(append(to, key...), value...)
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
