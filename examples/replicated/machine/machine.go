// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Package machine is the replicated state: a shard's database under dragonboat.
//
// A proposal is a run of updates (storage.AppendPut, AppendDelete) of keys that
// begin with Prefix. Update makes one batch of all proposals it is given and
// the index of the last of them, so that the database always says how far in
// the log its contents go: what is there after a crash is a prefix.
package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"sync"

	sm "github.com/lni/dragonboat/v3/statemachine"

	"varve.example/replicated/storage"
)

// Prefix is what keys of users begin with, and prefixEnd is behind them all.
const (
	Prefix    = "k"
	prefixEnd = "l"
	indexKey  = "a" // Of the applied index; before all others.
)

const streamBytes = 1 << 20 // Of entries at a time.

// Get is a query for the values of keys at one moment: [][]byte, nil for those
// that are not there. Keys are with Prefix.
type Get struct{ Keys [][]byte }

// Scan is a query for at most Count keys behind After: Keys.
type Scan struct {
	After []byte // nil: from the first one.
	Count int
}

// Keys are without Prefix; More says whether there are others behind.
type Keys struct {
	Keys [][]byte
	More bool
}

// Digest is a query for what the contents are: Summary. It reads all of them.
type Digest struct{}

// Summary is equal on replicas that have applied the same.
type Summary struct {
	Applied, Entries, Sum uint64
}

var errClosed = errors.New("machine: closed")

// Machine implements dragonboat's IOnDiskStateMachine.
type Machine struct {
	node  *storage.Node
	shard uint64
	batch storage.Batch

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
	m.db = db
	return index, nil
}

func applied(db storage.Database) (uint64, error) {
	values, err := db.Get([][]byte{[]byte(indexKey)}, nil)
	if err != nil || values[0] == nil {
		return 0, err
	}
	if len(values[0]) != 8 {
		return 0, fmt.Errorf("machine: the applied index has %d bytes", len(values[0]))
	}
	return binary.LittleEndian.Uint64(values[0]), nil
}

// Update applies proposals. Result.Value is their number of updates, 0 for a
// proposal that is none; Result.Data has a byte for each of its deletes, 1 if
// the key was there.
func (m *Machine) Update(entries []sm.Entry) ([]sm.Entry, error) {
	m.batch.Reset()
	deletes := false
	for i := range entries {
		count, err := storage.EachUpdate(entries[i].Cmd, func(kind byte, _ []byte) {
			deletes = deletes || kind == storage.KindDelete
		})
		if err != nil {
			continue // Every replica passes over it.
		}
		m.batch.Add(entries[i].Cmd, count)
		entries[i].Result.Value = uint64(count)
	}
	if deletes {
		if err := m.answerDeletes(entries); err != nil {
			return nil, err
		}
	}
	last := entries[len(entries)-1].Index
	m.batch.Put(indexKey, binary.LittleEndian.AppendUint64(nil, last))
	return entries, m.db.Write(m.batch.Bytes())
}

// answerDeletes says which keys were there, of which earlier updates of the
// same call may have decided.
func (m *Machine) answerDeletes(entries []sm.Entry) error {
	var failure error
	decided := map[string]bool{}
	for i := range entries {
		result := &entries[i].Result
		if result.Value == 0 {
			continue
		}
		storage.EachUpdate(entries[i].Cmd, func(kind byte, key []byte) {
			if kind == storage.KindDelete {
				there, known := decided[string(key)]
				if !known {
					values, err := m.db.Get([][]byte{key}, nil)
					if err != nil {
						failure = err
						return
					}
					there = values[0] != nil
				}
				answer := byte(0)
				if there {
					answer = 1
				}
				result.Data = append(result.Data, answer)
			}
			decided[string(key)] = kind == storage.KindPut
		})
	}
	return failure
}

// Sync makes safe what was applied.
func (m *Machine) Sync() error { return m.db.Sync() }

// Lookup answers the queries above, at the same time as all else.
func (m *Machine) Lookup(query interface{}) (interface{}, error) {
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	if m.db == nil {
		return nil, errClosed
	}
	switch q := query.(type) {
	case Get:
		values, err := m.db.Get(q.Keys, make([][]byte, 0, len(q.Keys)))
		return values, err
	case Scan:
		return m.scan(q)
	case Digest:
		return m.digest()
	}
	return nil, fmt.Errorf("machine: no such query: %T", query)
}

func (m *Machine) scan(q Scan) (Keys, error) {
	from := []byte(Prefix)
	if q.After != nil {
		// A key and a zero byte is the next one there can be.
		from = append(append(from, q.After...), 0)
	}
	var found Keys
	_, err := m.eachEntry(from, func(key, _ []byte) bool {
		if len(found.Keys) == q.Count {
			found.More = true
			return false
		}
		found.Keys = append(found.Keys, append([]byte(nil), key[len(Prefix):]...))
		return true
	})
	return found, err
}

func (m *Machine) digest() (Summary, error) {
	table := crc64.MakeTable(crc64.ECMA)
	var summary Summary
	_, err := m.eachEntry(nil, func(key, value []byte) bool {
		if string(key) == indexKey {
			summary.Applied = binary.LittleEndian.Uint64(value)
			return true
		}
		sizes := binary.LittleEndian.AppendUint64(nil, uint64(len(key))<<32|uint64(len(value)))
		summary.Sum = crc64.Update(summary.Sum, table, sizes)
		summary.Sum = crc64.Update(summary.Sum, table, key)
		summary.Sum = crc64.Update(summary.Sum, table, value)
		summary.Entries++
		return true
	})
	return summary, err
}

// eachEntry calls visit for the entries from there on, until it says no.
func (m *Machine) eachEntry(from []byte, visit func(key, value []byte) bool) (bool, error) {
	snapshot, err := m.db.Snapshot()
	if err != nil {
		return false, err
	}
	defer snapshot.Close()
	entries, err := snapshot.Entries(from, []byte(prefixEnd))
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

// Close closes the database; later lookups are refused.
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
