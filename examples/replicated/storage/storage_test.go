// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: names lead to the right database after a crash at any step of a
// replacement. Method: stop after each step, and open again.
package storage

import (
	"fmt"
	"math/rand"
	"testing"

	"varve.example/replicated/check"
)

func openNode(t *testing.T, dir string) *Node {
	t.Helper()
	engine, err := OpenEngine(dir, DefaultOptions)
	check.OK(t, err)
	n, err := OpenNode(engine, 2)
	check.OK(t, err)
	return n
}

func set(t *testing.T, db Database, value string) {
	t.Helper()
	var batch Batch
	batch.Reset()
	batch.Put("key", []byte(value))
	check.OK(t, db.Write(batch.Bytes()))
}

func expect(t *testing.T, n *Node, shard uint64, value string, databases int) {
	t.Helper()
	db, err := n.Open(shard)
	check.OK(t, err)
	defer db.Close()
	values, err := db.Get([][]byte{[]byte("key")}, nil, 0)
	check.OK(t, err)
	if string(values[0]) != value {
		t.Fatalf("shard %d: %q, not %q", shard, values[0], value)
	}
	names, err := n.engine.List()
	check.OK(t, err)
	check.FatalIf(t, len(names) != databases, "databases: %v", names)
}

func TestReplacementIsTheOldOrTheNew(t *testing.T) {
	dir := t.TempDir()
	n := openNode(t, dir)
	for shard := uint64(1); shard <= 2; shard++ {
		db, err := n.Open(shard)
		check.OK(t, err)
		set(t, db, "old")
		check.OK(t, db.Close())
	}
	beside, _, err := n.Beside(1)
	check.OK(t, err)
	set(t, beside, "half")
	check.OK(t, beside.Close())
	check.OK(t, n.Close())

	n = openNode(t, dir)
	expect(t, n, 1, "old", 3)
	for _, value := range []string{"new", "newer"} {
		beside, name, err := n.Beside(1)
		check.OK(t, err)
		set(t, beside, value)
		check.OK(t, n.Adopt(1, name))
		check.OK(t, beside.Close())
		check.OK(t, n.Close()) // The one before is still there.
		n = openNode(t, dir)
		expect(t, n, 1, value, 3)
		expect(t, n, 2, "old", 3)
	}
	check.OK(t, n.Close())
}

func TestTheSizeIsOfTheTables(t *testing.T) {
	n := openNode(t, t.TempDir())
	db, err := n.Open(1)
	check.OK(t, err)
	size := func() uint64 {
		t.Helper()
		size, err := db.Size()
		check.OK(t, err)
		return size
	}
	if size() != 0 {
		t.Fatal("of an empty database: ", size())
	}
	noise := make([]byte, 1<<20)
	rand.New(rand.NewSource(1)).Read(noise)
	set(t, db, string(noise))
	check.OK(t, db.Flush())
	if size() < 1<<20 || size() > 2<<20 {
		t.Fatal("of a megabyte: ", size())
	}
	check.OK(t, db.Close())
	check.OK(t, n.Close())
}

func TestNumberOfShardsStays(t *testing.T) {
	dir := t.TempDir()
	n := openNode(t, dir)
	check.OK(t, n.Close())
	engine, err := OpenEngine(dir, DefaultOptions)
	check.OK(t, err)
	check.FatalIf(t, check.Err(OpenNode(engine, 3)) == nil, "opened with another number of shards")
	check.OK(t, engine.Close())
}

func TestEntriesAreCutCleanly(t *testing.T) {
	entries := []byte{1, 0, 0, 0, 2, 0, 0, 0, 'k', 'v', 'w'}
	key, value, rest, err := NextEntry(entries)
	check.FatalIf(t, err != nil || string(key) != "k" || string(value) != "vw" || len(rest) != 0, "%v %v %v %v", key, value, rest, err)
	for cut := 0; cut < len(entries); cut++ {
		if _, _, _, err := NextEntry(entries[:cut]); err == nil {
			t.Fatal("cut at", cut)
		}
	}
	if _, _, _, err := NextEntry([]byte{255, 255, 255, 255, 255, 255, 255, 255}); err == nil {
		t.Fatal("sizes out of bounds")
	}
}

func TestValuesOverTheLimitAreRefused(t *testing.T) {
	n := openNode(t, t.TempDir())
	defer n.Close()
	db, err := n.Open(1)
	check.OK(t, err)
	defer db.Close()
	var batch Batch
	batch.Reset()
	var keys [][]byte
	for i := 0; i < 100; i++ {
		key := fmt.Sprint("key", i)
		keys = append(keys, []byte(key), []byte("none"))
		batch.Put(key, make([]byte, 10))
	}
	batch.Put("large", make([]byte, 1000))
	check.OK(t, db.Write(batch.Bytes()))
	for _, one := range []struct {
		keys  [][]byte
		limit int
		good  bool
	}{
		{keys, 0, true}, {keys, 1000, true}, {keys, 999, false}, {keys, 1, false},
		{keys[:1], 10, true}, {keys[:1], 9, false}, {keys[1:2], 1, true},
		{[][]byte{[]byte("large")}, 999, false}, {[][]byte{[]byte("large")}, 1000, true},
		{append(keys[:200:200], []byte("large")), 2000, true}, {append(keys[:200:200], []byte("large")), 1999, false},
	} {
		values, err := db.Get(one.keys, nil, one.limit)
		if one.good {
			check.OK(t, err)
			size := 0
			for i, value := range values {
				if size += len(value); (value == nil) != (string(one.keys[i]) == "none") {
					t.Errorf("%s: %q", one.keys[i], value)
				}
			}
			check.ErrorIf(t, len(values) != len(one.keys) || one.limit > 0 && size > one.limit, "%d values, %d bytes", len(values), size)
		} else if err != ErrTooLarge {
			t.Errorf("%d keys, limit %d: %v", len(one.keys), one.limit, err)
		}
	}
}

// What the way to C and back costs, with two small strings of Go; with Pebble,
// nothing.
func BenchmarkCall(b *testing.B) {
	engine, err := OpenEngine(b.TempDir(), DefaultOptions)
	check.OK(b, err)
	defer engine.Close()
	for i := 0; i < b.N; i++ {
		engine.Describe()
	}
}

// And with a small task there.
func BenchmarkGetOfNothing(b *testing.B) {
	engine, err := OpenEngine(b.TempDir(), DefaultOptions)
	check.OK(b, err)
	db, err := engine.Create("empty")
	check.OK(b, err)
	defer engine.Close()
	defer db.Close()
	keys, values := [][]byte{[]byte("key")}, make([][]byte, 0, 1)
	for i := 0; i < b.N; i++ {
		db.Get(keys, values, 0)
	}
}
