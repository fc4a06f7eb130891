// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Command pebble measures Pebble with the work of db_bench.
package main

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"varve/peers/bench"
	"varve/peers/pebbleoptions"
)

type engine struct {
	db     *pebble.DB
	cache  *pebble.Cache
	config *bench.Config
}

func (e *engine) Version() string {
	return bench.ModuleVersion("github.com/cockroachdb/pebble/v2")
}

func (e *engine) Remarks() string {
	return "a kill of the process loses the last unsynced writes; " +
		"newest format"
}

func (e *engine) Open(config *bench.Config) error {
	e.config = config
	e.cache = pebble.NewCache(config.CacheBytes)
	var err error
	e.db, err = pebble.Open(config.Path, pebbleoptions.New(config, e.cache))
	return err
}

func (e *engine) Close() error {
	err := e.db.Close()
	e.cache.Unref()
	return err
}

func (e *engine) Compact() error {
	// A bound after all keys of the workload, which begin with a number.
	end := make([]byte, 16)
	for i := range end {
		end[i] = 0xff
	}
	return e.db.Compact(context.Background(), []byte{0}, end, true)
}

func (e *engine) NewSession() bench.Session {
	options := pebble.NoSync
	if e.config.Sync {
		options = pebble.Sync
	}
	return &session{db: e.db, options: options}
}

type session struct {
	db      *pebble.DB
	options *pebble.WriteOptions
	batch   *pebble.Batch
}

func (s *session) PutOne(key, value []byte) error {
	return s.db.Set(key, value, s.options)
}

func (s *session) Put(key, value []byte) error {
	if s.batch == nil {
		s.batch = s.db.NewBatch()
	}
	return s.batch.Set(key, value, nil)
}

func (s *session) Commit() error {
	batch := s.batch
	s.batch = nil
	if err := batch.Commit(s.options); err != nil {
		return err
	}
	return batch.Close()
}

func (s *session) Get(key []byte, found func([]byte)) error {
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	found(value)
	return closer.Close()
}

func (s *session) GetEach(keys [][]byte, found func([]byte)) error {
	for _, key := range keys {
		if err := s.Get(key, found); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) Seek(key []byte, each func(key, value []byte) bool) error {
	iterator, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	valid := false
	if key == nil {
		valid = iterator.First()
	} else {
		valid = iterator.SeekGE(key)
	}
	for valid && each(iterator.Key(), iterator.Value()) {
		valid = iterator.Next()
	}
	if err := iterator.Error(); err != nil {
		return errors.Join(err, iterator.Close())
	}
	return iterator.Close()
}

func (s *session) Close() error { return nil }

func main() { bench.Main("pebble", &engine{}) }
