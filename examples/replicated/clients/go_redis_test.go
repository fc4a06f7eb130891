// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Package clients has tests with real clients of Redis.
//
// Goal: go-redis works with a cluster without settings of its own. Method: its
// calls, with both versions of the protocol, on all nodes of a running cluster.
package clients

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"varve.example/replicated/check"
)

var addresses = flag.String("addresses", "", "HOST:PORT,... of the nodes of an empty cluster without a password")

func TestMain(m *testing.M) {
	flag.Parse()
	if *addresses == "" {
		fmt.Println("clients: no -addresses: examples/replicated/test says how to run this")
		os.Exit(0)
	}
	for _, address := range strings.Split(*addresses, ",") {
		await(address)
	}
	os.Exit(m.Run())
}

// await returns once all shards answer through a node.
func await(address string) {
	c := redis.NewClient(&redis.Options{Addr: address, ReadTimeout: time.Minute})
	defer c.Close()
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		err := c.DBSize(ctx).Err()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			fmt.Println("clients:", address, err)
			os.Exit(1)
		}
	}
}

var ctx = context.Background()

// each runs a test with each version of the protocol. The node is another one
// each time.
func each(t *testing.T, do func(t *testing.T, c *redis.Client, key func(string) string)) {
	nodes := strings.Split(*addresses, ",")
	for protocol := 2; protocol <= 3; protocol++ {
		t.Run(fmt.Sprintf("protocol=%d", protocol), func(t *testing.T) {
			c := redis.NewClient(&redis.Options{Addr: nodes[protocol%len(nodes)], Protocol: protocol,
				ReadTimeout: time.Minute, WriteTimeout: time.Minute, DialTimeout: time.Minute, ClientName: "test"})
			t.Cleanup(func() { c.Close() })
			do(t, c, func(name string) string { return fmt.Sprintf("{%s-%d}%s", t.Name(), os.Getpid(), name) })
		})
	}
}

func expect(t *testing.T, what string, got interface{}, err error, want interface{}) {
	t.Helper()
	check.ErrorIf(t, err != nil || fmt.Sprint(got) != fmt.Sprint(want), "%s: %v %v, not %v", what, got, err, want)
}

func TestConnection(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, _ func(string) string) {
		pong, err := c.Ping(ctx).Result()
		expect(t, "ping", pong, err, "PONG")
		echo, err := c.Echo(ctx, "x\r\ny").Result()
		expect(t, "echo", echo, err, "x\r\ny")
		name, err := c.ClientGetName(ctx).Result()
		expect(t, "name", name, err, "test")
		if id, err := c.ClientID(ctx).Result(); err != nil || id < 1 {
			t.Error(id, err)
		}
		list, err := c.ClientList(ctx).Result()
		if err != nil || !strings.Contains(list, "name=test") || !strings.Contains(list, "lib-name=go-redis") {
			t.Error(list, err)
		}
		info, err := c.Info(ctx, "server").Result()
		check.ErrorIf(t, err != nil || !strings.Contains(info, "redis_version:7"), "%v %v", info, err)
		commands, err := c.Command(ctx).Result()
		if err != nil || commands["get"] == nil || !commands["get"].ReadOnly || commands["mset"].LastKeyPos != -1 {
			t.Error(commands, err)
		}
		settings, err := c.ConfigGet(ctx, "max*").Result()
		check.ErrorIf(t, err != nil || settings["maxclients"] == "", "%v %v", settings, err)
		if now, err := c.Time(ctx).Result(); err != nil || time.Since(now).Abs() > time.Hour {
			t.Error(now, err)
		}
	})
}

func TestStrings(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key func(string) string) {
		a, b, none := key("a"), key("b"), key("none")
		set, err := c.Set(ctx, a, "hello", 0).Result()
		expect(t, "set", set, err, "OK")
		got, err := c.Get(ctx, a).Result()
		expect(t, "get", got, err, "hello")
		if _, err := c.Get(ctx, none).Result(); !errors.Is(err, redis.Nil) {
			t.Error(err)
		}
		size, err := c.Append(ctx, a, " world").Result()
		expect(t, "append", size, err, 11)
		size, err = c.StrLen(ctx, a).Result()
		expect(t, "length", size, err, 11)
		got, err = c.GetRange(ctx, a, 0, 4).Result()
		expect(t, "range", got, err, "hello")
		size, err = c.SetRange(ctx, a, 6, "redis").Result()
		expect(t, "set range", size, err, 11)
		got, err = c.GetSet(ctx, a, "new").Result()
		expect(t, "get and set", got, err, "hello redis")
		ok, err := c.SetNX(ctx, a, "x", 0).Result()
		expect(t, "set nx", ok, err, false)
		ok, err = c.SetXX(ctx, a, "xx", 0).Result()
		expect(t, "set xx", ok, err, true)
		got, err = c.SetArgs(ctx, a, "y", redis.SetArgs{Get: true, KeepTTL: true}).Result()
		expect(t, "set get", got, err, "xx")
		got, err = c.GetDel(ctx, a).Result()
		expect(t, "get and delete", got, err, "y")
		size, err = c.Exists(ctx, a, none).Result()
		expect(t, "exists", size, err, 0)
		set, err = c.MSet(ctx, a, 1, b, 2).Result()
		expect(t, "mset", set, err, "OK")
		many, err := c.MGet(ctx, a, none, b).Result()
		expect(t, "mget", many, err, "[1 <nil> 2]")
		kind, err := c.Type(ctx, a).Result()
		expect(t, "type", kind, err, "string")
		size, err = c.Del(ctx, a, b, none).Result()
		expect(t, "del", size, err, 2)
		binary := make([]byte, 300000)
		for i := range binary {
			binary[i] = byte(i * 7)
		}
		expect(t, "set of bytes", nil, c.Set(ctx, a, binary, 0).Err(), nil)
		bytes, err := c.Get(ctx, a).Bytes()
		expect(t, "get of bytes", string(bytes) == string(binary), err, true)
		size, err = c.Unlink(ctx, a).Result()
		expect(t, "unlink", size, err, 1)
	})
}

func TestNumbers(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key func(string) string) {
		n := key("n")
		number, err := c.Incr(ctx, n).Result()
		expect(t, "incr", number, err, 1)
		number, err = c.IncrBy(ctx, n, 41).Result()
		expect(t, "incr by", number, err, 42)
		number, err = c.DecrBy(ctx, n, 2).Result()
		expect(t, "decr by", number, err, 40)
		number, err = c.Decr(ctx, n).Result()
		expect(t, "decr", number, err, 39)
		float, err := c.IncrByFloat(ctx, n, 0.25).Result()
		expect(t, "incr by float", float, err, 39.25)
		check.ErrorIf(t, c.Incr(ctx, n).Err() == nil, "39.25 was taken for an integer")
		c.Set(ctx, n, int64(math.MaxInt64), 0)
		check.ErrorIf(t, c.Incr(ctx, n).Err() == nil, "a number has overflowed")
	})
}

// No addition gets lost, through whatever node it goes.
func TestAdditionsAtTheSameTime(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key func(string) string) {
		var group sync.WaitGroup
		for _, address := range strings.Split(*addresses, ",") {
			other := redis.NewClient(&redis.Options{Addr: address, ReadTimeout: time.Minute})
			defer other.Close()
			group.Add(1)
			go func() {
				defer group.Done()
				for i := 0; i < 50; i++ {
					if err := other.Incr(ctx, key("n")).Err(); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		group.Wait()
		number, err := c.Get(ctx, key("n")).Int()
		expect(t, "sum", number, err, 50*len(strings.Split(*addresses, ",")))
	})
}

func TestExpiry(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key func(string) string) {
		a := key("a")
		expect(t, "set", nil, c.Set(ctx, a, "v", time.Hour).Err(), nil)
		if ttl, err := c.TTL(ctx, a).Result(); err != nil || ttl < 50*time.Minute || ttl > time.Hour {
			t.Error(ttl, err)
		}
		ok, err := c.Persist(ctx, a).Result()
		expect(t, "persist", ok, err, true)
		ttl, err := c.TTL(ctx, a).Result()
		expect(t, "ttl", ttl, err, time.Duration(-1))
		ok, err = c.Expire(ctx, a, time.Minute).Result()
		expect(t, "expire", ok, err, true)
		ok, err = c.ExpireNX(ctx, a, time.Minute).Result()
		expect(t, "expire nx", ok, err, false)
		ok, err = c.ExpireAt(ctx, a, time.Now().Add(-time.Second)).Result()
		expect(t, "expire at", ok, err, true)
		size, err := c.Exists(ctx, a).Result()
		expect(t, "exists", size, err, 0)
		expect(t, "set", nil, c.Set(ctx, a, "v", 50*time.Millisecond).Err(), nil)
		time.Sleep(100 * time.Millisecond)
		ttl, err = c.PTTL(ctx, a).Result()
		expect(t, "ttl", ttl, err, time.Duration(-2))
		got, err := c.GetEx(ctx, a, time.Minute).Result()
		check.ErrorIf(t, !errors.Is(err, redis.Nil), "%v %v", got, err)
	})
}

func TestPipelines(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key func(string) string) {
		var gets []*redis.StringCmd
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := 0; i < 500; i++ {
				p.Set(ctx, fmt.Sprint(key(""), i, "x"), i, 0) // Of one shard.
				p.Set(ctx, fmt.Sprint("x", i, key("")), i, 0)
				gets = append(gets, p.Get(ctx, fmt.Sprint(key(""), i, "x")))
			}
			return nil
		})
		check.OK(t, err)
		for i, get := range gets {
			expect(t, "get", get.Val(), get.Err(), i)
		}
		commands, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, key("s"), "text", 0)
			p.Incr(ctx, key("s"))
			p.Get(ctx, key("s"))
			return nil
		})
		if err == nil || commands[0].Err() != nil || commands[1].Err() == nil || commands[2].Err() != nil {
			t.Error(commands, err)
		}
	})
}

func TestTransactions(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key func(string) string) {
		var sum *redis.IntCmd
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, key("a"), 1, 0)
			sum = p.IncrBy(ctx, key("a"), 2)
			return nil
		})
		expect(t, "transaction", sum.Val(), err, 3)
		// Each addition is tried until no other one was in between.
		var group sync.WaitGroup
		for i := 0; i < 3; i++ {
			group.Add(1)
			go func() {
				defer group.Done()
				for done := 0; done < 10; {
					err := c.Watch(ctx, func(tx *redis.Tx) error {
						number, err := tx.Get(ctx, key("a")).Int()
						if err != nil {
							return err
						}
						_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
							p.Set(ctx, key("a"), number+1, 0)
							return nil
						})
						return err
					}, key("a"))
					if err == nil {
						done++
					} else if !errors.Is(err, redis.TxFailedErr) {
						t.Error(err)
						return
					}
				}
			}()
		}
		group.Wait()
		number, err := c.Get(ctx, key("a")).Int()
		expect(t, "sum", number, err, 33)
		_, err = c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			for i := 0; i < 100; i++ {
				p.Set(ctx, fmt.Sprint("cross", i), 1, 0)
			}
			return nil
		})
		if err != nil && !strings.HasPrefix(err.Error(), "CROSSSLOT") {
			t.Error(err) // It is none with one shard.
		}
	})
}

func TestScan(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key func(string) string) {
		prefix := fmt.Sprintf("scan-%d-%s-", os.Getpid(), key("")[len(key(""))-2:])
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := 0; i < 300; i++ {
				p.Set(ctx, fmt.Sprint(prefix, i), i, 0)
			}
			return nil
		})
		check.OK(t, err)
		// Each step on another node.
		nodes := strings.Split(*addresses, ",")
		seen := map[string]int{}
		var cursor uint64
		for step := 0; ; step++ {
			other := redis.NewClient(&redis.Options{Addr: nodes[step%len(nodes)], ReadTimeout: time.Minute})
			var keys []string
			if keys, cursor, err = other.Scan(ctx, cursor, prefix+"*", 50).Result(); err != nil {
				t.Fatal(err)
			}
			other.Close()
			for _, one := range keys {
				seen[one]++
			}
			if cursor == 0 {
				break
			}
		}
		for one, times := range seen {
			check.ErrorIf(t, times != 1, "%v %v", one, times)
		}
		expect(t, "keys", len(seen), nil, 300)
		count := 0
		for iterator := c.Scan(ctx, 0, prefix+"1?", 100).Iterator(); iterator.Next(ctx); count++ {
		}
		expect(t, "keys of a pattern", count, nil, 10)
	})
}

func TestErrors(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key func(string) string) {
		for _, one := range []struct {
			err  error
			want string
		}{
			{c.LPush(ctx, key("l"), 1).Err(), "ERR unknown command"}, {c.Keys(ctx, "*").Err(), "ERR 'keys' is refused"},
			{c.Do(ctx, "set", "a").Err(), "ERR wrong number"}, {c.Do(ctx, "select", 1).Err(), "ERR DB index"},
			{c.FlushAll(ctx).Err(), "ERR 'flushall' is refused"},
		} {
			check.ErrorIf(t, one.err == nil || !strings.HasPrefix(one.err.Error(), one.want), "%v, not %s", one.err, one.want)
		}
	})
}
