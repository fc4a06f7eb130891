// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Version is the version of Redis whose answers the commands follow. Clients
// decide by it what they can ask for.
const Version = "7.2.0"

func init() {
	addLocal("ping", 1, 2, RightRead, func(c *client, t *task) {
		if len(t.args) > 1 {
			c.out.Bulk(t.args[1])
		} else {
			c.out.Status("PONG")
		}
	}, "connection", "Answers PONG.")
	addLocal("echo", 2, 2, RightRead, func(c *client, t *task) { c.out.Bulk(t.args[1]) },
		"connection", "Returns its argument.")
	addLocal("quit", 1, 0, rightNone, func(c *client, _ *task) {
		c.out.Status("OK")
		c.closing = true
	}, "connection", "Closes the connection.")
	addLocal("reset", 1, 1, rightNone, func(c *client, _ *task) {
		c.reset()
		c.out.Status("RESET")
	}, "connection", "Makes the connection as it was at its begin.")
	addLocal("select", 2, 2, RightRead, selectDatabase, "connection", "Selects the only database, 0.")
	addLocal("auth", 2, 3, rightNone, (*client).auth, "connection", "Logs in.")
	addLocal("hello", 1, 0, rightNone, (*client).hello, "connection", "Agrees on the version of the protocol.")
	commands["auth"].notInTransaction, commands["hello"].notInTransaction = true, true
	addParts("client", RightRead, "connection", "Names, lists and closes connections.", map[string]subcommand{
		"id":       {2, 2, RightRead, func(c *client, _ *task) { c.out.Int(c.id) }},
		"getname":  {2, 2, RightRead, (*client).getName},
		"setname":  {3, 3, RightRead, (*client).setName},
		"setinfo":  {4, 4, RightRead, (*client).setInfo},
		"info":     {2, 2, RightRead, func(c *client, _ *task) { c.out.Verbatim(c.describe() + "\n") }},
		"list":     {2, 0, RightAdmin, (*client).list},
		"kill":     {3, 0, RightAdmin, (*client).kill},
		"no-evict": {3, 3, RightRead, (*client).toggle},
		"no-touch": {3, 3, RightRead, (*client).toggle},
		"reply":    {3, 3, RightRead, (*client).replyMode},
		"getredir": {2, 2, RightRead, func(c *client, _ *task) { c.out.Int(-1) }},
	})
	addParts("acl", RightRead, "server", "Returns the name of the user.", map[string]subcommand{
		"whoami": {2, 2, RightRead, func(c *client, _ *task) { c.out.BulkString(c.user.Name) }},
	})
	addLocal("readonly", 1, 1, RightRead, setStale(true), "cluster", "Has reads answered by this node alone.")
	addLocal("readwrite", 1, 1, RightRead, setStale(false), "cluster", "Has reads see all writes before.")
	addLocal("node.staleness", 1, 1, RightRead, (*client).staleness, "cluster",
		"Returns the milliseconds that the answers of the last read may be old, or -1 if that is not known.")
	addLocal("time", 1, 1, RightRead, func(c *client, _ *task) {
		now := time.Now()
		c.answer([]string{fmt.Sprint(now.Unix()), fmt.Sprint(now.Nanosecond() / 1000)})
	}, "server", "Returns this node's clock.")
}

func selectDatabase(c *client, t *task) {
	switch number, err := strconv.ParseInt(string(t.args[1]), 10, 32); {
	case err != nil:
		c.fail("ERR invalid DB index")
	case number != 0:
		c.fail("ERR DB index is out of range")
	default:
		c.out.Status("OK")
	}
}

func setStale(stale bool) func(*client, *task) {
	return func(c *client, _ *task) {
		c.stale = stale
		c.out.Status("OK")
	}
}

func (c *client) staleness(*task) {
	c.mutex.Lock()
	age := c.age
	c.mutex.Unlock()
	if age < 0 {
		c.out.Int(-1)
	} else {
		c.out.Int(int64((age + time.Millisecond - 1) / time.Millisecond))
	}
}

// refreshUser logs out a client whose user was removed or changed.
func (c *client) refreshUser() {
	users := c.server.options.Users
	if users == nil || c.user == nil {
		return
	}
	if version := users.version.Load(); version != c.version {
		if c.version = version; users.get(c.user.Name) != c.user {
			c.reset()
		}
	}
}

const (
	maxFailed   = 5 // Attempts to log in, after which a connection is closed.
	failedPause = 200 * time.Millisecond
)

func (c *client) auth(t *task) {
	name, password := []byte(defaultUser), t.args[1]
	if len(t.args) == 3 {
		name, password = t.args[1], t.args[2]
	} else if c.server.options.Users == nil {
		c.fail("ERR AUTH <password> called without any password configured for the default user. " +
			"Are you sure your configuration is correct?")
		return
	}
	if c.tryLogin(name, password) {
		c.out.Status("OK")
	}
}

// tryLogin answers if it fails, after a pause. After many failures from an address,
// the logins from there wait for each other.
func (c *client) tryLogin(name, password []byte) bool {
	users := c.server.options.Users
	guard, from := &c.server.guard, prefixOf(c.conn.RemoteAddr())
	wait, allowed := guard.turn(from, time.Now())
	if !allowed {
		c.server.stats.logins.Add(1)
		c.closing = true
		c.fail("WRONGPASS too many logins have failed from this address. Try again later")
		return false
	}
	time.Sleep(wait)
	var user *User
	var version uint64
	if users != nil {
		version = users.version.Load() // First, or a change in between would not be noticed.
		user = users.check(name, password)
	} else if string(name) == defaultUser {
		user = everyone // Redis too takes any password if there is none.
	}
	if user != nil {
		c.failed = 0
		c.login(user, version)
		return true
	}
	c.server.stats.logins.Add(1)
	guard.failed(from, time.Now())
	guard.log(c.conn.RemoteAddr(), time.Now(), "a login has failed", "user", string(name[:min(len(name), 64)]))
	if c.failed++; c.failed >= maxFailed {
		c.closing = true
	}
	time.Sleep(failedPause)
	c.fail("WRONGPASS invalid username-password pair or user is disabled.")
	return false
}

func (c *client) hello(t *task) {
	version := c.out.Version()
	words := t.args[1:]
	if len(words) > 0 {
		number, err := strconv.Atoi(string(words[0]))
		if err != nil {
			c.fail("ERR Protocol version is not an integer or out of range")
			return
		}
		if number != 2 && number != 3 {
			c.fail("NOPROTO unsupported protocol version")
			return
		}
		version, words = number, words[1:]
	}
	var name, password, clientName []byte
	for len(words) > 0 {
		switch option := lower(words[0]); {
		case option == "auth" && len(words) >= 3:
			name, password, words = words[1], words[2], words[3:]
		case option == "setname" && len(words) >= 2:
			clientName, words = words[1], words[2:]
		default:
			c.fail(fmt.Sprintf("ERR Syntax error in HELLO option '%.32s'", words[0]))
			return
		}
	}
	if clientName != nil && !validName(clientName) {
		c.fail(badName)
		return
	}
	if name != nil && !c.tryLogin(name, password) {
		return
	}
	if c.user == nil {
		c.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the " +
			"HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and " +
			"select the RESP protocol version at the same time")
		return
	}
	mode := "standalone"
	if c.clustered {
		mode = "cluster"
	}
	c.out.SetVersion(version)
	c.change(func(s *shown) {
		if s.protocol = version; clientName != nil {
			s.name = string(clientName)
		}
	})
	c.answer(pairs{"server", "redis", "version", Version, "proto", version, "id", c.id,
		"mode", mode, "role", "master", "modules", []any{}})
}

const badName = "ERR Client names cannot contain spaces, newlines or special characters."

// validName takes printable characters but blanks.
func validName(name []byte) bool {
	for _, b := range name {
		if b < '!' || b > '~' {
			return false
		}
	}
	return len(name) <= 256
}

func (c *client) getName(*task) {
	var name string
	c.change(func(s *shown) { name = s.name })
	if name == "" {
		c.out.Null()
	} else {
		c.out.BulkString(name)
	}
}

func (c *client) setName(t *task) {
	if !validName(t.args[2]) {
		c.fail(badName)
		return
	}
	c.change(func(s *shown) { s.name = string(t.args[2]) })
	c.out.Status("OK")
}

func (c *client) setInfo(t *task) {
	attribute := lower(t.args[2])
	switch {
	case attribute != "lib-name" && attribute != "lib-ver":
		c.fail(fmt.Sprintf("ERR Unrecognized option '%.32s'", t.args[2]))
	case !validName(t.args[3]):
		c.fail(fmt.Sprintf("ERR %s cannot contain spaces, newlines or special characters.", attribute))
	default:
		c.change(func(s *shown) {
			if attribute == "lib-name" {
				s.library = string(t.args[3])
			} else {
				s.libraryVersion = string(t.args[3])
			}
		})
		c.out.Status("OK")
	}
}

func (c *client) toggle(t *task) {
	mode := lower(t.args[2])
	if mode != "on" && mode != "off" {
		c.fail(syntaxError)
		return
	}
	c.change(func(s *shown) {
		if strings.EqualFold(string(t.args[1]), "no-evict") {
			s.noEvict = mode == "on"
		} else {
			s.noTouch = mode == "on"
		}
	})
	c.out.Status("OK")
}

func (c *client) replyMode(t *task) {
	switch lower(t.args[2]) {
	case "on":
		c.off = false
		c.out.Mute(false)
		c.out.Status("OK")
	case "off":
		c.off = true
		c.out.Mute(true)
	case "skip":
		if !c.off {
			c.skip = 1
			c.out.Mute(true)
		}
	default:
		c.fail(syntaxError)
	}
}

func (c *client) describe() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	flags := ""
	if c.shown.noEvict {
		flags += "e"
	}
	if c.shown.noTouch {
		flags += "T"
	}
	if flags == "" {
		flags = "N"
	}
	now := time.Now()
	return fmt.Sprintf("id=%d addr=%s laddr=%s fd=-1 name=%s age=%d idle=%d flags=%s db=0 sub=0 psub=0 ssub=0 "+
		"multi=-1 qbuf=%d qbuf-free=%d argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=%d events=r "+
		"cmd=%s user=%s redir=-1 resp=%d lib-name=%s lib-ver=%s tot-cmds=%d",
		c.id, c.conn.RemoteAddr(), c.conn.LocalAddr(), c.shown.name, int(now.Sub(c.began).Seconds()),
		int(now.Sub(c.shown.active).Seconds()), flags, c.shown.requests, max(0, c.shown.buffered-c.shown.requests), c.shown.buffered,
		printable(strings.ToLower(c.shown.last)), c.shown.user, c.shown.protocol, c.shown.library,
		c.shown.libraryVersion, c.shown.commands)
}

func printable(word string) string {
	if word == "" || !validName([]byte(word)) {
		return "NULL"
	}
	return word
}

// others are all connections, the oldest first.
func (s *Server) others() []*client {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var all []*client
	for _, c := range s.clients {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *client) int { return cmp.Compare(a.id, b.id) })
	return all
}

func (c *client) list(t *task) {
	ids := map[int64]bool{}
	none := false
	for words := t.args[2:]; len(words) > 0; {
		switch option := lower(words[0]); {
		case option == "id" && len(words) > 1 && len(ids) == 0:
			for _, word := range words[1:] {
				id, err := strconv.ParseInt(string(word), 10, 64)
				if err != nil {
					c.fail("ERR Invalid client ID")
					return
				}
				ids[id] = true
			}
			words = nil
		case option == "type" && len(words) > 1:
			var complaint string
			if none, complaint = noneOfType(string(words[1])); complaint != "" {
				c.fail(complaint)
				return
			}
			words = words[2:]
		default:
			c.fail(syntaxError)
			return
		}
	}
	var text strings.Builder
	for _, other := range c.server.others() {
		if !none && (len(ids) == 0 || ids[other.id]) {
			text.WriteString(other.describe() + "\n")
		}
	}
	c.out.Verbatim(text.String())
}

// noneOfType says whether there are no connections of a type, which must be known.
func noneOfType(name string) (none bool, complaint string) {
	switch strings.ToLower(name) {
	case "normal":
		return false, ""
	case "master", "replica", "slave", "pubsub":
		return true, ""
	}
	return false, fmt.Sprintf("ERR Unknown client type '%.32s'", name)
}

// filter says which connections CLIENT KILL closes.
type filter struct {
	id, age              int64
	address, local, user string
	skipMe, never        bool
}

func (f *filter) takes(other, me *client) bool {
	var user string
	other.change(func(s *shown) { user = s.user })
	return !f.never && (f.id == 0 || f.id == other.id) &&
		(f.address == "" || f.address == other.conn.RemoteAddr().String()) &&
		(f.local == "" || f.local == other.conn.LocalAddr().String()) &&
		(f.user == "" || f.user == user) && (!f.skipMe || other != me) &&
		(f.age == 0 || time.Since(other.began) >= time.Duration(f.age)*time.Second)
}

func (f *filter) set(option, value string) string {
	var err error
	switch option {
	case "id":
		if f.id, err = strconv.ParseInt(value, 10, 64); err != nil || f.id <= 0 {
			return "ERR client-id should be greater than 0"
		}
	case "maxage":
		if f.age, err = strconv.ParseInt(value, 10, 32); err != nil || f.age <= 0 {
			return "ERR maxage should be greater than 0"
		}
	case "addr":
		f.address = value
	case "laddr":
		f.local = value
	case "user":
		f.user = value
	case "type":
		var complaint string
		f.never, complaint = noneOfType(value)
		return complaint
	case "skipme":
		if value = strings.ToLower(value); value != "yes" && value != "no" {
			return syntaxError
		}
		f.skipMe = value == "yes"
	default:
		return syntaxError
	}
	return ""
}

func (c *client) kill(t *task) {
	f := filter{skipMe: true}
	old := len(t.args) == 3
	if old {
		f = filter{address: string(t.args[2])}
	} else if len(t.args)%2 != 0 {
		c.fail(syntaxError)
		return
	}
	for words := t.args[2:]; !old && len(words) > 0; words = words[2:] {
		if complaint := f.set(lower(words[0]), string(words[1])); complaint != "" {
			c.fail(complaint)
			return
		}
	}
	if f.user != "" && !c.server.options.Users.knows(f.user) {
		c.fail(fmt.Sprintf("ERR No such user '%.64s'", f.user))
		return
	}
	count := int64(0)
	for _, other := range c.server.others() {
		if f.takes(other, c) {
			if count++; other == c {
				c.closing = true
			} else {
				other.conn.Close()
			}
		}
	}
	switch {
	case !old:
		c.out.Int(count)
	case count == 0:
		c.fail("ERR No such client")
	default:
		c.out.Status("OK")
	}
}

// port is of an address, or 0.
func port(address net.Addr) int {
	if tcp, ok := address.(*net.TCPAddr); ok {
		return tcp.Port
	}
	return 0
}
