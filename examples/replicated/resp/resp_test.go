// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: each request is read as it was sent, in whatever pieces it arrives, and
// no bytes make the parser fail or take memory that they did not send. Method:
// requests by hand, and fuzzing that compares whole input with input in pieces.
package resp

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"varve.example/replicated/check"
)

var wide = Limits{Words: 1000, Bytes: 1 << 20}

// feed parses input that arrives in pieces of a size.
func feed(p *Parser, input []byte, piece int) (requests []string, err error) {
	for {
		words, size, err := p.Next()
		if err != nil {
			return requests, err
		}
		if words != nil {
			if size < len(words) {
				return nil, fmt.Errorf("%d words of %d bytes", len(words), size)
			}
			requests = append(requests, fmt.Sprintf("%q", words))
			continue
		}
		if len(input) == 0 {
			return requests, nil
		}
		space := p.Space()
		if len(space) == 0 {
			return nil, errors.New("no space")
		}
		count := copy(space, input[:min(piece, len(input))])
		p.Filled(count)
		input = input[count:]
	}
}

func TestReadsRequests(t *testing.T) {
	for _, one := range []struct{ input, requests, problem string }{
		{"*1\r\n$4\r\nPING\r\n", `["PING"]`, ""},
		{"*2\r\n$3\r\nGET\r\n$0\r\n\r\n", `["GET" ""]`, ""},
		{"*2\n$3\nGET\r\n$4\na\r\nb\r\nPING\n", `["GET" "a\r\nb"] ["PING"]`, ""},
		{"*0\r\n*-1\r\n*-2\r\n*-10\r\n\r\n  \r\nPING\r\n", `["PING"]`, ""},
		{"SET 'a b' \"\\x41\\n\\\"\" c\\\r\n", `["SET" "a b" "A\n\"" "c\\"]`, ""},
		{"SET '' \"\"\r\n", `["SET" "" ""]`, ""},
		{"GET 'it\\'s'\r\n", `["GET" "it's"]`, ""},
		{"GET 'a'b\r\n", "", "unbalanced quotes in request"},
		{"GET \"a\r\n", "", "unbalanced quotes in request"},
		{"PING\r\n*2\r\n+3\r\n", `["PING"]`, `expected '$', got '+'`},
		{"*1001\r\n", "", "invalid multibulk length"},
		{"*-\r\n", "", "invalid multibulk length"},
		{"*-0\r\n", "", "invalid multibulk length"},
		{"*--1\r\n", "", "invalid multibulk length"},
		{"*\r\n", "", "invalid multibulk length"},
		{"*+1\r\n", "", "invalid multibulk length"},
		{"*1\r\n$-1\r\n", "", "invalid bulk length"},
		{"*1\r\n$1048577\r\n", "", "invalid bulk length"},
		{"*1\r\n$99999999999999999999\r\n", "", "invalid bulk length"},
		{"*1\r\n$1\r\nabc\r\n", "", "a word is longer than its length"},
		{"*0000000000000000000000000000000000000000", "", "invalid multibulk length"},
		{"POST / HTTP/1.1\r\n", "", string(ErrNotRedis)},
		{"GET / HTTP/1.1\r\n", "", string(ErrNotRedis)},
		{strings.Repeat("x", maxInline+1), "", "too big inline request"},
	} {
		for _, piece := range []int{1, 2, 3, 7, 1 << 20} {
			requests, err := feed(NewParser(wide), []byte(one.input), piece)
			problem := ""
			if err != nil {
				problem = strings.TrimPrefix(err.Error(), "ERR Protocol error: ")
			}
			if got := strings.Join(requests, " "); got != one.requests || problem != one.problem {
				t.Errorf("%q in pieces of %d: %s %q", one.input, piece, got, problem)
			}
		}
	}
}

func TestMemoryIsOfWhatArrived(t *testing.T) {
	p := NewParser(Limits{Words: 1 << 20, Bytes: 512 << 20})
	if _, err := feed(p, []byte("*1000000\r\n$500000000\r\n"), 100); err != nil || p.Memory() > 16<<10 {
		t.Fatalf("%v, %d bytes", err, p.Memory())
	}
	if _, err := feed(p, make([]byte, 1<<20), 4096); err != nil || p.Memory() > 3<<20 {
		t.Fatalf("%v, %d bytes", err, p.Memory())
	}
	// And it is given back.
	p = NewParser(wide)
	large := fmt.Sprintf("*1\r\n$1000000\r\n%s\r\n", strings.Repeat("v", 1000000))
	check.OK(t, check.Err(feed(p, []byte(large+"PING\r\n"), 10000)))
	if p.Space(); p.Memory() > 16<<10 {
		t.Fatalf("%d bytes are kept", p.Memory())
	}
	// A request over the limit ends there, whatever it consists of.
	for _, input := range []string{"*1000\r\n" + strings.Repeat("$1000\r\n"+strings.Repeat("v", 1000)+"\r\n", 999),
		"*2\r\n$1\r\na\r\n$1000000\r\n" + strings.Repeat("v", 1<<20)} {
		p = NewParser(Limits{Words: 1000, Bytes: 100000})
		_, err := feed(p, []byte(input), 4096)
		var problem ProtocolError
		if !errors.As(err, &problem) || p.Memory() > 300000 {
			t.Fatalf("%v, %d bytes", err, p.Memory())
		}
	}
}

func TestGrowsForAPipelineOnlyWhenItIsFull(t *testing.T) {
	p := NewParser(wide)
	request := []byte("*1\r\n$4\r\nPING\r\n")
	fill := func(space []byte) {
		for i := range space {
			space[i] = request[i%len(request)]
		}
	}
	if p.Filled(copy(p.Space(), request)); p.Growth() != 0 {
		t.Fatal(p.Growth())
	}
	if words, _, err := p.Next(); len(words) != 1 || err != nil {
		t.Fatal(words, err)
	}
	space := p.Space()
	fill(space)
	p.Filled(len(space))
	size := len(space)
	for p.Growth() > 0 {
		space := p.Grow()
		for i := range space {
			space[i] = request[(size+i)%len(request)]
		}
		p.Filled(len(space))
		size += len(space)
	}
	if p.Memory() > PipelineBytes+4*bytesPerWord {
		t.Fatal(p.Memory())
	}
	for count := 0; ; count++ {
		words, _, err := p.Next()
		check.OK(t, err)
		if words == nil {
			check.FatalIf(t, count != size/len(request), "%d requests of %d", count, size/len(request))
			break
		}
	}
}

func FuzzParser(f *testing.F) {
	for _, seed := range []string{
		"*1\r\n$4\r\nPING\r\n", "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*0\r\n", "PING\r\nECHO 'a b'\r\n",
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\na\r\nb\n\r\n", "*1000000\r\n$1000\r\nx", "*-1\r\n\r\n\x00",
		"SET \"\\x4a\\\"\" '\\''\r\n", "*1\r\n$-1\r\n", "GET / HTTP/1.0\r\n",
	} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, input []byte, piece int) {
		limits := Limits{Words: 100, Bytes: 4096}
		p := NewParser(limits)
		whole, wholeErr := feed(NewParser(limits), input, max(1, len(input)))
		parts, partsErr := feed(p, input, 1+(piece&0xff))
		check.FatalIf(t, strings.Join(whole, ";") != strings.Join(parts, ";"), "%q: whole %v, in pieces %v", input, whole, parts)
		check.FatalIf(t, (wholeErr == nil) != (partsErr == nil), "%q: whole %v, in pieces %v", input, wholeErr, partsErr)
		if most := 4*len(input) + 16<<10; p.Memory() > bytesPerWord*2*limits.Words+most {
			t.Fatalf("%d bytes for %d", p.Memory(), len(input))
		}
	})
}

// A request that is written as clients write it is read as it was.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("SET"), []byte("key"), []byte("\r\n"), 1)
	f.Fuzz(func(t *testing.T, a, b, c []byte, piece int) {
		var out bytes.Buffer
		w := NewWriter(&out)
		words := [][]byte{a, b, c}
		for i := 0; i < 2; i++ {
			w.Array(3)
			for _, word := range words {
				w.Bulk(word)
			}
		}
		w.Flush()
		got, err := feed(NewParser(wide), out.Bytes(), 1+(piece&0xff))
		want := fmt.Sprintf("%q", words)
		check.FatalIf(t, out.Len() <= 1<<20 && (err != nil || len(got) != 2 || got[0] != want || got[1] != want), "%v %v", got, err)
	})
}

func FuzzSplitLine(f *testing.F) {
	f.Add([]byte("a 'b c' \"\\xff\""))
	f.Fuzz(func(t *testing.T, line []byte) {
		words, ok := splitLine(line)
		total := 0
		for _, word := range words {
			total += len(word)
		}
		check.FatalIf(t, total > len(line) || (!ok && words != nil), "%v %v", words, ok)
	})
}

func TestWritesAnswers(t *testing.T) {
	large := strings.Repeat("v", 100000)
	for version, want := range map[int]string{
		2: "+OK\r\n-ERR a  b\r\n:-7\r\n$1\r\nx\r\n$-1\r\n$1\r\nt\r\n*2\r\n*2\r\n*1\r\n",
		3: "+OK\r\n-ERR a  b\r\n:-7\r\n$1\r\nx\r\n_\r\n=5\r\ntxt:t\r\n*2\r\n%1\r\n~1\r\n",
	} {
		var out bytes.Buffer
		w := NewWriter(&out)
		w.SetVersion(version)
		w.Status("OK")
		w.Error("ERR a\r\nb")
		w.Int(-7)
		w.BulkString("x")
		w.Null()
		w.Verbatim("t")
		w.Array(2)
		w.Map(1)
		w.Set(1)
		w.Mute(true)
		w.Status("OK")
		w.BulkString(large)
		w.Null()
		w.Mute(false)
		if err := w.Flush(); err != nil || out.String() != want {
			t.Errorf("%v %q", err, out.String())
		}
	}
}

type failing struct{ calls int }

func (f *failing) Write([]byte) (int, error) { f.calls++; return 0, errors.New("closed") }

func TestKeepsLittleForAClientThatDoesNotRead(t *testing.T) {
	to := &failing{}
	w := NewWriter(to)
	large := make([]byte, 1<<20)
	for i := 0; i < 1000; i++ {
		w.Bulk(large)
		w.Bulk(large[:100])
		w.Int(1)
		w.Null()
		w.Status("OK")
	}
	check.FatalIf(t, w.Flush() == nil || to.calls != 1 || cap(w.buffer) > 4*flushBytes, "%v %v", to.calls, cap(w.buffer))
}

func TestAnswersOfAllKindsAreSentWhileTheyAreMade(t *testing.T) {
	var to bytes.Buffer
	w := NewWriter(&to)
	w.SetVersion(3)
	text := strings.Repeat("x", 3000)
	for name, answer := range map[string]func(){
		"verbatim": func() { w.Verbatim(text) }, "array": func() { w.Array(0) }, "null": w.Null, "null array": w.NullArray,
		"map": func() { w.Map(0) }, "set": func() { w.Set(0) },
	} {
		for i := 0; i < 20000; i++ {
			answer()
			check.FatalIf(t, len(w.buffer) > 2*flushBytes, "%s: %d bytes are kept", name, len(w.buffer))
		}
		w.Flush()
	}
}
