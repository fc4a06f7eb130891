// Varve: a key-value storage engine. MIT licence, see LICENSE.
package machine

import (
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"io"

	"varve.example/replicated/storage"
)

// Stream is a query that writes the contents at one moment, in the form of a
// snapshot, and returns Contents. It fails if Stop is closed meanwhile.
type Stream struct {
	To   io.Writer
	Stop <-chan struct{}
	// If it is not nil: says which entries are left out, by their keys as stored.
	Without func(key []byte) (bool, error)
}

// Moment is a query for a storage.Snapshot, which the caller closes.
type Moment struct{}

// Contents describes entries. The sums do not depend on their order, so that the
// sums of shards can be added and compared with those of other shards. Lasting
// entries are those that do not expire, and are not about expiry.
type Contents struct {
	Applied, Entries, Sum uint64
	Lasting, LastingSum   uint64
}

// AddTo adds contents of another shard.
func (c Contents) AddTo(total *Contents) {
	total.Entries += c.Entries
	total.Sum += c.Sum
	total.Lasting += c.Lasting
	total.LastingSum += c.LastingSum
}

// ContainsLasting says whether all entries of others that do not expire are
// there, and nothing else. The others may have expired since.
func (c Contents) ContainsLasting(others Contents) bool {
	return c.Lasting == others.Lasting && c.LastingSum == others.LastingSum && c.Entries <= others.Entries
}

// Add counts one entry; that of the applied index is no entry.
func (c *Contents) Add(key, value []byte) {
	if string(key) == indexKey {
		c.Applied = binary.LittleEndian.Uint64(value)
		return
	}
	table := crc64.MakeTable(crc64.ECMA)
	sizes := binary.LittleEndian.AppendUint64(nil, uint64(len(key))<<32|uint64(len(value)))
	sum := crc64.Update(crc64.Update(crc64.Update(0, table, sizes), table, key), table, value)
	c.Sum += sum
	c.Entries++
	if key[0] == Prefix[0] && len(value) > 0 && value[0]&flagExpires == 0 {
		c.LastingSum += sum
		c.Lasting++
	}
}

func (m *Machine) stream(q Stream) (Contents, error) {
	snapshot, err := m.moment()
	if err != nil {
		return Contents{}, err
	}
	defer snapshot.Close()
	return StreamOf(snapshot, q)
}

// StreamOf is the answer to Stream with the contents of an earlier moment.
func StreamOf(snapshot storage.Snapshot, q Stream) (contents Contents, err error) {
	err = saveChunks(snapshot, q.To, q.Stop, func(chunk []byte) ([]byte, error) {
		kept := chunk[:0] // In place, because an entry never moves back beyond its begin.
		err := eachOf(chunk, func(key, value []byte) error {
			if q.Without != nil {
				without, err := q.Without(key)
				if without || err != nil {
					return err
				}
				kept = storage.AppendEntry(kept, key, value)
			}
			contents.Add(key, value)
			return nil
		})
		if q.Without == nil {
			kept = chunk
		}
		return kept, err
	})
	return contents, err
}

// EachEntry calls visit for all entries of a moment but that of the applied index.
func EachEntry(moment storage.Snapshot, visit func(key, value []byte) error) (failure error) {
	_, err := eachEntryOf(moment, nil, []byte(prefixEnd), func(key, value []byte) bool {
		if string(key) != indexKey {
			failure = visit(key, value)
		}
		return failure == nil
	})
	if failure == nil {
		failure = err
	}
	return failure
}

// eachOf calls visit for each entry of a chunk, until it fails.
func eachOf(chunk []byte, visit func(key, value []byte) error) error {
	for len(chunk) > 0 {
		key, value, rest, err := storage.NextEntry(chunk)
		if err == nil {
			err = visit(key, value)
		}
		if err != nil {
			return err
		}
		chunk = rest
	}
	return nil
}

// CopyStream copies one stream, and checks it. An error may come after a part
// of it.
func CopyStream(to io.Writer, from io.Reader) error {
	var header [chunkHeader]byte
	return loadChunks(from, nil, func(chunk []byte) error {
		putHeader(header[:], chunk)
		if _, err := to.Write(header[:]); err != nil {
			return err
		}
		_, err := to.Write(chunk)
		return err
	}, func() error { return EmptyStream(to) })
}

// EmptyStream writes a stream of no entries.
func EmptyStream(to io.Writer) error {
	var header [chunkHeader]byte
	putHeader(header[:], nil)
	_, err := to.Write(header[:])
	return err
}

// ReadEntries calls visit for the entries of a stream that are of users, with
// the keys as they are stored.
func ReadEntries(from io.Reader, visit func(key, value []byte) error) error {
	return loadChunks(from, nil, func(chunk []byte) error {
		return eachOf(chunk, func(key, value []byte) error {
			if string(key) == indexKey {
				return nil
			}
			return visit(key, value)
		})
	}, func() error { return nil })
}

// ReadStream is ReadEntries, and returns what it was.
func ReadStream(from io.Reader, visit func(key, value []byte) error) (Contents, error) {
	var contents Contents
	err := loadChunks(from, nil, func(chunk []byte) error {
		return eachOf(chunk, func(key, value []byte) error {
			if string(key) == indexKey && len(value) != 8 || string(key) != indexKey && !ValidEntry(key) {
				return fmt.Errorf("%w: an entry of %d and %d bytes", errDamaged, len(key), len(value))
			}
			contents.Add(key, value)
			if string(key) == indexKey {
				return nil
			}
			return visit(key, value)
		})
	}, func() error { return nil })
	return contents, err
}

// UserKey is the key as a user knows it, also of an entry about its expiry.
func UserKey(stored []byte) []byte {
	header := keyHeader
	if stored[0] == expiryPrefix[0] {
		header = expiryHeader + bucketBytes
	}
	return stored[min(header, len(stored)):]
}
