// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Command badger measures Badger with the work of db_bench.
package main

import (
	"errors"
	"math"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"varve/peers/bench"
)

// minCompactors is the least number of compaction threads that Badger takes.
const minCompactors = 2

type engine struct{ db *badger.DB }

func (e *engine) Version() string {
	return bench.ModuleVersion("github.com/dgraph-io/badger/v4")
}

func (e *engine) Remarks() string {
	return "an unsynced write survives a kill of the process (its log is a " +
		"map); values in the tables; no detection of conflicts"
}

func (e *engine) Open(config *bench.Config) error {
	compression := options.Snappy
	if config.Compression == "none" {
		compression = options.None
	}
	falsePositives := 0.0
	if config.BloomBits >= 1 {
		// The rate of a filter with the best number of probes.
		falsePositives = math.Pow(.6185, float64(config.BloomBits))
	}
	db, err := badger.Open(badger.DefaultOptions(config.Path).
		WithSyncWrites(config.Sync).
		WithLogger(nil).
		WithMetricsEnabled(false).
		WithDetectConflicts(false).
		WithCompression(compression).
		WithBlockSize(config.BlockBytes).
		WithBlockCacheSize(config.CacheBytes).
		WithBloomFalsePositive(falsePositives).
		WithMemTableSize(config.WriteBufferBytes).
		WithNumCompactors(max(config.BackgroundJobs, minCompactors)))
	e.db = db
	return err
}

func (e *engine) Close() error { return e.db.Close() }

func (e *engine) Compact() error { return e.db.Flatten(minCompactors) }

func (e *engine) NewSession() bench.Session { return &session{db: e.db} }

type session struct {
	db  *badger.DB
	txn *badger.Txn
}

func (s *session) PutOne(key, value []byte) error {
	// The key is read until the commit returns.
	txn := s.db.NewTransaction(true)
	defer txn.Discard()
	if err := txn.Set(key, value); err != nil {
		return err
	}
	return txn.Commit()
}

func (s *session) Put(key, value []byte) error {
	if s.txn == nil {
		s.txn = s.db.NewTransaction(true)
	}
	return s.txn.Set(append([]byte(nil), key...), value)
}

func (s *session) Commit() error {
	txn := s.txn
	s.txn = nil
	defer txn.Discard()
	return txn.Commit()
}

func get(txn *badger.Txn, key []byte, found func([]byte)) error {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return item.Value(func(value []byte) error {
		found(value)
		return nil
	})
}

func (s *session) Get(key []byte, found func([]byte)) error {
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	return get(txn, key, found)
}

func (s *session) GetEach(keys [][]byte, found func([]byte)) error {
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	for _, key := range keys {
		if err := get(txn, key, found); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) Seek(key []byte, each func(key, value []byte) bool) error {
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	options := badger.DefaultIteratorOptions
	// A short walk from a key does not read ahead.
	options.PrefetchValues = key == nil
	iterator := txn.NewIterator(options)
	defer iterator.Close()
	more := true
	for iterator.Seek(key); more && iterator.Valid(); {
		item := iterator.Item()
		err := item.Value(func(value []byte) error {
			more = each(item.Key(), value)
			return nil
		})
		if err != nil {
			return err
		}
		if more {
			iterator.Next()
		}
	}
	return nil
}

func (s *session) Close() error {
	if s.txn != nil {
		s.txn.Discard()
	}
	return nil
}

func main() { bench.Main("badger", &engine{}) }
