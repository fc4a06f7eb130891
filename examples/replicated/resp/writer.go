// Varve: a key-value storage engine. MIT licence, see LICENSE.
package resp

import (
	"io"
	"strconv"
)

const flushBytes = 32 << 10 // Of answers that wait for others.

// Writer makes answers. It keeps at most flushBytes and one short answer. A
// value that is longer is not copied. After an error of the connection it
// drops everything.
type Writer struct {
	to      io.Writer
	buffer  []byte
	err     error
	version int
	muted   bool
}

// NewWriter returns one for version 2 of the protocol.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to, version: 2} }

// Version is 2 or 3.
func (w *Writer) Version() int { return w.version }

// SetVersion applies to the next answer.
func (w *Writer) SetVersion(version int) { w.version = version }

// Mute drops answers until it is called again.
func (w *Writer) Mute(muted bool) { w.muted = muted }

// Flush passes all answers to the connection. It returns the first error.
func (w *Writer) Flush() error {
	if len(w.buffer) > 0 {
		w.pass(w.buffer)
		if w.buffer = w.buffer[:0]; cap(w.buffer) > 2*flushBytes {
			w.buffer = nil
		}
	}
	return w.err
}

func (w *Writer) pass(bytes []byte) {
	if w.err == nil {
		_, w.err = w.to.Write(bytes)
	}
}

func (w *Writer) text(text string) {
	if !w.muted && w.err == nil {
		w.buffer = append(w.buffer, text...)
		w.flushFull()
	}
}

func (w *Writer) flushFull() {
	if len(w.buffer) > flushBytes {
		w.Flush()
	}
}

func (w *Writer) line(kind byte, text string) {
	if w.muted || w.err != nil {
		return
	}
	w.buffer = append(append(append(w.buffer, kind), text...), '\r', '\n')
	w.flushFull()
}

func (w *Writer) number(kind byte, number int64) {
	if w.muted || w.err != nil {
		return
	}
	w.buffer = strconv.AppendInt(append(w.buffer, kind), number, 10)
	w.buffer = append(w.buffer, '\r', '\n')
	w.flushFull()
}

// Status answers with a word such as OK.
func (w *Writer) Status(text string) { w.line('+', text) }

// Error answers with an error, whose first word is its code. Line ends in it
// are replaced.
func (w *Writer) Error(text string) {
	clean := []byte(text)
	for i, c := range clean {
		if c == '\r' || c == '\n' {
			clean[i] = ' '
		}
	}
	w.line('-', string(clean))
}

// Int answers with a number.
func (w *Writer) Int(number int64) { w.number(':', number) }

// Bulk answers with bytes.
func (w *Writer) Bulk(bytes []byte) {
	if w.muted {
		return
	}
	w.number('$', int64(len(bytes)))
	if len(bytes) > flushBytes {
		w.Flush()
		w.pass(bytes)
	} else if w.err == nil {
		w.buffer = append(w.buffer, bytes...)
	}
	w.text("\r\n")
}

// BulkString is Bulk of a string.
func (w *Writer) BulkString(text string) { w.Bulk([]byte(text)) }

// Verbatim answers with text for people.
func (w *Writer) Verbatim(text string) {
	if w.version < 3 {
		w.BulkString(text)
		return
	}
	w.number('=', int64(len(text))+4)
	w.text("txt:")
	w.text(text)
	w.text("\r\n")
}

// Null answers that there is no value.
func (w *Writer) Null() {
	if w.version < 3 {
		w.text("$-1\r\n")
	} else {
		w.text("_\r\n")
	}
}

// NullArray answers that there are no answers.
func (w *Writer) NullArray() {
	if w.version < 3 {
		w.text("*-1\r\n")
	} else {
		w.text("_\r\n")
	}
}

// Array announces that so many answers follow as one.
func (w *Writer) Array(count int) { w.number('*', int64(count)) }

// Map announces pairs. Before version 3 it is an array of twice as many.
func (w *Writer) Map(pairs int) {
	if w.version < 3 {
		w.Array(2 * pairs)
	} else {
		w.number('%', int64(pairs))
	}
}

// Set announces members in no order. Before version 3 it is an array.
func (w *Writer) Set(count int) {
	if w.version < 3 {
		w.Array(count)
	} else {
		w.number('~', int64(count))
	}
}
