// Varve: a key-value storage engine. MIT licence, see LICENSE.

// varve-node is one node of a replicated store for clients of Redis.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lni/dragonboat/v3/logger"

	"varve.example/replicated/node"
	"varve.example/replicated/redis"
)

func main() {
	var options node.Options
	flag.Uint64Var(&options.ID, "id", 0, "number of the replica, from 1, never used again once replaced")
	flag.StringVar(&options.Address, "address", "", "HOST:PORT at which other nodes reach this one")
	peers := flag.String("peers", "", "ID=HOST:PORT,... of all the first nodes, with this one")
	join := flag.Bool("join", false, "in place of --peers: NODE.REPLACE has taken this node in")
	flag.Uint64Var(&options.Shards, "shards", 8, "shards, of which a key's hash chooses one; cannot be changed")
	flag.StringVar(&options.Dir, "dir", "", "where the data is; made if need be")
	client := flag.String("redis", "127.0.0.1:6379", "HOST:PORT for clients; there is no password")
	stale := flag.Bool("stale-reads", false, "answer reads from this node without asking the others")
	flag.Uint64Var(&options.RoundMS, "round-ms", 50, "milliseconds of a tick; 10 of silence are an election")
	flag.Uint64Var(&options.SnapshotEntries, "snapshot-entries", 20000, "log entries after which the log is cut")
	flag.DurationVar(&options.Timeout, "timeout", 3*time.Second, "of a request")
	flag.Parse()
	members, err := parsePeers(*peers)
	if err == nil && (options.ID == 0 || options.Address == "" || options.Dir == "" ||
		options.Shards == 0 || *join == (len(members) > 0) || flag.NArg() > 0) {
		err = fmt.Errorf("needs --id, --address, --dir, and --peers or --join")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "varve-node:", err)
		os.Exit(2)
	}
	options.Peers = members
	if err := run(options, *client, *stale); err != nil {
		fmt.Fprintln(os.Stderr, "varve-node:", err)
		os.Exit(1)
	}
}

func parsePeers(text string) (map[uint64]string, error) {
	peers := map[uint64]string{}
	if text == "" {
		return peers, nil
	}
	for _, peer := range strings.Split(text, ",") {
		id, address, found := strings.Cut(peer, "=")
		number, err := strconv.ParseUint(id, 10, 64)
		if !found || err != nil || number == 0 {
			return nil, fmt.Errorf("--peers: %q is not ID=HOST:PORT", peer)
		}
		peers[number] = address
	}
	return peers, nil
}

func run(options node.Options, client string, stale bool) error {
	for _, name := range []string{"dragonboat", "raft", "rsm", "grpc", "logdb", "pebblekv",
		"config", "raftpb", "settings", "server", "utils"} {
		logger.GetLogger(name).SetLevel(logger.ERROR)
	}
	// It would tell of each attempt to reach a node that is down.
	logger.GetLogger("transport").SetLevel(logger.CRITICAL)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	n, err := node.Start(options)
	if err != nil {
		return err
	}
	defer n.Stop()
	server := redis.NewServer(client, n, stale)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve() }()
	fmt.Printf("varve-node %d: clients at %s, other nodes at %s\n", options.ID, client, options.Address)
	select {
	case err := <-failed:
		return err
	case <-stop:
		server.Close()
		return nil
	}
}
