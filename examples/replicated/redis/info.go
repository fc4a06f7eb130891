// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"varve.example/replicated/machine"
)

func init() {
	addLocal("info", 1, 0, RightRead, (*client).info, "server", "Describes this node.")
	addLocal("config", 2, 0, RightAdmin, (*client).config, "server", "Returns this node's limits.")
	addLocal("command", 1, 0, RightRead, (*client).commands, "server", "Describes the commands.")
	commands["config"].parts = []string{"get", "resetstat", "set"}
	commands["command"].parts = []string{"count", "docs", "getkeys", "info", "list"}
}

// usage counts the calls of a command. The time of commands that are done together
// is divided among them.
type usage struct{ calls, rejected, nanos atomic.Uint64 }

// count adds a run of commands that has taken a time.
func (s *Server) count(run []task, took time.Duration) {
	for i := range run {
		one := s.usage[run[i].command]
		if one == nil {
			continue // There is no such command.
		}
		if run[i].complaint != "" {
			one.rejected.Add(1)
			continue
		}
		one.calls.Add(1)
		one.nanos.Add(uint64(took) / uint64(len(run)))
	}
}

func (s *Server) commandStats() []string {
	var lines []string
	for _, name := range names() {
		one := s.usage[commands[name]]
		calls, rejected, micros := one.calls.Load(), one.rejected.Load(), one.nanos.Load()/1000
		if calls+rejected > 0 {
			lines = append(lines, fmt.Sprintf("cmdstat_%s:calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=0",
				name, calls, micros, float64(micros)/float64(max(calls, 1)), rejected))
		}
	}
	return lines
}

// section is of INFO.
type section struct {
	name  string
	lines []string
}

func (s *Server) sections(clustered bool) []section {
	mode, enabled, listener := "standalone", 0, s.Addr()
	if clustered {
		mode, enabled, listener = "cluster", 1, s.ClusterAddr()
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	uptime := int64(time.Since(s.started).Seconds())
	line := func(format string, arguments ...interface{}) string { return fmt.Sprintf(format, arguments...) }
	seconds := func(t syscall.Timeval) string { return line("%d.%06d", t.Sec, t.Usec) }
	sections := []section{
		{"Server", []string{"redis_version:" + Version, "server_name:varve-node", "redis_mode:" + mode,
			line("os:%s %s", runtime.GOOS, runtime.GOARCH), line("arch_bits:%d", strconv.IntSize),
			line("process_id:%d", processID()), line("tcp_port:%d", port(listener)),
			line("uptime_in_seconds:%d", uptime), line("uptime_in_days:%d", uptime/86400)}},
		{"Clients", []string{line("connected_clients:%d", s.accepted.Load()),
			line("maxclients:%d", s.options.MaxConnections), "blocked_clients:0"}},
		{"Memory", []string{line("used_memory:%d", memory.HeapAlloc), line("used_memory_rss:%d", residentBytes()),
			line("requests_and_answers:%d", s.memory.used.Load()), line("maxmemory:%d", s.options.MaxProcess), "maxmemory_policy:noeviction"}},
		{"Persistence", []string{"loading:0", "aof_enabled:1"}},
		{"Stats", []string{line("total_connections_received:%d", s.stats.connections.Load()),
			line("rejected_connections:%d", s.stats.rejected.Load()),
			line("connections_closed_for_limits:%d", s.stats.limited.Load()),
			line("total_commands_processed:%d", s.stats.commands.Load()),
			line("total_error_replies:%d", s.stats.errors.Load()),
			line("failed_logins:%d", s.stats.logins.Load()),
			line("failed_tls_handshakes:%d", s.stats.handshakes.Load()),
			line("total_net_input_bytes:%d", s.stats.received.Load()),
			line("total_net_output_bytes:%d", s.stats.sent.Load()),
			line("keyspace_hits:%d", s.stats.hits.Load()), line("keyspace_misses:%d", s.stats.misses.Load()),
			line("expired_keys:%d", s.stats.expired.Load()), "evicted_keys:0"}},
		{"Replication", []string{"role:master", "connected_slaves:0", "master_repl_offset:0"}},
		{"CPU", []string{"used_cpu_sys:" + seconds(used.Stime), "used_cpu_user:" + seconds(used.Utime)}},
		{"Cluster", []string{line("cluster_enabled:%d", enabled)}},
		{"Keyspace", nil},
		{"Commandstats", s.commandStats()},
	}
	// The node's own lines go into sections of the same names.
	at := -1
	for _, text := range strings.Split(s.store.Info(), "\n") {
		text = strings.TrimRight(text, "\r")
		if name, is := strings.CutPrefix(text, "# "); is {
			at = -1
			for i := range sections {
				if sections[i].name == name {
					at = i
				}
			}
			if at < 0 {
				at = len(sections)
				sections = append(sections, section{name: name})
			}
		} else if text != "" && at >= 0 {
			sections[at].lines = append(sections[at].lines, text)
		}
	}
	return sections
}

// residentBytes is what the process uses of the machine's memory, 0 if Linux does
// not say it.
func residentBytes() int64 {
	text, _ := os.ReadFile("/proc/self/statm")
	var size, resident int64
	fmt.Sscan(string(text), &size, &resident)
	return resident * int64(os.Getpagesize())
}

func (c *client) info(t *task) {
	wanted := map[string]bool{}
	for _, word := range t.args[1:] {
		wanted[strings.ToLower(string(word))] = true
	}
	every := wanted["all"] || wanted["everything"]
	all := len(wanted) == 0 || every || wanted["default"]
	var parts []string
	for _, one := range c.server.sections(c.clustered) {
		if all && (every || one.name != "Commandstats") || wanted[strings.ToLower(one.name)] {
			lines := append([]string{"# " + one.name}, one.lines...)
			parts = append(parts, strings.Join(lines, "\r\n")+"\r\n")
		}
	}
	c.out.Verbatim(strings.Join(parts, "\r\n"))
}

// config answers GET. Settings are options of the program. Only those of the slow log
// can be set, until the next start.
func (c *client) config(t *task) {
	switch sub := strings.ToLower(string(t.args[1])); {
	case sub == "get" && len(t.args) > 2:
		c.configGet(t)
	case sub == "resetstat" && len(t.args) == 2:
		stats := &c.server.stats
		stats.connections.Store(0)
		stats.rejected.Store(0)
		stats.commands.Store(0)
		stats.errors.Store(0)
		stats.hits.Store(0)
		stats.misses.Store(0)
		stats.expired.Store(0)
		for _, one := range c.server.usage {
			one.calls.Store(0)
			one.rejected.Store(0)
			one.nanos.Store(0)
		}
		c.out.Status("OK")
	case sub == "set" && len(t.args) > 3 && len(t.args)%2 == 0:
		c.configSet(t)
	case sub == "set":
		c.fail(wrongNumber("config|set"))
	case sub == "rewrite":
		c.fail("ERR settings are options of the program varve-node")
	default:
		c.unknownSub(t)
	}
}

// settings are what CONFIG GET returns.
func (c *client) settings() map[string]string {
	options := &c.server.options
	enabled, listener := "no", c.server.Addr()
	if c.clustered {
		enabled, listener = "yes", c.server.ClusterAddr()
	}
	settings := map[string]string{
		"maxclients": strconv.Itoa(options.MaxConnections), "databases": "1", "appendonly": "yes",
		"save": "", "timeout": strconv.Itoa(int(options.IdleTimeout.Seconds())), "maxmemory": strconv.FormatInt(options.MaxProcess, 10),
		"maxmemory-policy": "noeviction", "proto-max-bulk-len": strconv.Itoa(machine.MaxValueBytes),
		"cluster-enabled": enabled, "client-query-buffer-limit": strconv.Itoa(options.MaxRequest), "port": strconv.Itoa(port(listener)),
	}
	for name, value := range c.server.slow.settings() {
		settings[name] = strconv.FormatInt(value.Load(), 10)
	}
	return settings
}

func (c *client) configGet(t *task) {
	settings := c.settings()
	var names []string
	for name := range settings {
		for _, pattern := range t.args[2:] {
			if matches([]byte(strings.ToLower(string(pattern))), []byte(name)) {
				names = append(names, name)
				break
			}
		}
	}
	sort.Strings(names)
	c.out.Map(len(names))
	for _, name := range names {
		c.out.BulkString(name)
		c.out.BulkString(settings[name])
	}
}

func (c *client) commands(t *task) {
	names := names()
	if len(t.args) == 1 {
		c.out.Array(len(names))
		for _, name := range names {
			c.describeCommand(find([]byte(name)))
		}
		return
	}
	given := make([]string, 0, len(t.args)-2)
	for _, word := range t.args[2:] {
		given = append(given, strings.ToLower(string(word)))
	}
	switch sub := strings.ToLower(string(t.args[1])); sub {
	case "count":
		c.out.Int(int64(len(names)))
	case "list":
		c.listCommands(given)
	case "info":
		if len(given) == 0 {
			given = names
		}
		c.out.Array(len(given))
		for _, name := range given {
			c.describeCommand(find([]byte(name)))
		}
	case "docs":
		if len(given) == 0 {
			given = names
		}
		c.docs(given)
	case "getkeys":
		c.getKeys(t)
	default:
		c.unknownSub(t)
	}
}

// listCommands answers with the names of all commands and of their parts, or of those
// that a filter takes.
func (c *client) listCommands(words []string) {
	takes := func(*command, string) bool { return true }
	switch {
	case len(words) == 0:
	case len(words) != 3 || words[0] != "filterby":
		c.fail(syntaxError)
		return
	case words[1] == "aclcat":
		takes = func(known *command, _ string) bool { return known.group == words[2] }
	case words[1] == "pattern":
		takes = func(_ *command, name string) bool { return matches([]byte(words[2]), []byte(name)) }
	case words[1] == "module": // There are none.
		takes = func(*command, string) bool { return false }
	default:
		c.fail(syntaxError)
		return
	}
	var found []string
	for _, name := range names() {
		known, all := commands[name], []string{name}
		for _, part := range known.parts {
			all = append(all, name+"|"+part)
		}
		if known.parts != nil {
			all = append(all, name+"|help")
		}
		for _, one := range all {
			if takes(known, one) {
				found = append(found, one)
			}
		}
	}
	c.strings(found)
}

var kindFlags = map[kind][]string{reads: {"readonly"}, writes: {"write"}, local: {"fast"}}

func (k *command) arity() int64 {
	if k.maximum == k.minimum {
		return int64(k.minimum)
	}
	return -int64(k.minimum)
}

func (c *client) statuses(words []string) {
	c.out.Set(len(words))
	for _, word := range words {
		c.out.Status(word)
	}
}

func (c *client) describeCommand(known *command) {
	if known == nil {
		c.out.Null()
		return
	}
	flags := kindFlags[known.kind]
	if known.right == RightAdmin {
		flags = append([]string{"admin"}, flags...)
	}
	if known.right == rightNone {
		flags = append([]string{"no_auth"}, flags...)
	}
	c.out.Array(10)
	c.out.BulkString(known.name)
	c.out.Int(known.arity())
	c.statuses(flags)
	c.out.Int(int64(known.firstKey))
	c.out.Int(int64(known.lastKey))
	c.out.Int(int64(known.keyStep))
	c.statuses([]string{"@" + known.group})
	c.out.Array(0)
	c.out.Array(0)
	c.out.Array(0)
}

func (c *client) docs(names []string) {
	var known []*command
	for _, name := range names {
		if found := find([]byte(name)); found != nil {
			known = append(known, found)
		}
	}
	c.out.Map(len(known))
	for _, one := range known {
		c.out.BulkString(one.name)
		c.out.Map(2)
		c.out.BulkString("summary")
		c.out.BulkString(one.summary)
		c.out.BulkString("group")
		c.out.BulkString(one.group)
	}
}

func (c *client) getKeys(t *task) {
	if len(t.args) < 3 {
		c.fail(wrongNumber("command|getkeys"))
		return
	}
	known := find(t.args[2])
	words := t.args[2:]
	switch {
	case known == nil:
		c.fail("ERR Invalid command specified")
		return
	case len(words) < known.minimum || known.maximum > 0 && len(words) > known.maximum:
		c.fail("ERR Invalid number of arguments specified for command")
		return
	case known.firstKey == 0:
		c.fail("ERR The command has no key arguments")
		return
	}
	var keys []string
	known.eachKey(words, func(key []byte) { keys = append(keys, string(key)) })
	c.strings(keys)
}

// admin has the store do a command for operators.
func (c *client) admin(t *task) {
	words := make([]string, len(t.args))
	for i, word := range t.args {
		words[i] = string(word)
	}
	lines, err := c.server.store.Admin(words)
	if err != nil {
		c.failWith(err)
		return
	}
	c.strings(lines)
}
