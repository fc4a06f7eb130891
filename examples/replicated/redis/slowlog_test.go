// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: commands that take long are listed as Redis does it, without passwords, and
// the log is bounded. Method: a threshold of 0, at which each command takes long.
package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"varve.example/replicated/check"
)

func TestSlowCommandsAreListed(t *testing.T) {
	f := serve(t, func(o *Options) { o.SlowerThan = -time.Microsecond })
	c := f.dial()
	c.expect("SET a b", "+OK")
	c.expect("SLOWLOG LEN", ":0")
	c.expect("CONFIG GET slowlog*", `*["slowlog-log-slower-than" "-1" "slowlog-max-len" "128"]`)
	c.expect("CLIENT SETNAME me", "+OK")
	c.expect("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 3", "+OK")
	c.words("SET", "key", strings.Repeat("v", 130))
	c.next("+OK")
	c.expect("SLOWLOG LEN", ":2") // CONFIG SET is one of them.
	many := []string{"MGET"}
	for i := 0; i < 40; i++ {
		many = append(many, fmt.Sprint(i))
	}
	c.words(many...)
	c.next("*[" + strings.TrimSuffix(strings.Repeat("nil ", 40), " ") + "]")
	c.expect("CONFIG SET slowlog-log-slower-than -1", "+OK")
	entries := f.server.slow.newest(10)
	if len(entries) != 3 || entries[0].words[0] != "MGET" || len(entries[0].words) != slowWords ||
		entries[0].words[slowWords-1] != "... (10 more arguments)" || entries[0].name != "me" ||
		entries[2].words[2] != strings.Repeat("v", 128)+"... (2 more bytes)" || entries[2].id+2 != entries[0].id {
		t.Errorf("%+v", entries)
	}
	c.expect("CONFIG SET slowlog-max-len 1", "+OK")
	last := f.server.slow.newest(10)[0]
	var words []string
	for _, word := range last.words {
		words = append(words, fmt.Sprintf("%q", word))
	}
	c.expect("SLOWLOG GET -1", fmt.Sprintf(`*[*[:%d :%d :%d *[%s] "%s" "me"]]`, last.id, last.at, last.micros,
		strings.Join(words, " "), last.address))
	c.expect("SLOWLOG GET 0", "*[]")
	c.expect("SLOWLOG GET -2", "-ERR count should be greater than or equal to -1")
	c.expect("SLOWLOG RESET", "+OK")
	c.expect("SLOWLOG LEN", ":0")
	for request, answer := range map[string]string{
		"CONFIG SET maxmemory 1":               "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - can't set immutable config, which is an option of the program varve-node",
		"CONFIG SET maxmemory 1 MAXMEMORY 2":   "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - duplicate parameter",
		"CONFIG SET maxmemory":                 "-ERR wrong number of arguments for 'config|set' command",
		"CONFIG REWRITE":                       "-ERR settings are options of the program varve-node",
		"CONFIG SET slowlog-max-len many":      "-ERR CONFIG SET failed (possibly related to argument 'slowlog-max-len') - argument couldn't be parsed into an integer",
		"CONFIG SET slowlog-max-len -1":        "-ERR CONFIG SET failed (possibly related to argument 'slowlog-max-len') - argument is out of range",
		"CONFIG SET slowlog-max-len 9 other 1": "-ERR Unknown option or number of arguments for CONFIG SET - 'other'",
	} {
		c.expect(request, answer)
	}
	if most := f.server.slow.most.Load(); most != 1 {
		t.Errorf("a part of a command was done: %d", most)
	}
}

func TestPasswordsAreNotInTheSlowLog(t *testing.T) {
	f := serve(t, func(o *Options) { o.SlowerThan = 0 })
	c := f.dial()
	c.ask("AUTH default secret")
	c.ask("HELLO 2 AUTH default secret")
	c.expect("PING", "+PONG")
	for _, one := range f.server.slow.newest(10) {
		check.ErrorIf(t, strings.Contains(fmt.Sprint(one.words), "secret"), "%+v", one)
	}
}
