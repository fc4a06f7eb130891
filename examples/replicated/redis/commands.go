// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

type kind int

const (
	local kind = iota
	reads
	writes
)

// command says how a command is done, and how many words it takes at least, and
// at most if that is not 0.
type command struct {
	name             string
	kind             kind
	minimum, maximum int
	right            Right
	refused          bool                  // Unless an option allows it.
	immediate        bool                  // Not queued by MULTI.
	notInTransaction bool                  // It could not be done with the others at once.
	parts            map[string]subcommand // If the second word says what to do: by that word.
	headsOnly        bool                  // It needs no values, only whether there are some.
	// The words that are keys: the first, the last (-1 is the last word), and
	// the distance. 0 is for none.
	firstKey, lastKey, keyStep int

	// Of writes and reads: adds what to send to the plan, or a complaint, and how to answer.
	prepare func(*plan, *task) string
	finish  func(*client, *task)
	// Of local commands.
	do func(*client, *task)
	// For COMMAND DOCS.
	group, summary string
}

// subcommand is what is done if the second word of a command says so. It takes as many
// words, with both, as a command would.
type subcommand struct {
	minimum, maximum int
	right            Right
	do               func(*client, *task)
}

var commands = map[string]*command{}

// eachKey does it for the keys among a command's words.
func (k *command) eachKey(words [][]byte, do func(key []byte)) {
	if k.firstKey == 0 {
		return
	}
	for i := k.firstKey; i < len(words); i += k.keyStep {
		if do(words[i]); k.lastKey >= 0 {
			return
		}
	}
}

// names are of all commands, in order.
func names() []string { return sorted(commands) }

// sorted are the words that are keys of a map, in order.
func sorted[Value any](of map[string]Value) []string {
	var words []string
	for word := range of {
		words = append(words, word)
	}
	slices.Sort(words)
	return words
}

// operator stands for the commands that the store does itself.
var operator = &command{name: "node.*", minimum: 1, right: RightAdmin, do: (*client).admin,
	notInTransaction: true, group: "server", summary: "A command for operators."}

const operatorPrefix = "node."

// find returns nil if there is no such command.
func find(word []byte) *command {
	var buffer [24]byte
	if len(word) > len(buffer) {
		return nil
	}
	name := buffer[:len(word)]
	for i, b := range word {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		name[i] = b
	}
	if found := commands[string(name)]; found != nil {
		return found
	}
	if bytes.HasPrefix(name, []byte(operatorPrefix)) {
		return operator
	}
	return nil
}

func add(c command) { commands[c.name] = &c }

// addRead adds a command whose words from the second on are its keys, or one
// whose second word is.
func addRead(name string, minimum, maximum int, finish func(*client, *task), summary string) {
	last := 1
	prepare := func(p *plan, t *task) string {
		p.read(t, t.args[1])
		return ""
	}
	if maximum == 0 {
		last = -1
		prepare = func(p *plan, t *task) string {
			for _, key := range t.args[1:] {
				p.read(t, key)
			}
			return ""
		}
	}
	add(command{name: name, kind: reads, minimum: minimum, maximum: maximum, right: RightRead,
		firstKey: 1, lastKey: last, keyStep: 1, prepare: prepare, finish: finish, group: "string", summary: summary})
}

// addWrite adds a command whose second word is its key.
func addWrite(name string, minimum, maximum int, prepare func(*plan, *task) string,
	finish func(*client, *task), summary string) {
	add(command{name: name, kind: writes, minimum: minimum, maximum: maximum, right: RightWrite,
		firstKey: 1, lastKey: 1, keyStep: 1, prepare: prepare, finish: finish, group: "string", summary: summary})
}

// addMany adds a write of many keys, each with step-1 words after it.
func addMany(name string, step int, prepare func(*plan, *task) string, finish func(*client, *task), summary string) {
	add(command{name: name, kind: writes, minimum: 1 + step, right: RightWrite,
		firstKey: 1, lastKey: -1, keyStep: step, prepare: prepare, finish: finish, group: "string", summary: summary})
}

func addLocal(name string, minimum, maximum int, right Right, do func(*client, *task), group, summary string) {
	add(command{name: name, minimum: minimum, maximum: maximum, right: right, do: do, group: group, summary: summary})
}

// addParts adds a command whose second word says what to do.
func addParts(name string, right Right, group, summary string, parts map[string]subcommand) {
	addLocal(name, 2, 0, right, (*client).subcommand, group, summary)
	commands[name].parts = parts
}

// subcommand does what the second word says. HELP lists these words.
func (c *client) subcommand(t *task) {
	name, word := t.command.name, lower(t.args[1])
	one, known := t.command.parts[word]
	switch {
	case word == "help" && !known:
		c.out.Array(1 + len(t.command.parts))
		c.out.Status(strings.ToUpper(name) + " <subcommand> [<argument> ...]. Subcommands are:")
		for _, word := range sorted(t.command.parts) {
			c.out.Status(strings.ToUpper(word))
		}
	case !known:
		c.fail(fmt.Sprintf("ERR unknown subcommand '%.64s'. Try %s HELP.", t.args[1], strings.ToUpper(name)))
	case len(t.args) < one.minimum || one.maximum > 0 && len(t.args) > one.maximum:
		c.fail(wrongNumber(name + "|" + word))
	case c.user.Right < one.right:
		c.fail(c.notPermitted(name + "|" + word))
	default:
		one.do(c, t)
	}
}

func (c *client) notPermitted(name string) string {
	return fmt.Sprintf("NOPERM User %s has no permissions to run the '%s' command", c.user.Name, name)
}

func lower(word []byte) string { return strings.ToLower(string(word)) }

// refuse is for commands that only some nodes allow, to operators.
func refuse(name string) { commands[name].refused, commands[name].right = true, RightAdmin }

// IsRefused says whether a command is refused unless it is allowed.
func IsRefused(name string) bool { return commands[name] != nil && commands[name].refused }
