// Varve: a key-value storage engine. MIT licence, see LICENSE.
package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	sm "github.com/lni/dragonboat/v3/statemachine"

	"varve.example/replicated/storage"
)

// A stream of a snapshot is chunks: the length of the entries and the CRC-32C
// of length and entries, 4 bytes each, then the entries. A chunk of no entries
// is the end, without which the stream was cut off. The applied index is one
// of the entries, the first.

const (
	chunkHeader   = 8
	maxChunkBytes = 1 << 30
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errDamaged = errors.New("machine: the snapshot is damaged")
)

func putHeader(header, entries []byte) {
	binary.LittleEndian.PutUint32(header, uint32(len(entries)))
	sum := crc32.Update(crc32.Checksum(header[:4], castagnoli), castagnoli, entries)
	binary.LittleEndian.PutUint32(header[4:], sum)
}

// PrepareSnapshot takes the moment, which costs next to nothing.
func (m *Machine) PrepareSnapshot() (interface{}, error) { return m.db.Snapshot() }

// SaveSnapshot streams the moment, while updates go on, and ends it.
func (m *Machine) SaveSnapshot(moment interface{}, to io.Writer, stop <-chan struct{}) error {
	snapshot := moment.(storage.Snapshot)
	defer snapshot.Close()
	return saveChunks(snapshot, to, stop, func(chunk []byte) ([]byte, error) { return chunk, nil })
}

// saveChunks writes a stream of what visit returns for each chunk.
func saveChunks(snapshot storage.Snapshot, to io.Writer, stop <-chan struct{}, visit func([]byte) ([]byte, error)) error {
	entries, err := snapshot.Entries(nil, []byte(prefixEnd))
	if err != nil {
		return err
	}
	defer entries.Close()
	buffer := make([]byte, streamBytes)
	var header [chunkHeader]byte
	for {
		select {
		case <-stop:
			return sm.ErrSnapshotStopped
		default:
		}
		chunk, next, err := fill(entries, buffer)
		if err != nil {
			return err
		}
		buffer = next
		isEnd := len(chunk) == 0
		if chunk, err = visit(chunk); err != nil {
			return err
		}
		if len(chunk) == 0 && !isEnd {
			continue
		}
		putHeader(header[:], chunk)
		if _, err := to.Write(header[:]); err != nil {
			return err
		}
		if isEnd {
			return nil
		}
		if _, err := to.Write(chunk); err != nil {
			return err
		}
	}
}

// RecoverFromSnapshot builds a database from the stream and then replaces the
// current one by it. Lookups read the current one until then. A stream that is
// damaged, or ends early, changes nothing.
func (m *Machine) RecoverFromSnapshot(from io.Reader, stop <-chan struct{}) error {
	db, name, err := m.node.Beside(m.shard)
	if err != nil {
		return err
	}
	if err = load(db, from, stop); err == nil {
		err = db.Flush()
	}
	var index uint64
	if err == nil {
		index, err = applied(db)
	}
	if err == nil {
		err = m.node.Adopt(m.shard, name)
	}
	if err != nil {
		db.Close()
		return err
	}
	m.mutex.Lock()
	old := m.db
	m.db = db
	m.mutex.Unlock()
	m.applied.Store(index)
	old.Close()
	m.node.DropOthers(m.shard)
	return nil
}

func load(db storage.Database, from io.Reader, stop <-chan struct{}) error {
	return loadChunks(from, stop, db.Load, func() error { return nil })
}

// cutOff is the error for one of reading a stream. Only its end means damage.
func cutOff(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return err
}

// loadChunks reads a stream, each chunk of which goes to use, and calls end
// once it was complete.
func loadChunks(from io.Reader, stop <-chan struct{}, use func([]byte) error, end func() error) error {
	var buffer []byte
	var header, expected [chunkHeader]byte
	for {
		select {
		case <-stop:
			return sm.ErrSnapshotStopped
		default:
		}
		if _, err := io.ReadFull(from, header[:]); err != nil {
			return cutOff(err)
		}
		size := binary.LittleEndian.Uint32(header[:])
		if size > maxChunkBytes {
			return errDamaged
		}
		if uint32(cap(buffer)) < size {
			buffer = make([]byte, size)
		}
		buffer = buffer[:size]
		if _, err := io.ReadFull(from, buffer); err != nil {
			return cutOff(err)
		}
		putHeader(expected[:], buffer)
		if header != expected {
			return errDamaged
		}
		if size == 0 {
			return end()
		}
		if err := use(buffer); err != nil {
			return err
		}
	}
}
