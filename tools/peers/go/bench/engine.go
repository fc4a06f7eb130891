// Varve: a key-value storage engine. MIT licence, see LICENSE.

package bench

// Config has the settings of an engine. An engine uses those that it has.
type Config struct {
	Path string
	// The approximate data to be stored.
	Entries    uint64
	KeyBytes   int
	ValueBytes int
	// none or snappy.
	Compression      string
	CacheBytes       int64
	BlockBytes       int
	BloomBits        int
	WriteBufferBytes int64
	BackgroundJobs   int
	Threads          int
	// Syncs every write.
	Sync bool
}

// Engine is one storage engine, once open safe for concurrent use.
type Engine interface {
	// Version returns the version of the engine's module.
	Version() string
	// Remarks returns the durability of an unsynced write, and the settings
	// that the engine does not have.
	Remarks() string
	Open(config *Config) error
	Close() error
	NewSession() Session
	// Compact compacts the whole database. It returns ErrUnsupported if the
	// engine has no such operation.
	Compact() error
}

// Session is the access of one goroutine.
type Session interface {
	// PutOne writes one entry.
	PutOne(key, value []byte) error
	// Put collects an entry, and Commit writes all collected ones atomically.
	// The caller may change the key after Put; the value stays as it is.
	Put(key, value []byte) error
	Commit() error
	// Get calls found with the value, which is valid during the call.
	Get(key []byte, found func(value []byte)) error
	// GetEach looks up all keys in one view of the database.
	GetEach(keys [][]byte, found func(value []byte)) error
	// Seek makes an iterator, moves it to the first entry at or after the key
	// (nil: to the first entry), and calls each with the entries from there
	// until it returns false or the data ends. The entry is valid during the
	// call.
	Seek(key []byte, each func(key, value []byte) bool) error
	Close() error
}
