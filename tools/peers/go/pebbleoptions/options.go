// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Package pebbleoptions has Pebble's settings, for the programs that measure it.
package pebbleoptions

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"varve/peers/bench"
)

// manyFiles is a number of open files that is never reached.
const manyFiles = 1 << 20

type quiet struct{}

func (quiet) Infof(string, ...interface{})  {}
func (quiet) Errorf(string, ...interface{}) {}
func (quiet) Fatalf(format string, arguments ...interface{}) {
	pebble.DefaultLogger.Fatalf(format, arguments...)
}

// New returns the options of a database with this cache.
func New(config *bench.Config, cache *pebble.Cache) *pebble.Options {
	options := &pebble.Options{
		Cache:              cache,
		FormatMajorVersion: pebble.FormatNewest,
		MemTableSize:       uint64(config.WriteBufferBytes),
		MaxOpenFiles:       manyFiles,
		Logger:             quiet{},
		CompactionConcurrencyRange: func() (int, int) {
			return 1, config.BackgroundJobs
		},
	}
	for i := range options.Levels {
		level := &options.Levels[i]
		level.BlockSize = config.BlockBytes
		level.Compression = func() *sstable.CompressionProfile {
			if config.Compression == "none" {
				return sstable.NoCompression
			}
			return sstable.SnappyCompression
		}
		if config.BloomBits >= 1 {
			level.FilterPolicy = bloom.FilterPolicy(config.BloomBits)
		}
	}
	return options
}
