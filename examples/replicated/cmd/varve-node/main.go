// Varve: a key-value storage engine. MIT licence, see LICENSE.

// varve-node is one node of a replicated store for clients of Redis.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"varve.example/replicated/node"
	"varve.example/replicated/redis"
	"varve.example/replicated/storage"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "salvage" {
		os.Exit(salvage(os.Args[2:]))
	}
	// Before all else: without a channel, the signal would end the process.
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	var options node.Options
	flag.Uint64Var(&options.ID, "id", 0, "with --peers: this node's number, from 1")
	flag.StringVar(&options.Address, "address", "", "HOST:PORT at which other nodes reach this one")
	peers := flag.String("peers", "", "ID=HOST:PORT,... of all the first nodes of a cluster, with this one")
	flag.BoolVar(&options.Create, "create", false, "with --peers, at the first start only: this node's directory belongs to a new cluster")
	flag.StringVar(&options.Cluster, "cluster", "", "name of a new cluster (default varve); with --join, the cluster must have it")
	flag.BoolVar(&options.Convert, "convert-to-slots", false, "of a cluster that was created before there were slots: map its keys by slots, once all nodes have this option")
	flag.StringVar(&options.Join, "join", "", "in place of --peers: HOST:PORT,... of nodes of the cluster to join")
	flag.Uint64Var(&options.Shards, "shards", 8, "shards of a new cluster, each with a range of the slots of Redis Cluster; cannot be changed")
	flag.IntVar(&options.Replicas, "replicas", 3, "replicas of each shard of a new cluster")
	flag.StringVar(&options.Dir, "dir", "", "where the data is; made if need be")
	flag.StringVar(&options.Backups, "backups", "", "where backups are written and read; DIR/backups if empty")
	flag.StringVar(&options.BackupTo, "backup-to", "", "COMMAND by which backups are stored elsewhere; called with put, get, list or delete, and a name")
	flag.StringVar(&options.Client, "redis", "127.0.0.1:6379", "HOST:PORT for clients; other than loopback only with a password")
	watch := flag.String("watch", "", "HOST:PORT of /metrics, /healthz and /readyz; none if empty")
	profiles := flag.Bool("watch-profiles", false, "serve profiles of the program at --watch, /debug/pprof/")
	var clients clientFlags
	clients.define()
	peerFlags(&options)
	hash := flag.Bool("hash-password", false, "read a password from standard input, print it for --users-file, and end")
	flag.Uint64Var(&options.RoundMS, "round-ms", 100, "milliseconds of a tick; 10 of silence are an election")
	flag.Uint64Var(&options.SnapshotEntries, "snapshot-entries", 20000, "log entries after which the log is cut")
	flag.DurationVar(&options.Timeout, "timeout", 3*time.Second, "of a request")
	reserve := flag.Uint64("reserve-mib", 64, "mebibytes of the disk, a sixteenth of it at most: the node ends if less is free")
	flag.DurationVar(&options.BalancePause, "balance-pause", 0, "between two replicas that move from full nodes to emptier ones by themselves; 0: none moves")
	flag.DurationVar(&options.MaxStaleness, "max-staleness", 0, "of what stale reads return; 0 for no limit")
	flag.StringVar(&options.ClockFile, "clock-file", "", "for tests: a file with a number of milliseconds by which this node's clock is wrong")
	version := flag.Bool("version", false, "print the versions, and end")
	level := flag.String("log-level", "info", "debug, info, warn or error")
	format := flag.String("log-format", "text", "text or json")
	config := flag.String("config", "", "file with an option and its value on each line; the command line wins")
	flag.CommandLine.Init(os.Args[0], flag.ContinueOnError)
	if err := flag.CommandLine.Parse(os.Args[1:]); errors.Is(err, flag.ErrHelp) {
		return
	} else if err != nil { // It has been printed, with all options.
		os.Exit(exitRefused)
	}
	if *config != "" {
		if err := readConfig(flag.CommandLine, *config); err != nil {
			refuse(err)
		}
	}
	if *version {
		fmt.Println(versions())
		return
	}
	if *hash {
		if err := hashPassword(); err != nil {
			refuse(err)
		}
		return
	}
	members, err := parsePeers(*peers)
	if err == nil {
		err = setLog(*level, *format)
	}
	// A node that was started before needs neither --peers nor --join.
	if err == nil && (options.Address == "" || options.Dir == "" || options.Shards == 0 || options.Replicas < 1 ||
		(len(members) > 0 && (options.ID == 0 || options.Join != "")) ||
		(options.Create && len(members) == 0) || flag.NArg() > 0) {
		err = fmt.Errorf("needs --address, --dir, and --id with --peers and at first --create, or --join")
	}
	if err == nil && (options.Timeout <= 0 || options.RoundMS == 0 || options.MaxStaleness < 0 || options.BalancePause < 0) {
		err = errors.New("--timeout and --round-ms must be positive, and no time may be negative")
	}
	if err == nil {
		err = clients.finish(options.Client)
	}
	if err == nil {
		options.TLS.Adjust = clients.adjust
		options.Announce = clients.announce
		warnOfPeers(&options)
	}
	if err != nil {
		refuse(err)
	}
	options.Fatal, options.ReserveBytes = fatal, *reserve<<20
	options.Peers, options.MaxRequest, options.Memory = members, clients.options.MaxRequest, clients.memory
	for err = node.ErrLayout; errors.Is(err, node.ErrLayout); {
		err = run(options, *watch, *profiles, &clients, reload)
	}
	if err != nil {
		slog.Error("the node ends", "error", err)
		os.Exit(1)
	}
}

// exitRefused is the status of a node that refuses its options, EX_CONFIG of sysexits.h.
// The unit of systemd knows it: to start the node again would change nothing. A crash of a
// program in Go has the status 2.
const exitRefused = 78

func refuse(err error) {
	fmt.Fprintln(os.Stderr, "varve-node:", err)
	os.Exit(exitRefused)
}

// versions are of this program's revision, the engine, and Go.
func versions() string {
	revision := "of an unknown revision"
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range build.Settings {
			if setting.Key == "vcs.revision" {
				revision = setting.Value
			}
		}
	}
	return fmt.Sprintf("varve-node %s\n%s\nredis %s\n%s", revision, storage.Version(), redis.Version, runtime.Version())
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

// end is for a node of which something has failed. It may wait for ever, and is
// ended by a timer then.
func end(server *redis.Server, n *node.Node) int {
	go server.Close() // It would wait for those whose answer never comes.
	n.HandOver()
	return 1
}

// run serves until a signal or an error ends it.
func run(options node.Options, watch string, profiles bool, clients *clientFlags, reload <-chan os.Signal) error {
	n, err := node.Start(options)
	if err != nil {
		return err
	}
	defer n.Stop()
	// Only now: a node that waits for others in its start ends at once.
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(stop)
	failed := make(chan error, 2)
	if watch != "" {
		listener, err := net.Listen("tcp", watch)
		if err != nil {
			return err
		}
		defer listener.Close()
		pages := n.WatchServer(profiles)
		defer pages.Close()
		go func() { failed <- pages.Serve(listener) }()
	}
	serving := clients.options
	if serving.Full = n.Full; !n.HasSlots() {
		serving.Cluster = ""
	}
	server := redis.NewServer(serving, n)
	if err := server.Listen(); err != nil {
		return err
	}
	go func() { failed <- server.Serve() }()
	slog.Info("serving", "node", n.Number(), "clients", options.Client, "cluster", options.Announce, "nodes", options.Address, "watch", watch)
	for {
		select {
		case err := <-failed:
			return err
		case err := <-n.Failed():
			server.Close()
			return err
		case <-mustEnd:
			os.Exit(end(server, n))
		case <-reload:
			clients.reload()
		case <-stop:
			slog.Info("stopping", "node", n.Number())
			if n.SendsAway() {
				n.Leave() // While clients can still be told where to go.
			}
			server.Close()
			return nil
		}
	}
}
