// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a process uses no more memory than --max-memory says, whatever clients send.
// Method: three nodes under pipelines of 1,000 values, until each connection has had
// two of them answered; the most that the kernel has counted for each process.
package cluster

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"varve.example/replicated/check"
)

// peakMiB is the most memory that a process has had.
func peakMiB(t *testing.T, process int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process))
	check.OK(t, err)
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib int
	check.OK(t, check.Err(fmt.Sscan(rest, &kib)))
	return kib >> 10
}

// pipelines sends pipelines of large values and reads the answers, which may be
// errors: some nodes are too slow, or have no memory.
func pipelines(address string, id, rounds int) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Minute))
	const commands, size = 1000, 16 << 10
	value := bytes.Repeat([]byte{'v'}, size)
	reader := bufio.NewReader(conn)
	for round := 0; round < rounds; round++ {
		sent := make(chan error, 1)
		go func() {
			writer := bufio.NewWriterSize(conn, 64<<10)
			for i := 0; i < commands; i++ {
				key := fmt.Sprintf("key-%02d-%04d", id, i)
				fmt.Fprintf(writer, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(key), key, size, value)
			}
			sent <- writer.Flush()
		}()
		for i := 0; i < commands; i++ {
			if _, err := reader.ReadString('\n'); err != nil {
				return nil // The node has refused a request for which it has no memory.
			}
		}
		if err := <-sent; err != nil {
			return err
		}
	}
	return nil
}

func TestMemoryStaysBelowTheBound(t *testing.T) {
	if testing.Short() {
		t.Skip("the short form is without it: it sends a gigabyte")
	}
	const bound = 512
	c := newCluster(t, 3, fmt.Sprintf("--max-memory=%dmb", bound))
	var group sync.WaitGroup
	for id := 0; id < 30; id++ {
		group.Add(1)
		go func() {
			defer group.Done()
			if err := pipelines(c.nodes[id%2].client, id, 2); err != nil {
				t.Error(err)
			}
		}()
	}
	group.Wait()
	for _, p := range c.nodes {
		peak := peakMiB(t, p.command.Process.Pid)
		t.Logf("node %d: %d MiB", p.id, peak)
		check.ErrorIf(t, peak > bound, "node %d has used %d MiB", p.id, peak)
	}
}
