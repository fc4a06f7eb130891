// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: an operator is warned of an address at which no other machine reaches a node.
// Limits fit into --max-memory unless they were set, and then are checked.
// Method: addresses, and sizes.
package main

import (
	"flag"
	"testing"

	"varve.example/replicated/check"
	"varve.example/replicated/node"
	"varve.example/replicated/redis"
)

func TestLimitsFitIntoTheMemory(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "7": 7, "7b": 7, "2k": 2 << 10, "512MB": 512 << 20, "3GiB": 3 << 30,
		"": -1, "gb": -1, "1.5gb": -1, "-1": -1, "1 gb": -1, "1tb": -1, "1bg": -1, "9999999999gb": -1} {
		if got, err := parseBytes(text); (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %d %v", text, got, err)
		}
	}
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	var request int
	flags.IntVar(&request, "max-request-mib", 32, "")
	for _, set := range []bool{false, true} {
		if set {
			flags.Set("max-request-mib", "100")
		}
		plan, err := node.PlanMemory(node.LeastMemory)
		check.OK(t, err)
		f := clientFlags{memory: plan, options: redis.DefaultOptions, maxMemoryMiB: 512, maxRequestMiB: request, maxAnswerMiB: 64}
		f.divide(flags)
		if fits := f.maxMemoryMiB >= int64(2*max(f.maxRequestMiB, f.maxAnswerMiB)); fits == set {
			t.Errorf("%d, %d, %d", f.maxMemoryMiB, f.maxRequestMiB, f.maxAnswerMiB)
		}
		if f.maxMemoryMiB<<20 > plan.Clients || f.options.MaxProcess != plan.Total || f.options.MaxConnections > plan.MaxConnections() {
			t.Errorf("%+v", f)
		}
	}
	none := clientFlags{maxMemoryMiB: 512, maxRequestMiB: 32}
	if none.divide(flags); none.maxMemoryMiB != 512 || none.maxRequestMiB != 32 {
		t.Errorf("%+v", none)
	}
}

func TestAnAnnouncedLoopbackIsNoticed(t *testing.T) {
	for _, one := range []struct {
		address, announce string
		noticed           bool
	}{
		{"10.0.0.1:7000", "127.0.0.1:7001", true}, {"10.0.0.1:7000", "[::1]:7001", true},
		{"10.0.0.1:7000", "10.0.0.1:7001", false}, {"10.0.0.1:7000", "", false},
		{"127.0.0.1:7000", "127.0.0.1:7001", false}, // All on one machine.
	} {
		if got := announcesLoopback(&node.Options{Address: one.address, Announce: one.announce}); got != one.noticed {
			t.Errorf("%+v: %t", one, got)
		}
	}
}
