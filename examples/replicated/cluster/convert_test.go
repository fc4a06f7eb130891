// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: the keys of a cluster of an older program are all there, once and unchanged,
// after a conversion to slots during which nodes are killed at any time.
// Method: real processes with directories as an older program has left them.

package cluster

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// older makes a cluster with the identities that an older program has recorded.
func older(t *testing.T) *cluster {
	c := &cluster{t: t, dir: t.TempDir(), flags: append(slowNodes, strings.Fields(*nodeFlags)...)}
	c.prepare()
	peers, words := map[int]string{}, []string{}
	for i := 0; i < 3; i++ {
		p := c.add()
		peers[p.id] = p.address
		words = append(words, fmt.Sprintf("%d=%s", p.id, p.address))
	}
	for _, p := range c.nodes {
		p.first = "--peers=" + strings.Join(words, ",")
		text, err := json.Marshal(map[string]any{"Number": p.id, "Shards": *shards, "Token": fmt.Sprint("token ", p.id),
			"Cluster": "older", "Peers": peers, "Replicas": 3})
		if err == nil {
			err = os.MkdirAll(p.dir, 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(p.dir, "node.json"), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.start(p)
	}
	for _, p := range c.nodes {
		c.await(p)
	}
	return c
}

// hasSlots says whether a node says so.
func hasSlots(p *process) bool {
	info, err := ask(p.client, 2*time.Second, "INFO")
	text, ok := info.(string)
	return err == nil && ok && strings.Contains(text, "slots:true")
}

func TestAConversionSurvivesKills(t *testing.T) {
	t.Parallel()
	c := older(t)
	c.fill(c.nodes[0], "lasting", 20000, 100)
	connection, err := dial(c.nodes[1].client, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 500; i++ {
		if err := connection.insist("SET", fmt.Sprintf("expires-%d", i), "value", "EX", fmt.Sprint(7200+i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < 10; i++ {
		if err := connection.insist("SET", fmt.Sprint("large-", i), strings.Repeat("b", 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	connection.conn.Close()
	c.expectEqual()
	want := contents(c.admin(c.nodes[1], "NODE.CHECKSUM"))
	for _, p := range c.nodes {
		p.terminate()
	}
	c.flags = append(c.flags, "--convert-to-slots")
	for _, p := range c.nodes {
		p.door = fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])
		c.start(p)
	}
	// Once a node says that its layout changes, all of them are killed now and then.
	kills, most := 0, 30
	if testing.Short() {
		most = 8
	}
	converted := func() bool {
		all := true
		for _, p := range c.nodes {
			all = hasSlots(p) && all
		}
		return all
	}
	begun := func() bool {
		for _, p := range c.nodes {
			text, err := os.ReadFile(filepath.Join(p.dir, "node.json"))
			if err == nil && strings.Contains(string(text), `"Layout"`) && !strings.Contains(string(text), `"Layout": 0`) {
				return true
			}
		}
		return false
	}
	for end := time.Now().Add(5 * time.Minute); !converted(); time.Sleep(time.Duration(rand.Intn(2000)) * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not converted")
		}
		if !begun() || kills >= most {
			continue
		}
		one, all := rand.Intn(len(c.nodes)), rand.Intn(4) == 0
		for i, p := range c.nodes {
			if i == one || all {
				p.kill()
				kills++
			}
		}
		if !all {
			time.Sleep(time.Duration(rand.Intn(1000)) * time.Millisecond)
		}
		for i, p := range c.nodes {
			if i == one || all {
				c.start(p)
			}
		}
	}
	t.Logf("nodes were killed %d times", kills)
	for _, p := range c.nodes {
		c.await(p)
	}
	if got := contents(c.admin(c.nodes[2], "NODE.CHECKSUM")); got != want {
		t.Fatalf("%s, not %s", got, want)
	}
	c.expectEqual()
	c.checkFiles()
}
