// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: systemd does not start a node again that refuses its options.
// Method: the program, and the unit beside it.
package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"varve.example/replicated/check"
)

func TestOptionsThatAreRefusedHaveTheirStatus(t *testing.T) {
	unit, err := os.ReadFile(filepath.Join("..", "varve-node.service"))
	check.OK(t, err)
	for _, options := range [][]string{
		{"--nonsense"}, {"--id=x"}, {"--dir", t.TempDir()}, {"--config", filepath.Join(t.TempDir(), "none")},
		{"--address=127.0.0.1:1", "--dir", t.TempDir(), "--redis=0.0.0.0:1"},
	} {
		out, err := exec.Command(*nodeProgram, options...).CombinedOutput()
		var exit *exec.ExitError
		check.FatalIf(t, !errors.As(err, &exit), "%v: %v", options, err)
		status := fmt.Sprintf("\nRestartPreventExitStatus=%d\n", exit.ExitCode())
		check.ErrorIf(t, !strings.Contains(string(unit), status), "%v: %v\n%s", options, err, out)
	}
}
