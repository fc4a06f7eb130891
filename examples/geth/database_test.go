// Varve: a key-value storage engine. MIT licence, see LICENSE.

package geth

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/ethdb/dbtest"
	"github.com/ethereum/go-ethereum/ethdb/memorydb"
)

const cacheBytes = 16 << 20

func open(t testing.TB, directory string) *Database {
	t.Helper()
	db, err := Open(directory, cacheBytes, 500)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// go-ethereum's own suite for a key-value store.
func TestSuite(t *testing.T) {
	dbtest.TestDatabaseSuite(t, func() ethdb.KeyValueStore {
		return open(t, t.TempDir())
	})
}

func BenchmarkSuite(b *testing.B) {
	dbtest.BenchDatabaseSuite(b, func() ethdb.KeyValueStore {
		return open(b, b.TempDir())
	})
}

// The process has Varve in its memory.
func TestRunsOnVarve(t *testing.T) {
	open(t, t.TempDir()).Close()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(maps), "libvarve.so") {
		t.Fatal("libvarve.so is not mapped")
	}
}

// Compares random operations with go-ethereum's store in memory. Values have up
// to a megabyte, so that some need a larger buffer than the first.
func TestBehavesLikeMemory(t *testing.T) {
	directory := t.TempDir()
	db, model := open(t, directory), memorydb.New()
	random := rand.New(rand.NewSource(1))
	key := func() []byte { return []byte(fmt.Sprintf("%03x", random.Intn(600))) }
	for step := 0; step < 3000; step++ {
		switch n := random.Intn(100); {
		case n < 50:
			a, b := db.NewBatch(), model.NewBatch()
			for i := 0; i < 20; i++ {
				k := key()
				if random.Intn(4) == 0 {
					a.Delete(k)
					b.Delete(k)
					continue
				}
				v := bytes.Repeat(key(), random.Intn(40))
				if random.Intn(500) == 0 {
					v = bytes.Repeat(key(), 1<<20/3)
				}
				a.Put(k, v)
				b.Put(k, v)
			}
			if a.ValueSize() != b.ValueSize() {
				t.Fatalf("sizes of a batch: %d, %d", a.ValueSize(), b.ValueSize())
			}
			if err := errors.Join(a.Write(), b.Write()); err != nil {
				t.Fatal(err)
			}
		case n < 70:
			k := key()
			a, errA := db.Get(k)
			b, errB := model.Get(k)
			if (errA == nil) != (errB == nil) || !bytes.Equal(a, b) {
				t.Fatalf("%q: %d bytes, %v; %d bytes, %v", k, len(a), errA, len(b), errB)
			}
		case n < 80:
			from, to := key(), key()
			err := errors.Join(db.DeleteRange(from, to), model.DeleteRange(from, to))
			if err != nil {
				t.Fatal(err)
			}
		case n < 98:
			k := key()
			size := random.Intn(3)
			compare(t, db, model, k[:size], k[size:])
		case n == 98:
			if err := db.Compact(nil, nil); err != nil {
				t.Fatal(err)
			}
		default:
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			db = open(t, directory)
		}
	}
	compare(t, db, model, nil, nil)
	if text, err := db.Stat(); err != nil || text == "" {
		t.Fatalf("Stat: %q, %v", text, err)
	}
	db.Close()
}

func compare(t *testing.T, db, model ethdb.KeyValueStore, prefix, start []byte) {
	t.Helper()
	a, b := db.NewIterator(prefix, start), model.NewIterator(prefix, start)
	defer a.Release()
	defer b.Release()
	for {
		more := a.Next()
		if more != b.Next() {
			t.Fatalf("%q %q: one iterator ends earlier", prefix, start)
		}
		if !more {
			break
		}
		if !bytes.Equal(a.Key(), b.Key()) || !bytes.Equal(a.Value(), b.Value()) {
			t.Fatalf("%q %q: %q, %q", prefix, start, a.Key(), b.Key())
		}
	}
	if err := errors.Join(a.Error(), b.Error()); err != nil {
		t.Fatal(err)
	}
}

// An iterator sees the moment of its creation, also after Close.
func TestIteratorOutlivesClose(t *testing.T) {
	db := open(t, t.TempDir())
	for i := 0; i < 5000; i++ {
		db.Put([]byte(fmt.Sprintf("%05d", i)), make([]byte, 100))
	}
	it := db.NewIterator(nil, nil)
	db.DeleteRange([]byte("0"), []byte("9"))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	count := 0
	for it.Next() {
		count++
	}
	if it.Error() != nil || count != 5000 {
		t.Fatalf("%d entries, %v", count, it.Error())
	}
	it.Release()
	it.Release()
	if it.Next() {
		t.Fatal("an entry after Release")
	}
	if it := db.NewIterator(nil, nil); it.Next() || it.Error() == nil {
		t.Fatal("an iterator of a closed database")
	}
	if db.Close() == nil || db.Compact(nil, nil) == nil {
		t.Fatal("no error after Close")
	}
}

// Close waits for the calls of other goroutines. Later calls fail.
func TestCloseWhileInUse(t *testing.T) {
	db := open(t, t.TempDir())
	var ready, done sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			for i := 0; ; i++ {
				key := []byte(fmt.Sprint(worker, i))
				if err := db.Put(key, key); errors.Is(err, errClosed) {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
				if i == 100 {
					ready.Done()
				}
			}
		}()
	}
	ready.Wait()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	done.Wait()
}
