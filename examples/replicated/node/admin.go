// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"varve.example/replicated/machine"
	"varve.example/replicated/storage"
)

// Commands for operators: how many words follow, at least and at most, and what
// is done.
var adminCommands = map[string]struct {
	least, most int
	do          func(n *Node, words []string) ([]string, error)
}{
	"node.status": {0, 0, func(n *Node, _ []string) ([]string, error) { return n.describe(), nil }},
	"node.digest": {0, 0, func(n *Node, _ []string) ([]string, error) { return n.digests() }},
	"node.spread": {0, 0, func(n *Node, _ []string) ([]string, error) { return nil, n.Spread() }},
	"node.drain": {1, 1, func(n *Node, words []string) ([]string, error) {
		return onNode(words[0], func(number uint64) error { return n.Drain(number, true) })
	}},
	"node.undrain": {1, 1, func(n *Node, words []string) ([]string, error) {
		return onNode(words[0], func(number uint64) error { return n.Drain(number, false) })
	}},
	"node.remove": {1, 1, func(n *Node, words []string) ([]string, error) {
		return onNode(words[0], n.Remove)
	}},
	"node.checksum": {0, 0, func(n *Node, _ []string) ([]string, error) {
		contents, err := n.Checksum()
		return []string{fmt.Sprintf("entries=%d sum=%016x", contents.Entries, contents.Sum)}, err
	}},
	"node.backup": {1, 2, func(n *Node, words []string) ([]string, error) {
		base := ""
		if len(words) > 1 {
			base = words[1]
		}
		return describeBackup(n.Backup(words[0], base))
	}},
	"node.verify":  {1, 1, func(n *Node, words []string) ([]string, error) { return describeBackup(n.Verify(words[0])) }},
	"node.restore": {1, 1, func(n *Node, words []string) ([]string, error) { return describeBackup(n.Restore(words[0])) }},
	"node.backups": {0, 0, func(n *Node, _ []string) ([]string, error) { return n.Backups() }},
	"node.dropbackup": {1, 1, func(n *Node, words []string) ([]string, error) {
		return n.DropBackup(words[0])
	}},
	"node.trace": {1, 1, func(n *Node, words []string) ([]string, error) {
		seconds, err := strconv.ParseFloat(words[0], 64)
		if err != nil || !(seconds > 0 && seconds <= 600) {
			return nil, errors.New("the length of a trace is more than 0 and at most 600 seconds")
		}
		path, err := n.Trace(time.Duration(seconds * float64(time.Second)))
		return []string{path}, err
	}},
}

// Admin does a command for operators. The words begin with its name, and each
// line of the answer is one element.
func (n *Node) Admin(words []string) ([]string, error) {
	command, ok := adminCommands[strings.ToLower(words[0])]
	if !ok {
		return nil, fmt.Errorf("unknown command '%s'", words[0])
	}
	if given := len(words) - 1; given < command.least || given > command.most {
		return nil, fmt.Errorf("wrong number of arguments for '%s' command", words[0])
	}
	lines, err := command.do(n, words[1:])
	if err == nil && lines == nil {
		lines = []string{"OK"}
	}
	return lines, err
}

func describeBackup(m *Manifest, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	return m.lines(), nil
}

func onNode(word string, do func(uint64) error) ([]string, error) {
	number, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		return nil, errors.New("the number of a node is expected")
	}
	return nil, do(number)
}

// digests describes what this node itself has of each shard.
func (n *Node) digests() ([]string, error) {
	if err := n.begin(); err != nil {
		return nil, err
	}
	defer n.tasks.Done()
	lines := []string{} // Not nil, which would be answered by OK.
	for shard := uint64(1); shard <= n.Shards(); shard++ {
		if n.voting(shard) == nil {
			continue
		}
		answer, err := n.host.StaleRead(clusterOf(shard), machine.Digest{Stop: n.stop})
		if err != nil {
			return nil, err
		}
		summary := answer.(machine.Summary)
		lines = append(lines, fmt.Sprintf("shard=%d applied=%d entries=%d sum=%016x",
			shard, summary.Applied, summary.Entries, summary.Sum))
	}
	return lines, nil
}

// Trace takes a trace of this node's engine, and returns the file.
func (n *Node) Trace(length time.Duration) (string, error) {
	if err := n.begin(); err != nil {
		return "", err
	}
	defer n.tasks.Done()
	engine, ok := n.engine.(storage.Watched)
	if !ok {
		return "", errors.New("this engine has no traces")
	}
	dir := filepath.Join(n.options.Dir, "traces")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(dir, time.Now().UTC().Format("20060102-150405.000")+".json")
	return path, engine.Trace(path, length, n.stop)
}
