// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: after all nodes were killed, what they have left brings back all that
// was acknowledged. Method: real processes, killed while clients write.

package cluster

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"varve.example/replicated/check"
)

// salvage makes a backup of nodes that were killed, and restores it into a new
// cluster.
func salvage(c *cluster, backups, name string, nodes ...*process) *cluster {
	c.t.Helper()
	var dirs []string
	for _, p := range nodes {
		dirs = append(dirs, p.dir)
	}
	out, err := exec.Command(*nodeProgram, "salvage", "--dir="+strings.Join(dirs, ","),
		"--to="+filepath.Join(backups, name)).CombinedOutput()
	check.FatalIf(c.t, err != nil, "%v: %s", err, out)
	c.t.Logf("%s", out)
	other := newCluster(c.t, 3, "--backups="+backups)
	other.admin(other.nodes[0], "NODE.RESTORE", name)
	return other
}

func TestKilledNodesAreSalvaged(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.fill(c.nodes[0], "first", 2000, 100)
	c.expectEqual()
	want := contents(c.admin(c.nodes[1], "NODE.CHECKSUM"))
	out, err := exec.Command(*nodeProgram, "salvage", "--dir="+c.nodes[0].dir, "--to="+filepath.Join(c.dir, "none")).CombinedOutput()
	check.FatalIf(t, err == nil || !strings.Contains(string(out), "a node runs there"), "a node that runs was salvaged: %s", out)
	for _, p := range c.nodes {
		p.kill()
	}
	// All replicas had the same: one is enough.
	backups := t.TempDir()
	one := salvage(c, backups, "one", c.nodes[1])
	if got := contents(one.admin(one.nodes[2], "NODE.CHECKSUM")); got != want {
		t.Fatalf("%s, not %s", got, want)
	}
	one.end()

	// The directories are as they were.
	for _, p := range c.nodes {
		c.start(p)
	}
	c.await(c.nodes[0])
	const writers = 6
	var done [writers]int
	var group sync.WaitGroup
	for w := range done {
		group.Add(1)
		go func() {
			defer group.Done()
			connection, err := dial(c.nodes[w%3].client, 20*time.Second)
			if err != nil {
				t.Error(err)
				return
			}
			defer connection.conn.Close()
			for ; ; done[w]++ {
				if _, err := connection.do("SET", fmt.Sprintf("busy-%d-%d", w, done[w]), "v"); err != nil {
					return
				}
			}
		}()
	}
	time.Sleep(2 * time.Second)
	for _, p := range c.nodes {
		p.command.Process.Kill()
	}
	for _, p := range c.nodes {
		p.kill()
	}
	group.Wait()
	all := salvage(c, backups, "all", c.nodes...)
	connection, err := dial(all.nodes[0].client, 20*time.Second)
	check.OK(t, err)
	defer connection.conn.Close()
	total := 0
	for w, count := range done {
		for i := 0; i < count; i++ {
			if value, err := connection.do("GET", fmt.Sprintf("busy-%d-%d", w, i)); err != nil || value != "v" {
				t.Fatalf("an acknowledged write is lost: busy-%d-%d of %d: %v %v", w, i, count, value, err)
			}
		}
		total += count
	}
	t.Logf("%d acknowledged writes were brought back", total)
	check.FatalIf(t, total == 0, "nothing was written")
}
