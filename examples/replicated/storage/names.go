// Varve: a key-value storage engine. MIT licence, see LICENSE.
package storage

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

const (
	namesName = "names"
	shardsKey = "shards"
	formatKey = "format"
	// Of what the shards' databases hold, see machine/format.go.
	format = "2"
	// The same, of a cluster whose keys were converted to slots. Programs that know no
	// slots refuse it.
	formatConverted = "2-slots"
)

// Node is the databases of the shards of a node. The contents of a shard are
// replaced by building a database beside it and then recording that its name
// is the shard's: the record is one write in a database of its own, so that a
// crash leaves the old contents or the new ones.
type Node struct {
	engine Engine
	names  Database
	mutex  sync.Mutex // Over the records.
}

// OpenNode opens a node's directory. The number of shards stays the first one,
// since a key's shard follows from it.
func OpenNode(engine Engine, shards int) (*Node, error) {
	names, err := engine.Open(namesName)
	if err == nil && names == nil {
		names, err = engine.Create(namesName)
	}
	if err != nil {
		return nil, err
	}
	n := &Node{engine: engine, names: names}
	recorded, err := n.record(shardsKey)
	if err == nil && recorded == "" {
		recorded = strconv.Itoa(shards)
		err = n.setRecords(map[string]string{formatKey: format, shardsKey: recorded})
	}
	var found string
	if err == nil {
		found, err = n.record(formatKey)
	}
	if err == nil && found != format && found != formatConverted {
		err = fmt.Errorf("storage: this directory has format %q and not %s", found, format)
	}
	if err == nil && recorded != strconv.Itoa(shards) {
		err = fmt.Errorf("storage: this directory is of %s shards", recorded)
	}
	if err != nil {
		names.Close()
		return nil, err
	}
	return n, nil
}

// RefuseOlder has programs that know no slots refuse the directory from here on.
func (n *Node) RefuseOlder() error { return n.SetRecord(formatKey, formatConverted) }

// Record is a text that was recorded; "" for none. Names that begin with
// "shard" are this package's own.
func (n *Node) Record(key string) (string, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.record(key)
}

// SetRecord records a text, which survives a crash. "" removes it.
func (n *Node) SetRecord(key, value string) error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.setRecords(map[string]string{key: value})
}

// SetRecords records texts in one write: after a crash all of them are there,
// or none.
func (n *Node) SetRecords(texts map[string]string) error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if len(texts) == 0 {
		return nil
	}
	return n.setRecords(texts)
}

// Records are those whose keys have a prefix.
func (n *Node) Records(prefix string) (map[string]string, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	snapshot, err := n.names.Snapshot()
	if err != nil {
		return nil, err
	}
	defer snapshot.Close()
	entries, err := snapshot.Entries([]byte(prefix), append([]byte(prefix), 0xff))
	if err != nil {
		return nil, err
	}
	defer entries.Close()
	records := map[string]string{}
	buffer := make([]byte, 1<<20)
	for {
		_, size, err := entries.Fill(buffer)
		if err != nil || size == 0 {
			return records, err
		}
		for rest := buffer[:size]; len(rest) > 0; {
			var key, value []byte
			if key, value, rest, err = NextEntry(rest); err != nil {
				return nil, err
			}
			records[string(key)] = string(value)
		}
	}
}

// Forget removes the databases of a shard, which are closed, and its record.
func (n *Node) Forget(shard uint64) error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if err := n.setRecords(map[string]string{shardKey(shard): ""}); err != nil {
		return err
	}
	return n.dropOthers(shard, "")
}

func (n *Node) record(key string) (string, error) {
	values, err := n.names.Get([][]byte{[]byte(key)}, nil, 0)
	if err != nil {
		return "", err
	}
	return string(values[0]), nil
}

func (n *Node) setRecords(texts map[string]string) error {
	var batch Batch
	batch.Reset()
	for key, text := range texts {
		if text == "" {
			batch.Delete([]byte(key))
		} else {
			batch.Put(key, []byte(text))
		}
	}
	if err := n.names.Write(batch.Bytes()); err != nil {
		return err
	}
	return n.names.Sync()
}

func shardKey(shard uint64) string { return fmt.Sprintf("shard-%d", shard) }

// Open opens the database of a shard, which is made if there is none, and
// removes what a replacement that did not come to its end has left.
func (n *Node) Open(shard uint64) (Database, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	name, err := n.record(shardKey(shard))
	if err != nil {
		return nil, err
	}
	if err := n.dropOthers(shard, name); err != nil {
		return nil, err
	}
	if name != "" {
		db, err := n.engine.Open(name)
		if err == nil && db == nil {
			err = fmt.Errorf("storage: database %s is missing", name)
		}
		return db, err
	}
	name = shardKey(shard) + "-1"
	db, err := n.engine.Create(name)
	if err != nil {
		return nil, err
	}
	if err := n.setRecords(map[string]string{shardKey(shard): name}); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

func (n *Node) dropOthers(shard uint64, keep string) error {
	names, err := n.engine.List()
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, shardKey(shard)+"-") && name != keep {
			if err := n.engine.Drop(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Beside creates an empty database next to a shard's. Adopt makes it the shard's.
// Otherwise the next Open removes it.
func (n *Node) Beside(shard uint64) (Database, string, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	current, err := n.record(shardKey(shard))
	if err != nil {
		return nil, "", err
	}
	// Makes way. One that is read yet cannot go, and is in nobody's way.
	n.dropOthers(shard, current)
	generation := 0
	if at := strings.LastIndexByte(current, '-'); at >= 0 {
		if generation, err = strconv.Atoi(current[at+1:]); err != nil {
			return nil, "", err
		}
	}
	name := fmt.Sprintf("%s-%d", shardKey(shard), generation+1)
	db, err := n.engine.Create(name)
	return db, name, err
}

// Adopt makes the database of that name the shard's, for good.
func (n *Node) Adopt(shard uint64, name string) error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.setRecords(map[string]string{shardKey(shard): name})
}

// DropOthers removes what is of a shard but not its database, and is closed.
// What cannot be removed goes at the next Open.
func (n *Node) DropOthers(shard uint64) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if name, err := n.record(shardKey(shard)); err == nil {
		n.dropOthers(shard, name)
	}
}

// Describe says which engine it is.
func (n *Node) Describe() string { return n.engine.Describe() }

// Close closes the engine, too. The databases of shards are closed before.
func (n *Node) Close() error {
	n.names.Close()
	return n.engine.Close()
}
