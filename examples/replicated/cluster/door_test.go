// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: clients of Redis Cluster get no error while nodes come and go in order.
// Method: go-redis with processes, of which one joins, one is drained and stopped,
// and the others are restarted; each worker knows what it has written.
package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestAClusterClientGoesOnWhileNodesMove(t *testing.T) {
	if testing.Short() {
		t.Skip("the short form is without it: the tests of node have a part of it in one process")
	}
	c := &cluster{t: t, dir: t.TempDir(), flags: append(slowNodes, strings.Fields(*nodeFlags)...), doors: true}
	c.prepare()
	c.startFirst(3)
	options := &redis.ClusterOptions{ReadTimeout: 2 * time.Minute, MaxRedirects: 16}
	for _, p := range c.nodes {
		options.Addrs = append(options.Addrs, p.door)
	}
	client := redis.NewClusterClient(options)
	defer client.Close()
	var group sync.WaitGroup
	var stop atomic.Bool
	var phase atomic.Value
	phase.Store("quiet")
	steps := make([]int, 6)
	for id := range steps {
		group.Add(1)
		go func() {
			defer group.Done()
			last := map[string]int{}
			for number := 1; !stop.Load(); number++ {
				key := fmt.Sprintf("door-%d-%d", id, number%50)
				begin := time.Now()
				got, err := client.Get(context.Background(), key).Int()
				if err != nil && (err != redis.Nil || last[key] != 0) || got != last[key] {
					t.Errorf("%v: GET %s: %d %v after %v, not %d", phase.Load(), key, got, err, time.Since(begin), last[key])
				}
				begin = time.Now()
				if err := client.Set(context.Background(), key, number, 0).Err(); err != nil {
					t.Errorf("%v: SET %s: %v after %v", phase.Load(), key, err, time.Since(begin))
					return // What it has now is not known.
				}
				last[key] = number
				steps[id]++
				time.Sleep(2 * time.Millisecond)
			}
		}()
	}
	time.Sleep(*movePause / 2)
	phase.Store("join and spread")
	joined := c.join()
	c.admin(joined, "NODE.SPREAD")
	c.settle()
	phase.Store("drain and stop")
	c.admin(joined, "NODE.DRAIN", "1")
	c.settle()
	c.nodes[0].terminate()
	c.admin(joined, "NODE.REMOVE", "1")
	c.nodes = c.nodes[1:]
	for _, p := range c.nodes {
		phase.Store(fmt.Sprintf("restart of node %d", p.id))
		p.terminate()
		c.start(p)
		c.await(p)
		c.ready(p)
	}
	phase.Store("quiet again")
	time.Sleep(*movePause / 2)
	stop.Store(true)
	group.Wait()
	t.Logf("steps of each worker: %v", steps)
	c.expectEqual()
}
