// Varve: a key-value storage engine. MIT licence, see LICENSE.
package cluster

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

type action int

const (
	doGet action = iota
	doSet
	doDelete
)

// step is what a client asked for one key.
type step struct {
	action     action
	key, value string
}

// outcome is the result of a step; unknown if the call returned none.
type outcome struct {
	unknown bool
	there   bool // A value, or that there was something to delete.
	value   string
}

// register is a key: its value, or "" for none. Values are never empty.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, operation := range history {
			key := operation.Input.(step).key
			byKey[key] = append(byKey[key], operation)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() interface{} { return "" },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		now, in, out := state.(string), input.(step), output.(outcome)
		switch in.action {
		case doGet:
			return out.there == (now != "") && out.value == now, now
		case doSet:
			return true, in.value
		}
		return out.unknown || out.there == (now != ""), ""
	},
	DescribeOperation: func(input, output interface{}) string {
		return fmt.Sprintf("%+v: %+v", input, output)
	},
}

// history is what all clients did. Safe for concurrent use.
type history struct {
	mutex      sync.Mutex
	begin      time.Time
	operations []porcupine.Operation
	answered   int
	unknown    int
	refused    int
}

// words are the command of a step.
func (s step) words() []string {
	switch s.action {
	case doGet:
		return []string{"GET", s.key}
	case doDelete:
		return []string{"DEL", s.key}
	}
	words := []string{"SET", s.key, s.value}
	if len(s.value)%3 == 0 { // Some expire, after the test.
		words = append(words, "EX", strconv.Itoa(int((24 * longestStep).Seconds())))
	}
	return words
}

func (h *history) now() int64 { return time.Since(h.begin).Nanoseconds() }

// do does a step and records it.
func (h *history) do(c *client, id int, s step) error {
	call := h.now()
	answer, err := c.do(s.words()...)
	h.record(id, s, call, answer, err)
	return err
}

// record adds a step that has just ended. A read without an answer says nothing and is
// left out, as is a write that was refused; a write without an answer may take effect
// at any time, or never.
func (h *history) record(id int, s step, call int64, answer interface{}, err error) {
	end := h.now()
	out := outcome{unknown: err != nil}
	if err != nil {
		end = math.MaxInt64
	} else if number, ok := answer.(int64); ok {
		out.there = number == 1
	} else if text, ok := answer.(string); ok && s.action == doGet {
		out.there, out.value = true, text
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	switch {
	case err == nil:
		h.answered++
	case s.action == doGet:
		return
	case !mayBeDone(err):
		h.refused++
		return
	default:
		h.unknown++
	}
	h.operations = append(h.operations,
		porcupine.Operation{ClientId: id, Input: s, Call: call, Output: out, Return: end})
}

// mayBeDone says whether a write on one key may have been done in spite of an error. After
// all codes but one it was not, as commands.md promises.
func mayBeDone(err error) bool {
	if isRefusal(err) {
		return codeOf(err) == "UNKNOWNOUTCOME"
	}
	return !isDial(err)
}

// isDial says whether a connection could not even be made.
func isDial(err error) bool {
	var failure *net.OpError
	return errors.As(err, &failure) && failure.Op == "dial"
}

// codeOf is the first word of a refusal.
func codeOf(err error) string {
	code, _, _ := strings.Cut(err.Error(), " ")
	return code
}

func isRefusal(err error) bool {
	var r refusal
	return errors.As(err, &r)
}

func (h *history) check(t *testing.T) {
	t.Helper()
	begin := time.Now()
	result, info := porcupine.CheckOperationsVerbose(register, h.operations, *checkTime)
	t.Logf("%d operations answered, %d writes refused, %d without an answer; checked in %v: %v",
		h.answered, h.refused, h.unknown, time.Since(begin).Round(time.Millisecond), result)
	if result != porcupine.Ok {
		page := filepath.Join(os.TempDir(), "varve-not-linearizable.html")
		if err := porcupine.VisualizePath(register, info, page); err == nil {
			t.Logf("see %s", page)
		}
		t.Fatalf("the history is not shown to be linearizable: %v", result)
	}
}

// TestTheCheckSees that an acknowledged write is lost, and that an old value is
// read, and takes a write without an answer either way.
func TestTheCheckSees(t *testing.T) {
	set := func(value string, call, end int64) porcupine.Operation {
		return porcupine.Operation{Input: step{doSet, "k", value}, Call: call, Return: end,
			Output: outcome{unknown: end == math.MaxInt64}}
	}
	get := func(value string, call, end int64) porcupine.Operation {
		return porcupine.Operation{Input: step{doGet, "k", ""}, Call: call, Return: end,
			Output: outcome{there: value != "", value: value}}
	}
	for i, one := range []struct {
		good    bool
		history []porcupine.Operation
	}{
		{true, []porcupine.Operation{set("a", 0, 1), get("a", 2, 3)}},
		{false, []porcupine.Operation{set("a", 0, 1), get("", 2, 3)}},
		{false, []porcupine.Operation{set("a", 0, 1), set("b", 2, 3), get("a", 4, 5)}},
		{true, []porcupine.Operation{set("a", 0, math.MaxInt64), get("", 2, 3), get("a", 4, 5)}},
		{false, []porcupine.Operation{set("a", 0, math.MaxInt64), get("a", 2, 3), get("", 4, 5)}},
	} {
		if porcupine.CheckOperations(register, one.history) != one.good {
			t.Errorf("history %d: should be %v", i, one.good)
		}
	}
}

func TestAWriteThatHasFailedMayBeDone(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	_, notConnected := net.Dial("tcp", listener.Addr().String())
	for _, one := range []struct {
		may bool
		err error
	}{
		{true, refusal("UNKNOWNOUTCOME the shard has not answered in time")},
		{true, io.EOF},
		{true, &net.OpError{Op: "read", Err: syscall.ECONNRESET}},
		{true, libraryError("TimeoutError: Timeout reading from socket")},
		{false, refusal("TRYAGAIN the shard is busy")},
		{false, refusal("CLUSTERDOWN the shard has no leader")},
		{false, refusal("MOVED 1 127.0.0.1:1")},
		{false, notConnected},
	} {
		h := &history{begin: time.Now()}
		h.record(0, step{doSet, "k", "v"}, 0, nil, one.err)
		if recorded := len(h.operations) == 1; recorded != one.may || recorded && !h.operations[0].Output.(outcome).unknown {
			t.Errorf("%v: recorded as %+v", one.err, h.operations)
		}
		h = &history{begin: time.Now()}
		if h.record(0, step{doGet, "k", ""}, 0, nil, one.err); len(h.operations) != 0 {
			t.Errorf("%v: a read without an answer is recorded", one.err)
		}
	}
}
