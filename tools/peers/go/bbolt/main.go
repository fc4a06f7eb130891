// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Command bbolt measures bbolt with the work of db_bench.
package main

import (
	"path/filepath"

	"go.etcd.io/bbolt"

	"varve/peers/bench"
)

// The file is mapped once: it grows only as far as it is written.
const (
	minMapBytes = 64 << 30
	maxMapBytes = 1 << 45
)

var bucketName = []byte("entries")

type engine struct{ db *bbolt.DB }

func (e *engine) Version() string {
	return bench.ModuleVersion("go.etcd.io/bbolt")
}

func (e *engine) Remarks() string {
	return "an unsynced write survives a kill of the process (its pages are " +
		"written at each commit); a power cut may corrupt the file; no log, " +
		"no compression, no filter; its cache is the page cache; writers " +
		"take turns"
}

func (e *engine) Open(config *bench.Config) error {
	raw := 8 * config.Entries * uint64(config.KeyBytes+config.ValueBytes)
	options := &bbolt.Options{
		NoSync:          !config.Sync,
		NoGrowSync:      !config.Sync,
		NoFreelistSync:  true,
		FreelistType:    bbolt.FreelistMapType,
		InitialMmapSize: int(min(max(raw, minMapBytes), maxMapBytes)),
	}
	db, err := bbolt.Open(filepath.Join(config.Path, "bbolt.db"), 0o644, options)
	if err != nil {
		return err
	}
	e.db = db
	return db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucketName)
		return err
	})
}

func (e *engine) Close() error              { return e.db.Close() }
func (e *engine) Compact() error            { return bench.ErrUnsupported }
func (e *engine) NewSession() bench.Session { return &session{db: e.db} }

type session struct {
	db     *bbolt.DB
	tx     *bbolt.Tx
	bucket *bbolt.Bucket
}

func (s *session) PutOne(key, value []byte) error {
	if err := s.Put(key, value); err != nil {
		return err
	}
	return s.Commit()
}

func (s *session) Put(key, value []byte) error {
	if s.tx == nil {
		tx, err := s.db.Begin(true)
		if err != nil {
			return err
		}
		s.tx, s.bucket = tx, tx.Bucket(bucketName)
	}
	// The bucket copies the key, and refers to the value until the commit.
	return s.bucket.Put(key, value)
}

func (s *session) Commit() error {
	tx := s.tx
	s.tx, s.bucket = nil, nil
	return tx.Commit()
}

func (s *session) Get(key []byte, found func([]byte)) error {
	tx, err := s.db.Begin(false)
	if err != nil {
		return err
	}
	if value := tx.Bucket(bucketName).Get(key); value != nil {
		found(value)
	}
	return tx.Rollback()
}

func (s *session) GetEach(keys [][]byte, found func([]byte)) error {
	tx, err := s.db.Begin(false)
	if err != nil {
		return err
	}
	bucket := tx.Bucket(bucketName)
	for _, key := range keys {
		if value := bucket.Get(key); value != nil {
			found(value)
		}
	}
	return tx.Rollback()
}

func (s *session) Seek(key []byte, each func(key, value []byte) bool) error {
	tx, err := s.db.Begin(false)
	if err != nil {
		return err
	}
	cursor := tx.Bucket(bucketName).Cursor()
	var at, value []byte
	if key == nil {
		at, value = cursor.First()
	} else {
		at, value = cursor.Seek(key)
	}
	for at != nil && each(at, value) {
		at, value = cursor.Next()
	}
	return tx.Rollback()
}

func (s *session) Close() error {
	if s.tx != nil {
		return s.tx.Rollback()
	}
	return nil
}

func main() { bench.Main("bbolt", &engine{}) }
