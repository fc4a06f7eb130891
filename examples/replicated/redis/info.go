// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"varve.example/replicated/machine"
)

func init() {
	addLocal("info", 1, 0, RightRead, (*client).info, "server", "Describes this node.")
	// Settings are options of the program. Only those of the slow log can be set, until
	// the next start.
	addParts("config", RightAdmin, "server", "Returns this node's limits.", map[string]subcommand{
		"get":       {3, 0, RightAdmin, (*client).configGet},
		"resetstat": {2, 2, RightAdmin, (*client).resetStats},
		"set":       {4, 0, RightAdmin, (*client).configSet},
	})
	commands["config"].do = func(c *client, t *task) {
		if lower(t.args[1]) == "rewrite" {
			c.fail("ERR settings are options of the program varve-node")
		} else {
			c.subcommand(t)
		}
	}
	addParts("command", RightRead, "server", "Describes the commands.", map[string]subcommand{
		"count":   {2, 2, RightRead, func(c *client, _ *task) { c.out.Int(int64(len(commands))) }},
		"list":    {2, 5, RightRead, (*client).listCommands},
		"info":    {2, 0, RightRead, (*client).describeCommands},
		"docs":    {2, 0, RightRead, (*client).docs},
		"getkeys": {3, 0, RightRead, (*client).getKeys},
	})
	commands["command"].minimum = 1
	commands["command"].do = func(c *client, t *task) {
		if len(t.args) == 1 {
			c.describeCommands(t)
		} else {
			c.subcommand(t)
		}
	}
}

// usage counts the calls of a command. The time of commands that are done together
// is divided among them.
type usage struct{ calls, rejected, failed, nanos atomic.Uint64 }

// count adds a run of commands that has taken a time.
func (s *Server) count(run []task, took time.Duration) {
	for i := range run {
		one := s.usage[run[i].command]
		if one == nil {
			continue // There is no such command.
		}
		if run[i].rejected {
			one.rejected.Add(1)
			continue
		}
		if run[i].failed || run[i].complaint != "" {
			one.failed.Add(1)
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
			lines = append(lines, fmt.Sprintf("cmdstat_%s:calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
				name, calls, micros, float64(micros)/float64(max(calls, 1)), rejected, one.failed.Load()))
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
			line("process_id:%d", os.Getpid()), line("tcp_port:%d", port(listener)),
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
		wanted[lower(word)] = true
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

func (c *client) resetStats(*task) {
	stats := &c.server.stats
	counts := []*atomic.Uint64{&stats.connections, &stats.rejected, &stats.commands, &stats.errors,
		&stats.hits, &stats.misses, &stats.expired}
	for _, one := range c.server.usage {
		counts = append(counts, &one.calls, &one.rejected, &one.failed, &one.nanos)
	}
	for _, count := range counts {
		count.Store(0)
	}
	c.out.Status("OK")
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
	found := pairs{}
	for _, name := range sorted(settings) {
		if slices.ContainsFunc(t.args[2:], func(pattern []byte) bool { return matches([]byte(lower(pattern)), []byte(name)) }) {
			found = append(found, name, settings[name])
		}
	}
	c.answer(found)
}

// given are the commands that a task asks for; nil is one that there is not.
func given(t *task) (found []*command) {
	for _, word := range t.args[min(2, len(t.args)):] {
		found = append(found, find(word))
	}
	if found == nil {
		for _, name := range names() {
			found = append(found, commands[name])
		}
	}
	return found
}

// listCommands answers with the names of all commands and of their parts, or of those
// that a filter takes.
func (c *client) listCommands(t *task) {
	var words []string
	for _, word := range t.args[2:] {
		words = append(words, lower(word))
	}
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
		for _, part := range sorted(known.parts) {
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
	c.answer(found)
}

var kindFlags = map[kind][]string{reads: {"readonly"}, writes: {"write"}, local: {"fast"}}

func (k *command) arity() int64 {
	if k.maximum == k.minimum {
		return int64(k.minimum)
	}
	return -int64(k.minimum)
}

func (c *client) describeCommands(t *task) {
	var list []any
	for _, known := range given(t) {
		if known == nil {
			list = append(list, nil)
			continue
		}
		flags := statuses(kindFlags[known.kind])
		if known.right == RightAdmin {
			flags = append(statuses{"admin"}, flags...)
		}
		if known.right == rightNone {
			flags = append(statuses{"no_auth"}, flags...)
		}
		list = append(list, []any{known.name, known.arity(), flags, known.firstKey, known.lastKey, known.keyStep,
			statuses{"@" + known.group}, []any{}, []any{}, []any{}})
	}
	c.answer(list)
}

func (c *client) docs(t *task) {
	found := pairs{}
	for _, one := range given(t) {
		if one != nil {
			found = append(found, one.name, pairs{"summary", one.summary, "group", one.group})
		}
	}
	c.answer(found)
}

func (c *client) getKeys(t *task) {
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
	c.answer(keys)
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
	c.answer(lines)
}
