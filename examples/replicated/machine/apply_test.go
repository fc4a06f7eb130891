// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: operations do what Redis's commands do, and replicas that receive the
// same proposals in other runs are equal. Method: tables of operations, and
// random proposals that are applied in different runs.
package machine

import (
	"fmt"
	"io"
	"math/rand"
	"strings"
	"testing"

	sm "github.com/lni/dragonboat/v3/statemachine"

	"varve.example/replicated/check"
	"varve.example/replicated/storage"
)

func showReplies(t testing.TB, entry sm.Entry) string {
	t.Helper()
	replies, err := ParseReplies(entry.Result.Data)
	check.OK(t, err)
	var texts []string
	for _, reply := range replies {
		switch reply.Kind {
		case ReplyNil:
			texts = append(texts, "nil")
		case ReplyInt:
			texts = append(texts, fmt.Sprint(reply.Int))
		case ReplyOK:
			texts = append(texts, "OK")
		default:
			texts = append(texts, string(reply.Bytes))
		}
	}
	return strings.Join(texts, " ")
}

func op(code Code, key string, argument []byte) []byte {
	return AppendOperation(nil, code, []byte(key), argument)
}

func setOf(key, value string, flags uint16, expires int64) []byte {
	return op(Set, key, TimedArgument(flags, expires, []byte(value)))
}

func timedOf(code Code, key string, flags uint16, expires int64) []byte {
	return op(code, key, TimedArgument(flags, expires, nil))
}

func incr(key string, by int64) []byte { return op(Incr, key, NumberArgument(by, nil)) }

func float(key, by string) []byte { return op(IncrFloat, key, []byte(by)) }

func setRange(key string, at int64, bytes string) []byte {
	return op(SetRange, key, NumberArgument(at, []byte(bytes)))
}

const outOfRange = "ERR value is not an integer or out of range"

func TestOperationsAnswer(t *testing.T) {
	many := func(keys ...string) []byte {
		var pairs [][]byte
		for _, key := range keys {
			pairs = append(pairs, []byte(key), []byte("m"))
		}
		return op(SetMany, keys[0], ManyArgument(pairs))
	}
	read := func(key string) []byte { return timedOf(Read, key, 0, 0) }
	for _, one := range []struct {
		name       string
		operations [][]byte
		want       string
	}{
		{"set if", [][]byte{setOf("a", "1", SetIfExists, 0), setOf("a", "1", SetIfMissing, 0),
			setOf("a", "2", SetIfMissing, 0), setOf("a", "3", SetIfExists, 0), read("a")}, "nil OK nil OK 3"},
		{"set and get", [][]byte{setOf("a", "1", SetGet, 0), setOf("a", "2", SetGet, 0),
			setOf("a", "3", SetGet|SetIfMissing, 0), read("a")}, "nil 1 2 2"},
		{"expired before", [][]byte{AppendPut(nil, []byte("a"), []byte("1"), noon-1), read("a"),
			setOf("a", "2", SetIfMissing, 0), read("a")}, "nil OK 2"},
		{"expires later", [][]byte{AppendPut(nil, []byte("a"), []byte("1"), noon+1), read("a"), removeOf("a"),
			removeOf("a")}, "1 1 0"},
		{"expired is not deleted", [][]byte{AppendPut(nil, []byte("a"), []byte("1"), noon), removeOf("a")}, "0"},
		{"keep the expiry", [][]byte{setOf("a", "1", 0, noon+5), setOf("a", "2", SetKeepExpiry, 0),
			timedOf(Expire, "a", ExpireNever, 0), timedOf(Expire, "a", ExpireNever, 0)}, "OK OK 1 0"},
		{"incr", [][]byte{incr("a", 5), incr("a", -7), putOf("a", "07"), incr("a", 1), putOf("a", "9223372036854775807"),
			incr("a", 1), putOf("a", "-9223372036854775808"), incr("a", -1), putOf("a", " 1"), incr("a", 1)},
			"5 -2 " + outOfRange + " ERR increment or decrement would overflow ERR increment or decrement would overflow " + outOfRange},
		{"incr keeps the expiry", [][]byte{setOf("a", "1", 0, noon+5), incr("a", 1), timedOf(Expire, "a", ExpireNever, 0)}, "OK 2 1"},
		{"incr of expired", [][]byte{setOf("a", "1", 0, noon-5), incr("a", 1), timedOf(Expire, "a", ExpireNever, 0)}, "OK 1 0"},
		{"float", [][]byte{float("a", "0.1"), float("a", "0.2"), float("a", "-0.3"), putOf("a", "5.0e3"), float("a", "200"),
			float("a", "x"), float("a", "inf"), float("a", "1e1000000000"), float("a", "1e-1000000000")},
			"0.1 0.3 0 5200 ERR value is not a valid float ERR value is not a valid float ERR value is not a valid float 5200"},
		{"append", [][]byte{op(Append, "a", []byte("xy")), op(Append, "a", []byte("z")), read("a")}, "2 3 xyz"},
		{"append to expired", [][]byte{setOf("a", "12345", 0, noon-5), op(Append, "a", []byte("xy")), read("a")}, "OK 2 xy"},
		{"set range", [][]byte{setRange("a", 2, ""), read("a"), setRange("a", 2, "xy"), read("a"), setRange("a", 1, "q"), read("a"),
			setRange("a", MaxValueBytes, "x"), setRange("a", 1<<60, "x"), setRange("a", -1, "x")},
			"0 nil 4 \x00\x00xy 4 \x00qxy ERR string exceeds maximum allowed size ERR string exceeds maximum allowed size ERR string exceeds maximum allowed size"},
		{"take", [][]byte{op(Take, "a", nil), putOf("a", "1"), op(Take, "a", nil), read("a")}, "nil 1 nil"},
		{"expire", [][]byte{timedOf(Expire, "a", 0, noon+5), putOf("a", "1"), timedOf(Expire, "a", ExpireIfEver, noon+5),
			timedOf(Expire, "a", ExpireIfLater, noon+5), timedOf(Expire, "a", ExpireIfSooner, noon+5),
			timedOf(Expire, "a", ExpireIfNever, noon+5), timedOf(Expire, "a", ExpireIfLater, noon+6),
			timedOf(Expire, "a", ExpireIfSooner, noon+6), timedOf(Expire, "a", ExpireIfEver, noon+4), read("a"),
			timedOf(Expire, "a", 0, noon), read("a")}, "0 0 0 1 0 1 0 1 1 1 nil"},
		{"read and expire", [][]byte{timedOf(Read, "a", 0, noon+5), putOf("a", "1"), timedOf(Read, "a", 0, noon+5),
			timedOf(Read, "a", ExpireNever, 0), timedOf(Expire, "a", ExpireNever, 0), timedOf(Read, "a", 0, noon-1), read("a")},
			"nil 1 1 0 1 nil"},
		{"set many", [][]byte{many("a", "b"), many("c", "b"), read("c"), read("a")}, "1 0 nil m"},
		{"look and check", [][]byte{op(Look, "a", nil), op(Check, "a", nil), putOf("a", "1"), op(Look, "a", nil),
			op(Check, "a", Fingerprint([]byte("\x001"), noon))}, "nil 1 \x001 1"},
		{"malformed", [][]byte{op(Set, "a", nil), op(Incr, "a", nil), op(SetMany, "a", []byte{1, 2, 3})},
			"ERR malformed operation ERR malformed operation ERR malformed operation"},
	} {
		for _, reversed := range []bool{false, true} { // One proposal, or one for each.
			f := open(t, t.TempDir())
			var got []string
			if !reversed {
				got = append(got, showReplies(t, f.update(1, proposal(one.operations...))[0]))
			} else {
				for i, operation := range one.operations {
					if text := showReplies(t, f.update(uint64(i+1), proposal(operation))[0]); text != "" {
						got = append(got, text)
					}
				}
			}
			f.expect(one.name, strings.Join(got, " "), one.want)
			f.close()
		}
	}
}

func TestNothingIsDoneAfterACheckThatFails(t *testing.T) {
	f := open(t, t.TempDir())
	f.update(1, put("a", "1"))
	seen := Fingerprint([]byte("\x001"), noon)
	entries := f.update(2, proposal(op(Check, "a", seen), putOf("a", "2"), incr("a", 1)),
		proposal(op(Check, "a", seen), putOf("a", "9"), incr("a", 1), removeOf("a")), proposal(incr("a", 1)))
	f.expect("done", showReplies(t, entries[0]), "1 3")
	f.expect("not done", showReplies(t, entries[1]), "0 nil nil")
	f.expect("another one", showReplies(t, entries[2]), "4")
	f.expect("value", f.get("a"), []string{"4"})
	// A key that has expired is as one that never was.
	f.update(10, proposal(AppendPut(nil, []byte("b"), []byte("1"), noon-1)))
	f.expect("expired", showReplies(t, f.update(11, proposal(op(Check, "b", nil)))[0]), "1")
	f.close()
}

func (f *fixture) count(now int64) uint64 {
	f.t.Helper()
	total := 0
	for scan, more := (Scan{Count: 7, Now: now, Only: true}), true; more; {
		answer, err := f.machine.Lookup(scan)
		f.must(err)
		found := answer.(Keys)
		f.expect("keys of a count", len(found.Keys), 0)
		total += found.Count
		scan.Bucket, more = found.Next, found.More
	}
	return uint64(total)
}

func (f *fixture) due(now int64) bool {
	f.t.Helper()
	answer, err := f.machine.Lookup(Due{now})
	f.must(err)
	return answer.(bool)
}

func sweepAt(now int64, limit int64) []byte {
	return AppendOperation(NewProposal(nil, now), Sweep, nil, NumberArgument(limit, nil))
}

func TestSweepsWhatHasExpired(t *testing.T) {
	f := open(t, t.TempDir())
	var commands [][]byte
	for i := int64(0); i < 100; i++ {
		commands = append(commands, proposal(AppendPut(nil, []byte(fmt.Sprint(i)), []byte("v"), noon+1+i)))
	}
	f.update(1, commands...)
	// Key 7 lives on, 8 is removed, and 9 lives longer.
	f.update(200, put("7", "w"), remove("8"), proposal(timedOf(Expire, "9", 0, noon+500)))
	f.expect("keys", f.count(noon), 99)
	f.expect("keys then", f.count(noon+50), 52)
	f.expect("none due", f.due(noon), false)
	f.expect("due", f.due(noon+1), true)
	f.expect("swept", showReplies(t, f.update(300, sweepAt(noon+50, 30))[0]), "30")
	f.expect("swept", showReplies(t, f.update(301, sweepAt(noon+50, 30))[0]), "20")
	f.expect("swept", showReplies(t, f.update(302, sweepAt(noon+50, 30))[0]), "0")
	f.expect("entries", f.summary().Entries, 52)
	f.expect("kept", f.get("7", "50"), []string{"w", "v"})
	f.update(400, sweepAt(noon+1000, 1000))
	f.expect("entries", f.summary().Entries, 1)
	f.expect("due", f.due(noon+100000), false)
	f.expect("alone", f.update(500, append(sweepAt(noon, 1), putOf("a", "b")...))[0].Result.Value, 0)
	flush := AppendOperation(NewProposal(nil, noon), FlushAll, nil, nil)
	entries := f.update(501, put("x", "y"), flush, put("z", "w"), flush, put("u", "v"))
	f.expect("flush", showReplies(t, entries[1]), "OK")
	f.expect("after", f.get("x", "z", "u", "7"), []string{"(none)", "(none)", "v", "(none)"})
	f.close()
}

func TestWorkOfAProposalIsBounded(t *testing.T) {
	f := open(t, t.TempDir())
	large := strings.Repeat("v", MaxValueBytes-1)
	var operations [][]byte
	for i := 0; i < 6; i++ {
		key := fmt.Sprint(i)
		f.update(uint64(i+1), put(key, large))
		operations = append(operations, op(Append, key, []byte("x")))
	}
	got := showReplies(t, f.update(10, proposal(operations...))[0])
	refused := tooMuch
	f.expect("appended", got, fmt.Sprint(MaxValueBytes, strings.Repeat(" "+refused, 5)))
	f.expect("one", showReplies(t, f.update(11, proposal(operations[3]))[0]), fmt.Sprint(MaxValueBytes))
	f.close()
}

func TestGroupsAreDoneAllOrNotAtAll(t *testing.T) {
	large := strings.Repeat("v", MaxValueBytes-1)
	commands := [][]byte{put("0", large), put("1", large), put("2", large), put("n", "1"), proposal(setOf("t", "x", 0, noon+9)),
		proposal(incr("n", 1)),
		AllTogether(proposal(putOf("n", "50"), putOf("new", "1"), incr("n", 1), removeOf("t"), op(Append, "new", []byte("2")),
			AppendPut(nil, []byte("timed"), []byte("1"), noon+5), op(Look, "0", nil), op(Look, "1", nil), op(Look, "2", nil),
			putOf("last", "1"), incr("n", 1)), 0),
		proposal(incr("n", 1)),
		AllTogether(proposal(incr("n", 1), op(Take, "t", nil), op(Look, "1", nil), incr("n", 1)), 1000),
		AllTogether(proposal(incr("n", 1), op(Together, "", TogetherArgument(1, 1)), op(Look, "n", nil), incr("n", 1)), 1000),
		proposal(incr("n", 1), op(Together, "", TogetherArgument(2, 4)), incr("n", 7), op(Look, "t", nil), incr("n", 1)),
		proposal(incr("n", 1), op(Together, "", TogetherArgument(3, 0)), removeOf("0"), removeOf("1"), removeOf("2")),
		proposal(op(Together, "", nil), incr("n", 1)),
		AllTogether(proposal(op(Check, "n", nil), incr("n", 1)), 0),
		// A value that is not compared is as good as changed.
		proposal(op(Look, "n", nil), op(SetRange, "0", NumberArgument(0, []byte("w"))), op(Check, "1", nil), putOf("n", "0"), incr("n", 1)),
	}
	var wanted string
	for _, most := range []int{1, 3, 100} {
		f := open(t, t.TempDir())
		var replies []string
		for at := 0; at < len(commands); at += most {
			for _, entry := range f.update(uint64(at+1), commands[at:min(len(commands), at+most)]...) {
				replies = append(replies, showReplies(t, entry))
			}
		}
		f.expect("answers", fmt.Sprintf("%q", replies[5:14]), fmt.Sprintf("%q", []string{"2", tooMuch + strings.Repeat(" nil", 7), "3",
			"nil nil nil nil nil", "OK 4 OK \x004 5", "6 nil nil nil 7", "8 " + tooMuch + " nil nil nil", malformed + " 9", "OK 0 nil"}))
		f.expect("refused", strings.HasSuffix(replies[14], tooMuch+" nil"), true)
		f.expect("values", f.get("n", "new", "last", "timed", "t"), []string{"9", "(none)", "(none)", "(none)", "x"})
		f.expect("not due", f.due(noon+6), false)
		if got := fmt.Sprint(f.summary()); wanted == "" {
			wanted = got
		} else {
			f.expect("contents", got, wanted)
		}
		f.close()
	}
}

func TestScansOfTooManyBytesFail(t *testing.T) {
	f := open(t, t.TempDir())
	// Keys of one bucket, which are answered together.
	long := strings.Repeat("k", MaxKeyBytes-4)
	for i := 0; i < 1030; i += 103 {
		all := NewProposal(nil, noon)
		for j := i; j < i+103; j++ {
			all = AppendStored(all, []byte(fmt.Sprintf("%s\x00\x00\x00\x07%04d%s", Prefix, j, long)), []byte{0})
		}
		f.update(uint64(i+1), all)
	}
	if _, err := f.machine.Lookup(Scan{Count: 10, Now: noon}); err != storage.ErrTooLarge {
		t.Error(err)
	}
	if _, err := f.machine.Lookup(Scan{Bucket: 8, Count: 10, Now: noon}); err != nil {
		t.Error(err)
	}
	f.close()
}

func (f *fixture) contents() Contents {
	f.t.Helper()
	answer, err := f.machine.Lookup(Stream{To: io.Discard})
	f.must(err)
	return answer.(Contents)
}

// What a backup is compared with does not change when keys expire.
func TestLastingContentsStayWhenKeysExpire(t *testing.T) {
	f := open(t, t.TempDir())
	f.update(1, put("a", "1"), put("b", "2"), proposal(AppendPut(nil, []byte("c"), []byte("3"), noon+5)))
	before := f.contents()
	f.update(10, sweepAt(noon+10, 100))
	after := f.contents()
	f.expect("contained", after.ContainsLasting(before), true)
	f.expect("equal", after == before, false)
	f.update(11, put("b", "3"))
	f.expect("changed", f.contents().ContainsLasting(before), false)
	f.update(12, put("b", "2"), put("d", "4"))
	f.expect("one more", f.contents().ContainsLasting(before), false)
	f.close()
}

// randomProposal is of few keys, and of all operations.
func randomProposal(random *rand.Rand, now int64) []byte {
	switch random.Intn(30) {
	case 0:
		return sweepAt(now, int64(1+random.Intn(5)))
	case 1:
		return AppendOperation(NewProposal(nil, now), FlushAll, nil, nil)
	case 2:
		return []byte{1, 2, 3}
	}
	all := NewProposal(nil, now)
	for i := random.Intn(4); i >= 0; i-- {
		key := fmt.Sprint(random.Intn(8))
		expires := [2]int64{0, now + int64(random.Intn(30)) - 5}[random.Intn(2)]
		flags := uint16(random.Intn(512))
		switch random.Intn(13) {
		case 12:
			all = append(all, op(Together, key, TogetherArgument(int64(random.Intn(5)), int64(random.Intn(10))))...)
		case 10:
			all = append(all, op(Look, key, nil)...)
		case 11:
			all = append(all, op(Check, key, nil)...)
		case 0:
			all = append(all, removeOf(key)...)
		case 1:
			all = append(all, incr(key, 3)...)
		case 2:
			all = append(all, float(key, "0.5")...)
		case 3:
			all = append(all, op(Append, key, []byte("1"))...)
		case 4:
			all = append(all, setRange(key, int64(random.Intn(5)), "2")...)
		case 5:
			all = append(all, op(Take, key, nil)...)
		case 6:
			all = append(all, timedOf(Expire, key, flags, expires)...)
		case 7:
			all = append(all, timedOf(Read, key, flags, expires)...)
		case 8:
			all = append(all, setOf(key, "4", flags, expires)...)
		default:
			all = AppendPut(all, []byte(key), []byte("7"), expires)
		}
	}
	return all
}

func TestReplicasAreEqualWhateverTheRuns(t *testing.T) {
	for seed := int64(1); seed <= 5; seed++ {
		random := rand.New(rand.NewSource(seed))
		var commands [][]byte
		for i := 0; i < 600; i++ {
			// Clocks of proposers differ.
			commands = append(commands, randomProposal(random, noon+int64(i+random.Intn(9))))
		}
		var wanted string
		for _, most := range []int{1, 7, 200} {
			f := open(t, t.TempDir())
			var replies []string
			for at := 0; at < len(commands); {
				run := commands[at:min(len(commands), at+1+random.Intn(most))]
				for _, entry := range f.update(uint64(at+1), run...) {
					replies = append(replies, showReplies(t, entry))
				}
				at += len(run)
			}
			got := fmt.Sprint(f.summary(), replies)
			if wanted == "" {
				wanted = got
			}
			f.expect(fmt.Sprintf("seed %d, runs of up to %d", seed, most), got, wanted)
			f.close()
		}
	}
}

func FuzzProposals(f *testing.F) {
	random := rand.New(rand.NewSource(1))
	for i := 0; i < 20; i++ {
		f.Add(randomProposal(random, noon))
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if count, err := eachOperation(bytes, nil); err == nil && count == 0 {
			t.Fatal("no operations")
		}
		ParseReplies(bytes)
		Value(bytes, noon)
		ParseFloat(bytes)
		if number, ok := ParseInt(bytes); ok && fmt.Sprint(number) != string(bytes) {
			t.Fatalf("%q is not %d", bytes, number)
		}
	})
}

// entries are the database's but the applied index.
func (f *fixture) entries() (keys []string) {
	f.t.Helper()
	moment, err := f.machine.moment()
	f.must(err)
	defer moment.Close()
	f.must(EachEntry(moment, func(key, _ []byte) error {
		keys = append(keys, string(key))
		return nil
	}))
	return keys
}

// As the conversion to slots moves entries.
func TestEntriesMoveAsTheyAreStored(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	from.update(1, proposal(setOf("a", "1", 0, 5000), setOf("a", "2", 0, 6000), setOf("b", "3", 0, 0)), put("stays", "4"))
	before := from.contents()
	moment, err := from.machine.moment()
	from.must(err)
	copies, deletions := proposal(), proposal()
	from.must(EachEntry(moment, func(key, value []byte) error {
		if string(UserKey(key)) != "stays" {
			copies, deletions = AppendStored(copies, key, value), AppendDeleteStored(deletions, key)
		}
		return nil
	}))
	moment.Close()
	for round := uint64(0); round < 2; round++ { // Twice is as good as once.
		to.update(1+round, copies)
		if entry := from.update(3+round, deletions)[0]; entry.Result.Value != 4 {
			t.Fatal("the deletions were refused")
		}
	}
	from.expect("what is left", fmt.Sprint(len(from.entries()), from.get("stays", "a", "b")), "1 [4 (none) (none)]")
	after := from.contents()
	to.contents().AddTo(&after)
	after.Applied, before.Applied = 0, 0
	from.expect("both together", after, before)
	var streamed, all strings.Builder
	answer, err := to.machine.Lookup(Stream{To: &streamed, Without: func(key []byte) (bool, error) {
		return string(UserKey(key)) == "a", nil
	}})
	from.must(err)
	from.expect("entries without a", answer.(Contents).Entries, uint64(1))
	read, err := ReadStream(strings.NewReader(streamed.String()), func(key, value []byte) error { return nil })
	from.must(err)
	from.expect("what is read", read, answer)
	answer, err = to.machine.Lookup(Stream{To: &all, Without: func([]byte) (bool, error) { return true, nil }})
	from.must(err)
	read, err = ReadStream(strings.NewReader(all.String()), func(key, value []byte) error { return nil })
	from.must(err)
	from.expect("nothing", read.Entries+answer.(Contents).Entries, uint64(0))
	from.close()
	to.close()
}
