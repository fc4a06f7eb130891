// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"fmt"
	"math"
	"strings"

	"varve.example/replicated/machine"
)

const (
	syntaxError = "ERR syntax error"
	notInteger  = "ERR value is not an integer or out of range"
	tooLong     = "ERR string exceeds maximum allowed size"
)

func init() {
	addRead("get", 2, 2, finishGet, "Returns the value of a key.")
	addRead("mget", 2, 0, finishMGet, "Returns the values of keys. Those of one shard are of one moment.")
	addRead("exists", 2, 0, finishExists, "Counts the keys that exist.")
	addRead("touch", 2, 0, finishExists, "Counts the keys that exist.")
	addRead("strlen", 2, 2, finishLength, "Returns the length of a value.")
	addRead("getrange", 4, 4, finishRange, "Returns a part of a value.")
	addRead("substr", 4, 4, finishRange, "Returns a part of a value.")
	addRead("type", 2, 2, finishType, "Returns the type of a value: string or none.")
	addRead("ttl", 2, 2, finishTTL, "Returns the seconds until a key expires.")
	addRead("pttl", 2, 2, finishTTL, "Returns the milliseconds until a key expires.")
	addRead("expiretime", 2, 2, finishTTL, "Returns the second in which a key expires.")
	addRead("pexpiretime", 2, 2, finishTTL, "Returns the millisecond in which a key expires.")
	for _, name := range []string{"getrange", "substr"} {
		inner := commands[name].prepare
		commands[name].prepare = func(p *plan, t *task) string {
			for _, word := range t.args[2:] {
				if _, ok := machine.ParseInt(word); !ok {
					return notInteger
				}
			}
			return inner(p, t)
		}
	}

	addWrite("set", 3, 0, planSet, finishReply, "Sets a key, if options allow it.")
	addWrite("setnx", 3, 3, planSetNX, finishSetNX, "Sets a key that does not exist.")
	addWrite("setex", 4, 4, planSetEX, finishReply, "Sets a key that expires after seconds.")
	addWrite("psetex", 4, 4, planSetEX, finishReply, "Sets a key that expires after milliseconds.")
	addWrite("getset", 3, 3, planGetSet, finishReply, "Sets a key and returns its old value.")
	addWrite("getdel", 2, 2, operation(machine.Take), finishReply, "Returns the value of a key and deletes it.")
	addWrite("getex", 2, 0, planGetEX, finishReply, "Returns the value of a key and sets when it expires.")
	addWrite("append", 3, 3, planAppend, finishReply, "Appends to a value.")
	addWrite("setrange", 4, 4, planSetRange, finishReply, "Replaces a part of a value.")
	addWrite("incr", 2, 2, planIncr, finishReply, "Adds one to a number.")
	addWrite("decr", 2, 2, planIncr, finishReply, "Subtracts one from a number.")
	addWrite("incrby", 3, 3, planIncr, finishReply, "Adds to a number.")
	addWrite("decrby", 3, 3, planIncr, finishReply, "Subtracts from a number.")
	addWrite("incrbyfloat", 3, 3, planIncrFloat, finishReply, "Adds to a number with a fraction.")
	addWrite("expire", 3, 0, planExpire, finishReply, "Has a key expire after seconds.")
	addWrite("pexpire", 3, 0, planExpire, finishReply, "Has a key expire after milliseconds.")
	addWrite("expireat", 3, 0, planExpire, finishReply, "Has a key expire at a second.")
	addWrite("pexpireat", 3, 0, planExpire, finishReply, "Has a key expire at a millisecond.")
	addWrite("persist", 2, 2, planPersist, finishReply, "Has a key never expire.")
	addMany("del", 1, planDelete, finishSum, "Deletes keys.")
	addMany("unlink", 1, planDelete, finishSum, "Deletes keys.")
	addMany("mset", 2, planMSet, finishOK, "Sets keys. Those of one shard are set at once.")
	for _, name := range []string{"exists", "touch"} {
		commands[name].headsOnly = true
	}
	addMany("msetnx", 2, planMSetNX, finishReply, "Sets keys of one shard if none of them exists.")
}

func finishGet(c *client, t *task) {
	value, _, exists := t.value(0)
	c.hit(exists)
	c.valueOrNull(value, exists)
}

func (c *client) hit(exists bool) {
	if exists {
		c.server.stats.hits.Add(1)
	} else {
		c.server.stats.misses.Add(1)
	}
}

func (c *client) valueOrNull(value []byte, exists bool) {
	if exists {
		c.out.Bulk(value)
	} else {
		c.out.Null()
	}
}

func finishMGet(c *client, t *task) {
	c.out.Array(len(t.places))
	for i := range t.places {
		value, _, exists := t.value(i)
		c.hit(exists)
		c.valueOrNull(value, exists)
	}
}

func finishExists(c *client, t *task) {
	count := int64(0)
	for i := range t.places {
		if _, _, exists := t.value(i); exists {
			count++
		}
	}
	c.out.Int(count)
}

func finishLength(c *client, t *task) {
	value, _, exists := t.value(0)
	if !exists {
		value = nil
	}
	c.out.Int(int64(len(value)))
}

func finishRange(c *client, t *task) {
	value, _, exists := t.value(0)
	begin, _ := machine.ParseInt(t.args[2])
	end, _ := machine.ParseInt(t.args[3])
	size := int64(len(value))
	if !exists || size == 0 || begin < 0 && end < 0 && begin > end {
		c.out.Bulk(nil)
		return
	}
	if begin < 0 {
		begin = max(0, size+begin)
	}
	if end < 0 {
		end = max(0, size+end)
	}
	if end = min(end, size-1); begin > end {
		c.out.Bulk(nil)
		return
	}
	c.out.Bulk(value[begin : end+1])
}

func finishType(c *client, t *task) {
	if _, _, exists := t.value(0); exists {
		c.out.Status("string")
	} else {
		c.out.Status("none")
	}
}

func finishTTL(c *client, t *task) {
	_, expires, exists := t.value(0)
	switch {
	case !exists:
		c.out.Int(-2)
		return
	case expires == 0:
		c.out.Int(-1)
		return
	}
	switch t.command.name {
	case "ttl":
		left := expires - t.now
		c.out.Int(left/1000 + (left%1000+500)/1000)
	case "pttl":
		c.out.Int(expires - t.now)
	case "expiretime":
		c.out.Int(expires/1000 + (expires%1000+500)/1000)
	default:
		c.out.Int(expires)
	}
}

func (c *client) reply(reply machine.Reply) {
	switch reply.Kind {
	case machine.ReplyNil:
		c.out.Null()
	case machine.ReplyInt:
		c.out.Int(reply.Int)
	case machine.ReplyBytes:
		c.out.Bulk(reply.Bytes)
	case machine.ReplyOK:
		c.out.Status("OK")
	default:
		c.fail(string(reply.Bytes))
	}
}

func finishReply(c *client, t *task) { c.reply(t.reply(0)) }

func finishOK(c *client, t *task) {
	for i := range t.places {
		if reply := t.reply(i); reply.Kind == machine.ReplyError {
			c.reply(reply)
			return
		}
	}
	c.out.Status("OK")
}

// finishSum adds the numbers of all keys.
func finishSum(c *client, t *task) {
	sum := int64(0)
	for i := range t.places {
		reply := t.reply(i)
		if reply.Kind == machine.ReplyError {
			c.reply(reply)
			return
		}
		sum += reply.Int
	}
	c.out.Int(sum)
}

func finishSetNX(c *client, t *task) {
	switch reply := t.reply(0); reply.Kind {
	case machine.ReplyOK:
		c.out.Int(1)
	case machine.ReplyNil:
		c.out.Int(0)
	default:
		c.reply(reply)
	}
}

// operation plans one without an argument.
func operation(code machine.Code) func(*plan, *task) string {
	return func(p *plan, t *task) string {
		p.operate(t, code, t.args[1], nil)
		return ""
	}
}

// units of the words for times: the factor to milliseconds, and whether the
// time is from now on.
var units = map[string]struct {
	factor   int64
	relative bool
}{
	"ex": {1000, true}, "px": {1, true}, "exat": {1000, false}, "pxat": {1, false},
	"setex": {1000, true}, "psetex": {1, true},
	"expire": {1000, true}, "pexpire": {1, true}, "expireat": {1000, false}, "pexpireat": {1, false},
}

// expiry is a time in milliseconds since 1970. It must be positive if `positive`
// is set. It is never 0, which would be no time.
func expiry(unit string, word []byte, now int64, positive bool, name string) (int64, string) {
	invalid := fmt.Sprintf("ERR invalid expire time in '%s' command", name)
	number, ok := machine.ParseInt(word)
	if !ok {
		return 0, notInteger
	}
	u := units[unit]
	if positive && number <= 0 || number > math.MaxInt64/u.factor || number < math.MinInt64/u.factor {
		return 0, invalid
	}
	number *= u.factor
	if u.relative && number > math.MaxInt64-now {
		return 0, invalid
	}
	if u.relative {
		number += now
	}
	// All times before 1970 are equally over.
	return max(number, 1), ""
}

// options of SET and GETEX.
type options struct {
	flags   uint16
	expires int64
	timed   bool // A word about expiry was there.
}

func parseOptions(t *task, words [][]byte, now int64, flags map[string]uint16) (o options, complaint string) {
	var unit string
	var number []byte
	for ; len(words) > 0; words = words[1:] {
		word := lower(words[0])
		flag, isFlag := flags[word]
		_, isUnit := units[word]
		switch {
		case isFlag && (flag == machine.SetKeepExpiry || flag == machine.ExpireNever):
			if o.timed {
				return o, syntaxError
			}
			o.timed = true
			o.flags |= flag
		case isFlag:
			o.flags |= flag
		case isUnit && len(word) <= 4 && len(words) > 1 && !o.timed:
			unit, number, o.timed = word, words[1], true
			words = words[1:]
		default:
			return o, syntaxError
		}
	}
	if o.flags&machine.SetIfMissing != 0 && o.flags&machine.SetIfExists != 0 {
		return o, syntaxError
	}
	if unit != "" { // Errors of syntax come before those of the time.
		o.expires, complaint = expiry(unit, number, now, true, t.command.name)
	}
	return o, complaint
}

var setFlags = map[string]uint16{"nx": machine.SetIfMissing, "xx": machine.SetIfExists,
	"get": machine.SetGet, "keepttl": machine.SetKeepExpiry}

func planSet(p *plan, t *task) string {
	var o options
	if len(t.args) > 3 {
		var complaint string
		if o, complaint = parseOptions(t, t.args[3:], p.now, setFlags); complaint != "" {
			return complaint
		}
	}
	return p.set(t, t.args[2], o)
}

func (p *plan) set(t *task, value []byte, o options) string {
	if len(value) > machine.MaxValueBytes {
		return tooLong
	}
	if o.flags == 0 {
		p.put(t, t.args[1], value, o.expires)
	} else {
		p.operate(t, machine.Set, t.args[1], machine.TimedArgument(o.flags, o.expires, value))
	}
	return ""
}

func planSetNX(p *plan, t *task) string {
	return p.set(t, t.args[2], options{flags: machine.SetIfMissing})
}

func planGetSet(p *plan, t *task) string {
	return p.set(t, t.args[2], options{flags: machine.SetGet})
}

func planSetEX(p *plan, t *task) string {
	expires, complaint := expiry(t.command.name, t.args[2], p.now, true, t.command.name)
	if complaint != "" {
		return complaint
	}
	return p.set(t, t.args[3], options{expires: expires})
}

var getEXFlags = map[string]uint16{"persist": machine.ExpireNever}

func planGetEX(p *plan, t *task) string {
	o, complaint := parseOptions(t, t.args[2:], p.now, getEXFlags)
	if complaint != "" {
		return complaint
	}
	p.operate(t, machine.Read, t.args[1], machine.TimedArgument(o.flags, o.expires, nil))
	return ""
}

func planAppend(p *plan, t *task) string {
	if len(t.args[2]) > machine.MaxValueBytes {
		return tooLong
	}
	p.operate(t, machine.Append, t.args[1], t.args[2])
	return ""
}

func planSetRange(p *plan, t *task) string {
	offset, ok := machine.ParseInt(t.args[2])
	switch {
	case !ok:
		return notInteger
	case offset < 0:
		return "ERR offset is out of range"
	case len(t.args[3]) > 0 && offset > machine.MaxValueBytes-int64(len(t.args[3])):
		return tooLong
	}
	p.operate(t, machine.SetRange, t.args[1], machine.NumberArgument(offset, t.args[3]))
	return ""
}

func planIncr(p *plan, t *task) string {
	by := int64(1)
	if len(t.args) > 2 {
		var ok bool
		if by, ok = machine.ParseInt(t.args[2]); !ok {
			return notInteger
		}
	}
	if strings.HasPrefix(t.command.name, "decr") {
		if by == math.MinInt64 {
			return "ERR decrement would overflow"
		}
		by = -by
	}
	p.operate(t, machine.Incr, t.args[1], machine.NumberArgument(by, nil))
	return ""
}

func planIncrFloat(p *plan, t *task) string {
	switch strings.TrimLeft(lower(t.args[2]), "+-") {
	case "inf", "infinity": // These are numbers to Redis.
		return "ERR increment would produce NaN or Infinity"
	}
	if _, ok := machine.ParseFloat(t.args[2]); !ok {
		return "ERR value is not a valid float"
	}
	p.operate(t, machine.IncrFloat, t.args[1], t.args[2])
	return ""
}

var expireFlags = map[string]uint16{"nx": machine.ExpireIfNever, "xx": machine.ExpireIfEver,
	"gt": machine.ExpireIfLater, "lt": machine.ExpireIfSooner}

func planExpire(p *plan, t *task) string {
	var flags uint16
	for _, word := range t.args[3:] {
		flag := expireFlags[lower(word)]
		if flag == 0 {
			return fmt.Sprintf("ERR Unsupported option %.32s", word)
		}
		flags |= flag
	}
	const order = machine.ExpireIfLater | machine.ExpireIfSooner
	switch {
	case flags&machine.ExpireIfNever != 0 && flags != machine.ExpireIfNever:
		return "ERR NX and XX, GT or LT options at the same time are not compatible"
	case flags&order == order:
		return "ERR GT and LT options at the same time are not compatible"
	}
	expires, complaint := expiry(t.command.name, t.args[2], p.now, false, t.command.name)
	if complaint != "" {
		return complaint
	}
	p.operate(t, machine.Expire, t.args[1], machine.TimedArgument(flags, expires, nil))
	return ""
}

func planPersist(p *plan, t *task) string {
	p.operate(t, machine.Expire, t.args[1], machine.TimedArgument(machine.ExpireNever, 0, nil))
	return ""
}

func planDelete(p *plan, t *task) string {
	if len(t.args) > 2 {
		counts := map[*part]int64{}
		for _, key := range t.args[1:] {
			counts[p.part(key)]++
		}
		for to, count := range counts {
			if count > 1 {
				p.together(t, to, count)
			}
		}
	}
	for _, key := range t.args[1:] {
		p.operate(t, machine.Delete, key, nil)
	}
	return ""
}

func planMSet(p *plan, t *task) string {
	for i := 2; i < len(t.args); i += 2 {
		if len(t.args[i]) > machine.MaxValueBytes {
			return tooLong
		}
	}
	for i := 1; i < len(t.args); i += 2 {
		p.put(t, t.args[i], t.args[i+1], 0)
	}
	return ""
}

func planMSetNX(p *plan, t *task) string {
	shard := p.store.ShardOf(t.args[1])
	for i := 1; i < len(t.args); i += 2 {
		if p.store.ShardOf(t.args[i]) != shard {
			return "CROSSSLOT the keys of MSETNX must be in one shard. Keys with the same text in {braces} are"
		}
		if len(t.args[i+1]) > machine.MaxValueBytes {
			return tooLong
		}
	}
	p.operate(t, machine.SetMany, t.args[1], machine.ManyArgument(t.args[1:]))
	return ""
}
