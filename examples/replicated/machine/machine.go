// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Package machine is the replicated state: a shard's database under dragonboat.
//
// Update makes one batch of all proposals it is given and the index of the last
// of them, so that the database always says how far in the log its contents
// go: what is there after a crash is a prefix. See format.go for proposals and
// for entries of the database.
package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"sync"
	"sync/atomic"

	sm "github.com/lni/dragonboat/v3/statemachine"

	"varve.example/replicated/storage"
)

const streamBytes = 1 << 20 // Of entries at a time.

// Get is a query for the stored values of stored keys at one moment: [][]byte,
// nil for those that are not there. If they have more than Limit bytes, the
// error is storage.ErrTooLarge. No limit is 0.
type Get struct {
	Keys  [][]byte
	Limit int
}

// Scan is a query for keys of the buckets from Bucket on: Keys. It ends after a
// bucket with which it has looked at Count keys or at scanBytes. If the keys of
// a bucket are too many for an answer, the error is storage.ErrTooLarge.
type Scan struct {
	Bucket uint32
	Count  int
	Now    int64
	Only   bool // Only the number of the keys is wanted.
}

// Keys are users' keys of those that were looked at. More says whether there
// are buckets from Next on.
type Keys struct {
	Keys   [][]byte
	Count  int // Of the keys that are not in Keys, as only their number is wanted.
	Looked int
	Next   uint32
	More   bool
}

// Due is a query for whether a key may have expired: bool.
type Due struct{ Now int64 }

// Digest is a query for what the contents are: Summary. It reads all of them,
// and fails if Stop is closed meanwhile.
type Digest struct{ Stop <-chan struct{} }

// Summary is equal on replicas that have applied the same. Entries are users'
// keys, also those that have expired and are not removed yet.
type Summary struct {
	Applied, Entries, Sum uint64
}

var errClosed = errors.New("machine: closed")

// Machine implements dragonboat's IOnDiskStateMachine.
type Machine struct {
	node  *storage.Node
	shard uint64
	apply applier

	// If it is not nil: is called when the database cannot be written, and does
	// not return. dragonboat would panic.
	Fatal func(error)

	applied atomic.Uint64 // The index of the last entry.
	written atomic.Uint64 // Bytes of the proposals that were applied since New.

	mutex sync.RWMutex // db is replaced and closed under it, and used below it.
	db    storage.Database
}

var _ sm.IOnDiskStateMachine = (*Machine)(nil)

// New makes the machine of a shard.
func New(node *storage.Node, shard uint64) *Machine {
	return &Machine{node: node, shard: shard}
}

// Open opens the database and says up to where it has applied the log.
func (m *Machine) Open(<-chan struct{}) (uint64, error) {
	db, err := m.node.Open(m.shard)
	if err != nil {
		return 0, err
	}
	index, err := applied(db)
	if err != nil {
		db.Close()
		return 0, err
	}
	m.mutex.Lock() // Size may be asked by now.
	m.db = db
	m.mutex.Unlock()
	m.applied.Store(index)
	return index, nil
}

// Applied is the index of the last entry that was applied.
func (m *Machine) Applied() uint64 { return m.applied.Load() }

// Written is how many bytes the proposals had that were applied here since the start.
func (m *Machine) Written() uint64 { return m.written.Load() }

// Size is how many bytes the tables of the database have.
func (m *Machine) Size() (uint64, error) {
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	if m.db == nil {
		return 0, errClosed
	}
	return m.db.Size()
}

func applied(db storage.Database) (uint64, error) {
	values, err := db.Get([][]byte{[]byte(indexKey)}, nil, 0)
	if err != nil || values[0] == nil {
		return 0, err
	}
	if len(values[0]) != 8 {
		return 0, fmt.Errorf("machine: the applied index has %d bytes", len(values[0]))
	}
	return binary.LittleEndian.Uint64(values[0]), nil
}

// Sync makes safe what was applied.
func (m *Machine) Sync() error {
	err := m.db.Sync()
	if err != nil && m.Fatal != nil {
		m.Fatal(err)
	}
	return err
}

// Lookup answers the queries above, at the same time as all else.
func (m *Machine) Lookup(query interface{}) (interface{}, error) {
	switch q := query.(type) { // These read all. No snapshot waits for them.
	case Digest:
		return m.digest(q)
	case Stream:
		return m.stream(q)
	case Moment:
		return m.moment()
	}
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	if m.db == nil {
		return nil, errClosed
	}
	switch q := query.(type) {
	case Get:
		return m.db.Get(q.Keys, make([][]byte, 0, len(q.Keys)), q.Limit)
	case Scan:
		return m.scan(q)
	case Due:
		return m.due(q)
	}
	return nil, fmt.Errorf("machine: no such query: %T", query)
}

// moment is what the database is now. It lives on when the database is replaced
// or closed.
func (m *Machine) moment() (storage.Snapshot, error) {
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	if m.db == nil {
		return nil, errClosed
	}
	return m.db.Snapshot()
}

const (
	scanBytes    = 8 << 20
	maxScanBytes = 64 << 20 // Of the keys of one answer.
	scanPerKey   = 40       // Of memory besides the key's own bytes.
)

func (m *Machine) scan(q Scan) (Keys, error) {
	var found Keys
	bytes, keyBytes, bucket := 0, 0, q.Bucket
	from := binary.BigEndian.AppendUint32([]byte(Prefix), q.Bucket)
	_, err := eachEntry(m.db, from, []byte(prefixEnd), func(key, value []byte) bool {
		next := binary.BigEndian.Uint32(key[len(Prefix):])
		if (found.Looked >= q.Count || bytes >= scanBytes) && next != bucket {
			found.Next, found.More = next, true
			return false
		}
		bucket = next
		found.Looked++
		bytes += len(key) + len(value)
		if _, _, exists := Value(value, q.Now); exists && q.Only {
			found.Count++
		} else if exists {
			found.Keys = append(found.Keys, append([]byte(nil), key[keyHeader:]...))
			keyBytes += len(key) + scanPerKey
		}
		return keyBytes <= maxScanBytes
	})
	if keyBytes > maxScanBytes {
		return Keys{}, storage.ErrTooLarge
	}
	return found, err
}

func (m *Machine) due(q Due) (bool, error) {
	due := false
	_, err := eachEntry(m.db, []byte(expiryPrefix), expiryEnd(q.Now), func(_, _ []byte) bool {
		due = true
		return false
	})
	return due, err
}

// expiryEnd comes after all times up to now.
func expiryEnd(now int64) []byte {
	return binary.BigEndian.AppendUint64([]byte(expiryPrefix), uint64(now)+1)
}

func (m *Machine) digest(q Digest) (Summary, error) {
	table := crc64.MakeTable(crc64.ECMA)
	var summary Summary
	snapshot, err := m.moment()
	if err != nil {
		return summary, err
	}
	defer snapshot.Close()
	all, err := eachEntryOf(snapshot, nil, []byte(prefixEnd), func(key, value []byte) bool {
		select {
		case <-q.Stop:
			return false
		default:
		}
		if string(key) == indexKey {
			summary.Applied = binary.LittleEndian.Uint64(value)
			return true
		}
		sizes := binary.LittleEndian.AppendUint64(nil, uint64(len(key))<<32|uint64(len(value)))
		summary.Sum = crc64.Update(summary.Sum, table, sizes)
		summary.Sum = crc64.Update(summary.Sum, table, key)
		summary.Sum = crc64.Update(summary.Sum, table, value)
		if key[0] == Prefix[0] {
			summary.Entries++
		}
		return true
	})
	if err == nil && !all {
		err = sm.ErrSnapshotStopped
	}
	return summary, err
}

// eachEntry calls visit for the entries of a range until it returns false.
func eachEntry(db storage.Database, from, to []byte, visit func(key, value []byte) bool) (bool, error) {
	snapshot, err := db.Snapshot()
	if err != nil {
		return false, err
	}
	defer snapshot.Close()
	return eachEntryOf(snapshot, from, to, visit)
}

func eachEntryOf(snapshot storage.Snapshot, from, to []byte, visit func(key, value []byte) bool) (bool, error) {
	entries, err := snapshot.Entries(from, to)
	if err != nil {
		return false, err
	}
	defer entries.Close()
	buffer := make([]byte, 64<<10)
	for {
		chunk, next, err := fill(entries, buffer)
		if err != nil || len(chunk) == 0 {
			return err == nil, err
		}
		buffer = next
		for len(chunk) > 0 {
			var key, value []byte
			if key, value, chunk, err = storage.NextEntry(chunk); err != nil {
				return false, err
			}
			if !visit(key, value) {
				return false, nil
			}
		}
	}
}

// fill reads entries into the buffer, or a larger one where one is too large.
func fill(entries storage.Iterator, buffer []byte) (chunk, next []byte, err error) {
	_, size, err := entries.Fill(buffer)
	if err == storage.ErrTooSmall {
		buffer = make([]byte, size)
		_, size, err = entries.Fill(buffer)
	}
	return buffer[:size], buffer, err
}

// Close closes the database; later lookups are refused. What reads all of it may
// still go on: until that ends, the database cannot be removed.
func (m *Machine) Close() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.db == nil {
		return nil
	}
	err := m.db.Close()
	m.db = nil
	return err
}
