// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Package check has what tests of all packages check with. Arguments of a message are
// evaluated even if nothing is wrong.
package check

import (
	"strings"
	"testing"
)

// OK ends the test if there is an error.
func OK(t testing.TB, err error) {
	t.Helper()
	FatalIf(t, err != nil, "%v", err)
}

// Says ends the test unless there is an error whose text has a part.
func Says(t testing.TB, err error, part string) {
	t.Helper()
	FatalIf(t, err == nil || !strings.Contains(err.Error(), part), "no error with %q, but: %v", part, err)
}

// Err drops the value of a call.
func Err[Value any](_ Value, err error) error { return err }

// FatalIf ends the test if something is wrong.
func FatalIf(t testing.TB, wrong bool, format string, arguments ...any) {
	t.Helper()
	if wrong {
		t.Fatalf(format, arguments...)
	}
}

// ErrorIf fails the test, and goes on, if something is wrong.
func ErrorIf(t testing.TB, wrong bool, format string, arguments ...any) {
	t.Helper()
	if wrong {
		t.Errorf(format, arguments...)
	}
}
