// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Package resp reads requests and writes answers in Redis's serialization
// protocol, versions 2 and 3.
package resp

import (
	"bytes"
	"fmt"
	"strconv"
)

// Limits of one request. A request over a limit is a protocol error.
type Limits struct {
	Words int // Of the command: its name and its arguments.
	Bytes int // As received, with the protocol's own bytes.
}

// ProtocolError is the text for the client. The connection cannot be used
// after one, because the next request's begin is not known.
type ProtocolError string

func (e ProtocolError) Error() string { return "ERR Protocol error: " + string(e) }

// ErrNotRedis is for requests of HTTP. A web page could make a browser send one
// to a port of the local network.
const ErrNotRedis = ProtocolError("this is not a server for HTTP")

const (
	smallBuffer  = 4 << 10  // Of a connection that sends short requests.
	keptBuffer   = 16 << 10 // A larger buffer is freed once it is empty.
	maxHeader    = 32       // Bytes of a line with a length.
	maxInline    = 64 << 10 // Bytes of a request without lengths.
	bytesPerWord = 40       // Of memory besides the word's own bytes.
)

// span is a word's place, from the begin of its request.
type span struct{ begin, end int }

// Parser cuts the bytes of a connection into requests. It resumes where it
// stopped, so that a request that arrives in pieces is read once. Memory grows
// with the bytes that arrived. Announced lengths take none.
type Parser struct {
	limits Limits
	buffer []byte
	begin  int // Of the request that is parsed.
	at     int // Of the next byte to parse.
	words  int // That are missing. 0 between requests.
	bulk   int // Length of the next word, or -1 before its header.
	spans  []span
}

// NewParser returns a parser without input.
func NewParser(limits Limits) *Parser { return &Parser{limits: limits, bulk: -1} }

// SetLimits is for a client that has logged in.
func (p *Parser) SetLimits(limits Limits) { p.limits = limits }

// Space returns a slice for the next bytes of the connection. Words that Next
// returned are invalid after it.
func (p *Parser) Space() []byte {
	unread := len(p.buffer) - p.begin
	if unread == 0 && (p.buffer == nil || cap(p.buffer) > keptBuffer) {
		p.move(make([]byte, 0, smallBuffer))
	} else if cap(p.buffer) == len(p.buffer) {
		if unread <= cap(p.buffer)/2 {
			p.move(p.buffer[:0])
		} else {
			// One byte over the limit is enough to see that it is exceeded.
			p.move(make([]byte, 0, min(2*cap(p.buffer), max(p.limits.Bytes, unread)+1)))
		}
	} else if unread == 0 {
		p.move(p.buffer[:0])
	}
	return p.Left()
}

func (p *Parser) move(to []byte) {
	p.buffer = append(to, p.buffer[p.begin:]...)
	p.at -= p.begin
	p.begin = 0
}

// PipelineBytes is how large Grow makes the buffer.
const PipelineBytes = 1 << 20

// Left is a slice for more bytes without a larger buffer, which may be empty.
func (p *Parser) Left() []byte { return p.buffer[len(p.buffer):cap(p.buffer)] }

// Growth is how many bytes Grow would add to the buffer, which is full: more of
// a pipeline may have arrived. It is 0 if the buffer has space, or is large
// enough.
func (p *Parser) Growth() int {
	if len(p.buffer) < cap(p.buffer) {
		return 0
	}
	return max(0, min(4*cap(p.buffer), PipelineBytes)-cap(p.buffer))
}

// Grow makes the buffer larger and returns a slice for more bytes, as Space does.
func (p *Parser) Grow() []byte {
	p.move(make([]byte, 0, cap(p.buffer)+p.Growth()))
	return p.Left()
}

// Filled says how many bytes of Space or Grow were set.
func (p *Parser) Filled(count int) { p.buffer = p.buffer[:len(p.buffer)+count] }

// Memory is the number of bytes that the parser holds.
func (p *Parser) Memory() int { return cap(p.buffer) + bytesPerWord*cap(p.spans) }

// Partial says whether a request has begun and not ended.
func (p *Parser) Partial() bool { return len(p.buffer) > p.begin }

// Next returns the words of the next request, at least one, and the number of
// its bytes. It returns none if more input is needed. The words are valid
// until Space is called.
func (p *Parser) Next() (words [][]byte, size int, err error) {
	words, err = p.parse()
	if size = p.at - p.begin; words == nil {
		size = len(p.buffer) - p.begin
	}
	if err == nil && size > p.limits.Bytes {
		err = ProtocolError("the request is too large")
	}
	if err != nil || words == nil {
		return nil, 0, err
	}
	p.begin = p.at
	return words, size, nil
}

// parse passes over empty requests.
func (p *Parser) parse() ([][]byte, error) {
	for p.words == 0 {
		if p.at == len(p.buffer) {
			return nil, nil
		}
		if p.buffer[p.at] != '*' {
			words, found, err := p.inline()
			if !found || len(words) > 0 {
				return words, err
			}
			continue
		}
		count, found, err := p.header("multibulk")
		if !found {
			return nil, err
		}
		if count > p.limits.Words {
			return nil, ProtocolError("invalid multibulk length")
		}
		if p.words = count; count == 0 {
			p.begin = p.at
		}
	}
	return p.continued()
}

// header reads a line with a length. A negative number of words is none.
func (p *Parser) header(kind string) (value int, found bool, err error) {
	line := p.buffer[p.at:]
	end := bytes.IndexByte(line[:min(len(line), maxHeader)], '\n')
	if end < 0 {
		if len(line) >= maxHeader {
			err = ProtocolError("invalid " + kind + " length")
		}
		return 0, false, err
	}
	digits := bytes.TrimSuffix(line[1:end], []byte{'\r'})
	negative := kind == "multibulk" && len(digits) > 1 && digits[0] == '-' && digits[1] != '0'
	if negative {
		digits = digits[1:]
	}
	for _, digit := range digits {
		if digit < '0' || digit > '9' || value > 1<<40 {
			return 0, false, ProtocolError("invalid " + kind + " length")
		}
		value = 10*value + int(digit-'0')
	}
	if len(digits) == 0 {
		return 0, false, ProtocolError("invalid " + kind + " length")
	}
	if negative {
		value = 0
	}
	p.at += end + 1
	return value, true, nil
}

// continued reads words until there are all.
func (p *Parser) continued() ([][]byte, error) {
	for p.words > 0 {
		if p.bulk < 0 {
			if p.at == len(p.buffer) {
				return nil, nil
			}
			if p.buffer[p.at] != '$' {
				return nil, ProtocolError(fmt.Sprintf("expected '$', got %q", p.buffer[p.at]))
			}
			size, found, err := p.header("bulk")
			if err != nil || !found {
				return nil, err
			}
			if size > p.limits.Bytes {
				return nil, ProtocolError("invalid bulk length")
			}
			p.bulk = size
		}
		if len(p.buffer)-p.at < p.bulk+2 {
			return nil, nil
		}
		end := p.at + p.bulk
		if p.buffer[end] != '\r' || p.buffer[end+1] != '\n' {
			return nil, ProtocolError("a word is longer than its length")
		}
		p.spans = append(p.spans, span{p.at - p.begin, end - p.begin})
		p.at, p.bulk = end+2, -1
		p.words--
	}
	words := make([][]byte, len(p.spans))
	for i, at := range p.spans {
		words[i] = p.buffer[p.begin+at.begin : p.begin+at.end : p.begin+at.end]
	}
	if p.spans = p.spans[:0]; cap(p.spans) > 1024 {
		p.spans = nil
	}
	return words, nil
}

// inline reads a request that is words on a line, as people type them. It finds
// no words on an empty line.
func (p *Parser) inline() (words [][]byte, found bool, err error) {
	line := p.buffer[p.begin:]
	end := bytes.IndexByte(line, '\n')
	if end > maxInline || (end < 0 && len(line) > maxInline) {
		return nil, false, ProtocolError("too big inline request")
	}
	if end < 0 {
		return nil, false, nil
	}
	words, ok := splitLine(bytes.TrimSuffix(line[:end], []byte{'\r'}))
	if !ok {
		return nil, false, ProtocolError("unbalanced quotes in request")
	}
	if len(words) > p.limits.Words {
		return nil, false, ProtocolError("too many words")
	}
	if isHTTP(words) {
		return nil, false, ErrNotRedis
	}
	if p.at = p.begin + end + 1; len(words) == 0 {
		p.begin = p.at
	}
	return words, true, nil
}

func isHTTP(words [][]byte) bool {
	if len(words) == 0 {
		return false
	}
	name := string(words[0])
	return name == "POST" || name == "Host:" || len(words) == 3 && bytes.HasPrefix(words[2], []byte("HTTP/"))
}

// splitLine cuts a line at blanks. A word in single quotes is taken as it is.
// In double quotes \n, \r, \t, \b, \a and \xHH are bytes, and \ before another
// character is that character.
func splitLine(line []byte) (words [][]byte, ok bool) {
	for {
		line = bytes.TrimLeft(line, " \t\r\n\v\f\x00")
		if len(line) == 0 {
			return words, true
		}
		var word []byte
		for len(line) > 0 && bytes.IndexByte([]byte(" \t\r\n\v\f\x00"), line[0]) < 0 {
			if line[0] != '"' && line[0] != '\'' {
				word = append(word, line[0])
				line = line[1:]
				continue
			}
			quoted, rest, closed := cutQuoted(line)
			// A closing quote is followed by a blank or by nothing.
			if !closed || len(rest) > 0 && bytes.IndexByte([]byte(" \t\r\n\v\f\x00"), rest[0]) < 0 {
				return nil, false
			}
			word, line = append(word, quoted...), rest
		}
		if word == nil {
			word = []byte{}
		}
		words = append(words, word)
	}
}

func cutQuoted(line []byte) (text, rest []byte, closed bool) {
	quote := line[0]
	for i := 1; i < len(line); i++ {
		c := line[i]
		switch {
		case c == quote:
			return text, line[i+1:], true
		case c == '\\' && i+1 < len(line) && (quote == '"' || line[i+1] == '\''):
			i++
			if c = line[i]; quote == '"' {
				if at := bytes.IndexByte([]byte("nrtba"), c); at >= 0 {
					c = "\n\r\t\b\a"[at]
				} else if c == 'x' && i+2 < len(line) {
					if value, err := strconv.ParseUint(string(line[i+1:i+3]), 16, 8); err == nil {
						c = byte(value)
						i += 2
					}
				}
			}
		}
		text = append(text, c)
	}
	return nil, nil, false
}
