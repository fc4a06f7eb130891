// Varve: a key-value storage engine. MIT licence, see LICENSE.

//go:build pebble

package storage

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/bloom"
)

// For comparison: a Pebble for each database, with a cache of all of them.
type pebbleEngine struct {
	dir     string
	cache   *pebble.Cache
	options Options
}

type pebbleDatabase struct {
	db    *pebble.DB
	users atomic.Int32 // The database and its snapshots; the last one closes it.
}

type pebbleSnapshot struct {
	d        *pebbleDatabase
	snapshot *pebble.Snapshot
}

type pebbleIterator struct{ iterator *pebble.Iterator }

// OpenEngine opens the databases in a directory, which is made if need be.
func OpenEngine(dir string, options Options) (Engine, error) {
	err := os.MkdirAll(dir, 0o700)
	return &pebbleEngine{dir, pebble.NewCache(int64(options.CacheBytes)), options}, err
}

// Version is the engine's.
func Version() string { return "pebble" }

func (e *pebbleEngine) Describe() string { return Version() }

func (e *pebbleEngine) open(name string) (Database, error) {
	levels := []pebble.LevelOptions{{FilterPolicy: bloom.FilterPolicy(10)}}
	for len(levels) < 7 {
		levels = append(levels, levels[0])
	}
	db, err := pebble.Open(filepath.Join(e.dir, name), &pebble.Options{
		Cache: e.cache, Levels: levels, MemTableSize: e.options.WriteBufferBytes,
		MaxOpenFiles: e.options.OpenFiles, Logger: silent{},
	})
	if err != nil {
		return nil, err
	}
	d := &pebbleDatabase{db: db}
	d.users.Store(1)
	return d, nil
}

type silent struct{}

func (silent) Infof(string, ...interface{})  {}
func (silent) Fatalf(string, ...interface{}) { os.Exit(1) }

func (e *pebbleEngine) Create(name string) (Database, error) {
	if err := os.Mkdir(filepath.Join(e.dir, name), 0o700); err != nil {
		return nil, err
	}
	return e.open(name)
}

func (e *pebbleEngine) Open(name string) (Database, error) {
	if _, err := os.Stat(filepath.Join(e.dir, name)); os.IsNotExist(err) {
		return nil, nil
	}
	return e.open(name)
}

func (e *pebbleEngine) Drop(name string) error {
	return os.RemoveAll(filepath.Join(e.dir, name))
}

func (e *pebbleEngine) List() ([]string, error) {
	files, err := os.ReadDir(e.dir)
	var names []string
	for _, file := range files {
		names = append(names, file.Name())
	}
	return names, err
}

func (e *pebbleEngine) Close() error {
	e.cache.Unref()
	return nil
}

func (d *pebbleDatabase) Write(bytes []byte) error {
	batch := d.db.NewBatch()
	// Pebble keeps the bytes for the memtable's sake until the batch is closed.
	if err := batch.SetRepr(append([]byte(nil), bytes...)); err != nil {
		return err
	}
	defer batch.Close()
	return d.db.Apply(batch, pebble.NoSync)
}

func (d *pebbleDatabase) Sync() error { return d.db.LogData(nil, pebble.Sync) }

func (d *pebbleDatabase) Load(entries []byte) error {
	batch := d.db.NewBatch()
	defer batch.Close()
	for len(entries) > 0 {
		key, value, rest, err := NextEntry(entries)
		if err == nil {
			err = batch.Set(key, value, nil)
		}
		if err != nil {
			return err
		}
		entries = rest
	}
	return d.db.Apply(batch, pebble.NoSync)
}

func (d *pebbleDatabase) Flush() error { return d.db.Flush() }

func (d *pebbleDatabase) Get(keys, values [][]byte, limit int) ([][]byte, error) {
	var from pebble.Reader = d.db
	if len(keys) > 1 {
		snapshot := d.db.NewSnapshot()
		defer snapshot.Close()
		from = snapshot
	}
	size := 0
	for _, key := range keys {
		value, closer, err := from.Get(key)
		if err == pebble.ErrNotFound {
			values = append(values, nil)
			continue
		}
		if err != nil {
			return values, err
		}
		if size += len(value); limit > 0 && size > limit {
			closer.Close()
			return values, ErrTooLarge
		}
		values = append(values, append(make([]byte, 0, len(value)), value...))
		closer.Close()
	}
	return values, nil
}

func (d *pebbleDatabase) Snapshot() (Snapshot, error) {
	d.users.Add(1)
	return &pebbleSnapshot{d, d.db.NewSnapshot()}, nil
}

func (d *pebbleDatabase) Size() (uint64, error) { return uint64(d.db.Metrics().Total().Size), nil }

func (d *pebbleDatabase) Close() error {
	if d.users.Add(-1) > 0 {
		return nil
	}
	return d.db.Close()
}

func (s *pebbleSnapshot) Entries(from, to []byte) (Iterator, error) {
	iterator := s.snapshot.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	iterator.First()
	return &pebbleIterator{iterator}, nil
}

func (s *pebbleSnapshot) Close() {
	s.snapshot.Close()
	s.d.Close()
}

func (i *pebbleIterator) Fill(buffer []byte) (entries, size int, err error) {
	for i.iterator.Valid() {
		key, value := i.iterator.Key(), i.iterator.Value()
		needed := 8 + len(key) + len(value)
		if needed > len(buffer)-size {
			if entries == 0 {
				return 0, needed, ErrTooSmall
			}
			return entries, size, nil
		}
		binary.LittleEndian.PutUint32(buffer[size:], uint32(len(key)))
		binary.LittleEndian.PutUint32(buffer[size+4:], uint32(len(value)))
		copy(buffer[size+8:], key)
		copy(buffer[size+8+len(key):], value)
		size += needed
		entries++
		i.iterator.Next()
	}
	return entries, size, i.iterator.Error()
}

func (i *pebbleIterator) Close() { i.iterator.Close() }
