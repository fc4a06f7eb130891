// Varve: a key-value storage engine. MIT licence, see LICENSE.
package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"

	"varve.example/replicated/node"
	"varve.example/replicated/redis"
)

// clientFlags are about who may come in, and what they may use.
type clientFlags struct {
	options       redis.Options
	passwordFile  string
	usersFile     string
	certFile      string
	keyFile       string
	authorities   string
	leastTLS      string
	ciphers       string
	allow         string
	maxMemoryMiB  int64
	memory        node.Memory // Of the whole process.
	maxRequestMiB int
	maxAnswerMiB  int
	announce      string // Where clients reach the cluster port.

	users       *redis.Users
	certificate *redis.Certificate
}

func (f *clientFlags) define() {
	f.options = redis.DefaultOptions
	o := &f.options
	flag.StringVar(&o.Cluster, "cluster-listen", "", "HOST:PORT for clients of Redis Cluster, which are sent to the leaders' nodes; none if empty")
	flag.StringVar(&f.announce, "cluster-announce", "", "HOST:PORT at which clients reach --cluster-listen, if that is another one")
	flag.StringVar(&f.passwordFile, "password-file", "", "file with the password of the user `default`")
	flag.StringVar(&f.usersFile, "users-file", "", "file of users: NAME RIGHT HASH... a line; see --hash-password")
	flag.StringVar(&f.certFile, "tls-cert", "", "certificate for clients, which then must use TLS")
	flag.StringVar(&f.keyFile, "tls-key", "", "key of --tls-cert")
	flag.StringVar(&f.authorities, "tls-client-ca", "", "authorities of which clients must have a certificate")
	flag.StringVar(&f.leastTLS, "tls-min-version", "1.2", "1.2 or 1.3, for clients and for other nodes")
	flag.StringVar(&f.ciphers, "tls-ciphers", "", "names with commas, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, that version 1.2 may use; all safe ones if empty")
	flag.StringVar(&f.allow, "allow-commands", "", "commands that are refused by default: keys,flushall,flushdb")
	flag.BoolVar(&o.Stale, "stale-reads", false, "answer reads from this node without asking the others")
	flag.IntVar(&o.MaxConnections, "max-connections", o.MaxConnections, "of clients")
	flag.IntVar(&o.MaxPipeline, "max-pipeline", o.MaxPipeline, "commands of a connection that are taken together")
	flag.IntVar(&o.MaxWords, "max-words", o.MaxWords, "words of a command")
	flag.IntVar(&f.maxRequestMiB, "max-request-mib", o.MaxRequest>>20, "mebibytes of a command")
	flag.IntVar(&f.maxAnswerMiB, "max-answer-mib", o.MaxAnswer>>20, "mebibytes of the values that one command reads")
	flag.Int64Var(&f.maxMemoryMiB, "max-client-memory-mib", o.MaxMemory>>20, "mebibytes of all requests and answers that are under way")
	flag.Func("max-memory", "bytes that the process may use, such as 2gb, divided among its parts; no bound over everything if not given", func(text string) error {
		total, err := parseBytes(text)
		if err == nil {
			f.memory, err = node.PlanMemory(total)
		}
		return err
	})
	flag.DurationVar(&o.AuthTimeout, "auth-timeout", o.AuthTimeout, "from connecting to logging in")
	flag.DurationVar(&o.RequestTimeout, "request-timeout", o.RequestTimeout, "from a command's first byte to its last one")
	flag.DurationVar(&o.WriteTimeout, "write-timeout", o.WriteTimeout, "for a client to take a mebibyte of answers")
	flag.DurationVar(&o.SlowerThan, "slowlog-slower-than", o.SlowerThan, "a command that takes as long comes into SLOWLOG; below 0 for none")
	flag.IntVar(&o.SlowLength, "slowlog-max-len", o.SlowLength, "entries of SLOWLOG")
	flag.DurationVar(&o.IdleTimeout, "idle-timeout", o.IdleTimeout, "between two commands; 0 for no limit")
}

// finish reads the files. The address is where clients come.
func (f *clientFlags) finish(address string) (err error) {
	o := &f.options
	o.Address = address
	f.divide(flag.CommandLine)
	o.MaxRequest, o.MaxAnswer, o.MaxMemory = f.maxRequestMiB<<20, f.maxAnswerMiB<<20, f.maxMemoryMiB<<20
	if o.MaxConnections < 1 || o.MaxPipeline < 1 || o.MaxWords < 1 || o.MaxRequest < 1 || o.MaxAnswer < 1 ||
		o.MaxMemory < 2*int64(max(o.MaxRequest, o.MaxAnswer)) || o.AuthTimeout <= 0 || o.RequestTimeout <= 0 ||
		o.WriteTimeout <= 0 || o.IdleTimeout < 0 || o.SlowLength < 0 {
		return errors.New("a limit is not positive, or --max-client-memory-mib is not twice --max-request-mib and --max-answer-mib")
	}
	for _, name := range strings.Split(f.allow, ",") {
		if name = strings.ToLower(name); name != "" {
			if !redis.IsRefused(name) {
				return fmt.Errorf("--allow-commands: %q is not refused by default", name)
			}
			o.Allow = append(o.Allow, name)
		}
	}
	if f.users, err = redis.LoadUsers(f.passwordFile, f.usersFile); err != nil {
		return err
	}
	o.Users = f.users
	if err := redis.CheckAddress(address, o.Users); err != nil {
		return err
	}
	if err := f.finishCluster(); err != nil {
		return err
	}
	if (f.certFile == "") != (f.keyFile == "") || f.authorities != "" && f.certFile == "" {
		return errors.New("--tls-cert, --tls-key: one is missing")
	}
	if f.certFile != "" {
		if o.TLS, f.certificate, err = redis.LoadTLS(f.certFile, f.keyFile, f.authorities); err != nil {
			return err
		}
		if err := f.adjust(o.TLS); err != nil {
			return err
		}
	} else if redis.CheckAddress(address, nil) != nil {
		slog.Warn("clients at this address send passwords and data without encryption", "address", address)
	}
	return nil
}

// divide lowers the limits that nobody has set to what --max-memory leaves for them.
func (f *clientFlags) divide(flags *flag.FlagSet) {
	if f.memory.Total == 0 {
		return
	}
	given := map[string]bool{}
	flags.Visit(func(one *flag.Flag) { given[one.Name] = true })
	f.options.MaxProcess = f.memory.Total
	mib := int(f.memory.Clients >> 20)
	f.maxMemoryMiB = min(f.maxMemoryMiB, int64(mib))
	for _, one := range []struct {
		name  string
		value *int
		limit int
	}{
		{"max-request-mib", &f.maxRequestMiB, mib / 4},
		{"max-answer-mib", &f.maxAnswerMiB, mib / 2},
		{"max-connections", &f.options.MaxConnections, f.memory.MaxConnections()},
	} {
		if !given[one.name] {
			*one.value = min(*one.value, one.limit)
		}
	}
}

// parseBytes takes a number with a unit of 1024s, as Redis does.
func parseBytes(text string) (int64, error) {
	digits := strings.TrimRight(strings.ToLower(text), "bgikm")
	unit, known := map[string]int64{"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mb": 1 << 20,
		"mib": 1 << 20, "g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30}[strings.ToLower(text[len(digits):])]
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || number < 0 || number > 1<<50/unit {
		return 0, errors.New("bytes are a number with b, kb, mb or gb")
	}
	return number * unit, nil
}

// finishCluster checks what other nodes and clients are told of the cluster port.
func (f *clientFlags) finishCluster() error {
	if f.options.Cluster == "" {
		if f.announce != "" {
			return errors.New("--cluster-announce needs --cluster-listen")
		}
		return nil
	}
	if err := redis.CheckAddress(f.options.Cluster, f.options.Users); err != nil {
		return err
	}
	if f.announce == "" {
		f.announce = f.options.Cluster
	}
	host, text, err := net.SplitHostPort(f.announce)
	if err != nil {
		return fmt.Errorf("--cluster-announce: %w", err)
	}
	if address := net.ParseIP(host); host == "" || address != nil && address.IsUnspecified() {
		return fmt.Errorf("--cluster-announce is needed: clients cannot be sent to %q", f.announce)
	}
	if number, err := strconv.ParseUint(text, 10, 16); err != nil || number == 0 {
		return fmt.Errorf("--cluster-announce: %q has no port", f.announce)
	}
	return nil
}

// adjust applies the options on versions and ciphers.
func (f *clientFlags) adjust(config *tls.Config) error {
	return redis.SetVersions(config, f.leastTLS, f.ciphers)
}

// reload reads files again that an operator may have replaced.
func (f *clientFlags) reload() {
	read := func(reload func() error, files ...string) {
		if err := reload(); err != nil {
			slog.Error("files were not read again, and what they said stays", "error", err)
			return
		}
		for _, file := range files {
			if file != "" {
				slog.Info("a file was read again", "file", file)
			}
		}
	}
	if f.users != nil {
		read(f.users.Reload, f.passwordFile, f.usersFile)
	}
	if f.certificate != nil {
		read(f.certificate.Reload, f.certFile, f.keyFile)
	}
	slog.Info("other files are read at the start only")
}

// peerFlags are about how nodes reach each other.
func peerFlags(options *node.Options) {
	flag.StringVar(&options.TLS.CAFile, "peer-ca", "", "authority of all nodes' certificates, which must then use TLS among each other")
	flag.StringVar(&options.TLS.CertFile, "peer-cert", "", "this node's certificate for other nodes")
	flag.StringVar(&options.TLS.KeyFile, "peer-key", "", "key of --peer-cert")
}

// warnOfPeers is about other nodes.
func warnOfPeers(options *node.Options) {
	if options.TLS.CAFile == "" && redis.CheckAddress(options.Address, nil) != nil {
		slog.Warn("nodes trust everyone who reaches this port", "address", options.Address)
	}
	if announcesLoopback(options) {
		slog.Warn("other machines cannot reach the announced cluster port: set --cluster-announce", "address", options.Announce)
	}
}

// announcesLoopback says whether clients are sent to an address of their own machine,
// although the nodes are on several machines.
func announcesLoopback(options *node.Options) bool {
	return options.Announce != "" && redis.CheckAddress(options.Announce, nil) == nil &&
		redis.CheckAddress(options.Address, nil) != nil
}

// hashPassword reads a password and prints how a file of users has it.
func hashPassword() error {
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if line = strings.TrimRight(line, "\r\n"); line == "" {
		return fmt.Errorf("no password on standard input: %v", err)
	}
	fmt.Println(redis.HashPassword([]byte(line)))
	return nil
}
