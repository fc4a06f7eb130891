// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: the port for metrics has time limits, and shows the insides of the program only
// if that is wanted. Method: requests without a network; the server's settings.
package node

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"varve.example/replicated/check"
)

func TestProfilesAreBehindASwitch(t *testing.T) {
	n := &Node{}
	for _, wanted := range []bool{false, true} {
		server := n.WatchServer(wanted)
		check.ErrorIf(t, server.ReadTimeout <= 0 || server.WriteTimeout <= 0 || server.IdleTimeout <= 0, "%+v", server)
		for path, want := range map[string]bool{"/healthz": true, "/debug/pprof/": wanted} {
			answer := httptest.NewRecorder()
			server.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
			if got := answer.Code == http.StatusOK; got != want {
				t.Errorf("profiles %t, %s: %d", wanted, path, answer.Code)
			}
		}
	}
}
