// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a node whose disk is full at once, or fails, ends in order, with one line of its
// log that says why, and has all that it acknowledged. Method: a disk of its own, which a
// file fills while a client writes, and no space that is reserved.
package cluster

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"varve.example/replicated/check"
)

func TestANodeWithoutADiskEndsInOrder(t *testing.T) {
	t.Parallel()
	if noSandbox != "" {
		t.Skip(noSandbox)
	}
	if err := checkDisks(); err != nil {
		t.Skip(err)
	}
	for _, failing := range []bool{false, true} {
		t.Run(fmt.Sprintf("failing=%v", failing), func(t *testing.T) { loseDisk(t, failing) })
	}
}

func loseDisk(t *testing.T, failing bool) {
	c := &cluster{t: t, dir: t.TempDir(), disks: true, flags: append(strings.Fields(*nodeFlags), "--reserve-mib=0")}
	c.prepare()
	c.startFirst(1)
	p := c.nodes[0]
	connection, err := dial(p.client, 20*time.Second)
	check.OK(t, err)
	value := strings.Repeat("v", 20000)
	written := 0
	for ; written < 4000; written++ { // So that Pebble's logs use files again that they have had.
		check.OK(t, connection.insist("SET", fmt.Sprint("key", written), fmt.Sprint(written, value)))
	}
	check.OK(t, p.disk.fill(failing))
	for err = nil; err == nil || isRefusal(err); { // Until it ends.
		if _, err = connection.do("SET", fmt.Sprint("key", written), fmt.Sprint(written, value)); err == nil {
			written++
		}
	}
	connection.conn.Close()

	state, err := p.command.Process.Wait()
	check.OK(t, err)
	status := state.Sys().(syscall.WaitStatus)
	check.ErrorIf(t, !status.Exited() || status.ExitStatus() != 1, "the node has ended with %v", state)
	log, err := os.ReadFile(p.dir + ".log")
	check.OK(t, err)
	text := string(log)
	check.ErrorIf(t, strings.Count(text, "the node ends") != 1 || strings.Count(text, "\n") > 30, "the log:\n%.4000s", text)

	p.command = nil
	p.disk.empty()
	if failing {
		check.OK(t, p.disk.remount())
	}
	c.start(p)
	c.await(p)
	connection, err = dial(p.client, 20*time.Second)
	check.OK(t, err)
	defer connection.conn.Close()
	for i := 0; i < written; i++ {
		answer, err := connection.do("GET", fmt.Sprint("key", i))
		check.FatalIf(t, err != nil || answer != fmt.Sprint(i, value), "key%d: %.20v %v", i, answer, err)
	}
}
